package mock

import (
	"bytes"
	"fmt"
	"net/http"
	"time"
)

// How slow a server is that throttles or has nothing to say.
const (
	trickleBytes  = 16
	trickleEvery  = time.Millisecond
	commentsEvery = 10 * time.Millisecond
)

// lies are the ways in which a server misleads a client without a failure of its own. All but the first two answer to the end.
var lies = []FaultKind{
	{Name: "flood", midway: (*exchange).flood, whole: (*exchange).floodWhole,
		Doc: "midway tokens without an end, as fast as the client reads"},
	{Name: "comments", midway: (*exchange).keepAlive,
		Doc: "midway keep-alive comments without an end, or blanks, one every 10 ms"},
	{Name: "trickle", midway: (*exchange).trickle, whole: (*exchange).trickleWhole,
		Doc: "the second half of the answer 16 bytes every millisecond; not streamed: all of it"},
	{Name: "half-events", midway: (*exchange).halveEvents,
		Doc: "in the second half of the answer every other event is cut in two; not streamed: half of the answer"},
	{Name: "wrong-counts", midway: (*exchange).exaggerate, whole: func(x *exchange) { x.endWhole([2]any{10 * x.promptTokens, 10 * x.outputTokens}) },
		Doc: "a complete answer whose usage has ten times the tokens"},
	{Name: "odd-counts", midway: (*exchange).countOddly, whole: func(x *exchange) { x.endWhole([2]any{-1, 1.5}) },
		Doc: "a complete answer whose usage is NaN, negative and a fraction"},
	{Name: "usage-twice", midway: (*exchange).countTwice, whole: func(x *exchange) { x.endWhole([2]any{1, 1}, [2]any{x.promptTokens, x.outputTokens}) },
		Doc: "a complete answer with a wrong usage before the right one"},
}

// rest appends the second half of the tokens of a stream.
func (x *exchange) rest() {
	for x.produced < x.outputTokens {
		x.token()
	}
}

func (x *exchange) flood() {
	if !x.request.stream {
		return
	}
	for x.ctx.Err() == nil {
		x.token()
		if len(x.out) >= writeSize && x.send() != nil {
			return
		}
	}
}

func (x *exchange) floodWhole() {
	x.w.Header().Set("Content-Type", "application/json")
	_, err := x.w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"`))
	for words := bytes.Repeat([]byte(word(0)), 1<<14); err == nil && x.ctx.Err() == nil; {
		_, err = x.w.Write(words)
	}
}

func (x *exchange) keepAlive() {
	nothing := " "
	if x.request.stream {
		nothing = ": keep-alive\n\n"
	}
	for x.server.clock.Sleep(x.ctx, commentsEvery) == nil {
		x.out = append(x.out, nothing...)
		if x.flush() != nil {
			return
		}
	}
}

func (x *exchange) trickle() {
	x.rest()
	x.end()
	x.drip()
}

func (x *exchange) trickleWhole() {
	x.w.Header().Set("Content-Type", "application/json")
	x.whole()
	x.drip()
}

// drip sends what is buffered, a few bytes at a time.
func (x *exchange) drip() {
	for answer := bytes.Clone(x.out); len(answer) > 0; {
		n := min(trickleBytes, len(answer))
		x.out = append(x.out[:0], answer[:n]...)
		answer = answer[n:]
		if x.flush() != nil || x.server.clock.Sleep(x.ctx, trickleEvery) != nil {
			return
		}
	}
}

func (x *exchange) halveEvents() {
	if !x.request.stream {
		return
	}
	for x.produced < x.outputTokens {
		from := len(x.out)
		if x.token(); x.produced%2 == 0 {
			x.out = append(x.out[:(from+len(x.out))/2], "\n\n"...)
		}
	}
	x.end()
	_ = x.send()
}

func (x *exchange) exaggerate() {
	x.rest()
	x.promptTokens, x.produced = 10*x.promptTokens, 10*x.produced
	x.end()
	_ = x.send()
}

func (x *exchange) countOddly() {
	x.rest()
	x.usage("NaN", "Infinity")
	x.usage(-1, 1.5)
	x.request.includeUsage = false
	x.end()
	_ = x.send()
}

func (x *exchange) countTwice() {
	x.rest()
	x.usage(1, 1)
	x.usage(x.promptTokens, x.produced)
	x.end()
	_ = x.send()
}

// usage appends a message with nothing but counts. They need not be numbers.
func (x *exchange) usage(prompt, output any) {
	x.put(x.endpoint.nothing)
	x.appendCounts(prompt, output)
	x.out = append(x.out, "}\n\n"...)
}

// appendCounts appends a member with counts to an object.
func (x *exchange) appendCounts(prompt, output any) {
	x.out = fmt.Appendf(x.out, `,"usage":{"%s":%v,"%s":%v}`, x.endpoint.promptCount, prompt, x.endpoint.outputCount, output)
}

// endWhole sends an answer that is not streamed, with other counts behind those that it has.
func (x *exchange) endWhole(counts ...[2]any) {
	x.whole()
	x.out = x.out[:len(x.out)-1]
	for _, c := range counts {
		x.appendCounts(c[0], c[1])
	}
	writeBody(x.w, http.StatusOK, "application/json", append(x.out, '}'))
}
