package wire

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ofSession sends a small streaming request of a session.
func ofSession(c *Client, session string, ends bool) Result {
	return c.Do(context.Background(), &Request{
		Path: "/v1/chat/completions", Stream: true, Body: textBody("{}"), Session: session, EndsSession: ends,
	})
}

// keepGoing answers any number of requests on a connection.
func keepGoing(p *peer) { serveGood(p, sized(eventHead, goodStream)) }

// Sessions share connections as the options say. The last requests of two sessions come first and second.
func TestReuse(t *testing.T) {
	for reuse, want := range map[Reuse][]bool{
		Pooled:         {false, true, true, true, true, true},
		StickySessions: {false, false, true, true, false, false}, // a, b; a, b again, which ends b; b, no session
		NoReuse:        {false, false, false, false, false, false},
	} {
		url := serve(t, keepGoing, keepGoing, keepGoing, keepGoing, keepGoing, keepGoing)
		c := newClient(t, url, Options{Reuse: reuse})
		var reused []bool
		for _, r := range []struct {
			session string
			ends    bool
		}{{"a", false}, {"b", false}, {"a", false}, {"b", true}, {"b", true}, {"", false}} {
			res := ofSession(c, r.session, r.ends)
			require.Nil(t, res.Err)
			reused = append(reused, res.Reused)
		}
		require.Equal(t, want, reused, "reuse %d", reuse)
		if reuse == StickySessions {
			require.Len(t, c.idle.idle, 1, "the connection of a session that has ended is closed")
		}
		c.Close()
	}
}

// The lease of a session ends with a failure, whatever became of the connection, and with a cancellation.
func TestLeaseEnds(t *testing.T) {
	refusal := sized("HTTP/1.1 500 Oops\r\n", "no")
	hold := make(chan struct{})
	url := serve(t, func(p *peer) {
		p.request()
		p.say(sized(eventHead, goodStream))
		p.request()
		p.say(refusal) // the connection could go on
	}, func(p *peer) {
		p.request()
		p.say(sized(eventHead, goodStream))
		p.request()
		p.say(eventHead, "Content-Length: 9999\r\n\r\n", event1("a"))
		<-hold
	}, keepGoing)
	defer close(hold)
	c := newClient(t, url, Options{Reuse: StickySessions})
	require.Nil(t, ofSession(c, "a", false).Err)
	res := ofSession(c, "a", false)
	require.True(t, res.Reused)
	require.Equal(t, HTTPStatus, res.Err.Category)
	require.Empty(t, c.idle.idle)

	require.Nil(t, ofSession(c, "a", false).Err)
	ctx, cancel := context.WithCancelCause(context.Background())
	res = c.Do(ctx, &Request{Path: "/", Stream: true, Body: textBody("{}"), Session: "a",
		OnFirstToken: func(time.Duration) { cancel(errors.New("over")) }})
	require.True(t, res.Reused)
	require.Equal(t, Cancelled, res.Err.Category)
	require.Empty(t, c.idle.idle)

	res = ofSession(c, "a", false)
	require.Nil(t, res.Err)
	require.False(t, res.Reused)
	c.Close()
}

// A session that sends nothing any more loses its connection when others are kept, after twice the time at the latest.
func TestOldLeaseIsClosed(t *testing.T) {
	p := pool{keep: time.Second}
	first := dialPair(t)
	p.put("a", first, 0)
	p.put("b", dialPair(t), time.Second/2)
	require.Len(t, p.idle, 2)
	p.put("b", dialPair(t), time.Second)
	require.NotContains(t, p.idle, "a")
	require.Error(t, first.SetDeadline(time.Time{}))
	p.close()
}

