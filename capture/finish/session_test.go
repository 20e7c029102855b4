package finish

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// script writes a journal line by line. It knows the lists of its requests, so that a test says what they share and no more.
type script struct {
	t      testing.TB
	folder *journal.Folder
	*journal.Writer
	bs     int
	lists  map[int][]int // blocks of each request
	models map[string]int
}

// head is that of the journals of these tests.
var head = journal.Head{Trace: "cap-3f9a1c20", BlockSize: 4, Canon: "canon-1", Tokenizer: "o200k_base", By: journal.ByHeader}

// openFolder returns the directory of a capture.
func openFolder(t testing.TB) *journal.Folder {
	folder, err := journal.OpenFolder(t.Context(), filepath.Join(t.TempDir(), "capture"), false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	return folder
}

func newScript(t testing.TB, e journal.Export) *script {
	return newScriptIn(t, openFolder(t), e)
}

func newScriptIn(t testing.TB, folder *journal.Folder, e journal.Export) *script {
	h := head
	h.Export = e
	w, err := folder.Create(h)
	require.NoError(t, err)
	return &script{t: t, folder: folder, Writer: w, bs: h.BlockSize, lists: map[int][]int{}, models: map[string]int{}}
}

// ask is a request of a script: when it begins, what it shares and adds, how it ends.
type ask struct {
	q, agent  int
	begin     int64
	end       int64 // 0: it does not
	base      int   // of the request whose first keep blocks it has; -1: none
	keep, add int
	tail      int // tokens behind the last block
	system    int // tokens of the system prompt
	first     int64
	x         journal.Outcome // "": complete
	model     string          // "": m
	out       int             // 0: 5
}

// do writes a request whole: its begin, ids and end.
func (s *script) do(a ask) {
	s.start(a)
	s.ids(a)
	s.stop(a)
}

func (s *script) start(a ask) {
	b := journal.Begin{Q: a.q, T: a.begin}
	if a.agent != 0 {
		b.Place = journal.Place{Agent: a.agent, Via: journal.TierHeader}
	}
	require.NoError(s.t, s.Write(b))
}

func (s *script) ids(a ask) {
	if a.model == "" {
		a.model = "m"
	}
	m, ok := s.models[a.model]
	if !ok {
		m = len(s.models)
		s.models[a.model] = m
		require.NoError(s.t, s.Write(journal.Model{Index: m, Name: a.model}))
	}
	if a.keep == 0 {
		a.base = -1
	}
	v := journal.IDs{Q: a.q, Model: m, Stream: a.first > 0, In: (a.keep+a.add)*s.bs + a.tail, Base: a.base, Keep: a.keep, New: a.add, System: a.system, Input: journal.Text}
	require.NoError(s.t, s.Write(v))
}

func (s *script) stop(a ask) {
	if a.end == 0 {
		return
	}
	e := journal.End{Q: a.q, T: a.end, First: -1, X: a.x, Status: 200, Out: 5, Output: journal.Text, Stop: journal.StopEndTurn, Word: "end_turn"}
	if a.first > 0 {
		e.First = a.first
	}
	if a.out > 0 {
		e.Out = a.out
	}
	if e.X == "" {
		e.X = journal.Complete
	}
	require.NoError(s.t, s.Write(e))
}

// bytes returns the journal.
func (s *script) bytes() []byte {
	data, err := os.ReadFile(s.folder.Path(head.Trace))
	require.NoError(s.t, err)
	return data
}

// built returns the files of the journal, and the trace as it is read; nil where none is written. The trace is as it must be.
func (s *script) built() (*files, *trace.Trace) {
	session, err := journal.Read(s.bytes())
	require.NoError(s.t, err)
	require.Nil(s.t, session.Torn)
	f := build(session)
	require.Empty(s.t, f.Problems, "%s", f.trace)
	if f.trace == nil {
		return f, nil
	}
	trace, err := weka.Scan(f.trace, rules.AIPerf())
	require.NoError(s.t, err)
	return f, trace
}

// example writes the journal of doc/spec/capture.md 9.1.
func (s *script) example() {
	for _, err := range []error{
		s.Write(journal.Begin{}),
		s.Write(journal.Model{Name: "m-large"}),
		s.Write(journal.IDs{Stream: true, In: 22, System: 9, Base: -1, New: 5, Input: journal.Text}),
		s.Write(journal.End{T: 2004, First: 612, X: journal.Complete, Status: 200, Out: 9, Output: journal.Text | journal.ToolUse, Stop: journal.StopToolUse, Word: "tool_use", Calls: 1}),
		s.Write(journal.Begin{Q: 1, T: 5107}),
		s.Write(journal.IDs{Q: 1, Stream: true, In: 50, System: 9, Keep: 5, New: 7, Input: journal.ToolResult}),
		s.Write(journal.End{Q: 1, T: 8008, First: 5601, X: journal.Complete, Status: 200, Out: 31, Output: journal.ToolUse, Stop: journal.StopToolUse, Word: "tool_calls", Calls: 2, API: 25}),
		s.Write(journal.Begin{Q: 2, T: 8310, Place: journal.Place{Agent: 1, Via: journal.TierHeader}}),
		s.Write(journal.Agent{Agent: 1, Type: journal.Explore}),
		s.Write(journal.Model{Index: 1, Name: "m-small"}),
		s.Write(journal.IDs{Q: 2, Model: 1, In: 18, System: 9, Keep: 2, New: 2, Input: journal.Text, Media: 3}),
		s.Write(journal.End{Q: 2, T: 9529, First: -1, X: journal.Complete, Status: 200, Out: 7, Output: journal.Text, Stop: journal.StopEndTurn, Word: "stop", Marks: journal.MarkOutCounted}),
		s.Write(journal.Final{Why: journal.WhyIdle}),
	} {
		require.NoError(s.t, err)
	}
}
