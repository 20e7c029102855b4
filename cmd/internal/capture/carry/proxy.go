package carry

import (
	"cmp"
	"context"
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

// dial opens a connection within its time.
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