// What this machine has no more of is no fault of the server: the category is internal, and the message says what to do. Of a host
// with several addresses, a server that refuses says more than an address that this machine cannot reach.
//
// Covers T-91.
func TestLimitsOfThisMachine(t *testing.T) {
	dialled := func(call string, e syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, e)}
	}
	refused := dialled("connect", syscall.ECONNREFUSED)
	for _, c := range []struct {
		errs    []error // of the addresses in turn
		want    Category
		message string
	}{
		{[]error{dialled("socket", tooManyFiles[0])}, Internal, "dial tcp: socket: " + tooManyFiles[0].Error() + ": this process may open no more: raise its limit (ulimit -n), or play fewer lanes"},
		{[]error{dialled("connect", noAddress[0])}, Internal, "dial tcp: connect: " + noAddress[0].Error() + ": this machine has no free port"},
		{[]error{dialled("connect", noBuffers[0])}, Internal, "dial tcp: connect: " + noBuffers[0].Error() + ": this machine has no memory for another connection"},
		{[]error{refused}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{refused, dialled("connect", noAddress[0])}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{dialled("connect", noAddress[0]), refused}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{&net.DNSError{Err: "dial udp: socket: " + tooManyFiles[0].Error(), Name: "h"}}, Internal, "lookup h: dial udp: socket: " + tooManyFiles[0].Error() + ": this process may open no more"},
		{[]error{&net.DNSError{Err: "no such host", Name: "h"}}, Connection, "lookup h: no such host"},
	} {
		client, err := New("http://h", Options{})
		require.NoError(t, err)
		client.resolver.lookup = func(context.Context, string, string) (list []netip.Addr, err error) {
			for k := range c.errs {
				list = append(list, netip.AddrFrom4([4]byte{10, 0, 0, byte(k + 1)}))
			}
			return list, nil
		}
		asked := 0
		client.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
			asked++
			return nil, c.errs[asked-1]
		}
		res := post(client)
		require.Equal(t, c.want, res.Err.Category, "%v", c)
		require.Contains(t, res.Err.Message, c.message)
		require.Equal(t, c.want == Internal, res.Limited)
		require.Equal(t, len(c.errs), asked)
		asked = 0
		_, f := client.Get(t.Context(), "/v1/models")
		require.Equal(t, res.Err, f)
	}
}

// A machine that has no more buffers fails a write on a kept connection, too, and the request is not sent again for it.
func TestLimitOnAKeptConnection(t *testing.T) {
	client, err := New("http://h", Options{})
	require.NoError(t, err)
	x := &call{Client: client, ctx: t.Context(), res: &Result{}}
	f := x.failureOf(&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", noBuffers[0])})
	require.Equal(t, Internal, f.Category)
	require.True(t, x.res.Limited)
	require.False(t, peerClosed(noBuffers[0]))
}

// secureServer returns the URL of a server whose certificate signs itself, and that certificate.
func secureServer(t *testing.T, template x509.Certificate) (string, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, template.Subject, template.IsCA, template.BasicConstraintsValid = big.NewInt(1), pkix.Name{CommonName: "House CA"}, true, true
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, goodStream)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is part of the test
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, certificate
}

// A certificate that is refused says why, and what helps: three texts. What helps does.
//
// Covers T-141.
func TestCertificates(t *testing.T) {
	from := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	now := func(at time.Time) func() time.Time { return func() time.Time { return at } }
	url, certificate := secureServer(t, x509.Certificate{DNSNames: []string{"llm.example.org"}, NotBefore: from, NotAfter: from.AddDate(1, 0, 0)})
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	valid, expired := now(from.AddDate(0, 1, 0)), now(from.AddDate(2, 0, 0))
	for name, c := range map[string]struct {
		config *tls.Config
		want   string // "": it is taken
	}{
		"another name": {&tls.Config{RootCAs: roots, Time: valid},
			"tls: the certificate of the server is for llm.example.org, not for 127.0.0.1: want a URL with a name that it has, or --server-name NAME"},
		"its name": {&tls.Config{RootCAs: roots, Time: valid, ServerName: "llm.example.org"}, ""},
		"unknown authority": {&tls.Config{RootCAs: x509.NewCertPool(), Time: valid, ServerName: "llm.example.org"},
			"tls: the certificate of the server is signed by an authority that this machine does not know (CN=House CA): --ca-file FILE names its certificate"},
		"expired": {&tls.Config{RootCAs: roots, Time: expired, ServerName: "llm.example.org"},
			"tls: the certificate of the server is valid from 2020-01-02T03:04:05Z to 2021-01-02T03:04:05Z, by the clock of this machine not now: renew it, or set the clock; --insecure connects all the same"},
		"not looked at": {&tls.Config{InsecureSkipVerify: true}, ""},
	} {
		res := post(newClient(t, url, Options{TLS: c.config}))
		if c.want == "" {
			require.Nil(t, res.Err, name)
			continue
		}
		require.NotNil(t, res.Err, name)
		require.Equal(t, Failure{Category: Connection, Message: c.want}, *res.Err, name)
	}
}

