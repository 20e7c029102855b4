package weka

import "fmt"

// Bounds of the alarms: doc/spec/capture.md 10.
const (
	deficitShare = 0.005 // of the requests that go on from another, those that lack the last block of it alone
	leastChains  = 8
)

// blocks checks how blocks are numbered, and think times; and it looks for prompts that lose blocks without a reason.
func (c *checker) blocks() {
	if len(c.Problems) == 0 { // else lists are not what they say
		c.numbering()
	}
	trie := TrieOf(c.Trace)
	found := NewPredecessors(trie.parents, 0)
	transitions, deficits := 0, 0
	for agent := 0; ; agent++ {
		prompts, stays := c.ofAgent(agent, trie)
		if agent > 0 && prompts == nil {
			break
		}
		for k, p := range found.Of(stays) {
			c.think(&prompts[k], p, stays)
			if p.Index < 0 {
				continue
			}
			if transitions++; p.Shared == prompts[p.Index].IDs.Len-1 {
				deficits++
			}
		}
	}
	if float64(deficits) >= deficitShare*float64(max(transitions, 1)) {
		c.Alarms = append(c.Alarms, fmt.Sprintf("%d of %d requests lack the last block of the request before, and that alone: something after each prompt is hashed with it", deficits, transitions))
	}
	if chains, roots := trie.leaves(); chains >= leastChains && 2*roots > chains {
		c.Alarms = append(c.Alarms, fmt.Sprintf("%d of %d chains of prompts share no block with another: something near the beginning of each prompt differs", roots, chains))
	}
}

// ofAgent returns the requests of an agent, nil where there is no such agent.
func (c *checker) ofAgent(agent int, trie *Trie) (prompts []checkedPrompt, stays []Stay) {
	for k, p := range c.prompts {
		if p.agent != agent {
			continue
		}
		begin := inMillis(p.T)
		prompts, stays = append(prompts, p), append(stays, Stay{begin, begin + inMillis(p.APITime.V), trie.ends[k].node})
	}
	return prompts, stays
}

// think checks a think time against the gap behind the predecessor's end.
func (c *checker) think(r *checkedPrompt, p Predecessor, stays []Stay) {
	if !r.ThinkTime.OK {
		return
	}
	think := inMillis(r.ThinkTime.V)
	if p.Index < 0 {
		c.fail(r.where+".think_time", "%v: its request continues no other request, so no think time stands before it", r.ThinkTime.V)
		return
	}
	if gap := inMillis(r.T) - stays[p.Index].End; think < 0 || think > gap {
		c.fail(r.where+".think_time", "%v: want 0 to the gap behind the request before, %v", r.ThinkTime.V, float64(gap)/1000)
	}
}

// numbering checks that ids are 0, 1, 2, ... at first sight, that those of a request which are new stand together at its end, and
// that an id has one position and one predecessor.
func (c *checker) numbering() {
	var before []int64 // per id, the id before it
	for _, p := range c.prompts {
		last, at := int64(-1), 0
		for _, run := range p.IDs.Runs {
			for k := range run.N {
				id := run.First + int64(k)
				switch {
				case id == int64(len(before)):
					before = append(before, last)
				case id < 0 || id > int64(len(before)):
					c.fail(p.where+".hash_ids", "id %d at %d: want %d for the next new block", id, at, len(before))
					return
				case before[id] != last:
					c.fail(p.where+".hash_ids", "id %d at %d: it follows %d here, and %d before", id, at, last, before[id])
					return
				}
				last = id
				at++
			}
		}
	}
}
