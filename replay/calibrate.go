package replay

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// How a machine is calibrated.
const (
	calibrationPhase     = "calibration" // which the parts of a load begin together
	calibrationTime      = 2 * time.Second
	aloneShare           = 4    // the part of it in which one request is sent at a time: one in so many
	maxCalibrationLanes  = 1024 // whose bodies are sent
	maxCalibrationAtOnce = 64   // requests in flight: enough for every core, and few enough that each ends soon
)

// calibration measures what this machine reaches alone. It sends the first bodies of the lanes of a run to a sink in this process,
// as the run sent them, with ids of its own. It comes after the run, so that the first request does not wait for it.
type calibration struct {
	sender  *requestSender
	lanes   []calibrationLane
	ids     atomic.Int64
	perLane int // calibrationTurns of the run
}

// calibrationLane is a lane of a calibration: the turns that its first tree has yet to send.
type calibrationLane struct {
	tree  *activeTree
	turns []conductor.Dispatch
	next  int
}

// firstTree is what a lane of a run begins with, kept for the calibration.
type firstTree struct {
	lane, trace int
	marker      payload.Marker        // "": that of an arrival is made for the calibration
	start       *conductor.StartState // nil: from its first turn
}

// firstTrees lists the first trees of the lanes, or those that arrive first.
func (r *run) firstTrees() (list []firstTree) {
	for lane, first := range r.sampler.first {
		if t := r.sampler.lanes[lane]; t != nil && len(list) < maxCalibrationLanes {
			list = append(list, firstTree{lane: lane, trace: t.index, marker: t.marker, start: first.Start})
		}
	}
	if r.Arrivals.arrive() {
		for lane, trace := range r.sampler.dealer.upcoming(min(r.maxOpen(), maxCalibrationAtOnce)) {
			list = append(list, firstTree{lane: lane, trace: trace})
		}
	}
	return list
}

// calibrateFor calibrates the machine for a time. What fails is said in the results.
func (r *run) calibrateFor(ctx context.Context, limit time.Duration) *measure.Calibration {
	result := &measure.Calibration{
		RequestRate: measure.Missing, SendRate: measure.Missing, CPUShare: measure.Missing,
		TTFT: measure.Quantiles{P50: measure.Missing, P99: measure.Missing}, TTFTLoaded: measure.Quantiles{P50: measure.Missing, P99: measure.Missing},
	}
	s, err := newSink(r.encoder.Path())
	if err != nil {
		result.Error = err.Error()
		return result
	}
	defer s.close()
	epoch := time.Now()
	ctx, cancel := context.WithDeadline(ctx, epoch.Add(limit))
	defer cancel()
	c, err := r.newCalibration(ctx, s.url(), epoch)
	if err != nil {
		result.Error = err.Error()
		return result
	}
	defer c.sender.servers.close()
	result.Lanes = len(c.lanes)
	if err := c.alone(epoch.Add(limit/aloneShare), result); err != nil {
		result.Error = err.Error()
		return result
	}
	if c.together(result); result.Requests == 0 {
		result.Error = fmt.Sprintf("no request ended within %v", limit)
	}
	return result
}

// newCalibration returns a calibration that sends to a URL until ctx ends.
func (r *run) newCalibration(ctx context.Context, url string, epoch time.Time) (*calibration, error) {
	c := &calibration{perLane: r.calibrationTurns}
	s := r.newSender(phase{name: calibrationPhase}, 0, 0)
	o := r.wireOptions(epoch)
	o.Header, o.APIKey = nil, "" // they may hold secrets
	var err error
	if s.servers, err = connect(slices.Repeat([]string{url}, len(r.URLs)), o); err != nil {
		return nil, err
	}
	s.cancel() // of a context that nothing uses
	s.ctx, s.epoch, s.newID = ctx, epoch, c.newID
	c.sender = s
	for _, first := range r.first {
		loaded := r.sampler.loader(first.trace)()
		if loaded.err != nil {
			continue // the run has warned of it
		}
		t := &activeTree{loadedTrace: loaded.loadedTrace, ordinal: first.lane, marker: first.marker, correlationIDs: make([]string, len(loaded.plan.Sessions)), cookies: new(wire.Jar)}
		if t.marker == "" && !r.sampler.unmarked {
			t.marker = payload.NewMarker(r.sampler.ledger.benchmark, 0, first.lane, payload.BaseTrace(t.plan.Trace.ID))
		}
		if turns := turnsToSend(first.lane, t, first.start); len(turns) > 0 {
			c.lanes = append(c.lanes, calibrationLane{tree: t, turns: turns})
		}
	}
	if len(c.lanes) == 0 {
		return nil, errors.New("no lane has a turn to send")
	}
	return c, nil
}

