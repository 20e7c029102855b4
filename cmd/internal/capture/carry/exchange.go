package carry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// exchange is one request on its way.
type exchange struct {
	p        *Proxy
	w        http.ResponseWriter
	flusher  *http.ResponseController
	r        *http.Request
	upstream *Upstream
	path     string // raw, without prefix
	query    string
	hasQuery bool

	ctx    context.Context // of the request upstream
	cancel context.CancelFunc
	untie  func() bool // from Proxy.Abort
	body   upload
	hold   bool

	watch      watch
	ready      int64        // to be dispatched: when it arrived, or its held body was there
	firstByte  atomic.Int64 // of the reply, -1 before it; the transport writes it
	dispatched atomic.Bool  // the head of the request was written
	last       int64        // when bytes of the upstream came last
	outcome    Outcome
	gone       bool // the client left and the reply is read on
	shut       bool // the client takes no more bytes

	heading sync.Mutex // 1xx replies come by a goroutine of the transport
	headed  bool
}

// arrive begins an exchange: it cuts the prefix off, tells the observer, and ties the request upstream to its client.
func (p *Proxy) arrive(w http.ResponseWriter, r *http.Request) *exchange {
	now := p.o.Now()
	x := &exchange{p: p, w: w, flusher: http.NewResponseController(w), r: r, ready: now, last: now}
	x.firstByte.Store(-1)
	path, query, hasQuery := splitURI(r.RequestURI)
	session, agent, path := CutPrefix(path)
	x.path, x.query, x.hasQuery = path, query, hasQuery
	x.upstream = choose(p.o.Upstreams, path, r.Header)
	_ = x.flusher.EnableFullDuplex() // without it, no reply leaves before the whole request came; HTTP/1 alone knows it
	ctx := r.Context()
	if p.o.Detach {
		ctx = context.WithoutCancel(ctx)
	}
	x.ctx, x.cancel = context.WithCancel(ctx)
	x.untie = context.AfterFunc(p.running, x.cancel)
	x.watch.budget, x.watch.limits, x.watch.upload.declared = p.copies, &p.o, r.ContentLength
	x.observe(&Arrival{At: now, Session: session, Agent: agent, Method: r.Method, Path: path, Header: r.Header, RemoteAddr: r.RemoteAddr, room: p.copies.ample()})
	x.body.of(x)
	return x
}

// observe tells the observer of the arrival. One that panics is told no more.
func (x *exchange) observe(a *Arrival) {
	if x.p.o.Observer == nil {
		x.watch.deaf.Store(true)
		return
	}
	defer x.watch.caught()
	x.watch.deaf.Store(true)
	course := x.p.o.Observer.Arrive(a)
	x.hold = course.Hold
	x.watch.begin(course, a.room)
}

// admit asks the observer whether the request may go on, with its body read before where that is wanted.
func (x *exchange) admit() bool {
	if x.hold {
		if !x.readBody() {
			return false
		}
	}
	if refusal := x.watch.dispatch(x.p.o.Now()); refusal != nil {
		x.outcome = Refused
		x.answer(refusal.Status, refusal.Message, refusal.RetryAfter, "")
		return false
	}
	return true
}

// readBody reads the whole body into memory.
func (x *exchange) readBody() bool {
	var held bytes.Buffer
	limit := x.p.o.held
	long := x.r.ContentLength > limit
	if !long {
		n, err := io.Copy(&held, io.LimitReader(&x.body, limit+1))
		if err != nil {
			x.outcome = Left
			panic(http.ErrAbortHandler)
		}
		long = n > limit
	}
	if long {
		x.outcome = Refused
		x.answer(http.StatusRequestEntityTooLarge, fmt.Sprintf("agentx capture --linear reads requests of up to %d bytes, and this one is longer: send less of the session, or capture without --linear", limit), 0, "")
		return false
	}
	x.body.source = io.NopCloser(&held)
	x.body.quiet = true
	x.ready = x.p.o.Now()
	return true
}

