package carry

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

const post = "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
const plain = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// packed returns a text in each coding.
func packed(coding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func coded(coding string) string {
	body := packed(coding, strings.Repeat(`{"a": 1}`, 100))
	return "HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(body[:9]) + chunk(body[9:]) + "0\r\n\r\n"
}

func chunk(s string) string {
	const hex = "0123456789abcdef"
	n := ""
	for l := len(s); l > 0; l /= 16 {
		n = string(hex[l%16]) + n
	}
	return n + "\r\n" + s + "\r\n"
}

// passes are exchanges whose bytes must be the same with and without the proxy.
var passes = []struct{ name, request, reply string }{
	{"odd white space and a key twice", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 36\r\n\r\n{ \"a\" :1,\t\"a\":\n2 , \"b\" : [ 1 , ] }\r\n", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{ \"a\":1,\r\n\"a\":2}"},
	{"slash and percent", "GET /v1/models/a%2Fb%20c/../d?x=1;y=%2f&z=a+b HTTP/1.1\r\nHost: h\r\n\r\n", plain},
	{"query that is empty", "GET /v1/models? HTTP/1.1\r\nHost: h\r\n\r\n", plain},
	{"two slashes", "GET //v1//models?//a HTTP/1.1\r\nHost: h\r\n\r\n", plain},
	{"characters that need no escape", "GET /v1/!$&'()*+,;=:@-._~?q=\"<>^`{|} HTTP/1.1\r\nHost: h\r\n\r\n", plain},
	{"OPTIONS of a path", "OPTIONS /v1/messages HTTP/1.1\r\nHost: h\r\nOrigin: http://a\r\nAccess-Control-Request-Method: POST\r\n\r\n", "HTTP/1.1 204 No Content\r\nAllow: POST, GET\r\n\r\n"},
	{"OPTIONS of the server", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nAllow: GET\r\nContent-Length: 0\r\n\r\n"},
	{"HEAD", "HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nContent-Type: text/plain\r\n\r\n"},
	{"DELETE with a body", "DELETE /v1/files HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", plain},
	{"GET with a body in chunks", "GET /v1/files HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", plain},
	{"unknown method", "BREW /v1/messages HTTP/1.1\r\nHost: h\r\n\r\n", plain},
	{"POST without a body", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", plain},
	{"PATCH without a body", "PATCH /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", plain},
	{"body in chunks", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", plain},
	{"trailers of a request", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", plain},
	{"trailers of a request, not announced", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n", plain},
	{"repeated headers", "GET / HTTP/1.1\r\nHost: h\r\nX-A: 2\r\nCookie: a=1\r\nx-a: 1\r\nCookie: b=2\r\nX-A:\r\n\r\n", plain},
	{"headers that proxies add", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: 1.0 a\r\n\r\n", plain},
	{"names in Connection", "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Gone , x-too\r\nX-Gone: 1\r\nX-Too: 2\r\nX-Stays: 3\r\nKeep-Alive: timeout=5\r\n\r\n", "HTTP/1.1 200 OK\r\nConnection: X-Gone\r\nX-Gone: 1\r\nX-Stays: 2\r\nContent-Length: 2\r\n\r\nok"},
	{"user agent and codings", "GET / HTTP/1.1\r\nHost: h\r\nUser-Agent: claude-cli/2.1\r\nAccept-Encoding: gzip, deflate, br, zstd\r\nAuthorization: Bearer sk-1\r\n\r\n", plain},
	{"coded request", "POST /v1/messages HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(packed("gzip", "{}")) + "0\r\n\r\n", plain},
	{"gzip", post, coded("gzip")},
	{"br", post, coded("br")},
	{"zstd", post, coded("zstd")},
	{"201", post, "HTTP/1.1 201 Created\r\nLocation: /v1/x\r\nContent-Length: 2\r\n\r\nok"},
	{"204", post, "HTTP/1.1 204 No Content\r\nX-Request-Id: 1\r\n\r\n"},
	{"302 is not followed", post, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"},
	{"304", "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\n\r\n"},
	{"400", post, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"},
	{"401", post, "HTTP/1.1 401 Unauthorized\r\nWww-Authenticate: Bearer\r\nContent-Length: 2\r\n\r\n{}"},
	{"429", post, "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nAnthropic-Ratelimit-Tokens-Remaining: 0\r\nContent-Length: 2\r\n\r\n{}"},
	{"500", post, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"},
	{"529", post, "HTTP/1.1 529 Overloaded\r\nX-Should-Retry: true\r\nContent-Length: 2\r\n\r\n{}"},
	{"no Date, Server or Content-Type", post, "HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<html>no</html>"},
	{"Date and Server", post, "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: uvicorn\r\nContent-Length: 2\r\n\r\nok"},
	{"Set-Cookie apart", post, "HTTP/1.1 200 OK\r\nSet-Cookie: a=1, x\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n\r\nok"},
	{"empty body in chunks", post, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"trailers of a reply", post, "HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-More\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-More: 2\r\nX-Sum: 1\r\n\r\n"},
	{"trailers of a reply, not announced", post, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"},
	{"1xx", post, "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\n" + plain},
	{"100 for which the client did not ask", post, "HTTP/1.1 100 Continue\r\n\r\n" + plain},
	{"header of 64 KiB", post, "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("a", 64<<10) + "\r\nContent-Length: 2\r\n\r\nok"},
	{"2 MiB", post, "HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n" + strings.Repeat("0123456789abcdef", 1<<17)},
}

// Every message arrives as it was sent, in both directions, and the observer gets the bytes of the bodies.
//
// Covers C-12.
func TestBytesArriveAsTheyWereSent(t *testing.T) {
	for _, c := range passes {
		t.Run(c.name, func(t *testing.T) {
			bodyless := strings.HasPrefix(c.request, "HEAD")
			sent, err := readMessage(bufio.NewReader(strings.NewReader(c.request)), false)
			require.NoError(t, err)
			arrived := make(chan message, 2)
			w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
				m, _ := readMessage(in, false)
				arrived <- m
				_, _ = io.WriteString(conn, c.reply)
				_, _ = in.ReadByte() // until the proxy closes
			}), nil)
			conn := w.dial(t)
			_, err = io.WriteString(conn, c.request)
			require.NoError(t, err)

			up := <-arrived
			require.Equal(t, sent.crossed(), up.crossed(), "up")
			require.Contains(t, up.headers, "Host: "+w.host)
			want, got := bufio.NewReader(strings.NewReader(c.reply)), bufio.NewReader(conn)
			for {
				answered, err := readMessage(want, bodyless)
				require.NoError(t, err)
				down, err := readMessage(got, bodyless)
				require.NoError(t, err)
				require.Equal(t, answered.crossed(), down.crossed(), "down")
				if !strings.HasPrefix(answered.first, "HTTP/1.1 1") {
					require.Equal(t, sent.body, string(w.notes.list[0].request))
					require.Equal(t, answered.body, string(w.notes.one(t).reply))
					break
				}
			}
			require.Empty(t, arrived, "the request went up once")
		})
	}
}

// A target with scheme and host, as clients send it to a forward proxy, goes up as its path.
func TestAbsoluteTargetGoesUpAsPath(t *testing.T) {
	for target, want := range map[string]string{"http://h/v1/models?a": "/v1/models?a", "http://h": "/", "http://h?a=://b": "/?a=://b", "/a?http://b": "/a?http://b"} {
		path, query, has := splitURI(target)
		require.Equal(t, want, (&Upstream{Scheme: "http", Host: "u"}).target(path, query, has).RequestURI(), target)
	}
}

// The targets of OPTIONS for the whole server and of CONNECT are no paths.
func TestBaseDoesNotPrecedeWhatIsNoPath(t *testing.T) {
	for _, target := range []string{"*", "h:443"} {
		require.Equal(t, target, (&Upstream{Scheme: "http", Host: "u", Base: "/base"}).target(target, "", false).Opaque)
	}
}

// An upstream with a path of its own gets it before every path.
func TestBaseOfUpstreamPrecedesPath(t *testing.T) {
	arrived := make(chan message, 1)
	w := newWorld(t, raw(t, func(conn net.Conn, in *bufio.Reader) {
		m, _ := readMessage(in, false)
		arrived <- m
		_, _ = io.WriteString(conn, plain)
	})+"/base%2Fx/", nil)
	w.talk(t, "GET /s/a/a/b/v1/models?x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	require.Equal(t, "GET /base%2Fx/v1/models?x HTTP/1.1", (<-arrived).first)
	n := w.notes.one(t)
	require.Equal(t, [3]string{"a", "b", "/v1/models"}, [3]string{n.arrival.Session, n.arrival.Agent, n.arrival.Path})
}
