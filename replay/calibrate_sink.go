package replay

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

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
