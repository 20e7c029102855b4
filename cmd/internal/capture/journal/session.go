package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Session is what a journal tells.
type Session struct {
	Head
	Models   []string
	Requests []Request     // in the order of arrival
	Agents   map[int]Agent // those that an agent line tells of
	Why      Why           // "" where the session did not end by itself
	Torn     *Torn         // nil where all was read

	global  []int64     // of each block, its number in all traces; empty where they have numbers of their own
	parents []int32     // of each block, the block before it in every prompt that has it; -1 for a first one
	byQ     map[int]int // index in Requests of each number
	applied int         // number of the last request of which ids or a hole is known, -1 before
}

// Torn says where a journal stops being one.
type Torn struct {
	Line int // from 1
	Why  string
}

// Request is a request of a session.
type Request struct {
	Begin
	IDs  *IDs   // nil where its blocks are not known
	Hole Reason // why they are not; "" where no line says it
	End  *End   // nil where it did not end
	last int32  // its last block, -1 where it has none
}

// Blocks returns how many blocks the prompt has.
func (r *Request) Blocks() int {
	if r.IDs == nil {
		return 0
	}
	return r.IDs.Keep + r.IDs.New
}

// Blocks returns how many blocks the session has in all. Their ids are 0 to that.
func (s *Session) Blocks() int { return len(s.parents) }

// AppendBlocks appends the ids of the blocks of a request's prompt.
func (s *Session) AppendBlocks(dst []int32, r *Request) []int32 {
	n := len(dst)
	dst = slices.Grow(dst, r.Blocks())[:n+r.Blocks()]
	id := r.last
	for k := len(dst) - 1; k >= n; k-- {
		dst[k] = id
		id = s.parents[id]
	}
	return dst
}

// LastBlock returns the id of the last block of a request's prompt, -1 where it has none. Equal last blocks mean equal lists.
func (s *Session) LastBlock(r *Request) int32 { return r.last }

// Number returns the number of a block in all traces, of ScopeDataset.
func (s *Session) Number(block int32) int64 { return s.global[block] }

// Parents returns for each block the block before it in every prompt that has it, -1 for a first one. It must not be changed.
func (s *Session) Parents() []int32 { return s.parents }

// apply adds a model, whose index is the next one.
func (v Model) apply(s *Session) error {
	if v.Index != len(s.Models) {
		return fmt.Errorf("model %d: the next model has index %d", v.Index, len(s.Models))
	}
	s.Models = append(s.Models, v.Name)
	return nil
}

// apply adds a request, whose number and time are not before those of the last one.
func (v Begin) apply(s *Session) error {
	if n := len(s.Requests); n > 0 && (v.Q <= s.Requests[n-1].Q || v.T < s.Requests[n-1].T) {
		return fmt.Errorf("request %d at %d ms: want a number and a time after those of request %d", v.Q, v.T, s.Requests[n-1].Q)
	}
	s.byQ[v.Q] = len(s.Requests)
	s.Requests = append(s.Requests, Request{Begin: v, last: -1})
	return nil
}

// request returns the request of a number.
func (s *Session) request(q int) (*Request, error) {
	k, ok := s.byQ[q]
	if !ok {
		return nil, fmt.Errorf("request %d has not begun", q)
	}
	return &s.Requests[k], nil
}

// next returns a request whose blocks, or the lack of them, may be told now: in the order of arrival, and once.
func (s *Session) next(q int) (*Request, error) {
	if q <= s.applied {
		return nil, fmt.Errorf("the blocks of request %d stand behind those of request %d: want them in the order of the requests, and once", q, s.applied)
	}
	return s.request(q)
}

// apply gives a request its blocks: some that it shares with an earlier request, then new ones. Their number fits the tokens.
func (v IDs) apply(s *Session) error {
	r, err := s.next(v.Q)
	if err != nil {
		return err
	}
	last := int32(-1)
	if v.Base >= 0 {
		base, err := s.request(v.Base)
		switch {
		case err != nil:
			return err
		case base.IDs == nil || v.Keep > base.Blocks():
			return fmt.Errorf("request %d refers to %d blocks of request %d, which has fewer", v.Q, v.Keep, v.Base)
		}
		last = base.last
		for range base.Blocks() - v.Keep {
			last = s.parents[last]
		}
	}
	switch {
	case (v.Base < 0) != (v.Keep == 0):
		return fmt.Errorf("request %d shares %d blocks with request %d: want both numbers or neither", v.Q, v.Keep, v.Base)
	case v.In < 1 || v.In/s.BlockSize != v.Keep+v.New:
		return fmt.Errorf("request %d: %d shared and %d new blocks do not fit %d tokens", v.Q, v.Keep, v.New, v.In)
	case v.Tools+v.System > v.In || v.Media > v.In:
		return fmt.Errorf("request %d: %d tokens of tools, %d of the system prompt and %d of media exceed its %d", v.Q, v.Tools, v.System, v.Media, v.In)
	case v.Model >= len(s.Models):
		return fmt.Errorf("request %d: model %d has no name", v.Q, v.Model)
	case len(s.parents)+v.New > maxBlocks:
		return fmt.Errorf("request %d: more than %d blocks", v.Q, maxBlocks)
	}
	global, err := v.numbered(s.Export.Scope)
	if err != nil {
		return err
	}
	s.global = append(s.global, global...)
	for range v.New {
		s.parents = append(s.parents, last)
		last = int32(len(s.parents) - 1)
	}
	r.IDs, r.last, s.applied = &v, last, v.Q
	if v.Moved != nil {
		r.Place = *v.Moved
	}
	return nil
}

