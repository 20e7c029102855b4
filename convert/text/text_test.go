package text

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A store gives back what it was given, from memory and from its file, and keeps equal texts once.
func TestStore(t *testing.T) {
	s := NewStore(t.TempDir())
	defer s.Close()
	s.size, s.keep = 1000, 3
	var ids []Text
	for k := range 500 {
		id, err := s.Add([]byte(strings.Repeat(fmt.Sprint(k%250, " "), k%250*20+1)))
		require.NoError(t, err)
		ids = append(ids, id)
	}
	require.NotNil(t, s.file, "the test is of the file, too")
	for k, id := range ids {
		want := strings.Repeat(fmt.Sprint(k%250, " "), k%250*20+1)
		got, err := s.Append([]byte("x"), id)
		require.NoError(t, err)
		require.Equal(t, "x"+want, string(got))
		require.Equal(t, len(want), s.Len(id))
		require.Equal(t, ids[k%250], id)
	}
	require.Equal(t, 251, s.Count())
	id, err := s.Add(nil)
	require.NoError(t, err)
	require.Equal(t, Text(0), id)
	require.Equal(t, "", s.String(0))
}

// No other user can read the file of a store, and none is left of it.
func TestStoreLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	s.keep = 0
	_, err := s.Add([]byte(strings.Repeat("x", blockSize)))
	require.NoError(t, err)
	info, err := s.file.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, s.Close())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Secrets become others of the same class and length, one secret by one replacement, and nothing else changes.
func TestRedact(t *testing.T) {
	s := NewStore(t.TempDir())
	defer s.Close()
	s.Redact = NewRedactor()
	secrets := map[string]string{
		"anthropic_or_openai_key": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789",
		"github_token":            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
		"slack_token":             "xoxb-1234567890-abcdefghij",
		"aws_key":                 "AKIAABCDEFGHIJKLMNOP",
		"google_key":              "AIzaSyA1234567890abcdefghijklmnopqrstuv",
		"gitlab_token":            "glpat-abcdefghijklmnopqrst",
		"npm_token":               "npm_abcdefghijklmnopqrstuvwxyz0123456789",
		"hugging_face_token":      "hf_abcdefghijklmnopqrstuvwxyz",
		"jwt":                     "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
		"authorization":           "abcdef0123456789==",
		"url_password":            "hunter2hunter2",
		"private_key":             "\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n",
	}
	around := map[string]string{"authorization": "curl -H 'Authorization: Bearer %s' x", "url_password": "postgres://me:%s@db/x",
		"private_key": "-----BEGIN RSA PRIVATE KEY-----%s-----END RSA PRIVATE KEY-----"}
	for class, secret := range secrets {
		form := around[class]
		if form == "" {
			form = "export KEY=%s # mine"
		}
		text := fmt.Sprintf(form, secret)
		id, err := s.Add([]byte(text))
		require.NoError(t, err)
		got := s.String(id)
		require.Len(t, got, len(text), class)
		require.NotContains(t, got, secret[max(0, len(secret)-12):], class)
		before, after, _ := strings.Cut(form, "%s")
		require.True(t, strings.HasPrefix(got, before) && strings.HasSuffix(got, after), "%s: %s", class, got)
		require.Equal(t, 1, s.Redacted[class], "%s: %v", class, s.Redacted)
		again, err := s.Add([]byte("twice: " + fmt.Sprintf(form, secret)))
		require.NoError(t, err)
		require.Equal(t, "twice: "+got, s.String(again), class)
		s.Redacted = nil
	}
	for _, plain := range []string{"", "no secret", "sk-short", "https://host/path", "user@host: hi", "ghp_short"} {
		id, err := s.Add([]byte(plain))
		require.NoError(t, err)
		require.Equal(t, plain, s.String(id))
	}
	require.Empty(t, s.Redacted)
}

