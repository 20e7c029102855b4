package imports

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/convert/text/render"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

var o200k = func() *tokenizer.Tokenizer {
	tok, err := tokenizer.Load("o200k_base")
	if err != nil {
		panic(err)
	}
	return tok
}

// samples calls test for each sample of a format of logs, with its files. They lie beside the checkout; without them the test is skipped.
func samples(t *testing.T, test func(t *testing.T, format string, files []string)) {
	root, err := filepath.Abs("../../../../../shared/text-samples")
	require.NoError(t, err)
	if _, err := os.Stat(root); err != nil {
		t.Skip("no samples of logs beside the checkout")
	}
	for _, format := range convert.LogFormats() {
		cases, err := os.ReadDir(filepath.Join(root, format))
		if errors.Is(err, fs.ErrNotExist) { // of AIPerf: its samples are those of package convert
			continue
		}
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(format+"/"+c.Name(), func(t *testing.T) {
				var files []string
				require.NoError(t, filepath.WalkDir(filepath.Join(root, format, c.Name()), func(path string, e fs.DirEntry, err error) error {
					if err == nil && !e.IsDir() && e.Name() != "ANSWER.json" {
						files = append(files, path)
					}
					return err
				}))
				test(t, format, files)
			})
		}
	}
}

// read reads the logs of files, nil where they are refused.
func read(t *testing.T, tok *tokenizer.Tokenizer, files []string) (*text.Dataset, *text.Sizes) {
	d, sizes, err := convert.ReadLogs(t.Context(), convert.Options{Inputs: files}, tok)
	if err != nil {
		t.Logf("refused: %v", err)
		return nil, nil
	}
	t.Cleanup(func() { require.NoError(t, d.Store.Close()) })
	return d, sizes
}

// Every sample becomes traces that the check finds good, and that both profiles of convert take: finish tells in its note
// of one that is refused. One seed makes equal files.
//
//
func TestSamplesBecomeGoodTraces(t *testing.T) {
	tok := o200k()
	samples(t, func(t *testing.T, _ string, files []string) {
		d, sizes := read(t, tok, files)
		if d == nil {
			return
		}
		for _, recorded := range []bool{false, true} {
			var first map[string]string
			for range 2 {
				dir := t.TempDir()
				r, err := Write(t.Context(), d, sizes, Options{Dir: dir, Tokenizer: tok, Name: tok.Name(), BlockSize: 16, Recorded: recorded,
					Random: mathrand.NewChaCha8(sha256.Sum256([]byte("seed")))})
				require.NoError(t, err)
				require.Equal(t, len(d.Traces), r.Total.Traces)
				require.Zero(t, r.Bad)
				require.Zero(t, r.Incomplete)
				require.Empty(t, r.Worst())
				written := filesOf(t, dir)
				if first == nil {
					first = written
				}
				require.Equal(t, first, written)
			}
			for name, data := range first {
				if strings.Contains(name, "traces") {
					checked := weka.Check([]byte(data))
					require.Empty(t, checked.Problems, data)
					if !recorded && d.Warnings["rewind"] == 0 { // a short one lacks the last block of the prompt before
						require.Empty(t, checked.Alarms)
					}
				}
				require.NotContains(t, data, "convert --profile", "it is refused")
			}
		}
	})
}

// filesOf returns the files of a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	}))
	return files
}

// pages is a render.Writer in memory.
type pages struct {
	data   []byte
	pieces [2][][]mmapcache.Piece
}

func (p *pages) Write(b []byte) (mmapcache.Piece, error) {
	at := mmapcache.Piece{At: uint64(len(p.data)), N: uint32(len(b))}
	p.data = append(p.data, b...)
	return at, nil
}

func (p *pages) Message(_ mmapcache.Role, _ uint8, chat, anthropic []mmapcache.Piece) (uint32, error) {
	p.pieces[0], p.pieces[1] = append(p.pieces[0], slices.Clone(chat)), append(p.pieces[1], slices.Clone(anthropic))
	return uint32(len(p.pieces[0]) - 1), nil
}

func (p *pages) text(form int, message uint32) (s string) {
	for _, at := range p.pieces[form][message] {
		s += string(p.data[at.At : at.At+uint64(at.N)])
	}
	return s
}

