package guard

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

var here, everywhere = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, &net.TCPAddr{IP: net.IPv4zero, Port: 80}

func TestToken(t *testing.T) {
	random := bytes.NewReader([]byte("0123456789abcdef"))
	for _, c := range []struct {
		at           net.Addr
		given, token string
		drawn        bool
	}{
		{here, "", "", false}, {here, "t", "t", false}, {everywhere, "t", "t", false},
		{&net.TCPAddr{IP: net.IPv6loopback}, "", "", false},
		{everywhere, "", "30313233343536373839616263646566", true},
	} {
		token, drawn, err := Token(c.at, c.given, random)
		require.NoError(t, err)
		require.Equal(t, c.token, token, "%v", c)
		require.Equal(t, c.drawn, drawn, "%v", c)
	}
	_, _, err := Token(everywhere, "", random)
	require.Error(t, err, "no randomness, no token")
	for _, bad := range []string{"a b", "a;b", "a\nb", "a,b", `a"b`, "é"} {
		_, _, err := Token(here, bad, random)
		require.ErrorContains(t, err, "AGENTX_ADMIN_TOKEN: want printable")
		require.NotContains(t, err.Error(), bad)
	}
}

func TestGuard(t *testing.T) {
	const token = "s3cret"
	for _, c := range []struct {
		at     net.Addr
		token  string
		host   string
		header [2]string
		want   int
	}{
		{here, "", "localhost:80", [2]string{}, 0},
		{here, "", "127.0.0.2", [2]string{}, 0},
		{here, "", "[::1]:80", [2]string{}, 0},
		{here, "", "attacker.example", [2]string{}, 403},
		{here, "", "", [2]string{}, 403},
		{here, "", "localhost:80", [2]string{"Origin", "http://localhost:80"}, 0},
		{here, "", "localhost:80", [2]string{"Origin", "http://LOCALHOST:80"}, 0},
		{here, "", "localhost:80", [2]string{"Origin", "http://localhost:81"}, 403},
		{here, "", "localhost:80", [2]string{"Origin", "https://attacker.example"}, 403},
		{here, "", "localhost:80", [2]string{"Origin", "null"}, 403},
		{here, "", "localhost:80", [2]string{"Origin", ""}, 403},
		{here, token, "localhost:80", [2]string{}, 401},
		{here, token, "localhost:80", [2]string{"Authorization", "Bearer s3cret"}, 0},
		{everywhere, token, "h:80", [2]string{}, 401},
		{everywhere, token, "h:80", [2]string{"Authorization", "bearer  s3cret"}, 0},
		{everywhere, token, "h:80", [2]string{"Authorization", "Bearer s3cre"}, 401},
		{everywhere, token, "h:80", [2]string{"Authorization", "Bearer "}, 401},
		{everywhere, token, "h:80", [2]string{"Authorization", "Basic bWU6czNjcmV0"}, 0},
		{everywhere, token, "h:80", [2]string{"Authorization", "Basic czNjcmV0Om1l"}, 401},
		{everywhere, token, "h:80", [2]string{"Cookie", "a=b; agentx_token=s3cret"}, 0},
		{everywhere, token, "h:80", [2]string{"Cookie", "agentx_token=other"}, 401},
		{everywhere, token, "h:80", [2]string{"Origin", "http://h:81"}, 403},
		{everywhere, "", "h:80", [2]string{}, 401},
		{everywhere, "", "h:80", [2]string{"Authorization", "Bearer "}, 401},
	} {
		r := httptest.NewRequest(http.MethodGet, "/status?token=s3cret", nil)
		r.Host = c.host
		if c.header[0] != "" {
			r.Header.Set(c.header[0], c.header[1])
		}
		w := httptest.NewRecorder()
		status, why := New("--admin", c.at, c.token).Refuse(w, r)
		require.Equal(t, c.want, status, "%+v", c)
		require.Equal(t, c.want == 0, why == "", "%+v", c)
		require.Equal(t, c.want == 401, w.Header().Get("WWW-Authenticate") != "", "%+v", c)
		require.NotContains(t, why, token)
	}
}

func TestPlain(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"Content-Type", "text/plain", true}, {"Content-Type", "text/plain; a=application/json", true}, {"Content-Type", "application/x-www-form-urlencoded", true}, {"X", "y", true},
		{"Content-Type", "application/json", false}, {"Content-Type", "Application/JSON; charset=utf-8", false}, {Header, "1", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/sessions", nil)
		r.Header.Set(c.name, c.value)
		require.Equal(t, c.want, Plain(r), "%+v", c)
	}
}
