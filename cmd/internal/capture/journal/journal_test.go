package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
)

// example is the journal of doc/spec/capture.md 9.1, whole.
func example(t testing.TB, w interface{ Write(Entry) error }) {
	for _, err := range []error{
		w.Write(Begin{Q: 0, T: 0}),
		w.Write(Model{0, "m-large"}),
		w.Write(IDs{Q: 0, Stream: true, In: 22, System: 9, Base: -1, New: 5, Input: Text}),
		w.Write(End{Q: 0, T: 2004, First: 612, X: Complete, Status: 200, Out: 9, Output: Text | ToolUse, Stop: StopToolUse, Word: "tool_use", Calls: 1}),
		w.Write(Begin{Q: 1, T: 5107}),
		w.Write(IDs{Q: 1, Stream: true, In: 50, System: 9, Base: 0, Keep: 5, New: 7, Input: ToolResult}),
		w.Write(End{Q: 1, T: 8008, First: 5601, X: Complete, Status: 200, Out: 31, Output: ToolUse, Stop: StopToolUse, Word: "tool_use", Calls: 1}),
		w.Write(Begin{Q: 2, T: 8310, Place: Place{Agent: 1, Via: TierHeader}}),
		w.Write(Agent{Agent: 1, Type: Explore}),
		w.Write(Model{1, "m-small"}),
		w.Write(IDs{Q: 2, Model: 1, In: 18, System: 9, Base: 0, Keep: 2, New: 2, Input: Text}),
		w.Write(End{Q: 2, T: 9520, First: -1, X: Complete, Status: 200, Out: 7, Output: Text, Stop: StopEndTurn, Word: "stop"}),
		w.Write(Final{WhyIdle}),
	} {
		require.NoError(t, err)
	}
}

// head is that of the example.
var head = Head{Trace: "cap-3f9a1c20", BlockSize: 4, Canon: "canon-1", Tokenizer: "o200k_base", By: ByHeader}

