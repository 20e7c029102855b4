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

// MarkerPlace is where a cache-bust marker stands in a prompt: at the first user message, tool results apart. A prompt without
// such a message has no marker.
type MarkerPlace struct {
	System bool // at the first system message, where there is one
	After  bool // after the message, else before it
}

// Reuse counts hits. No other trace shares what follows its marker.
func (c *Cache) Reuse(marker MarkerPlace) (r Reuse, err error) {
	err = c.EachShard(func(_ int, tables *Structure) error { // which share nothing
		numbers, distinct := tables.numberBlocks()
		w := reuse{
			Reuse: r, segments: &tables.Segments, tools: tables.toolResults(), numbers: numbers, marker: marker,
			seen: make([]bool, distinct), shared: make([]bool, distinct), private: make([]bool, len(numbers)),
		}
		for _, t := range tables.recorded() {
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
	tools    map[uint32]bool // segments that begin a tool result
	numbers  []uint32
	marker   MarkerPlace
	ids      []uint32 // segments of a prompt
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

// toolResults returns the segments that begin a tool result, counted in the table of all segments.
func (s *Structure) toolResults() map[uint32]bool {
	results := map[uint32]bool{}
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		for k := range t.Tools {
			results[t.FirstSegment+uint32(s.Tools.At(int(t.FirstTool+k)).Segment)] = true
		}
	}
	return results
}

// cut returns how many segments of the prompt stand before its marker.
func (w *reuse) cut() int {
	at := -1
	if w.marker.System {
		at = slices.IndexFunc(w.path, func(s Segment) bool { return s.Role == System })
	}
	for k := 0; k < len(w.path) && at < 0; k++ {
		if s := w.path[k]; s.Role == User && s.Flags&Continues == 0 && !w.tools[w.ids[k]] {
			at = k
		}
	}
	if at < 0 {
		return len(w.path)
	}
	if w.marker.After {
		for at++; at < len(w.path) && w.path[at].Flags&Continues != 0; at++ {
		}
	}
	return at
}

// turn counts the blocks of one prompt and adds them to the cache.
func (w *reuse) turn(t sentTurn) {
	w.path, w.ids = w.path[:0], w.ids[:0]
	for s := t.Last; s != None; {
		id := t.trace.FirstSegment + uint32(s)
		seg := w.segments.At(int(id))
		w.path, w.ids = append(w.path, seg), append(w.ids, id)
		s = seg.Parent
	}
	slices.Reverse(w.path)
	slices.Reverse(w.ids)
	hit, markedHit, cut := true, true, w.cut() // a hit ends with the first block that is not held
	for k, s := range w.path {
		n := s.Count
		switch {
		case s.Flags&(Filler|Recorded|Prefix) != 0:
			continue
		case s.Flags&Head != 0:
			n = 1
		}
		for b := t.trace.FirstBlock + s.First; n > 0; b, n = b+1, n-1 {
			w.Blocks++
			held := &w.shared[w.numbers[b]]
			if k >= cut {
				held = &w.private[b]
			}
			hit, markedHit = hit && w.seen[w.numbers[b]], markedHit && *held
			w.Hits += count(hit)
			w.HitsWithMarker += count(markedHit)
			w.seen[w.numbers[b]], *held = true, true
		}
	}
}

// count returns 1 for yes and 0 for no.
func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// Sharing counts the distinct content of all traces. Equal hash ids of one scope are the same block in every trace.
type Sharing struct {
	Blocks int   // distinct; of recorded messages these
	Tokens int64 // of each distinct block the longest part that a prompt holds, and of every filler
}

// SharedTraces returns how many traces may share blocks: those of global scope, where another names blocks alike. A cache of
// several shards has none.
func (c *Cache) SharedTraces() (n int) {
	if c.Structure == nil {
		return 0
	}
	names := map[string]int{}
	for i := range c.Structure.Traces.Len() {
		if t := c.Structure.Traces.At(i); t.Scope == globalScope && t.Runs > 0 {
			names[c.Structure.Runs.At(int(t.FirstRun)).Scope]++
		}
	}
	for _, traces := range names {
		if traces > 1 {
			n += traces
		}
	}
	return n
}

// globalScope is the scope of traces that share blocks with others.
const globalScope = "global"

// Sharing counts the blocks and tokens of all prompts, each repeated one once.
func (c *Cache) Sharing() (s Sharing, err error) {
	err = c.EachShard(func(_ int, tables *Structure) error { // which share nothing
		numbers, distinct := tables.numberBlocks()
		held := make([]uint32, distinct) // tokens
		recorded := map[Window]uint32{}
		p := new(Plan)
		for i := range tables.Traces.Len() {
			tables.ReadPlan(i, p)
			s.Tokens += c.hold(p, held, recorded, numbers[p.Trace.FirstBlock:])
		}
		s.Blocks += distinct + len(recorded)
		for _, n := range recorded {
			s.Tokens += int64(n)
		}
		for _, n := range held {
			s.Tokens += int64(n)
		}
		return nil
	})
	return s, err
}

// hold notes how many tokens of each block, and of each recorded message, the prompts of a trace hold, and returns the tokens of their fillers.
func (c *Cache) hold(p *Plan, held []uint32, recorded map[Window]uint32, numbers []uint32) (fillers int64) {
	filled := make([]bool, len(p.Turns))
	for k, sent := range p.sent() {
		s := &p.Segments[k]
		switch {
		case !sent:
		case s.Flags&Filler != 0 && !filled[s.First]:
			filled[s.First] = true
			fillers += int64(c.fillerTokens(p, s.First))
		case s.Flags&Filler != 0:
		case s.Flags&(Recorded|Prefix) != 0:
			w := Window{Start: s.First, Tokens: uint32(s.Flags)} // a prefix is as long as its longest
			recorded[w] = max(recorded[w], s.Count)
		case s.Flags&Head != 0:
			b := numbers[s.First]
			held[b] = max(held[b], s.Count)
		default:
			for _, b := range numbers[s.First:][:s.Count] {
				held[b] = p.Trace.BlockSize
			}
		}
	}
	return fillers
}

// sent reports for every segment whether a prompt has it.
func (p *Plan) sent() []bool {
	sent := make([]bool, len(p.Segments))
	for _, u := range p.Turns {
		if u.Last != None {
			sent[u.Last] = true
		}
	}
	for k := len(sent) - 1; k >= 0; k-- { // parents stand before their children
		if parent := p.Segments[k].Parent; sent[k] && parent != None {
			sent[parent] = true
		}
	}
	return sent
}

// HitRates returns the share of all prompts that an unlimited prefix cache would have held, by blocks and by tokens.
// Servers count tokens.
func (c *Cache) HitRates() (blocks, tokens float64, err error) {
	var hits, ids, held, in int64
	err = c.EachShard(func(_ int, s *Structure) error {
		for i := range s.Traces.Len() {
			t := s.Traces.At(i)
			for k := range t.Turns {
				u := s.Turns.At(int(t.FirstTurn + k))
				hits, ids, in = hits+int64(u.CacheHits), ids+int64(u.HashIDs), in+int64(u.In)
				held += min(int64(u.CacheHits)*int64(t.BlockSize), int64(u.In)) // the last block may be held in part
			}
		}
		return nil
	})
	return float64(hits) / float64(max(1, ids)), float64(held) / float64(max(1, in)), err
}

// numberBlocks numbers the blocks of all traces, equal blocks alike. It returns how many numbers it has given.
func (s *Structure) numberBlocks() (numbers []uint32, distinct int) {
	numbers = make([]uint32, s.Blocks())
	shared := s.sharedScopes()
	var runs []BlockRun
	next := uint32(0)
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		runs = s.Runs.Range(runs[:0], t.FirstRun, t.Runs)
		for _, r := range runs {
			known := shared[r.Scope]
			for k := range r.Count {
				n, again := known[r.ID+int64(k)]
				if !again {
					n = next
					next++
				}
				if known != nil {
					known[r.ID+int64(k)] = n
				}
				numbers[t.FirstBlock+r.First+k] = n
			}
		}
	}
	return numbers, int(next)
}

// sharedScopes returns the scopes that several traces have blocks of, each with an empty list of the numbers of its ids.
func (s *Structure) sharedScopes() map[string]map[int64]uint32 {
	owner, shared := map[string]int{}, map[string]map[int64]uint32{}
	var runs []BlockRun
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		runs = s.Runs.Range(runs[:0], t.FirstRun, t.Runs)
		for _, r := range runs {
			if first, ok := owner[r.Scope]; !ok {
				owner[r.Scope] = i
			} else if first != i && shared[r.Scope] == nil {
				shared[r.Scope] = map[int64]uint32{}
			}
		}
	}
	return shared
}
