package wire

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
