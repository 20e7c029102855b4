package mmapcache

import (
	"cmp"
	"slices"
)

// Sharing counts the distinct content of all traces. Equal hash ids of one scope are the same block in every trace.
type Sharing struct {
	Blocks int   // distinct
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
		p := new(Plan)
		for i := range tables.Traces.Len() {
			tables.ReadPlan(i, p)
			s.Tokens += c.hold(p, held, numbers[p.Trace.FirstBlock:])
		}
		s.Blocks += distinct
		for _, n := range held {
			s.Tokens += int64(n)
		}
		return nil
	})
	return s, err
}

// hold notes how many tokens of each block the prompts of a trace hold, and returns the tokens of their fillers.
func (c *Cache) hold(p *Plan, held, numbers []uint32) (fillers int64) {
	filled := make([]bool, len(p.Turns))
	for k, sent := range p.sent() {
		s := &p.Segments[k]
		switch {
		case !sent:
		case s.Flags&Filler != 0 && !filled[s.First]:
			filled[s.First] = true
			fillers += int64(c.fillerTokens(p, s.First))
		case s.Flags&Filler != 0:
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

// place is where a block stands among the blocks of all traces.
type place struct {
	id int64
	at uint32
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
			list, several := shared[r.Scope]
			for k := range r.Count {
				at := t.FirstBlock + r.First + k
				if several {
					list = append(list, place{r.ID + int64(k), at})
					continue
				}
				numbers[at] = next
				next++
			}
			if several {
				shared[r.Scope] = list
			}
		}
	}
	for _, list := range shared {
		next = numberShared(numbers, list, next)
	}
	return numbers, int(next)
}

// numberShared gives the blocks of one scope their numbers, from next on, and returns what follows.
func numberShared(numbers []uint32, list []place, next uint32) uint32 {
	slices.SortFunc(list, func(a, b place) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.at, b.at)) })
	for k, p := range list {
		if k > 0 && list[k-1].id != p.id {
			next++
		}
		numbers[p.at] = next
	}
	if len(list) > 0 {
		next++
	}
	return next
}

// sharedScopes returns the scopes that several traces have blocks of.
func (s *Structure) sharedScopes() map[string][]place {
	owner, shared := map[string]int{}, map[string][]place{}
	var runs []BlockRun
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		runs = s.Runs.Range(runs[:0], t.FirstRun, t.Runs)
		for _, r := range runs {
			if first, ok := owner[r.Scope]; !ok {
				owner[r.Scope] = i
			} else if first != i {
				shared[r.Scope] = nil
			}
		}
	}
	return shared
}
