// Package guard stands before the listeners that people and programs of this machine use: of a page that is open in a browser here it
// lets through only what came from the listener itself, and beyond this machine only who has a token.
package guard

import (
	"crypto/subtle"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// Variable is the environment variable with the token. There is no flag for it: other users of a machine see arguments.
const Variable = "AGENTX_ADMIN_TOKEN"

// Cookie is the name of the cookie that may have the token.
const Cookie = "agentx_token"

// Header is the field by which a program says that it is no page: a browser asks us before it lets a foreign page set it.
const Header = "X-Agentx-Admin"

// Beyond reports whether more than this machine reaches an address.
func Beyond(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// Token returns the token of a listener: the one that is given, else one that is drawn for an address beyond this machine, else none.
func Token(address net.Addr, given string, random io.Reader) (token string, drawn bool, err error) {
	if strings.ContainsFunc(given, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`",;\`, r) }) {
		return "", false, fmt.Errorf(`%s: want printable ASCII characters without blanks, quotes, commas, semicolons and backslashes`, Variable)
	}
	if given != "" || !Beyond(address) {
		return given, false, nil
	}
	var bits [16]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return "", false, err
	}
	return fmt.Sprintf("%x", bits), true, nil
}

// Guard decides who is answered.
type Guard struct {
	flag   string // that names the address
	token  string
	beyond bool // more than this machine reaches the listener
}

// New returns the guard of a listener with a token of Token. flag names the address. Beyond this machine a guard without a token
// refuses everything.
func New(flag string, address net.Addr, token string) *Guard {
	return &Guard{flag, token, Beyond(address)}
}

// Refuse returns the status and the text with which a request is refused, 0 if it is let through. It sets what belongs in the header.
func (g *Guard) Refuse(w http.ResponseWriter, r *http.Request) (status int, why string) {
	switch {
	case !g.beyond && !isLoopback(r.Host):
		return http.StatusForbidden, "this server is for its machine alone: ask for localhost, or choose another address with " + g.flag
	case !isOwn(r):
		return http.StatusForbidden, "a page of another origin asks: open the address of this server itself"
	case (g.beyond || g.token != "") && !g.knows(r):
		w.Header().Set("WWW-Authenticate", `Basic realm="agentx: the token is the password"`)
		return http.StatusUnauthorized, "no token, or another: send Authorization: Bearer TOKEN, with the token that agentx printed or that " + Variable + " has"
	}
	return 0, ""
}

// Plain reports whether a page of another origin could send a request that changes something without a browser asking us before.
func Plain(r *http.Request) bool {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")) // "" if it cannot be read
	return kind != "application/json" && r.Header.Get(Header) == ""
}

// isOwn reports whether a request comes from no page, or from one of this server.
func isOwn(r *http.Request) bool {
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}

// knows reports whether a request has the token: as Bearer, as the password of Basic, or in the cookie.
func (g *Guard) knows(r *http.Request) bool {
	var texts []string
	if scheme, credentials, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		texts = append(texts, strings.TrimSpace(credentials))
	}
	if _, password, ok := r.BasicAuth(); ok {
		texts = append(texts, password)
	}
	if c, err := r.Cookie(Cookie); err == nil {
		texts = append(texts, c.Value)
	}
	for _, text := range texts {
		if g.token != "" && subtle.ConstantTimeCompare([]byte(text), []byte(g.token)) == 1 {
			return true
		}
	}
	return false
}

// isLoopback reports whether the host of a request is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