// Requests with the same jar send back the cookies and the session token of answers, those of errors and redirects included; requests
// without a jar, or with another, do not.
//
// Covers T-142.
func TestJar(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.Join(r.Header.Values("Cookie"), " & ")+"|"+r.Header.Get("X-Session-Token"))
		n := len(got)
		switch n {
		case 1:
			w.Header().Add("Set-Cookie", "lb=s1; Path=/; HttpOnly")
			w.Header().Add("Set-Cookie", "other=x; Path=/elsewhere")
			w.Header().Add("Set-Cookie", "far=x; Domain=example.org")
		case 2:
			w.Header().Add("Set-Cookie", "two=2")
			w.Header().Set("x-session-token", "abc")
			w.WriteHeader(500)
			return
		case 3:
			w.Header().Add("Set-Cookie", "lb=; Path=/; Max-Age=0")
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, goodStream)
	}))
	defer s.Close()
	c := newClient(t, s.URL+"/v1?key=1", Options{})
	var jar, other Jar
	send := func(j *Jar) {
		c.Do(context.Background(), &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody("{}"), Jar: j})
	}
	send(&jar)
	send(&jar)
	send(&jar)
	send(&jar)
	send(&other)
	send(nil)
	require.Equal(t, []string{"|", "lb=s1|", "two=2; lb=s1|abc", "two=2|abc", "|", "|"}, got)
}

// What a server sets cannot become another field of a header.
func TestJarOfLies(t *testing.T) {
	var jar Jar
	x := call{Client: newClient(t, "http://h", Options{}), request: &Request{Path: "/v1/x"}}
	for _, value := range []string{"a=b\x01c", "", "=", "no", "a=\"b\r\nX: 1\"", strings.Repeat("a", 1<<16)} {
		jar.add(x.url(), []byte("Set-Cookie"), []byte(value))
		jar.add(x.url(), []byte("X-Other"), []byte(value))
	}
	jar.add(x.url(), []byte("X-Session-Token"), []byte("a\r\nX: 1"))
	require.Empty(t, jar.appendFields(nil, x.url()))
}

// One redirect to the same origin is followed, with the same body and the same ids.
func TestRedirect(t *testing.T) {
	type seen struct{ line, id, body string }
	var got []seen
	var to [2]string
	url := serve(t, func(p *peer) {
		for i := range 2 {
			head, body := p.request()
			line, rest, _ := strings.Cut(head, "\r\n")
			_, id, _ := strings.Cut(rest, "X-Request-ID: ")
			got = append(got, seen{line, id[:1], string(body)})
			if to[i] == "" {
				p.say(sized(eventHead, goodStream))
			} else {
				p.say(sized("HTTP/1.1 307 Temporary Redirect\r\nLocation: "+to[i]+"\r\n", "moved"))
			}
		}
	})
	to = [2]string{url + "/there/chat?k=v", ""}
	c := newClient(t, url, Options{})
	r := &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody("{}"), Header: []HeaderField{{"X-Request-ID", "7"}}}
	res := c.Do(context.Background(), r)
	require.Nil(t, res.Err)
	require.Equal(t, 200, res.Status)
	require.True(t, res.Redirected)
	require.Equal(t, []seen{{"POST /v1/chat/completions HTTP/1.1", "7", "{}"}, {"POST /there/chat?k=v HTTP/1.1", "7", "{}"}}, got)

	x := &call{Client: c, request: r, redirectedTo: "/a/b"}
	for location, want := range map[string]string{
		"c": "/a/c", "/d?e": "/d?e", url + "/f#g": "/f", "?h": "/a/b?h", strings.Replace(url, "http:", "HTTP:", 1): "/",
	} {
		u, err := x.locate(location)
		require.NoError(t, err)
		require.True(t, c.target.isOrigin(u), location)
		require.Equal(t, want, u.RequestURI())
	}
	for _, other := range []string{"https" + url[4:] + "/x", "//elsewhere/x", "http://127.0.0.1:1/x", "ftp://h"} {
		u, err := x.locate(other)
		require.NoError(t, err)
		require.False(t, c.target.isOrigin(u), other)
	}
}

