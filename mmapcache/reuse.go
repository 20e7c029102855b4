package mmapcache

import (
	"cmp"
	"slices"
)

// Reuse counts the blocks of all prompts that an unlimited prefix cache would hold when they are sent in the recorded order.
type Reuse struct {
	Blocks         int64 // of all prompts
	Hits           int64
	HitsWithMarker int64 // when every trace has a cache-bust marker
}

// LostToMarker returns the share of the hits that markers cost.
func (r Reuse) LostToMarker() float64 {
	return float64(r.Hits-r.HitsWithMarker) / float64(max(1, r.Hits))
}

// Rate returns hits as a share of all blocks.
func (r Reuse) Rate(hits int64) float64 { return float64(hits) / float64(max(1, r.Blocks)) }

// Reuse counts hits. A cache-bust marker stands before the first user message, or with system before the system prompt: no
// other trace shares what follows it.
func (c *Cache) Reuse(system bool) (r Reuse, err error) {
	err = c.Guard(func() error {
		numbers, distinct := c.Structure.numberBlocks()
		w := reuse{
			segments: &c.Structure.Segments, numbers: numbers, system: system,
			seen: make([]bool, distinct), shared: make([]bool, distinct), private: make([]bool, len(numbers)),
		}
		for _, t := range c.Structure.recorded() {
			w.turn(t)
		}
		r = w.Reuse
		return nil
	})
	return r, err
}

// reuse is the state of the count.
type reuse struct {
	Reuse
	segments *Table[Segment]
	numbers  []uint32
	system   bool
	path     []Segment
	seen     []bool // by number: held in a cache without markers
	shared   []bool // by number: held where it precedes markers
	private  []bool // by block of a trace: held where it follows the marker
}

// sentTurn is a turn among those of all traces.
type sentTurn struct {
	Turn
	trace Trace
	at    [2]int // session and turn, within the trace
}

// recorded returns the turns of all traces in the order of their recorded starts.
func (s *Structure) recorded() (list []sentTurn) {
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		for n := range t.Sessions {
			e := s.Sessions.At(int(t.FirstSession + n))
			for k := range e.Turns {
				row := int(e.FirstTurn + k)
				list = append(list, sentTurn{s.Turns.At(int(t.FirstTurn) + row), t, [2]int{int(n), row}})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b sentTurn) int {
		return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.Outer, b.Outer), slices.Compare(a.at[:], b.at[:]))
	})
	return list
}

// turn counts the blocks of one prompt and adds them to the cache.
func (w *reuse) turn(t sentTurn) {
	w.path = w.path[:0]
	for s := t.Last; s != None; {
		seg := w.segments.At(int(t.trace.FirstSegment) + int(s))
		w.path = append(w.path, seg)
		s = seg.Parent
	}
	slices.Reverse(w.path)
	hit, markedHit, marked := true, true, w.system // a hit ends with the first block that is not held
	for _, s := range w.path {
		marked = marked || s.Role == User
		n := s.Count
		switch {
		case s.Flags&Filler != 0:
			continue
		case s.Flags&Head != 0:
			n = 1
		}
		for b := t.trace.FirstBlock + s.First; n > 0; b, n = b+1, n-1 {
			w.Blocks++
			held := &w.shared[w.numbers[b]]
			if marked {
				held = &w.private[b]
			}
			hit, markedHit = hit && w.seen[w.numbers[b]], markedHit && *held
			w.Hits += count(hit)
			w.HitsWithMarker += count(markedHit)
			w.seen[w.numbers[b]], *held = true, true
		}
	}
}

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
