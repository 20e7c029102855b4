package replay

import (
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// promptLog remembers which prompts a run has sent, for the count of what a prefix cache could have held of them
// (doc/spec/results.md 17.1).
type promptLog struct {
	warmup, profiling []sentPrompt // by credit
}

// sentPrompt is the prompt of one request.
type sentPrompt struct {
	tree     int32 // ordinal in the run
	turn     int32 // in the plan of its trace
	headline bool  // of a request that the headline numbers are over
	sent     bool
}

// add notes the prompt of a request that is over.
func (l *promptLog) add(r *measure.Record) {
	list := &l.profiling
	if r.Phase == measure.WarmupPhase {
		list = &l.warmup
	}
	if more := r.Credit + 1 - len(*list); more > 0 {
		*list = slices.Grow(*list, more)[:r.Credit+1]
	}
	(*list)[r.Credit] = sentPrompt{int32(r.Tree), int32(r.PlanTurn), r.Bucket == measure.Profiling && r.Error == nil, true}
}

// reuse counts the prompt tokens of the headline, and those of them that stand in a prefix that an earlier request had sent.
// played has the trace of every tree. The error is one of the cache.
func (l *promptLog) reuse(c *mmapcache.Cache, endpoint payload.Endpoint, target payload.MarkerTarget, played []int) (*measure.Prompts, error) {
	all := slices.DeleteFunc(slices.Concat(l.warmup, l.profiling), func(p sentPrompt) bool { return !p.sent })
	groups := map[int][]sentPrompt{} // by trace; traces that may share blocks are one group
	shared := c.SharedTraces() > 0
	for _, p := range all {
		group := played[p.tree]
		if shared {
			group = 0
		}
		groups[group] = append(groups[group], p)
	}
	total := &measure.Prompts{}
	for _, list := range groups {
		err := c.Guard(func() error {
			count := prefixCount{prefixTrie: newPrefixTrie(c, endpoint, target), total: total}
			return count.add(list, played)
		})
		if err != nil {
			return nil, err
		}
	}
	return total, nil
}

// prefixCount counts what prompts of the traces of a trie have in common with earlier ones.
type prefixCount struct {
	*prefixTrie
	total *measure.Prompts
}

// add counts prompts, in the order in which they were sent. The error is one of the cache.
func (c *prefixCount) add(list []sentPrompt, played []int) error {
	turns := map[int][]int32{} // by trace
	for _, p := range list {
		turns[played[p.tree]] = append(turns[played[p.tree]], p.turn)
	}
	ends := map[int]map[int32]int32{}
	for trace, list := range turns {
		slices.Sort(list)
		plan, err := c.cache.Plan(trace)
		if err != nil {
			return err
		}
		if ends[trace], err = c.prefixTrie.add(trace, plan, slices.Compact(list)); err != nil {
			return err
		}
	}
	type counted struct {
		sentPrompt
		end    int32
		reused int64
	}
	prompts := make([]counted, len(list))
	for k, p := range list { // what trees share, in the order of sending
		end := ends[played[p.tree]][p.turn]
		prompts[k] = counted{p, end, c.send(c.common(end), 1, false)}
	}
	slices.SortStableFunc(prompts, func(a, b counted) int { return int(a.tree) - int(b.tree) })
	for _, p := range prompts { // what belongs to one tree, tree by tree
		if c.nodes[p.end].own {
			p.reused = max(p.reused, c.send(p.end, 1+p.tree, true))
		}
		if p.headline {
			c.total.Tokens += c.nodes[p.end].depth
			c.total.Reused += p.reused
		}
	}
	return nil
}

// common returns the last node on the way to a node that all trees share.
func (c *prefixCount) common(n int32) int32 {
	for c.nodes[n].own {
		n = c.nodes[n].key.parent
	}
	return n
}

// send marks the way to a node, among those that belong to one tree or those that all share, and returns the tokens up to where
// it was marked before.
func (c *prefixCount) send(n, mark int32, own bool) int64 {
	for ; n != 0 && c.nodes[n].own == own; n = c.nodes[n].key.parent {
		node := &c.nodes[n]
		if node.mark == mark {
			return node.depth
		}
		node.mark = mark
	}
	return 0
}