// A second redirect is not followed: it is the answer.
func TestRedirectOnce(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) {
		for range 2 {
			p.request()
			p.say(sized("HTTP/1.1 308 Permanent Redirect\r\nLocation: /loop\r\n", ""))
		}
	}), Options{})
	res := post(c)
	require.Equal(t, &Failure{HTTPStatus, 308, "308 Permanent Redirect: redirected again, to /loop, which is not followed"}, res.Err)
	require.True(t, res.Redirected)
}

// namedServer returns a client of a server whose name has some addresses, which a function lists; connect says which take a connection. Whatever
// the address is, connections lead to the same listener.
func namedServer(t *testing.T, o Options, addrs func() []string, takes func(addr string) bool) *Client {
	t.Helper()
	listener := netip.MustParseAddrPort(echo(t)[len("http://"):])
	c := newClient(t, "http://inference:8000", o)
	c.resolver.lookup = func(context.Context, string, string) (list []netip.Addr, err error) {
		for _, a := range addrs() {
			list = append(list, netip.MustParseAddr(a))
		}
		return list, nil
	}
	c.connect = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
		if !takes(to.Addr().String()) {
			return nil, errors.New("it takes no connection")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", listener.String())
	}
	return c
}

// onRoute sends a request on a route and returns the address that got it.
func onRoute(t *testing.T, c *Client, r *Route, session string) Result {
	t.Helper()
	res := c.Do(context.Background(), &Request{Path: "/", Stream: true, Body: textBody("{}"), Route: r, Session: session})
	require.Nil(t, res.Err)
	return res
}

// Routes take the addresses of the first family in turn, and stay: with all connections, and when the name server answers in another
// order or with others. One whose address takes no connection goes on at the next, and stays there.
//
// Covers T-154.
func TestRoutes(t *testing.T) {
	for _, reuse := range []Reuse{Pooled, StickySessions, NoReuse} {
		answer := []string{"2001:db8::1", "10.0.0.3", "10.0.0.1", "10.0.0.2", "10.0.0.1"}
		dead := ""
		c := namedServer(t, Options{Reuse: reuse}, func() []string { return answer }, func(addr string) bool { return addr != dead })
		routes := make([]*Route, 7)
		for k := range routes {
			routes[k] = NewRoute(k)
		}
		want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}
		for round := range 3 {
			for k, r := range routes {
				res := onRoute(t, c, r, "session"+string(rune('a'+k)))
				require.Equal(t, want[k%3], res.Address)
				if round > 0 {
					require.Equal(t, reuse != NoReuse, res.Reused)
				}
			}
			slices.Reverse(answer)
			<-c.resolver.token
			c.resolver.expiry = c.resolver.expiry.AddDate(-1, 0, 0)
			c.resolver.token <- struct{}{}
		}
		c.Close()
		dead = "10.0.0.2"
		require.Equal(t, "10.0.0.3", onRoute(t, c, routes[4], "e").Address)
		dead = ""
		require.Equal(t, "10.0.0.3", onRoute(t, c, routes[4], "e").Address, "it stays")
		answer = []string{"10.0.0.9"}
		require.Equal(t, "10.0.0.1", onRoute(t, c, routes[0], "a").Address, "it is not named any more, but takes connections")
	}
}

