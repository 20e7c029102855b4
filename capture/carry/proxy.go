package carry

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Proxy carries requests to its upstreams. Its exchanges share a pool of connections and the budget of copies, nothing else.
type Proxy struct {
	o         Options
	transport *http.Transport
	copies    *Budget
	short     sync.Pool // of *[]byte, for streams of events: each keeps one as long as it lasts
	long      sync.Pool // of *[]byte, for replies that fill a short one
	running   context.Context
	abort     context.CancelFunc
}

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.fill()
	p := &Proxy{o: o, copies: NewBudget(o.Limits.Copies)}
	p.running, p.abort = context.WithCancel(context.Background())
	p.short.New = func() any { return new(make([]byte, 4<<10)) }
	p.long.New = func() any { return new(make([]byte, 32<<10)) }
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	p.transport = &http.Transport{
		DialContext: p.o.dial, TLSClientConfig: o.TLS, TLSHandshakeTimeout: o.Timeouts.TLS,
		ResponseHeaderTimeout: o.Timeouts.Header, ExpectContinueTimeout: o.Timeouts.Continue,
		IdleConnTimeout: o.Timeouts.Idle, MaxIdleConnsPerHost: 1 << 16,
		DisableCompression: true, Protocols: protocols,
	}
	return p, nil
}

// fill puts the defaults in.
func (o *Options) fill() {
	t, l := &o.Timeouts, &o.Limits
	t.Connect = cmp.Or(t.Connect, 10*time.Second)
	t.TLS = cmp.Or(t.TLS, 10*time.Second)
	t.Header = cmp.Or(t.Header, 600*time.Second)
	t.Continue = cmp.Or(t.Continue, time.Second)
	t.Idle = cmp.Or(t.Idle, 4*time.Second)
	l.RequestCopy = cmp.Or(l.RequestCopy, 64<<20)
	l.ReplyCopy = cmp.Or(l.ReplyCopy, 16<<20)
	l.Copies = cmp.Or(l.Copies, 1<<30)
	l.Held = cmp.Or(l.Held, 64<<20)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Now == nil {
		begin := time.Now()
		o.Now = func() int64 { return int64(time.Since(begin)) }
	}
	if o.Added == nil {
		o.Added = func(Stage, int64) {}
	}
}

// dial opens a connection within its time.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeouts.Connect)
	defer cancel()
	conn, err := o.Dial(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return conn, nil
}

// CopyBytes returns the bytes of all copies that no observer has released.
func (p *Proxy) CopyBytes() int64 { return p.copies.Used() }

// Abort ends every exchange now, and those that are yet to come. Connections of clients break.
func (p *Proxy) Abort() {
	p.abort()
	p.transport.CloseIdleConnections()
}

// ServeHTTP carries one exchange.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := p.arrive(w, r)
	defer x.end()
	if !x.admit() {
		return
	}
	reply, err := x.send()
	if err != nil {
		x.unanswered(err)
		return
	}
	defer reply.Body.Close()
	if reply.StatusCode == http.StatusSwitchingProtocols {
		x.upgrade(reply)
		return
	}
	x.head(reply)
	x.stream(reply)
	x.trailers(reply)
	x.outcome = Whole
}