// send sends the request and waits for the head of the final reply.
func (x *exchange) send() (*http.Response, error) {
	reply, err := x.p.transport.RoundTrip(x.request())
	x.heading.Lock()
	x.headed = true
	x.heading.Unlock()
	if err != nil {
		return nil, err
	}
	x.last = x.p.o.Now()
	if reply.StatusCode < 100 {
		reply.Body.Close()
		return nil, errors.New("the status of the answer is below 100, which HTTP does not have")
	}
	return reply, nil
}

// request returns the client's request as it is sent upstream.
func (x *exchange) request() *http.Request {
	in := x.r
	out := &http.Request{
		Method: in.Method, URL: x.upstream.target(x.path, x.query, x.hasQuery), Host: x.upstream.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(in.Header)), ContentLength: in.ContentLength, TransferEncoding: in.TransferEncoding,
	}
	if in.Header.Get("Expect") != "" {
		out.Close = true // on a connection to be kept, net/http asks for the body that the upstream refused
	}
	passOn(out.Header, in.Header)
	delete(out.Header, "X-Agentx-Capture")
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // net/http would send its own
	}
	if hasToken(in.Header["Te"], "trailers") {
		out.Header["Te"] = []string{"trailers"}
	}
	if to := protocol(in.Header); to != "" {
		out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{to}
	}
	switch {
	case in.ContentLength != 0:
		out.Body = &x.body
		if in.ContentLength < 0 {
			out.Trailer = http.Header{}
			for name := range in.Trailer {
				out.Trailer[name] = nil
			}
			x.body.trailer = out.Trailer
		}
	case in.Method != http.MethodPost && in.Method != http.MethodPut && in.Method != http.MethodPatch:
		// net/http sends a request again whose body is nil. It does not do so with this body, which it finds empty.
		out.Body, out.TransferEncoding = &x.body, []string{"identity"}
	default:
		x.watch.uploaded(nil, 0, io.EOF)
	}
	return out.WithContext(httptrace.WithClientTrace(x.ctx, x.trace()))
}

// trace returns hooks that time the dispatch and the first byte of the reply, and pass 1xx replies on.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders: func() {
			x.dispatched.Store(true)
			x.p.o.Added(Dispatch, x.p.o.Now()-x.ready)
		},
		GotFirstResponseByte: func() { x.firstByte.Store(x.p.o.Now()) },
		Got1xxResponse: func(status int, header textproto.MIMEHeader) error {
			x.heading.Lock()
			defer x.heading.Unlock()
			if x.headed || status == http.StatusContinue && x.r.Header.Get("Expect") != "" {
				return nil // the server sends 100 itself when the body is first read, which this one causes
			}
			passOn(x.w.Header(), http.Header(header))
			x.w.WriteHeader(status)
			clear(x.w.Header())
			return nil
		},
	}
}

// end ends the exchange, also when a panic passes through.
func (x *exchange) end() {
	x.untie()
	x.cancel()
	x.body.Close()
	at := x.last
	if x.outcome == Left {
		at = x.p.o.Now()
	}
	x.watch.end(End{At: at, Outcome: x.outcome, ClientGone: x.gone})
}

// upload is the body of a request: what the transport reads of it is observed.
type upload struct {
	x       *exchange
	source  io.ReadCloser
	trailer http.Header // of the request upstream, filled at the end of a body in chunks
	quiet   bool        // the body was observed when it was read before dispatch
	closed  atomic.Bool
	broken  atomic.Bool // the client broke off
}

var errClosed = errors.New("the exchange has ended")

// of makes the body of a client's request the one that is read.
func (u *upload) of(x *exchange) { u.x, u.source = x, x.r.Body }

// Read reads of the client's connection. The transport may call it after the exchange ended.
func (u *upload) Read(p []byte) (int, error) {
	if u.closed.Load() {
		return 0, errClosed
	}
	n, err := u.source.Read(p)
	if !u.quiet {
		u.x.watch.uploaded(p[:n], u.x.p.o.Now(), err)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		for name, values := range u.x.r.Trailer {
			if u.trailer != nil {
				u.trailer[name] = values
			}
		}
	default:
		u.broken.Store(true)
	}
	return n, err
}

// Close ends reading. It leaves the client's body open: net/http closes that, and would here wait for one that comes slowly.
func (u *upload) Close() error {
	u.closed.Store(true)
	return nil
}