// folder returns the directory of a capture.
func folder(t testing.TB) *Folder {
	f, err := OpenFolder(t.Context(), filepath.Join(t.TempDir(), "capture"), false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// written returns the bytes of the example.
func written(t testing.TB) []byte {
	f := folder(t)
	w, err := f.Create(head)
	require.NoError(t, err)
	example(t, w)
	require.NoError(t, w.Close())
	data, err := os.ReadFile(f.Path(head.Trace))
	require.NoError(t, err)
	return data
}

// The lines of the specification, byte for byte, and what they tell when read.
//
// Covers C-4.
func TestLinesOfTheSpecification(t *testing.T) {
	data := written(t)
	for _, want := range []string{
		`8365bff2 {"k":"head","v":1,"trace":"cap-3f9a1c20","bs":4,"canon":"canon-1","tok":"o200k_base","by":"header"}`,
		`9c52f9ba {"k":"begin","q":0,"t":0,"a":0}`,
		`6a3c30d4 {"k":"ids","q":0,"m":0,"s":1,"in":22,"tool":0,"sys":9,"base":-1,"keep":0,"new":5,"it":1}`,
		`ad598796 {"k":"end","q":0,"t":2004,"first":612,"x":"complete","status":200,"out":9,"ot":5,"stop":1}`,
		`d4c45120 {"k":"ids","q":1,"m":0,"s":1,"in":50,"tool":0,"sys":9,"base":0,"keep":5,"new":7,"it":2}`,
		`7cf513f7 {"k":"begin","q":2,"t":8310,"a":1,"pa":0,"via":1}`,
	} {
		assert.Contains(t, strings.Split(string(data), "\n"), want)
	}
	s, err := Read(data)
	require.NoError(t, err)
	require.Nil(t, s.Torn)
	assert.Equal(t, head, s.Head)
	assert.Equal(t, []string{"m-large", "m-small"}, s.Models)
	assert.Equal(t, WhyIdle, s.Why)
	require.Len(t, s.Requests, 3)
	assert.Equal(t, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, s.AppendBlocks(nil, &s.Requests[1]))
	assert.Equal(t, []int32{0, 1, 12, 13}, s.AppendBlocks(nil, &s.Requests[2]))
	assert.Equal(t, Place{Agent: 1, Via: TierHeader}, s.Requests[2].Place)
	assert.Equal(t, Explore, s.Agents[1].Type)
	assert.Equal(t, "stop", s.Requests[2].End.Word)
	assert.Equal(t, 1, s.Requests[0].End.Calls)
}

// Everything that a line can hold comes back.
func TestEveryFieldComesBack(t *testing.T) {
	h := head
	h.Format = "claude"
	h.Export = Export{Grid: 1e9, MaxGap: 60e9, Masks: MaskModels | MaskTails, Holes: HolesKeep, MinRequests: 3, Scope: ScopeDataset}
	for _, e := range []Entry{
		h, Model{3, "a/b:c@d"}, Begin{7, 12, Place{2, 1, TierMark}}, Hole{7, HoleQueue},
		IDs{1, 2, true, 900, 10, 20, 0, 3, 4, Text | Thinking, 55, &Place{3, 0, TierLinkage}, true, 900, []int64{7, 1, 1 << 40, 3}},
		End{1, 9, -1, Partial, 200, 3, Thinking, StopNone, MarkPartial | MarkReplyStream, "max_tokens", 4, 77, ""},
		End{Q: 2, T: 9, First: -1, X: Aborted, Status: 200, Lost: HoleOversize},
		Agent{4, Custom, 9}, Final{WhyShutdown},
	} {
		text := encode(nil, e)
		got, err := parse(text[:len(text)-1])
		require.NoError(t, err, "%s", text)
		assert.Equal(t, e, got)
	}
}

// Lines that break a rule end the journal before them.
func TestLinesThatBreakARule(t *testing.T) {
	whole := written(t)
	sum := func(json string) string {
		return string(seal([]byte(prefix + json + "\n")))
	}
	for _, c := range []struct{ line, why string }{
		{`{"k":"begin","q":0,"t":9000,"a":0}`, "after the end-of-session line"},
		{`{"k":"head","v":1,"trace":"cap-3f9a1c20","bs":4,"canon":"canon-1","tok":"o200k_base","by":"header"}`, "second head"},
		{`{"k":"begin","q":2,"t":9000,"a":0}`, "after those of request 2"},
		{`{"k":"begin","q":3,"t":1,"a":0}`, "after those of request 2"},
		{`{"k":"begin","q":3,"t":9000,"a":1,"pa":1,"via":1}`, "evidence 1 and parent 1: want evidence of 1 to 3, and another agent as parent"},
		{`{"k":"begin","q":3,"t":9000,"a":1,"pa":0}`, "agent 1: evidence 0 and parent 0"},
		{`{"k":"begin","q":3,"t":9000}`, "its members, or their order or spelling, are not those that this version of agentx writes"},
		{`{"k":"begin", "q":3,"t":9000,"a":0}`, "its members, or their order or spelling, are not those that this version of agentx writes"},
		{`{"k":"begin","q":3,"t":9000,"a":0,"z":1}`, "its members, or their order or spelling, are not those that this version of agentx writes"},
		{`{"k":"begin","q":-3,"t":9000,"a":0}`, "q -3"},
		{`{"k":"ids","q":9,"m":0,"s":0,"in":4,"tool":0,"sys":0,"base":-1,"keep":0,"new":1,"it":1}`, "has not begun"},
		{`{"k":"ids","q":2,"m":0,"s":0,"in":4,"tool":0,"sys":0,"base":-1,"keep":0,"new":1,"it":1}`, "stand behind those of request 2"},
		{`{"k":"hole","q":2,"why":"queue"}`, "stand behind those of request 2"},
		{`{"k":"hole","q":2,"why":"retry"}`, "not a value that this version of agentx writes"},
		{`{"k":"end","q":2,"t":9520,"first":-1,"x":"complete","status":200,"out":7,"ot":1,"stop":2}`, "has ended already"},
		{`{"k":"end","q":2,"t":9520,"first":-1,"x":"odd","status":200,"out":7,"ot":1,"stop":2}`, "not a value that this version of agentx writes"},
		{`{"k":"model","i":7,"name":"m"}`, "model 7: the next model has index 2"},
		{`{"k":"model","i":2,"name":"a b"}`, `name "a b": not a value that this version of agentx writes`},
		{`{"k":"agent","a":0}`, "not a subagent"},
		{`{"k":"final","why":"odd"}`, "not a value that this version of agentx writes"},
		{`{"k":"odd"}`, `kind "odd"`},
		{`{"k":7}`, "its JSON"},
	} {
		data := whole
		if !strings.Contains(c.why, "end-of-session") {
			data = whole[:bytes.LastIndex(whole[:len(whole)-1], []byte("\n"))+1]
		}
		lines := bytes.Count(data, []byte("\n"))
		s, err := Read(append(bytes.Clone(data), sum(c.line)...))
		require.NoError(t, err)
		require.NotNil(t, s.Torn, c.line)
		assert.Equal(t, lines+1, s.Torn.Line, c.line)
		assert.Contains(t, s.Torn.Why, c.why, c.line)
		assert.Len(t, s.Requests, 3)
	}
	begun := string(encode(nil, head)) + sum(`{"k":"model","i":0,"name":"m"}`) + sum(`{"k":"begin","q":0,"t":0,"a":0}`) + sum(`{"k":"begin","q":1,"t":0,"a":0}`) +
		sum(`{"k":"ids","q":0,"m":0,"s":0,"in":9,"tool":0,"sys":0,"base":-1,"keep":0,"new":2,"it":1}`)
	for _, c := range []struct{ line, why string }{
		{`{"k":"ids","q":1,"m":1,"s":0,"in":9,"tool":0,"sys":0,"base":-1,"keep":0,"new":2,"it":1}`, "no name"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":9,"tool":0,"sys":0,"base":0,"keep":3,"new":0,"it":1}`, "refers to 3 blocks of request 0"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":9,"tool":0,"sys":0,"base":0,"keep":0,"new":2,"it":1}`, "shares 0 blocks with request 0"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":9,"tool":0,"sys":0,"base":0,"keep":1,"new":2,"it":1}`, "1 shared and 2 new blocks do not fit 9 tokens"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":0,"tool":0,"sys":0,"base":-1,"keep":0,"new":0,"it":1}`, "do not fit 0 tokens"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":9,"tool":5,"sys":5,"base":-1,"keep":0,"new":2,"it":1}`, "5 tokens of tools, 5 of the system prompt and 0 of media exceed its 9"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":9,"tool":0,"sys":0,"base":1,"keep":1,"new":1,"it":1}`, "request 1 refers to 1 blocks of request 1"},
		{`{"k":"end","q":1,"t":5,"first":6,"x":"complete","status":200,"out":7,"ot":1,"stop":2}`, "first output at 6"},
		{`{"k":"agent","a":1,"result":9}`, "has not begun"},
		{`{"k":"ids","q":1,"m":0,"s":0,"in":4,"tool":0,"sys":0,"base":-1,"keep":0,"new":1,"it":1,"g":[0,1]}`, "1 of 1 new blocks have a number in all traces: want 0"},
	} {
		s, err := Read([]byte(begun + sum(c.line)))
		require.NoError(t, err)
		require.NotNil(t, s.Torn, c.line)
		assert.Equal(t, 6, s.Torn.Line)
		assert.Contains(t, s.Torn.Why, c.why, c.line)
		assert.Equal(t, 2, s.Blocks())
	}
}