// numbered returns the numbers of new blocks in all traces, nil of ScopeTrace.
func (v *IDs) numbered(scope Scope) (list []int64, err error) {
	for k := 0; k+1 < len(v.Global); k += 2 {
		first, n := v.Global[k], v.Global[k+1]
		if first < 0 || first > maxGlobal || n < 1 || n > int64(v.New-len(list)) {
			return nil, fmt.Errorf("request %d: %d blocks have numbers from %d: want 1 to %d, and 0 to %d", v.Q, n, first, v.New-len(list), maxGlobal)
		}
		for i := range n {
			list = append(list, first+i)
		}
	}
	if want := map[Scope]int{ScopeDataset: v.New}[scope]; len(list) != want || len(v.Global)%2 != 0 {
		return nil, fmt.Errorf("request %d: %d of %d new blocks have a number in all traces: want %d", v.Q, len(list), v.New, want)
	}
	return list, nil
}

// maxGlobal bounds the numbers of blocks in all traces of an import.
const maxGlobal = 1 << 40

// apply ends a request that has not ended, at a time that is not before its beginning.
func (v End) apply(s *Session) error {
	r, err := s.request(v.Q)
	switch {
	case err != nil:
		return err
	case r.End != nil:
		return fmt.Errorf("request %d has ended already", v.Q)
	case v.T < r.T || v.First >= 0 && (v.First < r.T || v.First > v.T):
		return fmt.Errorf("request %d begins at %d, has its first output at %d and ends at %d ms: want rising times", v.Q, r.T, v.First, v.T)
	}
	r.End = &v
	return nil
}

// apply adds what is learnt of a subagent to what is known of it.
func (v Agent) apply(s *Session) error {
	if v.Agent == 0 {
		return errors.New("agent 0 is the main agent, not a subagent")
	}
	known := s.Agents[v.Agent]
	known.Agent = v.Agent
	if v.Type != "" {
		known.Type = v.Type
	}
	if v.Result != 0 {
		if _, err := s.request(v.Result); err != nil {
			return err
		}
		known.Result = v.Result
	}
	s.Agents[v.Agent] = known
	return nil
}

// apply says that the blocks of a request are not known, and why.
func (v Hole) apply(s *Session) error {
	r, err := s.next(v.Q)
	if err == nil {
		r.Hole, s.applied = v.Reason, v.Q
	}
	return err
}

// apply ends the session: no line follows.
func (v Final) apply(s *Session) error {
	s.Why = v.Why
	return nil
}

func (Head) apply(*Session) error { return errors.New("a second head line") }

// ErrNoHead is wrapped by the error about a journal of which not even the first line is whole: nothing is known of its session.
var ErrNoHead = errors.New("the journal has no readable first line, which names its session")

// Read reads a journal up to the first line that is torn, fails its CRC or breaks a rule; Torn then says which. The session
// keeps nothing of data.
func Read(data []byte) (*Session, error) {
	s := &Session{Agents: map[int]Agent{}, byQ: map[int]int{}, applied: -1}
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		err := errors.New("the line has no end")
		if end >= 0 {
			err = s.read(number, data[:end])
		}
		if err != nil && number == 1 {
			return nil, fmt.Errorf("%w: line 1: %w", ErrNoHead, err)
		}
		if err != nil {
			s.Torn = &Torn{number, err.Error()}
			return s, nil
		}
		data = data[end+1:]
	}
	if s.Trace == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrNoHead)
	}
	return s, nil
}

// read reads one line.
func (s *Session) read(number int, text []byte) error {
	e, err := parse(text)
	if err != nil {
		return err
	}
	if number > 1 {
		if s.Why != "" {
			return errors.New("data after the end-of-session line")
		}
		return e.apply(s)
	}
	head, ok := e.(Head)
	if !ok {
		return errors.New("the first line is not a head line")
	}
	s.Head = head
	return nil
}