// Without a choice, and without a route, requests have no address, and share connections.
func TestNoRoutes(t *testing.T) {
	only := []string{"10.0.0.1", "2001:db8::1"}
	c := namedServer(t, Options{}, func() []string { return only }, func(addr string) bool { return addr != "10.0.0.1" })
	first, second := NewRoute(0), NewRoute(1)
	require.False(t, onRoute(t, c, first, "").Reused)
	res := onRoute(t, c, second, "")
	require.True(t, res.Reused)
	require.Empty(t, res.Address)
	require.True(t, onRoute(t, c, nil, "").Reused)
}

// TestPageURL finds a page below the root of a server, in whichever form its URL is written.
func TestPageURL(t *testing.T) {
	for server, want := range map[string]string{
		"http://h:8000":                         "http://h:8000/metrics",
		"http://h/v1/":                          "http://h/metrics",
		"https://h/a/v1/chat/completions?key=x": "https://h/a/metrics?key=x",
	} {
		got, err := PageURL(server, "/metrics")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := PageURL("ftp://h", "/metrics")
	require.Error(t, err)
}

// TestSameServer compares scheme, host and port.
func TestSameServer(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://H:80/x": true, "http://user:pw@h/": true, "https://h/": false, "http://h:81/": false, "http://h.evil/": false, "%": false,
	} {
		assert.Equal(t, want, SameServer("http://h/v1", raw), raw)
	}
}

// A server that sends nothing for too long has stalled: in the middle of an answer, which another limit holds for than before its first
// byte. Requests that receive something, and those without a limit, go on.
//
// Covers T-161.
func TestStalledServer(t *testing.T) {
	const limit, first = 5 * time.Minute, 30 * time.Minute
	for name, c := range map[string]struct {
		says    []string
		silent  time.Duration // at which the request fails
		message string
		status  int
		chunks  int
	}{
		"before a byte":        {nil, first, "the server sent no byte of an answer within 30m0s", 0, 0},
		"in the head":          {[]string{"HTTP/1.1 200 OK\r\n"}, limit, "the server sent nothing for 5m0s in the middle of its answer", 0, 0},
		"in the answer":        {[]string{eventHead, "\r\n", event1("a"), event1("b")}, limit, "the server sent nothing for 5m0s in the middle of its answer", 200, 2},
		"behind a whole chunk": {[]string{eventHead, "Transfer-Encoding: chunked\r\n\r\n", "1\r\n:\r\n"}, limit, "the server sent nothing for 5m0s in the middle of its answer", 200, 0},
	} {
		t.Run(name, func(t *testing.T) {
			said, over := make(chan struct{}), make(chan struct{})
			client := newClient(t, serve(t, func(p *peer) {
				p.request()
				p.say(c.says...)
				close(said)
				<-over
			}), Options{StallTimeout: limit, FirstByteTimeout: first})
			result := make(chan Result)
			go func() { result <- post(client) }()
			<-said
			cn := received(client, len(c.says) > 0)
			since, begun := cn.silentSince()
			for range 2 {
				client.EndStalled(since + c.silent - 1)
				require.False(t, cn.stalled.Load(), "not before")
			}
			client.EndStalled(since + c.silent)
			require.False(t, cn.stalled.Load(), "bytes may have come that are not read yet")
			heard := client.EndStalled(since + c.silent)
			res := <-result
			close(over)
			require.Equal(t, &Failure{Category: Stalled, Message: c.message, Code: c.status}, res.Err)
			require.Equal(t, c.chunks, res.Chunks)
			require.Empty(t, client.flights.conns)
			require.Empty(t, client.idle.idle[""])
			if begun {
				require.Equal(t, since, heard)
				require.Equal(t, since, client.EndStalled(0), "it is known of what is over")
			} else {
				require.Zero(t, heard)
			}
		})
	}
}