// body returns the body of a turn whose prompt ends with a segment.
func (p *pages) body(form int, plan *mmapcache.Plan, last int32) []byte {
	var path []mmapcache.Segment
	for ; last != mmapcache.None; last = plan.Segments[last].Parent {
		path = append(path, plan.Segments[last])
	}
	var system, messages []string
	tools := ""
	for _, s := range slices.Backward(path) {
		switch written := p.text(form, s.First); {
		case s.Role == mmapcache.Tools:
			tools = `,"tools":` + written
		case form == 1 && s.Role == mmapcache.System && len(messages) == 0:
			system = append(system, written)
		default:
			messages = append(messages, written)
		}
	}
	b := `{"model":"m"` + tools
	if len(system) > 0 {
		b += `,"system":[` + strings.Join(system, ",") + `]`
	}
	return []byte(b + `,"messages":[` + strings.Join(messages, ",") + `]}`)
}

// lines is a journal in memory.
type lines struct{ ids []journal.IDs }

func (l *lines) Write(e journal.Entry) error {
	if ids, ok := e.(journal.IDs); ok {
		l.ids = append(l.ids, ids)
	}
	return nil
}

// What a capture makes of the bodies that a text cache sends is what an import makes of the same log, block for block: without fillers, in
// the API in which the log was recorded, and for what its form has: not encrypted reasoning and media, of which a text cache sends other
// things.
//
//
func TestBlocksAreThoseOfTheTextCache(t *testing.T) {
	tok, compared := o200k(), map[string]int{}
	samples(t, func(t *testing.T, format string, files []string) {
		d, sizes := read(t, tok, files)
		if d == nil {
			return
		}
		form, parsed := 0, canon.Chat
		if format == "claude" {
			form, parsed = 1, canon.Messages
		}
		for _, trace := range d.Traces {
			for k := range trace.Sessions {
				if trace.Sessions[k].Filler = text.None; format == "otel" {
					trace.Sessions[k].Tools = nil // in no API's form
				}
			}
			p := &pages{}
			plan, err := render.New(d, sizes, p, 0).Plan(trace, "s")
			require.NoError(t, err)
			options := chain.Options{Tokenizer: tok, Name: tok.Name(), BlockSize: 4}
			key := [32]byte{1}
			own, err := chain.New(key, options)
			require.NoError(t, err)
			captured, err := chain.New(key, options)
			require.NoError(t, err)
			j := &lines{}
			r := &recorder{stream: stream{data: d, sizes: sizes}, trace: trace, tree: own, journal: j}
			r.prepare()
			require.NoError(t, r.record(context.Background()))
			read := 0
			for q, at := range r.requests {
				turn := &trace.Sessions[at.session].Turns[at.turn]
				if !sentAsRecorded(d, trace, turn, form) {
					break // what follows goes on from it
				}
				body := p.body(form, plan, plan.Turns[int(plan.Sessions[at.session].FirstTurn)+at.turn].Last)
				require.True(t, json.Valid(body), "%s", body)
				_, prepared, err := captured.Read(parsed, body)
				require.NoError(t, err)
				want, err := captured.Apply(q, prepared)
				require.NoError(t, err)
				got := j.ids[q]
				require.Equal(t, []int{want.Tokens, want.Tools, want.System, want.Base, want.Keep, want.New},
					[]int{got.In, got.Tools, got.System, got.Base, got.Keep, got.New}, "%s", body)
				require.Equal(t, captured.AppendIDs(nil, q), own.AppendIDs(nil, q))
				_, prepared, err = own.Read(parsed, body) // in one tree equal numbers are equal tokens
				require.NoError(t, err)
				_, err = own.Apply(len(r.requests)+read, prepared)
				require.NoError(t, err)
				require.Equal(t, own.AppendIDs(nil, q), own.AppendIDs(nil, len(r.requests)+read), "%s", body)
				read++
				compared[format]++
			}
		}
	})
	t.Logf("%v prompts", compared)
}