// turnsToSend lists the turns of a tree that its start state leaves, in the order of the recording.
func turnsToSend(lane int, t *activeTree, start *conductor.StartState) (list []conductor.Dispatch) {
	for k, session := range t.plan.Sessions {
		from := 0
		if start != nil {
			from = start.TurnsDone[k]
		}
		for turn := from; turn < int(session.Turns); turn++ {
			list = append(list, conductor.Dispatch{Lane: lane, Session: k, Turn: turn})
		}
	}
	at := func(d conductor.Dispatch) float64 {
		return t.plan.Turns[int(t.plan.Sessions[d.Session].FirstTurn)+d.Turn].T
	}
	slices.SortStableFunc(list, func(a, b conductor.Dispatch) int { return cmp.Compare(at(a), at(b)) })
	return list
}

// newID returns an id as long as a UUID. writeTo of the sink reads its first digits, which send sets.
func (c *calibration) newID() string { return newCalibrationID(0, c.ids.Add(1)) }

// newCalibrationID returns the id of a calibrating request, by which the sink knows how many tokens to answer. It looks like a UUID.
func newCalibrationID(tokens, n int64) string {
	return fmt.Sprintf("%08d-0000-4000-8000-%012d", tokens, n)
}

// send sends the next turn of a lane and returns its record; the turns begin again after the last.
func (c *calibration) send(l *calibrationLane) *measure.Record {
	d := l.turns[l.next%len(l.turns)]
	l.next++
	r := &request{dispatch: d, tree: l.tree}
	r.record = c.sender.newRecord(r)
	r.record.RequestID = newCalibrationID(r.record.MaxTokens, c.ids.Add(1))
	fillRecord(&r.record, &c.sender.do(r).Result)
	return &r.record
}

// alone sends one request at a time until an instant, on one lane after the other. The error is that of a request.
func (c *calibration) alone(until time.Time, result *measure.Calibration) error {
	var ttft []float64
	for n := 0; time.Now().Before(until) && c.sender.ctx.Err() == nil && (c.perLane == 0 || n < c.perLane*len(c.lanes)); n++ {
		r := c.send(&c.lanes[n%len(c.lanes)])
		if l, _ := r.TTFT(); r.Error == nil {
			ttft = append(ttft, l.Seconds())
		} else if c.sender.ctx.Err() == nil {
			return fmt.Errorf("%s: %s", r.Error.Category, r.Error.Message)
		}
	}
	result.TTFT = measure.QuantilesOf(ttft)
	return nil
}

// together sends without gaps until the context of the calibration ends, on all lanes where they are few, else on some at a time, in
// turn.
func (c *calibration) together(result *measure.Calibration) {
	var sending sync.WaitGroup
	var mu sync.Mutex
	var ttft []float64
	var sent int64
	start, before := time.Now(), measure.ReadProcessUsage()
	senders := min(len(c.lanes), maxCalibrationAtOnce)
	for first := range senders {
		sending.Go(func() {
			for k, n := first, 0; c.sender.ctx.Err() == nil; k += senders {
				if k >= len(c.lanes) {
					k = first
					n++
				}
				if c.perLane > 0 && n == c.perLane {
					return
				}
				r := c.send(&c.lanes[k])
				if r.Error != nil {
					return
				}
				l, _ := r.TTFT()
				mu.Lock()
				ttft = append(ttft, l.Seconds())
				sent += r.BytesSent
				mu.Unlock()
			}
		})
	}
	sending.Wait()
	seconds := time.Since(start).Seconds()
	result.Seconds, result.Requests, result.TTFTLoaded = seconds, len(ttft), measure.QuantilesOf(ttft)
	if len(ttft) > 0 {
		result.RequestRate, result.SendRate = measure.Number(float64(len(ttft))/seconds), measure.Number(float64(sent)/seconds)
		result.CPUShare = measure.Number(measure.ReadProcessUsage().Since(before).CPU.Seconds() / seconds)
	}
}

