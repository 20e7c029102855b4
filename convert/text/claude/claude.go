// Package claude reads logs of Claude Code: doc/spec/text.md 4.
//
//	{"parentUuid":null,"sessionId":"5f1c","type":"user","message":{"role":"user","content":"Fix it."},"uuid":"1","timestamp":"2026-01-02T15:00:00.000Z"}
//	{"parentUuid":"1","sessionId":"5f1c","type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"Done."}]},"uuid":"2", ...}
//
// What a prompt is can be said behind the last row alone: rows are copied into the files of resumed sessions, and links lead from file to
// file. So package rows keeps a few numbers of each row, and End has them linked by package links, joins the rows of each reply
// (replies.go), walks from each reply back to the beginning of its prompt (prompts.go), and makes traces of them (sessions.go).
package claude

import (
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/claude/links"
	"github.com/agentx/agentx/convert/text/claude/rows"
	"github.com/agentx/agentx/convert/text/content"
)

// Options say what prompts do not have. The zero value keeps all.
type Options struct {
	DropMeta     bool `json:"drop_meta,omitempty"`     // what the client says on its own: isMeta
	DropThinking bool `json:"drop_thinking,omitempty"` // thinking of the replies before
}

// Is reports whether an object is a row of a log.
func Is(row content.Raw) bool { return rows.Is(row) }

// IsAgent reports whether a file says of the agent whose log stands beside it which call started it.
func IsAgent(path string) bool { return rows.IsAgent(path) }

// Reader reads rows.
type Reader struct {
	log     *rows.Log
	options Options
	reach   int // maxNear
}

// New returns a reader that adds to a dataset.
func New(d *text.Dataset, o Options) *Reader {
	return &Reader{log: rows.New(content.Reader{Data: d}), options: o, reach: maxNear}
}

// Row reads a row.
func (r *Reader) Row(row []byte, at text.Place) error { return r.log.Row(row, at) }

// End makes sessions of the rows.
func (r *Reader) End() error {
	f := newForest(links.New(r.log), r.options, r.reach)
	for _, s := range f.Sessions {
		for _, n := range s.Chains {
			f.readReplies(n)
		}
	}
	f.told, f.wanted = nil, nil
	for _, s := range f.Sessions {
		f.trace(s)
	}
	err := r.log.Err()
	r.log = nil
	return err
}

// forest is the linked rows, their replies and agents.
type forest struct {
	*links.Forest
	options Options
	reach   int

	replies []reply
	replyOf []int32               // of rows: the reply that a row is of, or whose calls its results answer; None, several
	agents  []agent               // by chain
	wanted  map[text.Text][]int32 // agents, by the call that started them
	told    map[uint64]int64      // instants of replies, by their keys
	waiting map[int32][]int32     // agents, by the row with the result of that call

	prompt
}

// agent is what becomes of a chain.
type agent struct {
	turns []text.Turn
	trace *text.Trace
	place int32   // in trace.Sessions
	spawn int32   // reply with the call that started it; None
	joins []int32 // replies whose prompts have the result of that call
}

func newForest(linked *links.Forest, o Options, reach int) *forest {
	f := &forest{Forest: linked, options: o, reach: reach, replyOf: make([]int32, len(linked.Rows)), agents: make([]agent, len(linked.Chains)),
		told: map[uint64]int64{}, wanted: map[text.Text][]int32{}, waiting: map[int32][]int32{}}
	for i := range f.replyOf {
		f.replyOf[i] = text.None
	}
	for n := range f.agents {
		f.agents[n].spawn = text.None
		if c := &f.Chains[n]; c.Call != 0 && f.Branches[n].Rows > 0 {
			f.wanted[c.Call] = append(f.wanted[c.Call], int32(n))
		}
	}
	f.seen = make([]int32, len(linked.Rows))
	f.notice = f.Text(content.Raw(`"[Old tool result content cleared]"`))
	return f
}