// sentAsRecorded reports whether a form has all of a prompt as it was recorded.
func sentAsRecorded(d *text.Dataset, t *text.Trace, turn *text.Turn, form int) bool {
	called := map[text.Text]bool{}
	for n, node := range t.Path(nil, turn.Last) {
		m := &d.Messages[t.Nodes[node].Message]
		if m.Role == text.OtherRole || form == 1 && (m.Role == text.Developer || m.Role == text.Tool || m.Role == text.System && n > 0) || len(m.Parts) == 0 {
			return false
		}
		for k := range m.Parts {
			p := &m.Parts[k]
			plain := !slices.ContainsFunc(p.Parts, func(p text.Part) bool { return p.Kind != text.Plain })
			switch p.Kind {
			case text.Plain:
			case text.Thinking:
				if form == 0 && k > 0 {
					return false
				}
			case text.Call:
				called[p.ID] = true
				if b, _ := d.Store.Append(nil, p.Text); form == 1 && (!bytes.HasPrefix(b, []byte("{")) || !json.Valid(b)) {
					return false
				}
			case text.Result:
				if !called[p.ID] || !plain || form == 0 && (m.Role != text.Tool || p.Failed) {
					return false
				}
			default:
				return false
			}
		}
	}
	return true
}

// With the scope dataset equal beginnings of prompts have equal numbers in all traces, and what differs has others, tails of recorded lengths
// too. Within a trace the numbers say the same as with the scope trace.
func TestScopeDataset(t *testing.T) {
	d := text.NewDataset(text.NewStore(""))
	reader := content.Reader{Data: d}
	for k := range 3 {
		trace := d.NewTrace(fmt.Sprint(k))
		node := int32(text.None)
		for n, said := range []string{"You are terse and kind.", fmt.Sprintf("This is the question of %d.", k%2), "And more of it."} {
			m, err := reader.Message(fmt.Appendf(nil, `{"role":%q,"content":%q}`, map[bool]string{true: "system", false: "user"}[n == 0], said))
			require.NoError(t, err)
			if node = trace.Child(node, d.Message(m)); n > 0 {
				turn := text.NewTurn()
				turn.Last, turn.In = node, 100
				trace.Sessions[0].Turns = append(trace.Sessions[0].Turns, turn)
			}
		}
	}
	require.NoError(t, d.Finish())
	sizes := text.NewSizes(d, bytewise{})
	lists := func(scope journal.Scope) (ids [][]int64) {
		dir := t.TempDir()
		r, err := Write(t.Context(), d, sizes, Options{Dir: dir, Tokenizer: bytewise{}, Name: "bytes", BlockSize: 4, Recorded: true, Random: mathrand.NewChaCha8([32]byte{1}), Export: journal.Export{Scope: scope}})
		require.NoError(t, err)
		for _, one := range r.Traces {
			data, err := os.ReadFile(filepath.Join(dir, journal.TracesDir, one.Trace+".json"))
			require.NoError(t, err)
			checked := weka.Check(data)
			require.Empty(t, checked.Problems)
			for _, q := range checked.Trace.Requests() {
				var list []int64
				for _, run := range q.IDs.Runs {
					for k := range run.N {
						list = append(list, run.First+int64(k))
					}
				}
				ids = append(ids, list)
			}
		}
		return ids
	}
	own, all := lists(journal.ScopeTrace), lists(journal.ScopeDataset)
	require.Len(t, all, 6)
	shared := func(a, b []int64) (n int) {
		for n < len(a) && a[n] == b[n] {
			n++
		}
		return n
	}
	require.Equal(t, own[:2], all[:2], "the first trace")
	require.Equal(t, shared(own[2], own[3]), shared(all[2], all[3]))
	require.Equal(t, 13, shared(all[0], all[2]), "the system prompt, and the beginning of the question")
	require.Less(t, shared(all[0], all[4]), len(all[0]), "the same messages, and another tail")
	for _, id := range all[2][13:] {
		require.NotContains(t, append(all[0], all[1]...), id)
	}
}

