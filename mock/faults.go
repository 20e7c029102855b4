package mock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
)

// Fault is a way to fail, and how often.
type Fault struct {
	Kind string  // a name of FaultKinds, with a number for NNN
	Rate float64 // share of the requests that get it, 0 to 1
}

// FaultKind is a way to fail.
type FaultKind struct {
	Name string // as Fault.Kind has it; NNN stands for an HTTP status, 400 to 599
	Doc  string // what the client gets, in one line

	// One of these three is set: it replaces reading the body, or looking at the prompt, or the second half of the answer.
	onArrival, answer, midway func(*exchange)
	// whole, where it is set, replaces an answer that is not streamed. midway does not run then.
	whole func(*exchange)
}

// FaultKinds lists all faults. "Midway" is after half of the tokens of a stream, or half of the bytes of an answer that is not
// streamed.
var FaultKinds = append([]FaultKind{
	{Name: "refuse", onArrival: func(x *exchange) { _ = x.hijack().Close() },
		Doc: "the connection is closed at once, the body unread, nothing answered"},
	{Name: "reset", answer: (*exchange).reset,
		Doc: "the connection is reset (TCP RST) when the body has been read, nothing answered"},
	{Name: "status=NNN", answer: func(x *exchange) { x.fail(x.fault.status, faultError) },
		Doc: "HTTP status NNN with a JSON error body"},
	{Name: "status-plain=NNN", answer: func(x *exchange) {
		writeBody(x.w, x.fault.status, "text/plain; charset=utf-8", []byte(http.StatusText(x.fault.status)+": "+faultMessage+"\n"))
	},
		Doc: "HTTP status NNN with a line of text for a body"},
	{Name: "overflow", answer: func(x *exchange) {
		x.fail(http.StatusBadRequest, x.endpoint.overflow(x.request.prompt.tokens(), x.endpoint.Prompt))
	},
		Doc: "HTTP status 400 with a JSON error whose code is context_length_exceeded"},
	{Name: "stall", answer: (*exchange).stall,
		Doc: "status 200 and headers, then nothing until the client goes away"},
	{Name: "empty", answer: func(x *exchange) { x.answer(0) },
		Doc: "a complete answer of no tokens"},
	{Name: "not-json", answer: func(x *exchange) {
		writeBody(x.w, http.StatusOK, "text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<title>Gateway</title>\n<p>"+faultMessage+"</p>\n"))
	},
		Doc: "status 200 with an HTML page for a body"},
	{Name: "garbage", answer: (*exchange).answerGarbage,
		Doc: "status 200 with malformed events and halves of JSON, ending cleanly"},
	{Name: "reset-mid", midway: (*exchange).reset,
		Doc: "the connection is reset (TCP RST) midway"},
	{Name: "stall-mid", midway: (*exchange).stall,
		Doc: "midway nothing more comes until the client goes away"},
	{Name: "cut", midway: func(*exchange) {},
		Doc: "the answer ends cleanly midway, without finish reason, usage and [DONE]"},
	{Name: "cut-chunk", midway: (*exchange).cutChunk,
		Doc: "the connection is closed midway, inside an HTTP chunk"},
	{Name: "error-event", midway: func(x *exchange) { _, _ = x.w.Write([]byte(x.endpoint.errorEvent)) }, whole: (*exchange).answerErrorObject,
		Doc: "midway an event named error, and the end; not streamed: as error-payload"},
	{Name: "error-payload", midway: func(x *exchange) { _, _ = x.w.Write([]byte(x.endpoint.errorPayload)) }, whole: (*exchange).answerErrorObject,
		Doc: "midway an event whose data is an error object, then [DONE]; not streamed: an error object under status 200"},
}, lies...)

// ParseFault parses KIND:RATE, as in "status=503:0.1".
func ParseFault(text string) (Fault, error) {
	kind, rate, ok := strings.Cut(text, ":")
	if !ok {
		return Fault{}, fmt.Errorf("fault %q: want KIND:RATE, such as reset:0.1", text)
	}
	r, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		r = math.NaN()
	}
	f := Fault{Kind: kind, Rate: r}
	if err := f.check(rate); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

// Validate reports a kind that does not exist, or a rate outside 0 to 1.
func (f Fault) Validate() error {
	if err := f.check(strconv.FormatFloat(f.Rate, 'g', -1, 64)); err != nil {
		return fmt.Errorf("fault %q: %w", f.Kind, err)
	}
	return nil
}

// check is Validate without the name of the fault. rate is its rate as the caller wrote it.
func (f Fault) check(rate string) error {
	if _, _, err := findKind(f.Kind); err != nil {
		return err
	}
	if !(0 <= f.Rate && f.Rate <= 1) {
		return fmt.Errorf("want a rate from 0 to 1, not %q", rate)
	}
	return nil
}