// upgrade passes the bytes of another protocol both ways until both sides ended, or one broke.
func (x *exchange) upgrade(reply *http.Response) {
	server, ok := reply.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(protocol(reply.Header), protocol(x.r.Header)) {
		x.unanswered(errors.New("the upstream switched to a protocol that the client did not ask for"))
		return
	}
	x.watch.head(x.last, reply.StatusCode, reply.Header)
	client, ahead, err := x.flusher.Hijack()
	if err != nil {
		x.leave()
	}
	defer client.Close()
	head := &http.Response{StatusCode: reply.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	passOn(head.Header, reply.Header)
	head.Header["Connection"], head.Header["Upgrade"] = []string{"Upgrade"}, reply.Header["Upgrade"]
	if err := head.Write(ahead); err != nil || ahead.Flush() != nil {
		x.leave()
	}
	x.outcome = Upgraded
	x.tunnel(client, ahead, server)
	x.last = x.p.o.Now()
}

// tunnel copies both ways. What one side ends is ended on the other side; what breaks ends both. The client's context does
// not serve here: net/http ends it with the client's half of the connection.
func (x *exchange) tunnel(client net.Conn, ahead io.Reader, server io.ReadWriteCloser) {
	ended := make(chan error, 2)
	pass := func(dst io.Writer, src io.Reader) {
		_, err := io.Copy(dst, src)
		if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		} else {
			err = errors.Join(err, net.ErrClosed)
		}
		ended <- err
	}
	go pass(server, ahead)
	go pass(client, server)
	aborted := x.p.running.Done()
	for open := 2; open > 0; {
		select {
		case err := <-ended:
			if open--; err == nil {
				continue
			}
		case <-aborted:
			aborted = nil
		}
		client.Close()
		server.Close()
	}
}

// head passes the head of the final reply on.
func (x *exchange) head(reply *http.Response) {
	x.watch.head(x.last, reply.StatusCode, reply.Header)
	h := x.w.Header()
	passOn(h, reply.Header)
	for _, name := range []string{"Date", "Content-Type"} {
		if _, ok := h[name]; !ok {
			h[name] = nil // net/http would add one
		}
	}
	if len(reply.Trailer) > 0 {
		names := make([]string, 0, len(reply.Trailer))
		for name := range reply.Trailer {
			names = append(names, name)
		}
		slices.Sort(names)
		h["Trailer"] = []string{strings.Join(names, ", ")}
	}
	x.w.WriteHeader(reply.StatusCode)
	if reply.ContentLength != 0 {
		x.flush()
	}
	if first := x.firstByte.Load(); first >= 0 {
		x.p.o.Added(FirstByte, x.p.o.Now()-first)
	}
}

// stream passes the body of the reply on, each read at once. The client's connection breaks where the upstream's broke.
func (x *exchange) stream(reply *http.Response) {
	pool := &x.p.short
	buffer := pool.Get().(*[]byte)
	defer func() { pool.Put(buffer) }()
	stall := x.p.o.Stall
	var silence *time.Timer // ends the exchange when the upstream says nothing; nil: it may be silent for ever
	if stall > 0 {
		silence = time.AfterFunc(stall, x.cancel)
	}
	for {
		if silence != nil {
			silence.Reset(stall)
		}
		n, err := reply.Body.Read(*buffer)
		if silence != nil {
			silence.Stop()
		}
		if n > 0 {
			x.last = x.p.o.Now()
			x.pass((*buffer)[:n])
			x.watch.replied((*buffer)[:n], x.last)
		}
		if n == len(*buffer) && pool == &x.p.short {
			pool.Put(buffer)
			pool = &x.p.long
			buffer = pool.Get().(*[]byte)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			x.breakOff()
		}
	}
}

// pass writes bytes to the client. With Options.Detach one that has ended its half of the connection may still read: it gets what
// it takes.
func (x *exchange) pass(p []byte) {
	left := x.r.Context().Err() != nil
	x.gone = x.gone || left && x.p.o.Detach
	if x.shut {
		return
	}
	if !left || x.p.o.Detach {
		if _, err := x.w.Write(p); err == nil && x.flush() {
			x.p.o.Added(Flush, x.p.o.Now()-x.last)
			return
		}
	}
	if !x.p.o.Detach {
		x.watch.replied(p, x.last)
		x.leave()
	}
	x.gone, x.shut = true, true
}

