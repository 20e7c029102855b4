package synth

import (
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// number gives the blocks of a trace their ids, 0, 1, 2 ... in the order in which the file has them first, and requests their
// think times. blocks is how many numbers its lists may name.
func number(r *weka.Recording, blocks int) {
	n := numbering{ids: make([]int32, blocks), parents: []int32{-1}}
	lanes := [][]*weka.RecordedRequest{nil}
	for k := range r.Entries {
		e := &r.Entries[k]
		if e.Subagent == nil {
			n.request(&e.RecordedRequest)
			lanes[0] = append(lanes[0], &e.RecordedRequest)
			continue
		}
		var own []*weka.RecordedRequest
		for k := range e.Subagent.Requests {
			n.request(&e.Subagent.Requests[k])
			own = append(own, &e.Subagent.Requests[k])
		}
		lanes = append(lanes, own)
	}
	found := weka.NewPredecessors(n.parents, 0)
	for _, list := range lanes {
		n.think(found, list)
	}
}

// numbering numbers the blocks of a trace. Block id is node id + 1 of their tree; node 0 is its root.
type numbering struct {
	ids     []int32 // 1 + the id of a block, 0 as long as it has none
	parents []int32 // of each node
}

// request replaces the blocks of a request by their ids.
func (n *numbering) request(r *weka.RecordedRequest) {
	var list trace.IDs
	parent := int32(0)
	for _, run := range r.IDs.Runs {
		for at := int(run.First); at < int(run.First)+run.N; at++ {
			if n.ids[at] == 0 {
				n.ids[at] = int32(len(n.parents))
				n.parents = append(n.parents, parent)
			}
			parent = n.ids[at]
			list.Append(int64(parent) - 1)
		}
	}
	r.IDs = list
}

// think sets the think times of an agent: from the end of the request that each goes on from.
func (n *numbering) think(found *weka.Predecessors, list []*weka.RecordedRequest) {
	stays := make([]weka.Stay, len(list))
	for k, r := range list {
		stays[k] = weka.Stay{Begin: int64(r.T), End: int64(r.T + r.APITime)}
		if runs := r.IDs.Runs; len(runs) > 0 {
			last := runs[len(runs)-1]
			stays[k].Last = int32(last.First) + int32(last.N)
		}
	}
	for k, think := range found.ThinkTimes(stays) {
		list[k].ThinkTime = think
	}
}
