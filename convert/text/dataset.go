package text

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"
)

// Dataset is what an input holds: traces, and the distinct messages that their prompts and answers are made of.
type Dataset struct {
	Store    *Store
	Messages []Message
	Traces   []*Trace
	Formats  []string       // of the input's files, each once, in the order of the input
	Warnings map[string]int // what was left out or assumed, by name: doc/spec/text.md 10
	Select   Selection
	Prefix   Prefix
	NeedText bool // readers leave turns out whose texts the log lacks, and refuse an input that has no other

	messages map[xxh3.Uint128]int32
	scratch  []byte
}

// NewDataset returns an empty dataset that keeps texts in a store.
func NewDataset(s *Store) *Dataset {
	return &Dataset{Store: s, Warnings: map[string]int{}, messages: map[xxh3.Uint128]int32{}}
}

// Warn counts something that was left out or assumed.
func (d *Dataset) Warn(name string) { d.Warnings[name]++ }

// Message returns the number of a message in Messages, where it stands once.
func (d *Dataset) Message(m Message) int32 {
	b := append(d.scratch[:0], byte(m.Role), boolByte(m.Continues))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Name))
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Raw))
	b = PackParts(b, m.Parts) // texts stand once in their store, so their numbers tell parts apart
	d.scratch = b
	key := xxh3.Hash128(b)
	n, known := d.messages[key]
	if !known {
		n = int32(len(d.Messages))
		d.Messages = append(d.Messages, m)
		d.messages[key] = n
	}
	return n
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// NewTree returns a trace of no session, of which a reader wants the nodes alone.
func NewTree() *Trace { return &Trace{Start: NoTime, last: map[Node]int32{}} }

// NewTrace appends a trace with its root session.
func (d *Dataset) NewTrace(id string) *Trace {
	t := NewTree()
	t.Sessions = []Session{{ID: id, Parent: None, SpawnTurn: None, JoinTurn: None, Lacks: None, Filler: None}}
	d.Traces = append(d.Traces, t)
	return t
}

// Subagent appends a session of a subagent, which nothing links to a turn yet.
func (t *Trace) Subagent(id string) {
	t.Sessions = append(t.Sessions, Session{ID: id, Kind: Subagent, SpawnTurn: None, JoinTurn: None, Lacks: None, Filler: None})
}

// Tokens returns a count of tokens as a turn takes it: more than 2^24 is no count of a prompt.
func Tokens(n int64) int32 { return int32(min(max(n, 0), 1<<24)) }

// Child returns the node of a message behind another, None for the first of a prompt. Prompts that begin with the same messages have the
// same nodes.
func (t *Trace) Child(parent, message int32) int32 {
	n := Node{parent, message}
	if k, known := t.last[n]; known {
		return k
	}
	k := int32(len(t.Nodes))
	t.Nodes = append(t.Nodes, n)
	t.last[n] = k
	return k
}

// Done gives up what finds nodes: the trace has all of them.
func (t *Trace) Done() { t.last = nil }

// Path returns the nodes of a prompt that ends with a node, in their order.
func (t *Trace) Path(dst []int32, last int32) []int32 {
	from := len(dst)
	for n := last; n != None; n = t.Nodes[n].Parent {
		dst = append(dst, n)
	}
	slices.Reverse(dst[from:])
	return dst
}

// NewTurn returns a turn of which nothing is known.
func NewTurn() Turn {
	return Turn{Last: None, At: NoTime, End: NoTime, First: NoTime, LastResult: NoTime, Before: None, Gap: None, ToolTime: None, ThinkTime: None, In: None, Cached: None, Out: None}
}

// Finish completes what follows from the rest: it drops sessions without a turn, places instants and gaps (rules T1 to T4), and orders
// traces (T6), of which it keeps those that are selected. The error says that no turn is left.
func (d *Dataset) Finish() error {
	turns := 0
	for _, t := range d.Traces {
		d.Select.cut(t)
		for k := range t.Sessions {
			d.finishSession(t, k)
			turns += len(t.Sessions[k].Turns)
		}
		t.Done()
	}
	d.messages, d.Store.known = nil, nil
	if turns == 0 {
		return fmt.Errorf("no turn in the input: it has neither an answer of a model nor a request")
	}
	d.Traces = slices.DeleteFunc(d.Traces, func(t *Trace) bool { return len(t.Sessions[0].Turns) == 0 })
	slices.SortStableFunc(d.Traces, func(a, b *Trace) int { return cmp.Compare(a.Start, b.Start) })
	if d.Traces = d.Select.apply(d.Traces); len(d.Traces) == 0 {
		return ErrNoneSelected
	}
	return nil
}

// finishSession places the turns of a session: End is not before At, and Gap is from the end of the turn before.
func (d *Dataset) finishSession(t *Trace, k int) {
	s := &t.Sessions[k]
	if !t.RecordedEnds {
		d.placeEnds(t, s)
	}
	var ends []ended
	for n := range s.Turns {
		turn := &s.Turns[n]
		onPath := turn.Before != None
		if !onPath { // behind a compaction
			turn.Before = lastEnded(ends, turn.At)
		}
		d.placeGap(t, s, turn, onPath)
		if k, known := slices.BinarySearchFunc(ends, turn.End, ended.compare); !known && turn.End != NoTime {
			ends = slices.Insert(ends, k, ended{turn.End, int32(n)}) // mostly behind the last
		}
	}
	if t.RecordedEnds {
		d.placeEnds(t, s)
	}
}

// placeEnds finds the first instant of a trace, and moves ends that are before their beginning.
func (d *Dataset) placeEnds(t *Trace, s *Session) {
	for n := range s.Turns {
		turn := &s.Turns[n]
		if turn.At == NoTime {
			continue
		}
		if t.Start == NoTime || turn.At < t.Start {
			t.Start = turn.At
		}
		if turn.End != NoTime && turn.End < turn.At {
			turn.End = turn.At
			d.Warn("clock")
		}
	}
}

// ended is when a turn ended, the first of those that ended then.
type ended struct {
	at   int64
	turn int32
}

func (e ended) compare(at int64) int { return cmp.Compare(e.at, at) }

// lastEnded returns the turn that ended last before an instant, None for none.
func lastEnded(ends []ended, at int64) int32 {
	k, known := slices.BinarySearchFunc(ends, at, ended.compare)
	switch {
	case known:
		return ends[k].turn
	case k == 0:
		return None
	}
	return ends[k-1].turn
}

// placeGap sets Gap, ToolTime and ThinkTime of a turn that has times and a predecessor, whose reply is on its path or not.
func (d *Dataset) placeGap(t *Trace, s *Session, turn *Turn, onPath bool) {
	if turn.Before == None || turn.At == NoTime || s.Turns[turn.Before].End == NoTime {
		return
	}
	end := s.Turns[turn.Before].End
	if turn.Gap = turn.At - end; turn.Gap < 0 {
		turn.Gap = 0
		if turn.At >= s.Turns[turn.Before].At {
			d.Warn("overlap")
		} else {
			d.Warn("clock")
		}
	}
	if t.GapAlone {
		return
	}
	turn.ToolTime = 0
	if onPath && turn.LastResult != NoTime {
		turn.ToolTime = min(max(turn.LastResult-end, 0), turn.Gap)
	}
	turn.ThinkTime = turn.Gap - turn.ToolTime
}
