package meet

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// greetingTimeout bounds how long a connection may take to say who it is.
const greetingTimeout = 10 * time.Second

// nonceBytes is the length of a nonce.
const nonceBytes = 32

// prove returns the proof of one side that it knows the token, for the nonces of both; nil without a token.
func prove(token, side string, ofHost, ofGuest []byte) []byte {
	if token == "" {
		return nil
	}
	h := hmac.New(sha256.New, []byte(token))
	h.Write(slices.Concat([]byte(fmt.Sprintf("agentx meeting %d %s\n", protocol, side)), ofHost, ofGuest))
	return h.Sum(nil)
}

// newNonce returns random bytes, with which the other side must prove that it has the token.
func newNonce() []byte {
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	return nonce
}

var errToken = errors.New("the parts have different values of AGENTX_MEET_TOKEN, or only one has it")

// receive asks a connection for its hello. The caller has set a deadline. The error says why it is no part of this meeting.
func (m *Meeting) receive(conn net.Conn) (*message, error) {
	mine := newNonce()
	if err := writeMessage(conn, &message{Kind: challenge, Protocol: protocol, Version: m.o.Version, Nonce: mine}); err != nil {
		return nil, err
	}
	a, err := readMessage(conn, maxGreeting)
	switch {
	case err != nil:
		return nil, err
	case a.Kind != answer || len(a.Nonce) != nonceBytes:
		return nil, strangerError(fmt.Sprintf("it sent a message %q: want %s", a.Kind, answer))
	case a.Protocol != protocol:
		return nil, strangerError(fmt.Sprintf("it is agentx %s, whose meetings have version %d: this is %s, with version %d", a.Version, a.Protocol, m.o.Version, protocol))
	case !hmac.Equal(a.Proof, prove(m.o.Token, "guest", mine, a.Nonce)):
		return nil, errToken
	}
	if err := writeMessage(conn, &message{Kind: proof, Proof: prove(m.o.Token, "host", mine, a.Nonce)}); err != nil {
		return nil, err
	}
	h, err := readMessage(conn, maxMessage)
	if err == nil && (h.Kind != hello || h.Member == nil) {
		err = strangerError(fmt.Sprintf("it sent a message %q: want %s", h.Kind, hello))
	}
	return h, err
}

// introduce says a hello to part 0, and returns its answer. The caller has set a deadline. A *Stop says that this part must end.
func (m *Meeting) introduce(conn net.Conn) (*message, error) {
	c, err := readMessage(conn, maxGreeting)
	switch {
	case err != nil:
		return nil, err
	case c.Kind != challenge || len(c.Nonce) != nonceBytes:
		return nil, strangerError(fmt.Sprintf("it sent a message %q: want %s", c.Kind, challenge))
	case c.Protocol != protocol:
		return nil, m.unequal("%s is agentx %s, and part 0 at %s is agentx %s, whose meetings have another version: start all parts with one version", m.o.name(), m.o.Version, m.o.Address, c.Version)
	}
	mine := newNonce()
	a := &message{Kind: answer, Protocol: protocol, Version: m.o.Version, Nonce: mine, Proof: prove(m.o.Token, "guest", c.Nonce, mine)}
	if err := writeMessage(conn, a); err != nil {
		return nil, err
	}
	p, err := readMessage(conn, maxMessage)
	switch {
	case err != nil:
		return nil, err
	case p.Stop != nil:
		return nil, p.Stop
	case p.Kind != proof || !hmac.Equal(p.Proof, prove(m.o.Token, "host", c.Nonce, mine)):
		return nil, m.unequal("part 0 at %s cannot prove that it knows the token of %s: %w: give all parts the same", m.o.Address, m.o.name(), errToken)
	}
	if err := writeMessage(conn, &message{Kind: hello, Member: &m.o.Member, ID: m.id}); err != nil {
		return nil, err
	}
	w, err := readMessage(conn, maxMessage)
	if err == nil && w.Stop != nil {
		return nil, w.Stop
	}
	return w, err
}

// unequal returns the end of a part that is not of the load.
func (m *Meeting) unequal(format string, args ...any) *Stop {
	return &Stop{Part: m.o.Part, Of: m.o.Of, Host: m.o.Host, How: Unequal, Reason: fmt.Errorf(format, args...).Error()}
}
