package report

import (
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// flowStep is an instant at which the tokens of a request change their flow: from then on it gets rate tokens per nanosecond, and
// holds that many tokens more.
type flowStep struct {
	at     measure.Time
	rate   float64
	tokens float64
}

// flow returns how the output tokens of a request came, in the order of time: the first chunk, which has no rate before it, and what
// came after it until the last step, whose rate is 0. It is empty where the number of tokens is not known. The steps are appended to a
// buffer. The tokens after the first chunk are spread over the gaps between content messages: as many as the message that ends a gap
// brought, or evenly over the gaps where that is not known of every message. Messages of one instant are one.
func flow(steps []flowStep, r *row, contents wire.Contents) []flowStep {
	osl := r.OSL()
	if r.failed || r.FirstToken == never || osl == unknown {
		return steps
	}
	from := len(steps)
	told := r.FirstChunk() != unknown
	sum := int64(0)
	for at, tokens := range contents.All() {
		told, sum = told && tokens >= 0, sum+tokens
		came := r.Sent + measure.Time(at)
		if n := len(steps); n > from && steps[n-1].at == came {
			steps[n-1].tokens += float64(tokens)
			continue
		}
		steps = append(steps, flowStep{at: came, tokens: float64(tokens)})
	}
	if len(steps) == from { // the instants are not known: a gap from the first to the last token
		steps = append(steps, flowStep{at: r.FirstToken})
		if r.LastToken > r.FirstToken {
			steps = append(steps, flowStep{at: r.LastToken})
		}
	}
	list := steps[from:]
	if !told || sum != osl {
		spread(list, r, osl)
	}
	for k := range list[1:] {
		list[k].rate = list[k+1].tokens / float64(list[k+1].at-list[k].at)
	}
	return steps
}

// spread gives the first of the messages its tokens, and the others the same number each.
func spread(list []flowStep, r *row, osl int64) {
	first := r.FirstChunk()
	switch {
	case len(list) == 1: // nothing came later
		first = osl
	case first == unknown:
		first = min(1, osl)
	}
	list[0].tokens = float64(first)
	for k := range list[1:] {
		list[k+1].tokens = float64(osl-first) / float64(len(list)-1)
	}
}
