package synth

import (
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// lane makes the requests of one agent, one after the other. The blocks of its prompts have numbers in the order in which they
// are made; number gives them those of the trace.
type lane struct {
	*draws
	made     *int // blocks of the trace so far
	prompt   trace.IDs
	growth   curve
	longest  int // tokens
	model    string
	streamed bool
	now      weka.Millis // when the answer to the request before ended
	last     string      // stop of that answer
	turnEnds float64     // share of answers that call no tools
}

// next makes the next request. It begins at the time now, which moves to its end.
func (l *lane) next(first bool) weka.RecordedRequest {
	r := weka.RecordedRequest{T: l.now, Streamed: l.streamed, In: l.length(), IDs: l.ids(), Out: l.whole(completion), TTFT: weka.Unknown, ThinkTime: weka.Unknown}
	r.Model, r.InputTypes = l.model, inputOfUsers
	if !first && l.last == "tool_use" {
		r.InputTypes = one(l.draws, afterTools)
	}
	r.OutputTypes, r.Stop = l.answer()
	r.APITime = l.answerTime(r.Out)
	if r.Streamed {
		r.TTFT = millis(l.number(firstToken))
		r.APITime = max(r.APITime, r.TTFT)
	}
	l.now += r.APITime
	l.last = r.Stop
	return r
}

// length returns the tokens of a prompt that ends within a block.
func (l *lane) length() int { return max(l.prompt.Len*blockSize+l.below(blockSize), 1) }

// ids returns the blocks of the prompt, for a request to keep.
func (l *lane) ids() trace.IDs {
	return trace.IDs{Runs: slices.Clone(l.prompt.Runs), Len: l.prompt.Len}
}

// answer draws what an answer consists of, and why it ends.
func (d *lane) answer() (types []string, stop string) {
	switch {
	case d.streamed && d.chance(unknownStop):
		return nil, ""
	case d.chance(d.turnEnds):
		return one(d.draws, turnOutput), "end_turn"
	}
	return one(d.draws, toolOutput), "tool_use"
}

// answerTime draws how long an answer of some tokens takes.
func (d *draws) answerTime(tokens int) weka.Millis {
	return millis(min((answerBase+float64(answerToken*float64(tokens)))*d.number(answerPace), answerMost))
}

func millis(seconds float64) weka.Millis { return weka.Millis(rounded(seconds * 1000)) }

// think lets the time pass until the next request.
func (l *lane) think() {
	switch l.last {
	case "tool_use":
		l.now += millis(l.number(thinkAfterTools))
	case "end_turn":
		l.now += millis(l.number(thinkAfterTurn))
	default:
		l.now += millis(l.number(thinkUnknown))
	}
}

// begin sets the first prompt: so many blocks, those of a prefix first.
func (l *lane) begin(prefix trace.IDs, blocks int) {
	l.prompt = trace.IDs{Runs: slices.Clone(prefix.Runs), Len: prefix.Len}
	l.grow(blocks - prefix.Len)
}

// change makes the next prompt from the one before. A prompt that would exceed the longest is pulled back instead.
func (l *lane) change() {
	how, more := one(l.draws, changes), max(l.whole(l.growth), 1)
	if how <= tailEdited && (l.prompt.Len+more)*blockSize > l.longest {
		how = pulledBack
	}
	switch how {
	case appended:
		l.grow(more)
	case lastChanged:
		l.cut(l.prompt.Len - 1)
		l.grow(more)
	case tailEdited:
		l.cut(l.prompt.Len - max(1, min(l.whole(editedBlocks), l.prompt.Len/10)))
		l.grow(l.whole(afterEdit))
	case pulledBack:
		l.cut(max(1, int(float64(l.prompt.Len)*l.number(kept))))
		l.grow(max(1, min(l.whole(afterPull), l.longest*9/10/blockSize-l.prompt.Len)))
	case begunAnew:
		length := float64(l.prompt.Len) * l.number(anew)
		l.cut(0)
		l.grow(max(1, min(int(length), l.longest/blockSize)))
		if l.chance(otherModel) {
			l.model = one(l.draws, models)
		}
	}
}

// grow appends new blocks to the prompt.
func (l *lane) grow(n int) {
	if n <= 0 {
		return
	}
	l.prompt.Runs = append(l.prompt.Runs, trace.Run{First: int64(*l.made), N: n})
	l.prompt.Len += n
	*l.made += n
}

// cut leaves the first blocks of the prompt.
func (l *lane) cut(n int) { l.prompt = l.prompt.Head(n) }