// sink is a server of calibrations, on the loopback interface. It reads the body of a request, and answers at once with a stream
// of as many tokens as the request's id begins with. It parses nothing else, so that little of the machine goes into it.
type sink struct {
	listener net.Listener
	buffers  chan []byte  // for bodies: few, because lanes are many
	bodies   atomic.Int64 // bytes read
	stream   stream

	mu      sync.Mutex
	conns   map[net.Conn]bool // nil: the sink is closed
	serving sync.WaitGroup
}

const (
	sinkBuffers   = 64
	sinkBuffer    = 64 << 10 // bytes
	maxSinkTokens = 2048     // of an answer
)

// newSink starts a sink that answers as servers answer requests to a path.
func newSink(path string) (*sink, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &sink{listener: l, buffers: make(chan []byte, sinkBuffers), stream: streamOf(path), conns: map[net.Conn]bool{}}
	for range sinkBuffers {
		s.buffers <- make([]byte, sinkBuffer)
	}
	s.serving.Go(s.accept)
	return s, nil
}

// url returns the URL of the sink.
func (s *sink) url() string { return "http://" + s.listener.Addr().String() }

// close ends all connections, and returns when nothing is served any more.
func (s *sink) close() {
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
	s.mu.Unlock()
	s.serving.Wait()
}

// accept serves connections until the sink is closed.
func (s *sink) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		open := s.conns != nil
		if open {
			s.conns[c] = true
			s.serving.Go(func() { s.serve(c) })
		}
		s.mu.Unlock()
		if !open {
			_ = c.Close()
			return
		}
	}
}

// serve answers the requests of a connection until it breaks.
func (s *sink) serve(c net.Conn) {
	defer func() {
		_ = c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	in := bufio.NewReaderSize(c, 4<<10)
	for {
		r, err := http.ReadRequest(in)
		if err != nil || s.drop(r.Body) != nil {
			return
		}
		if s.stream.writeTo(c, r.Header.Get("X-Request-Id")) != nil {
			return
		}
	}
}

// drop reads a body.
func (s *sink) drop(body io.Reader) error {
	b := <-s.buffers
	defer func() { s.buffers <- b }()
	for {
		n, err := body.Read(b)
		s.bodies.Add(int64(n))
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stream is an answer of server-sent events, ready to be written.
type stream struct {
	head   string // the events before the first token
	tokens []byte // maxSinkTokens events of one token
	token  int    // bytes of one of them
	tail   string // the events after the last token
}

// streamOf returns the stream of a path, in the words of its common servers.
func streamOf(path string) stream {
	s := stream{
		tail: "data: {\"id\":\"calibration\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"id\":\"calibration\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"total_tokens\":2,\"completion_tokens\":1}}\n\n" +
			"data: [DONE]\n\n",
	}
	token := "data: {\"id\":\"calibration\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	if strings.HasSuffix(path, "/messages") {
		s.head = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"calibration\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
		token = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" token\"}}\n\n"
		s.tail = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":1}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	s.tokens, s.token = []byte(strings.Repeat(token, maxSinkTokens)), len(token)
	return s
}

// writeTo writes the answer to a request with an id of newCalibrationID.
func (s *stream) writeTo(w io.Writer, id string) error {
	digits, _, _ := strings.Cut(id, "-")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return err
	}
	tokens := s.tokens[:s.token*min(max(n, 1), maxSinkTokens)]
	head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: " + strconv.Itoa(len(s.head)+len(tokens)+len(s.tail)) + "\r\n\r\n" + s.head
	answer := net.Buffers{[]byte(head), tokens, []byte(s.tail)}
	_, err = answer.WriteTo(w)
	return err
}
