// Package carry is the proxy of captures: it passes requests and replies on, unchanged and at once.
//
// A [Proxy] is an http.Handler in front of one or more upstreams. An [Observer] gets copies of what passes. Carrying never
// waits for an observer, changes no byte for one, and survives one that panics. The package imports nothing of this
// project, so that it cannot parse, tokenize or write files; a test at the root of the module says so.
//
//	proxy, err := carry.New(carry.Options{Upstreams: []carry.Upstream{upstream}, Observer: sessions})
//	...
//	proxy.Server().Serve(listener)
//
// # One exchange
//
// [Proxy.ServeHTTP] reads from top to bottom as one exchange runs: arrive, dispatch, head of the reply, its body, trailers,
// end. The calls of an [Exchange] come in that order, with one exception: a body may still be on its way up while its reply
// is on its way down. [Exchange.End] comes exactly once and last, whatever happened, a panic included.
//
// # What net/http does to messages
//
// Both sides speak HTTP/1.1 by net/http. It orders headers, spells their names canonically, forgets reason phrases and
// chunk boundaries, and drops a Content-Type beside status 304. Everything else arrives as it was sent.
package carry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"time"
)

// Proxy carries requests to its upstreams. Its exchanges share a pool of connections and the budget of copies, nothing else.
type Proxy struct {
	o         Options
	transport *http.Transport
	copies    *budget
	short     sync.Pool // of *[]byte, for streams of events: each keeps one as long as it lasts
	long      sync.Pool // of *[]byte, for replies that fill a short one
	running   context.Context
	abort     context.CancelFunc
}

// New returns a proxy.
func New(o Options) (*Proxy, error) {
	if err := ValidateUpstreams(o.Upstreams); err != nil {
		return nil, err
	}
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 600*time.Second)
	o.RequestCopy = cmp.Or(o.RequestCopy, 64<<20)
	o.ReplyCopy = cmp.Or(o.ReplyCopy, 16<<20)
	o.Copies = cmp.Or(o.Copies, 1<<30)
	o.held = cmp.Or(o.held, 64<<20)
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
	p := &Proxy{o: o, copies: &budget{limit: o.Copies}}
	p.running, p.abort = context.WithCancel(context.Background())
	p.short.New = func() any { return new(make([]byte, 4<<10)) }
	p.long.New = func() any { return new(make([]byte, 32<<10)) }
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	p.transport = &http.Transport{
		DialContext: p.o.dial, TLSHandshakeTimeout: tlsTime,
		ResponseHeaderTimeout: o.HeaderTimeout, ExpectContinueTimeout: continueTime,
		IdleConnTimeout: idleTime, MaxIdleConnsPerHost: 1 << 16,
		DisableCompression: true, Protocols: protocols,
	}
	return p, nil
}

// dial opens a connection within connectTime.
func (o *Options) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, err := o.Dial(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoConnection, err)
	}
	return conn, nil
}

// CopyBytes returns the bytes of all copies that no observer has released.
func (p *Proxy) CopyBytes() int64 { return p.copies.used.Load() }

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

// Server returns an HTTP server for the proxy, which carries what other servers would answer themselves. It writes no log:
// messages of net/http name addresses of clients and values of panics.
func (p *Proxy) Server() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler: p, Protocols: protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            time.Minute,
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
}

// Health answers every GET with 200. It takes no lock and reads no state: it says that the process runs.
func Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
	})
}

// hopByHop are headers of one connection alone; the names that Connection lists are too.
var hopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// passOn copies the headers that reach the other side into dst. Values are shared, not copied.
func passOn(dst, src http.Header) {
	for name, values := range src {
		if !slices.Contains(hopByHop, name) {
			dst[name] = values
		}
	}
	for _, list := range src["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			delete(dst, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
}

// hasToken reports whether lists of tokens contain one, in any case.
func hasToken(lists []string, token string) bool {
	for _, list := range lists {
		for t := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(textproto.TrimString(t), token) {
				return true
			}
		}
	}
	return false
}

// protocol returns the protocol to which a message switches, "" for none.
func protocol(h http.Header) string {
	if !hasToken(h["Connection"], "upgrade") {
		return ""
	}
	return h.Get("Upgrade")
}

// CutPrefix cuts the prefix that names a session off a raw path: /s/NAME/ or /s/NAME/a/AGENT/, where names have 1 to 128
// characters of A-Za-z0-9._-. The rest begins with a slash. A path without such a prefix is returned as it is.
func CutPrefix(path string) (session, agent, rest string) {
	session, rest, ok := cutName(path, "/s/")
	if !ok {
		return "", "", path
	}
	if agent, after, ok := cutName(rest, "/a/"); ok {
		return session, agent, after
	}
	return session, "", rest
}

// cutName cuts a name after a prefix; the rest begins with the slash behind the name.
func cutName(path, prefix string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", "", false
	}
	end := strings.IndexByte(after, '/')
	if end < 1 || end > 128 || strings.ContainsFunc(after[:end], notOfName) {
		return "", "", false
	}
	return after[:end], after[end:], true
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// Options are what a proxy needs to know. Zero values of what is bounded stand for the defaults. Nothing bounds a whole exchange.
type Options struct {
	Upstreams []Upstream
	Observer  Observer // nil: none observes
	Detach    bool     // a reply is read to its end when its client left; without it, the request upstream ends

	HeaderTimeout time.Duration // 600 s: from the whole request to the head of the reply
	Stall         time.Duration // silence in mid-reply; 0: none is too long

	RequestCopy int64 // bytes, 64 MiB: of one request's body
	ReplyCopy   int64 // 16 MiB: of one reply's body that is no event stream
	Copies      int64 // 1 GiB: of all copies that are alive
	held        int64 // 64 MiB: of a body that is read before dispatch

	// Dial opens connections to upstreams; nil for TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Now returns nanoseconds of a monotonic clock; nil for the time since New.
	Now func() int64
	// Added is told how long a step took that a client without the proxy would not wait for. It must not block; nil: no one is told.
	Added func(stage Stage, nanoseconds int64)
}

// Timeouts that are the same for all proxies.
const (
	connectTime  = 10 * time.Second
	tlsTime      = 10 * time.Second
	continueTime = time.Second     // what a request with Expect waits for 100 Continue before its body goes up
	idleTime     = 4 * time.Second // of kept connections; servers with uvicorn close theirs after 5 s
)

// Stage is a step whose duration is passed to Options.Added.
type Stage int

// The stages.
const (
	Dispatch  Stage = iota // from the head of the request, or a held body's end, to its head on the upstream's connection
	FirstByte              // from the first byte of the reply to its head on the client's connection
	Flush                  // from the read of bytes of a reply to their write
)

// ValidateUpstreams names everything that is wrong with a list of upstreams.
func ValidateUpstreams(upstreams []Upstream) error {
	var list []error
	if len(upstreams) == 0 {
		list = append(list, errors.New("no upstream: give at least one"))
	}
	seen := map[Kind]bool{}
	for _, u := range upstreams {
		if err := u.check(); err != nil {
			list = append(list, fmt.Errorf("upstream %s://%s: %w", u.Scheme, u.Host, err))
		}
		if seen[u.Kind] {
			list = append(list, fmt.Errorf("two upstreams of kind %q: give one of each kind, and one without", string(u.Kind)))
		}
		seen[u.Kind] = true
	}
	return errors.Join(list...)
}