func (x *exchange) flush() bool { return x.flusher.Flush() == nil }

// breakOff ends an exchange whose reply cannot be read on.
func (x *exchange) breakOff() {
	switch {
	case x.p.running.Err() != nil:
		x.outcome = Aborted
	case x.r.Context().Err() != nil && !x.p.o.Detach:
		x.outcome = Left
	default:
		x.outcome = Broken
	}
	panic(http.ErrAbortHandler)
}

// leave ends an exchange whose client left.
func (x *exchange) leave() {
	x.outcome = Left
	panic(http.ErrAbortHandler)
}

// trailers passes the trailers of the reply on, which net/http has read by now.
func (x *exchange) trailers(reply *http.Response) {
	h := x.w.Header()
	announced := h["Trailer"]
	for name, values := range reply.Trailer {
		if !hasToken(announced, name) {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
}

// isStream reports whether a reply is a stream of events.
func isStream(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "text/event-stream"
}

// unanswered ends an exchange that got no head of a reply.
func (x *exchange) unanswered(err error) {
	var wait net.Error
	x.gone = x.p.o.Detach && x.r.Context().Err() != nil
	switch {
	case x.p.running.Err() != nil:
		panic(http.ErrAbortHandler)
	case x.body.broken.Load(), x.r.Context().Err() != nil && !x.p.o.Detach:
		x.leave()
	case errors.As(err, &wait) && wait.Timeout() && x.dispatched.Load():
		x.outcome = TimedOut
		x.answer(http.StatusGatewayTimeout, "agentx capture: the upstream sent no response header in time", 0, "transport")
	default:
		x.outcome = Unreachable
		x.answer(http.StatusBadGateway, "agentx capture: the upstream gives no reply: "+why(err), 0, "transport")
	}
}

var errNoConnection = errors.New("no connection to the upstream")

// why says why there is no reply. The words are ours: errors of the network name addresses.
func why(err error) string {
	var name *net.DNSError
	var trust *tls.CertificateVerificationError
	var speech tls.RecordHeaderError
	var wait net.Error
	switch {
	case errors.As(err, &name):
		return "its name has no address"
	case errors.Is(err, errNoConnection) && errors.As(err, &wait) && wait.Timeout():
		return "it takes no connection in time"
	case errors.Is(err, errNoConnection):
		return "it takes no connection"
	case errors.As(err, &trust):
		return "its certificate is not trusted"
	case errors.As(err, &speech):
		return "it does not speak TLS"
	case errors.As(err, &wait) && wait.Timeout():
		return "its TLS handshake took too long"
	}
	return "it broke off before its response header"
}

// maxDrained is how many bytes are read of what a client still uploads after an answer of ours.
const maxDrained = 1 << 30

// answer answers in place of the upstream, in the shape of its API.
func (x *exchange) answer(status int, message string, retryAfter int, stage string) {
	body := errorBody(x.shape(), status, message)
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if stage != "" {
		h.Set("X-Agentx-Capture-Error", stage)
	}
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, body)
	x.flush()
	if x.r.Header.Get("Expect") == "" { // net/http closes a connection with much of a body unread, and a client that is writing then misses the answer
		_, _ = io.CopyN(io.Discard, x.r.Body, maxDrained)
	}
}

// shape returns the API in whose shape an error is answered.
func (x *exchange) shape() Kind {
	if kind := kindOf(x.path); kind != Any {
		return kind
	}
	if x.upstream.Kind == Anthropic || x.r.Header.Get("Anthropic-Version") != "" {
		return Anthropic
	}
	return OpenAI
}

// errorBody writes an error object of an API; the message is ASCII.
func errorBody(shape Kind, status int, message string) string {
	word := cmp.Or(map[int]string{
		http.StatusGatewayTimeout: "timeout_error", http.StatusNotFound: "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large", http.StatusConflict: "conflict_error",
	}[status], "api_error")
	text := strconv.QuoteToASCII(message)
	if shape == Anthropic {
		return `{"type":"error","error":{"type":"` + word + `","message":` + text + `}}`
	}
	return `{"error":{"message":` + text + `,"type":"` + word + `","param":null,"code":null}}`
}