// Blocks of the scope dataset have the numbers that their lines say; lines that say too few, too many or impossible ones break a rule.
func TestNumbersInAllTraces(t *testing.T) {
	sum := func(json string) string { return string(seal([]byte(prefix + json + "\n"))) }
	of := head
	of.Export.Scope = ScopeDataset
	begun := string(encode(nil, of)) + sum(`{"k":"model","i":0,"name":"m"}`) + sum(`{"k":"begin","q":0,"t":0,"a":0}`)
	ids := func(global string) string {
		return sum(`{"k":"ids","q":0,"m":0,"s":0,"in":12,"tool":0,"sys":0,"base":-1,"keep":0,"new":3,"it":1` + global + `}`)
	}
	s, err := Read([]byte(begun + ids(`,"g":[7,2,0,1]`)))
	require.NoError(t, err)
	require.Nil(t, s.Torn)
	require.Equal(t, []int64{7, 8, 0}, []int64{s.Number(0), s.Number(1), s.Number(2)})
	for global, why := range map[string]string{
		``: "0 of 3", `,"g":[7,2]`: "2 of 3", `,"g":[7,4]`: "4 blocks", `,"g":[7,3,1]`: "3 of 3", `,"g":[7,3,1,1]`: "1 blocks", `,"g":[-1,3]`: "from -1",
		`,"g":[7,0]`: "0 blocks", `,"g":[7,-1]`: "-1 blocks", `,"g":[1099511627777,3]`: "from 1099511627777", `,"g":[]`: "spelling", `,"g":[7.5,3]`: "spelling",
	} {
		s, err := Read([]byte(begun + ids(global)))
		require.NoError(t, err)
		require.NotNil(t, s.Torn, global)
		require.Contains(t, s.Torn.Why, why)
		require.Zero(t, s.Blocks())
	}
}