// received returns the connection of the request in flight when its answer has begun, or, if it does not, at once.
func received(c *Client, begins bool) *conn {
	for {
		c.flights.mu.Lock()
		for _, cn := range c.flights.conns {
			if _, begun := cn.silentSince(); begun == begins {
				c.flights.mu.Unlock()
				return cn
			}
		}
		c.flights.mu.Unlock()
		runtime.Gosched()
	}
}

// Without a limit nothing stalls, and a request that goes on is not touched. Of several requests that ends which has stalled.
func TestOnlyWhatHasStalledEnds(t *testing.T) {
	over := make(chan struct{})
	hangs := func(p *peer) {
		p.request()
		p.say(eventHead, "\r\n", event1("a"))
		<-over
		p.say(finishEvent, doneEvent)
	}
	client := newClient(t, serve(t, hangs, answer(sized(eventHead, goodStream))), Options{FirstByteTimeout: time.Second})
	begun, result := make(chan struct{}), make(chan Result)
	go func() {
		result <- client.Do(context.Background(), &Request{
			Path: "/", Stream: true, Body: textBody("{}"), OnFirstToken: func(time.Duration) { close(begun) },
		})
	}()
	<-begun
	require.Nil(t, post(client).Err)
	for range 3 {
		client.EndStalled(1000 * time.Hour)
	}
	close(over)
	require.Nil(t, (<-result).Err)
}

// Retry-After is a number of seconds or a date, which counts from the date of the answer; other statuses have none.
//
// Covers T-162.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0}, {"2", "", 2 * time.Second}, {"1.5", "", 1500 * time.Millisecond}, {"120", "", 2 * time.Minute},
		{"0", "", time.Second}, {"0.2", "", time.Second}, {"-1", "", 0}, {"soon", "", 0}, {"NaN", "", 0}, {"1e300", "", 1 << 62},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Sun, 01 Mar 2026 12:00:30 GMT", "Sun, 01 Mar 2026 12:00:20 GMT", 10 * time.Second},
		{"Sunday, 01-Mar-26 12:00:30 GMT", "no date", 30 * time.Second},
		{"Sun, 01 Mar 2026 11:00:00 GMT", "", time.Second},
	} {
		require.InDelta(t, c.want, retryAfter(c.value, c.date, now), 1, "%q %q", c.value, c.date)
	}
	for status, want := range map[string]time.Duration{"429 Too Many Requests": 7 * time.Second, "503 Busy": 7 * time.Second, "500 Broken": 0, "529 Overloaded": 0} {
		client := newClient(t, serve(t, answer(sized("HTTP/1.1 "+status+"\r\nretry-after: 7\r\nDate: Sun, 01 Mar 2026 12:00:00 GMT\r\n", "{}"))), Options{})
		res := post(client)
		require.NotNil(t, res.Err)
		require.Equal(t, want, res.RetryAfter, status)
	}
	client := newClient(t, serve(t, answer(sized(eventHead+"Retry-After: 7\r\n", goodStream))), Options{})
	require.Zero(t, post(client).RetryAfter)
}

// Bytes that come between two looks, as after this process stood still, show that a server has not stalled.
func TestBytesBetweenTwoLooks(t *testing.T) {
	c := &Client{stallTimeout: time.Minute}
	cn := dialPair(t)
	c.flights.enter(cn, 0)
	for at := time.Minute; at < time.Hour; at += time.Minute {
		c.EndStalled(at + time.Second)
		cn.in.heard.Store(int64(at))
		c.EndStalled(at + time.Second)
		require.False(t, cn.stalled.Load())
	}
	c.EndStalled(time.Hour)
	c.EndStalled(time.Hour)
	require.True(t, cn.stalled.Load())
	require.True(t, c.flights.leave(cn))
	c.flights.enter(cn, time.Hour)
	require.False(t, cn.stalled.Load())
	c.EndStalled(2 * time.Hour)
	require.False(t, cn.stalled.Load(), "another request")
}