// findKind returns the kind that Fault.Kind names, and the status in it, 0 where it has none.
func findKind(kind string) (k *FaultKind, status int, err error) {
	name, number, numbered := strings.Cut(kind, "=")
	for i := range FaultKinds {
		k := &FaultKinds[i]
		want, _, wantNumber := strings.Cut(k.Name, "=")
		if name != want || numbered != wantNumber {
			continue
		}
		if !numbered {
			return k, 0, nil
		}
		status, err := strconv.Atoi(number)
		if err != nil || status < 400 || status > 599 {
			return nil, 0, fmt.Errorf("want a status from 400 to 599, not %q", number)
		}
		return k, status, nil
	}
	return nil, 0, fmt.Errorf("no fault is called %q", kind)
}

// faultPlan decides which request gets which fault.
type faultPlan struct {
	seed   uint64
	faults []plannedFault
}

type plannedFault struct {
	name   string
	kind   *FaultKind
	status int     // for status=NNN
	upTo   float64 // a request draws a number in [0, 1); the first fault with a larger upTo is its fault
}

var noFault = plannedFault{kind: &FaultKind{}}

// planFaults makes a plan of valid faults.
func planFaults(faults []Fault, seed int64) faultPlan {
	p := faultPlan{seed: uint64(seed)}
	sum := 0.0
	for _, f := range faults {
		sum += f.Rate
		kind, status, _ := findKind(f.Kind)
		p.faults = append(p.faults, plannedFault{f.Kind, kind, status, sum})
	}
	return p
}

// of returns the fault of a request by its number. It depends on the plan, its seed and the number alone.
func (p *faultPlan) of(number uint64) *plannedFault {
	if len(p.faults) == 0 {
		return &noFault
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], number)
	draw := float64(xxh3.HashSeed(b[:], p.seed)>>11) / (1 << 53)
	for i := range p.faults {
		if draw < p.faults[i].upTo {
			return &p.faults[i]
		}
	}
	return &noFault
}

const faultMessage = "this fault was asked for"

var faultError = apiError{Message: faultMessage, Type: "server_error"}

// hijack takes the connection over from the HTTP server.
func (x *exchange) hijack() net.Conn {
	conn, _, err := x.rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return conn
}

// reset closes the connection with a TCP RST.
func (x *exchange) reset() {
	conn := x.hijack()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // so that Close resets
	}
	_ = conn.Close()
}

// cutChunk closes the connection inside an HTTP chunk.
func (x *exchange) cutChunk() {
	conn := x.hijack()
	_, _ = conn.Write([]byte("1000\r\ndata: {\"id\":\""))
	_ = conn.Close()
}

// stall sends the headers, then nothing until the client goes away.
func (x *exchange) stall() {
	if x.w.Header().Get("Content-Type") == "" {
		x.w.Header().Set("Content-Type", x.contentType())
	}
	if x.flush() == nil {
		<-x.ctx.Done()
	}
}

// contentType returns that of an answer to the request.
func (x *exchange) contentType() string {
	if x.request.stream {
		return "text/event-stream"
	}
	return "application/json"
}

// answerGarbage answers with malformed events, or half of an object.
func (x *exchange) answerGarbage() {
	x.w.Header().Set("Content-Type", x.contentType())
	if !x.request.stream {
		_, _ = x.w.Write([]byte("{\"id\":\"chatcmpl-\xff\xfe\",\"choices\":[{"))
		return
	}
	_, _ = x.w.Write([]byte("data: {\"id\":\"chatcmpl-\n\n" + // half of an object
		"data\n\n" + // no value
		"no field at all\r\n\r\n" +
		"data: \xff\xfe\x00\n\n" + // not UTF-8
		"data: <html>\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":")) // not even an end
}

func (x *exchange) answerErrorObject() { x.fail(http.StatusOK, faultError) }

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

// flood sends tokens of a stream without an end.
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

// floodWhole sends an answer in one body whose text has no end.
func (x *exchange) floodWhole() {
	x.w.Header().Set("Content-Type", "application/json")
	_, err := x.w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"`))
	for words := bytes.Repeat([]byte(word(0)), 1<<14); err == nil && x.ctx.Err() == nil; {
		_, err = x.w.Write(words)
	}
}

// keepAlive sends comments, or blanks, until the client goes away.
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

// trickle sends the rest of a stream a few bytes at a time.
func (x *exchange) trickle() {
	x.rest()
	x.end()
	x.drip()
}

// trickleWhole sends an answer in one body a few bytes at a time.
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

// halveEvents sends the rest of a stream with every other event cut in two.
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

// exaggerate ends a stream with ten times the tokens in its usage.
func (x *exchange) exaggerate() {
	x.rest()
	x.promptTokens, x.produced = 10*x.promptTokens, 10*x.produced
	x.end()
	_ = x.send()
}

// countOddly ends a stream with usages that are NaN, negative and a fraction.
func (x *exchange) countOddly() {
	x.rest()
	x.usage("NaN", "Infinity")
	x.usage(-1, 1.5)
	x.request.includeUsage = false
	x.end()
	_ = x.send()
}

// countTwice ends a stream with a wrong usage before the right one.
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