// A journal without a whole first line is of no session.
func TestJournalWithoutAHead(t *testing.T) {
	for _, text := range []string{"", "8365bff2", "8365bff2 {}\n", string(encode(nil, Begin{}))} {
		_, err := Read([]byte(text))
		require.ErrorIs(t, err, ErrNoHead, text)
	}
}

// After a failed write nothing more is written, and every method returns that error.
func TestNothingIsWrittenAfterAnError(t *testing.T) {
	failure, writes := errors.New("no"), 0
	ctx := durable.WithOptions(t.Context(), durable.Options{Step: func(name, _ string) error {
		if name != "write" {
			return nil
		}
		if writes++; writes == 3 {
			return failure
		}
		return nil
	}})
	f, err := OpenFolder(ctx, filepath.Join(t.TempDir(), "capture"), false)
	require.NoError(t, err)
	w, err := f.Create(head)
	require.NoError(t, err)
	require.NoError(t, w.Write(Begin{}))
	for range 2 {
		require.ErrorIs(t, w.Write(Begin{Q: 1}), failure)
	}
	f.Sync()
	require.ErrorIs(t, w.Sync(), failure)
	require.ErrorIs(t, w.Write(Final{WhyIdle}), failure)
	require.ErrorIs(t, w.Close(), failure)
	data, err := os.ReadFile(f.Path(head.Trace))
	require.NoError(t, err)
	assert.Equal(t, 2, bytes.Count(data, []byte("\n")))
	require.NoError(t, f.Close())
}

// A journal that could not be created is not there, so that none is finished of which nothing is known.
func TestNoJournalIsLeftThatCouldNotBeCreated(t *testing.T) {
	for _, fails := range []struct{ step, of string }{{"write", suffix}, {"sync", suffix}, {"sync", journalDir}} {
		failure, armed := errors.New("no"), false
		ctx := durable.WithOptions(t.Context(), durable.Options{Step: func(name, path string) error {
			if armed && name == fails.step && strings.HasSuffix(path, fails.of) {
				return failure
			}
			return nil
		}})
		f, err := OpenFolder(ctx, filepath.Join(t.TempDir(), "capture"), false)
		require.NoError(t, err)
		armed = true
		_, err = f.Create(head)
		require.ErrorIs(t, err, failure)
		assert.Equal(t, 1, strings.Count(err.Error(), failure.Error()), "%v", err)
		left, err := f.Unfinished()
		require.NoError(t, err)
		assert.Empty(t, left, fails)
		require.NoError(t, f.Close())
	}
}

// Lines may be written while the folder is synced.
func TestSyncBesideWriting(t *testing.T) {
	f := folder(t)
	w, err := f.Create(head)
	require.NoError(t, err)
	var syncing sync.WaitGroup
	syncing.Go(func() {
		for range 20 {
			f.Sync()
		}
	})
	for q := range 200 {
		require.NoError(t, w.Write(Begin{Q: q}))
	}
	syncing.Wait()
	require.NoError(t, w.Close())
	data, err := os.ReadFile(w.path)
	require.NoError(t, err)
	s, err := Read(data)
	require.NoError(t, err)
	assert.Len(t, s.Requests, 200)
}
