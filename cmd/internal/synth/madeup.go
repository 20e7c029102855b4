package synth

import (
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// madeUp draws a trace from the distributions of tables.go.
func madeUp(d *draws) *weka.Recording {
	first := d.whole(firstPrompt)
	n := d.whole(requests)
	if first >= longPrompt {
		n = d.whole(requestsOfBig)
	}
	r := &weka.Recording{BlockSize: blockSize}
	r.ToolTokens, r.SystemTokens = min(d.whole(toolPrefix), first*3/4), min(d.whole(systemPrefix), first/5)
	l := &lane{draws: d, made: new(int), growth: newBlocks, longest: d.limit(first), model: one(d, models), streamed: d.chance(streamed), turnEnds: d.number(turnEnds)}
	l.begin(trace.IDs{}, first/blockSize)
	children := newFamily(l, n)
	for k := range n {
		if k > 0 {
			l.think()
			l.change()
		}
		q := l.next(k == 0)
		if children.due(k) { // it ends with the call that begins them
			q.OutputTypes, q.Stop = []string{"tool_use"}, "tool_use"
			l.last = q.Stop
		}
		r.Entries = append(r.Entries, weka.RecordedEntry{RecordedRequest: q})
		for _, s := range children.spawn(k) {
			r.Entries = append(r.Entries, weka.RecordedEntry{Subagent: s})
		}
	}
	number(r, *l.made)
	return r
}

// limit draws how long the prompts of a trace may become that begins with a prompt of some tokens.
func (d *draws) limit(first int) int {
	longest := d.whole(longest)
	if longest < first*5/4 {
		return longestAtMost
	}
	return longest
}
