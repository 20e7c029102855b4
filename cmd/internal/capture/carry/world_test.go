package carry

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// notes is an observer that keeps all it is told.
type notes struct {
	mu     sync.Mutex
	course Course // Exchange is filled in
	list   []*note
	refuse *Refusal
	gate   func(call string) // called in every call; may panic
	ended  chan *note
}

// note is what was said of one exchange.
type note struct {
	of      *notes
	arrival Arrival
	calls   []string
	request []byte
	reply   []byte
	upload  []error
	status  int
	ends    []End
	chunks  int
	replyAt []int64
}

func newNotes() *notes { return &notes{course: Course{Copy: true}, ended: make(chan *note, 64)} }

func (o *notes) Arrive(a *Arrival) Course {
	o.call(nil, "arrive")
	o.mu.Lock()
	defer o.mu.Unlock()
	n := &note{of: o, arrival: *a}
	o.list = append(o.list, n)
	c := o.course
	c.Exchange = n
	return c
}

func (o *notes) call(n *note, name string) {
	if n != nil {
		o.mu.Lock()
		if len(n.calls) == 0 || n.calls[len(n.calls)-1] != name {
			n.calls = append(n.calls, name)
		}
		o.mu.Unlock()
	}
	if o.gate != nil {
		o.gate(name)
	}
}

func (n *note) RequestChunk(c *Chunk) bool {
	n.of.mu.Lock()
	n.request = append(n.request, c.Bytes()...)
	n.chunks++
	n.of.mu.Unlock()
	n.of.call(n, "request")
	c.Release()
	return true
}

func (n *note) RequestEnd(err error) {
	n.of.mu.Lock()
	n.upload = append(n.upload, err)
	n.of.mu.Unlock()
	n.of.call(n, "request end")
}

func (n *note) Dispatch(int64) *Refusal {
	n.of.call(n, "dispatch")
	return n.of.refuse
}

func (n *note) Head(_ int64, status int, _ http.Header) {
	n.of.mu.Lock()
	n.status = status
	n.of.mu.Unlock()
	n.of.call(n, "head")
}

func (n *note) ReplyChunk(c *Chunk) bool {
	n.of.mu.Lock()
	n.reply = append(n.reply, c.Bytes()...)
	n.replyAt = append(n.replyAt, c.At)
	n.of.mu.Unlock()
	n.of.call(n, "reply")
	c.Release()
	return true
}

func (n *note) End(e End) {
	n.of.mu.Lock()
	n.ends = append(n.ends, e)
	n.of.mu.Unlock()
	defer func() { n.of.ended <- n }()
	n.of.call(n, "end")
}

// one waits for the end of an exchange, which comes exactly once and last.
func (o *notes) one(t *testing.T) *note {
	t.Helper()
	n := <-o.ended
	o.mu.Lock()
	defer o.mu.Unlock()
	require.Len(t, n.ends, 1)
	require.Equal(t, "end", n.calls[len(n.calls)-1])
	require.LessOrEqual(t, len(n.upload), 1)
	return n
}

// world is a proxy between tests and an upstream that speaks raw bytes or is a handler.
type world struct {
	proxy *Proxy
	notes *notes
	host  string // of the upstream
	front *httptest.Server
}

// newWorld starts a proxy before an upstream.
func newWorld(t *testing.T, upstream string, change func(*Options)) *world {
	t.Helper()
	up, err := ParseUpstream(upstream)
	require.NoError(t, err)
	o := newNotes()
	options := Options{Upstreams: []Upstream{up}, Observer: o}
	if change != nil {
		change(&options)
	}
	p, err := New(options)
	require.NoError(t, err)
	front := httptest.NewUnstartedServer(nil)
	front.Config = p.Server()
	front.Start()
	t.Cleanup(func() {
		p.Abort()
		front.CloseClientConnections()
		front.Close()
		require.Zero(t, p.CopyBytes(), "copies that the observer did not release")
	})
	return &world{p, o, up.Host, front}
}

// raw is an upstream of raw bytes: it keeps each request as it came and answers what a script says.
func raw(t *testing.T, script func(c net.Conn, in *bufio.Reader)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				script(c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return "http://" + l.Addr().String()
}

// readHead reads the head of a request as bytes.
func readHead(in *bufio.Reader) (head []byte) {
	for !bytes.HasSuffix(head, []byte("\r\n\r\n")) {
		line, err := in.ReadBytes('\n')
		head = append(head, line...)
		if err != nil {
			return head
		}
	}
	return head
}

// talk sends bytes to the front and returns all that comes back until the connection ends.
func (w *world) talk(t *testing.T, request string) string {
	t.Helper()
	c := w.dial(t)
	_, err := io.WriteString(c, request)
	require.NoError(t, err)
	data, _ := io.ReadAll(c)
	return string(data)
}

// clients makes the proxy tell of each request that it begins to carry.
func (w *world) clients() <-chan *http.Request {
	clients := make(chan *http.Request, 1)
	w.front.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		clients <- r
		w.proxy.ServeHTTP(rw, r)
	})
	return clients
}

func (w *world) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", w.front.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}