// Gaps are between the end of the reply on the path and the new input; tools take theirs up to the last result.
func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		before, turn     Turn
		gap, tool, think int64
		warned           map[string]int
	}{
		"a result and a typed text": {Turn{At: 0, End: 1000}, Turn{At: 5000, LastResult: 3000}, 4000, 2000, 2000, nil},
		"no result":                 {Turn{At: 0, End: 1000}, Turn{At: 5000, LastResult: NoTime}, 4000, 0, 4000, nil},
		"a result after the input":  {Turn{At: 0, End: 1000}, Turn{At: 5000, LastResult: 9000}, 4000, 4000, 0, nil},
		"the clock went back":       {Turn{At: 2000, End: 3000}, Turn{At: 1000, LastResult: NoTime}, 0, 0, 0, map[string]int{"clock": 1}},
		"both ran at once":          {Turn{At: 2000, End: 3000}, Turn{At: 2500, LastResult: NoTime}, 0, 0, 0, map[string]int{"overlap": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDataset(NewStore(t.TempDir()))
			tr := d.NewTrace("a")
			c.before.Before, c.turn.Before, c.turn.End, c.before.LastResult = None, 0, c.turn.At, NoTime
			tr.Sessions[0].Turns = []Turn{c.before, c.turn}
			require.NoError(t, d.Finish())
			got := tr.Sessions[0].Turns[1]
			require.Equal(t, [3]int64{c.gap, c.tool, c.think}, [3]int64{got.Gap, got.ToolTime, got.ThinkTime})
			if c.warned == nil {
				c.warned = map[string]int{}
			}
			require.Equal(t, c.warned, d.Warnings)
		})
	}
}

// Behind a compaction no reply is on the path: the one that ended last comes before, and all of the gap is thinking.
func TestGapBehindCompaction(t *testing.T) {
	d := NewDataset(NewStore(t.TempDir()))
	tr := d.NewTrace("a")
	first, second, third := NewTurn(), NewTurn(), NewTurn()
	first.At, first.End = 0, 4000
	second.At, second.End = 1000, 2000
	third.At, third.End, third.LastResult = 9000, 9500, 8000
	tr.Sessions[0].Turns = []Turn{first, second, third}
	require.NoError(t, d.Finish())
	got := tr.Sessions[0].Turns[2]
	require.Equal(t, int32(0), got.Before)
	require.Equal(t, [3]int64{5000, 0, 5000}, [3]int64{got.Gap, got.ToolTime, got.ThinkTime})
}

func TestNoTurn(t *testing.T) {
	d := NewDataset(NewStore(t.TempDir()))
	d.NewTrace("a")
	require.EqualError(t, d.Finish(), "no turn in the input: it has neither an answer of a model nor a request")
}

// After the file of a store has failed, no text behind its memory is read, and the error is that of the file.
func TestStoreThatCannotWrite(t *testing.T) {
	s := NewStore(t.TempDir() + "/nowhere")
	s.keep = 0
	small, err := s.Add([]byte("small"))
	require.NoError(t, err)
	large, err := s.Add([]byte(strings.Repeat("x", blockSize)))
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, id := range []Text{small, large} {
		_, err = s.Append(nil, id)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	require.NoError(t, s.Close())
}

// countedTokens is a tokenizer whose tokens are bytes, and which counts its texts.
type countedTokens map[string]int

func (c countedTokens) AppendIDs(ids []uint32, s string) []uint32 {
	c[s]++
	return append(ids, make([]uint32, len(s))...)
}

// Tokens of a text are kept, whether it is counted first or asked for, until those of as many others as there is room for have been asked for
// twice over.
func TestKeepIDs(t *testing.T) {
	d := NewDataset(NewStore(t.TempDir()))
	defer d.Store.Close()
	var list []Text
	for _, s := range []string{"", "first", "second", "a third one"} {
		id, err := d.Store.Add([]byte(s))
		require.NoError(t, err)
		list = append(list, id)
	}
	encoded := countedTokens{}
	s := NewSizes(d, encoded)
	s.KeepIDs(12)
	for range 2 {
		for _, id := range list[:3] {
			require.Equal(t, d.Store.Len(id), s.Text(id))
			require.Len(t, s.IDs(id), d.Store.Len(id))
		}
	}
	require.Equal(t, countedTokens{"first": 1, "second": 1}, encoded)
	require.Len(t, s.IDs(list[3]), 11) // now the first two are the older ones
	require.Len(t, s.IDs(list[1]), 5)  // and the third one is
	require.Equal(t, countedTokens{"first": 1, "second": 1, "a third one": 1}, encoded)
	require.Len(t, s.IDs(list[2]), 6)
	require.Equal(t, countedTokens{"first": 1, "second": 2, "a third one": 1}, encoded)
	require.NoError(t, s.Err())
}

// A tokenizer is loaded for the first text that is counted. That it cannot be is an error then, and none before.
func TestLateSizes(t *testing.T) {
	d := NewDataset(NewStore(t.TempDir()))
	defer d.Store.Close()
	id, err := d.Store.Add([]byte("a text"))
	require.NoError(t, err)
	s := LateSizes(d, func() (Tokenizer, error) { return nil, os.ErrNotExist })
	require.NoError(t, s.Complete())
	s.Text(id)
	require.ErrorIs(t, s.Err(), os.ErrNotExist)
}
