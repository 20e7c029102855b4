package convert

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/mmapcache"
)

// long skips a test that takes minutes, unless AGENTX_LONG is set.
func long(t *testing.T) {
	if os.Getenv("AGENTX_LONG") == "" {
		t.Skip("takes a minute or more: make test-long")
	}
}

// seconds skips, under -short, a test that takes seconds and has little concurrency: with the race detector it takes minutes.
func seconds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: without -short")
	}
}

// All 600 public traces have the digests of AIPerf 0.13.0.
func TestLongEveryReleaseDigest(t *testing.T) {
	long(t)
	o := release(t, shared(t, "corpus/weka-v8-600.jsonl.zst"))
	c := openResult(t, o, o.convert(t))
	for i, want := range releaseDigests(t) {
		got, err := c.Digest(i, "test-model")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// rawRequest is a request as encoding/json reads it.
type rawRequest struct {
	In       int
	HashIDs  []int64 `json:"hash_ids"`
	Requests []rawRequest
}

// TestLongEveryPromptPlainly compares every prompt of the 600 traces, token by token, with its hash_ids one by one and
// then its filler: the rules of doc/spec/reconstruction.md 3, written out plainly over encoding/json.
//
// Covers F28.
func TestLongEveryPromptPlainly(t *testing.T) {
	long(t)
	input := shared(t, "corpus/weka-v8-600.jsonl.zst")
	o := options(t, input)
	o.Corpus = "code"
	r := o.convert(t)
	c := openResult(t, o, r)
	corpus := tokensOf(t, o, r)
	n := uint64(len(corpus))

	f, err := os.Open(input)
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	d := json.NewDecoder(bufio.NewReaderSize(z, 1<<20))
	var prompt mmapcache.Prompt
	var want, got []uint32
	place := func(seed string, size uint64) []uint32 {
		at, _ := bits.Mul64(xxh3.HashStringSeed(seed, 42), n-size+1)
		return corpus[at : at+size]
	}
	for i := range c.Structure.Traces.Len() {
		var raw struct {
			ID       string
			Requests []rawRequest
		}
		require.NoError(t, d.Decode(&raw))
		tree, err := c.Render(i, mmapcache.IDs)
		require.NoError(t, err)
		require.Equal(t, raw.ID, tree.Trace.ID)
		seen := map[[2]int32]bool{}
		for _, s := range tree.Sessions {
			for k := range int(s.Turns) {
				turn := int(s.FirstTurn) + k
				u := tree.Turns[turn]
				q := raw.Requests[u.Outer]
				if u.Inner != mmapcache.None {
					q = q.Requests[u.Inner]
				}
				seen[[2]int32{int32(u.Outer), u.Inner}] = true
				want = want[:0]
				for _, id := range q.HashIDs[:min(len(q.HashIDs), q.In/64)] {
					want = append(want, place(raw.ID+string(binary.LittleEndian.AppendUint64(nil, uint64(id))), 64)...)
				}
				if tail := q.In - len(want); tail > 0 {
					want = append(want, place(s.ID+":turn_"+strconv.Itoa(k)+":partial_tail", uint64(tail))...)
				}
				tree.Prompt(turn, &prompt)
				require.Equal(t, q.In, prompt.Tokens)
				got = got[:0]
				for m := range prompt.Messages {
					got = prompt.AppendTokenIDs(got, m)
				}
				if !equalTokens(want, got) { // not require.Equal: it would print a million numbers
					t.Fatalf("trace %s session %s turn %d: prompt differs", raw.ID, s.ID, k)
				}
			}
		}
		all := 0
		for _, q := range raw.Requests {
			all += max(1, len(q.Requests))
		}
		require.Len(t, seen, all, "every request is in one session, trace %s", raw.ID)
	}
}

func equalTokens(a, b []uint32) bool {
	if len(a) != len(b) {
		return false
	}
	for k := range a {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

// tokensOf reads the prompt corpus of a cache without its reader.
func tokensOf(t *testing.T, o Options, r *Result) (tokens []uint32) {
	data, err := os.ReadFile(filepath.Join(o.Root, mmapcache.ArenasKind, r.Parts[mmapcache.ArenasKind].Key, "tokens.u32"))
	require.NoError(t, err)
	for k := 64; k < len(data); k += 4 {
		tokens = append(tokens, binary.LittleEndian.Uint32(data[k:]))
	}
	return tokens
}

// requireStartsOf compares the recorded starts of a cache with the timestamps of its file, row by row.
func requireStartsOf(t *testing.T, packed string, c *mmapcache.Cache) {
	data, err := os.ReadFile(packed)
	require.NoError(t, err)
	d, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer d.Close()
	text, err := d.DecodeAll(data, nil)
	require.NoError(t, err)
	n, distinct, last := 0, map[float64]bool{}, 0.0
	for line := range bytes.Lines(text) {
		var row struct{ Timestamp float64 }
		require.NoError(t, json.Unmarshal(line, &row))
		ms, ok := c.Structure.RecordedStart(n)
		require.True(t, ok)
		require.Equal(t, row.Timestamp, ms, "row %d", n+1)
		require.Equal(t, fmt.Sprintf("row-%06d", n+1), c.Structure.Traces.At(n).ID)
		distinct[ms] = true
		last = ms
		n++
	}
	require.Equal(t, []int{12_031, 12_031, 12_031, 1_180}, []int{n, c.Structure.Traces.Len(), c.Structure.RecordedStarts(), len(distinct)})
	require.Equal(t, 3_536_999.0, last)
}

// The public Mooncake trace has the sums that its README states.
func TestMooncakeSums(t *testing.T) {
	o := options(t, shared(t, "corpus/mooncake-conversation.jsonl.zst"))
	o.Corpus = "code"
	r := o.convert(t)
	c := openResult(t, o, r)
	require.Equal(t, 12_031, r.Facts.Turns)
	require.EqualValues(t, 144_793_823, r.Facts.PromptTokens)
	require.EqualValues(t, 4_122_048, r.Facts.OutputTokens)
	require.Equal(t, map[string]int{mmapcache.FormatMooncake: 12_031}, r.Facts.Generations)
	requireStartsOf(t, o.Inputs[0], c)
	ids, hits, runs := 0, 0, c.Structure.Runs.Len()
	var prompt mmapcache.Prompt
	for i := range c.Structure.Traces.Len() {
		p := c.Structure.Plan(i)
		ids += int(p.Turns[0].HashIDs)
		hits += int(p.Turns[0].CacheHits)
		if i%97 == 0 {
			tree, err := c.Render(i, mmapcache.Text)
			require.NoError(t, err)
			tree.Prompt(0, &prompt)
			require.EqualValues(t, p.Turns[0].In, prompt.Tokens)
			require.Len(t, prompt.AppendTokenIDs(nil, 0), prompt.Tokens)
			require.Equal(t, prompt.Messages[0].Size, len(prompt.AppendContent(nil, 0)))
		}
	}
	require.Equal(t, 288_500, ids)
	require.Equal(t, 105_710, hits, "of an unlimited cache")
	require.Equal(t, 33_391, runs)
	sharing, err := c.Sharing()
	require.NoError(t, err)
	require.Equal(t, 182_790, sharing.Blocks)
	require.LessOrEqual(t, sharing.Tokens, r.Facts.PromptTokens)
	reuse, err := c.Reuse(mmapcache.MarkerPlace{})
	require.NoError(t, err)
	require.Equal(t, mmapcache.Reuse{Blocks: 288_500, Hits: 105_710}, reuse, "rows are traces: markers leave no hit")
}