// A note has the format of the log, how often it was compacted, and when tools ran, on the grid.
func TestNotes(t *testing.T) {
	d := text.NewDataset(text.NewStore(""))
	d.Formats = []string{"claude"}
	reader := content.Reader{Data: d}
	trace := d.NewTrace("s")
	s := &trace.Sessions[0]
	node := int32(text.None)
	for k, said := range []string{"first", "second", "summary", "third"} {
		if said == "summary" {
			node = text.None
		}
		m, err := reader.Message(fmt.Appendf(nil, `{"role":"user","content":%q}`, said))
		require.NoError(t, err)
		node = trace.Child(node, d.Message(m))
		turn := text.NewTurn()
		turn.Last, turn.At, turn.End = node, int64(10_000*k), int64(10_000*k+1000)
		if k == 1 {
			turn.Before, turn.LastResult = 0, 8888
		}
		s.Turns = append(s.Turns, turn)
	}
	require.NoError(t, d.Finish())
	dir := t.TempDir()
	_, err := Write(t.Context(), d, text.NewSizes(d, bytewise{}), Options{Dir: dir, Tokenizer: bytewise{}, Name: "bytes", BlockSize: 4, Random: mathrand.NewChaCha8([32]byte{1})})
	require.NoError(t, err)
	notes, err := filepath.Glob(filepath.Join(dir, journal.NotesDir, "*"))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	note, err := os.ReadFile(notes[0])
	require.NoError(t, err)
	require.Contains(t, string(note), `"by":"log","format":"claude",`)
	require.Contains(t, string(note), `"compactions":1,"tool_times":[{"q":1,"where":"requests[1]","ms":7880}],`)
}

// A directory with traces is refused; names that are drawn twice are drawn again.
func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, Check(dir))
	require.NoError(t, Check(filepath.Join(dir, "none")))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, journal.TracesDir), 0o755))
	require.NoError(t, Check(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, journal.TracesDir, "imp-00000000.json"), nil, 0o644))
	require.ErrorIs(t, Check(dir), ErrNotEmpty)

	random := append(make([]byte, 36), bytes.Repeat([]byte{1}, 36)...)
	w := &writer{Options: Options{Random: bytes.NewReader(random)}, used: map[string]bool{"imp-00000000": true}}
	name, key, err := w.draw()
	require.NoError(t, err)
	require.Equal(t, "imp-01010101", name)
	require.Equal(t, byte(1), key[0])
	_, _, err = w.draw()
	require.Error(t, err, fmt.Sprint(random))
}

// A disk that fails at any step leaves whole traces, or a journal from which the next import makes one. Errors say nothing of the log.
func TestEveryStepOfTheDiskFails(t *testing.T) {
	d := text.NewDataset(text.NewStore(""))
	reader := content.Reader{Data: d}
	for k := range 2 {
		trace := d.NewTrace(fmt.Sprint("secret", k))
		node := int32(text.None)
		for n := range 2 {
			m, err := reader.Message(fmt.Appendf(nil, `{"role":"user","content":"secret number %d of %d"}`, n, k))
			require.NoError(t, err)
			node = trace.Child(node, d.Message(m))
			turn := text.NewTurn()
			turn.Last = node
			trace.Sessions[0].Turns = append(trace.Sessions[0].Turns, turn)
		}
	}
	require.NoError(t, d.Finish())
	sizes := text.NewSizes(d, bytewise{})
	failed := 0
	for at := 1; ; at++ {
		options := Options{Dir: t.TempDir(), Tokenizer: bytewise{}, Name: "bytes", BlockSize: 4, Random: mathrand.NewChaCha8([32]byte{byte(at)})}
		var steps atomic.Int64
		_, err := Write(durable.WithOptions(t.Context(), durable.Options{Step: func(name, path string) error {
			if !strings.Contains(path, "/lock") && steps.Add(1) == int64(at) { // a lease is that of a dead process, elsewhere
				return errors.New("a failing disk")
			}
			return nil
		}}), d, sizes, options)
		if err != nil {
			failed++
			require.NotContains(t, err.Error(), "secret")
			_, err = Write(t.Context(), d, sizes, options)
		}
		require.NoError(t, err)
		for name, data := range filesOf(t, options.Dir) {
			require.NotContains(t, data, "secret", name)
			require.NotContains(t, name, ".jnl")
			if strings.Contains(name, "/traces/") {
				require.Empty(t, weka.Check([]byte(data)).Problems, name)
			}
		}
		if steps.Load() < int64(at) {
			break
		}
	}
	require.Greater(t, failed, 10)
}
