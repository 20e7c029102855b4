package hub

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Class says what kind of failure an error is, and with it what may still be done.
type Class int

// The classes. Only ClassNotHub and ClassUnavailable leave a verified local copy of the same commit to be used.
const (
	ClassNotHub      Class = iota + 1 // what answers is no hub: a proxy's page, a captive portal
	ClassNotFound                     // no such repository, revision or file; or a private one
	ClassGated                        // the terms of the repository must be accepted first
	ClassDisabled                     // the hub has closed the repository
	ClassCredentials                  // the token is refused
	ClassUnavailable                  // rate limits, 5xx, timeouts, connections: after all attempts
	ClassMismatch                     // bytes that are not those that were announced
	ClassInvalid                      // a name, an address or a selection that is not followed
	ClassNotCached                    // offline, and it is not here
	ClassLocalDisk                    // the disk of this machine
)

// Error is a failure with what a person needs to act on it.
type Error struct {
	Class                Class
	Repo, Revision, File string // as far as they are known
	Text                 string // what is wrong
	Status               int    // of the last reply; 0: there was none
	RequestID            string // of the last reply, for the hub's support
	Hint                 string // what to do; may be empty
	Err                  error  // what it comes from; may be nil

	secret string // the token, which a peer may send back
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Repo != "" {
		b.WriteString("dataset " + e.Repo)
		if e.Revision != "" {
			b.WriteString(" @ " + e.Revision)
		}
		b.WriteString(": ")
	}
	if e.File != "" {
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	b.WriteString(e.Text)
	if e.Err != nil {
		b.WriteString(": " + scrub(e.Err.Error()))
	}
	switch {
	case e.Status != 0 && e.RequestID != "":
		fmt.Fprintf(&b, " (status %d, request id %s)", e.Status, e.RequestID)
	case e.Status != 0:
		fmt.Fprintf(&b, " (status %d)", e.Status)
	case e.RequestID != "":
		fmt.Fprintf(&b, " (request id %s)", e.RequestID)
	}
	return hide(b.String(), e.secret)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what to do about an error of this package; "" where there is nothing to say.
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// classOf returns the class of an error, 0 for one that is not of this package.
func classOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return 0
}

// local is an error of the disk.
func local(text string, err error) error {
	return &Error{Class: ClassLocalDisk, Text: text, Err: err}
}

// secrets matches the query of an address, which for a signed one is a secret, user:password, and tokens.
var secrets = regexp.MustCompile(`\?[^\s"'<>]*|//[^\s"<>]*@|(?i:bearer)\s+[^\s"<>]+|hf_[A-Za-z0-9_]+`)

// scrub takes the queries of addresses out of a text, and what looks like a secret.
func scrub(text string) string {
	return secrets.ReplaceAllStringFunc(text, func(s string) string {
		switch s[0] {
		case '?':
			return "?..."
		case '/':
			return "//...@"
		case 'h':
			return "hf_..."
		}
		return "Bearer ..."
	})
}

// hide takes the token out of a text, in which a peer may have sent it back.
func hide(text, token string) string {
	if len(token) < 4 {
		return text
	}
	return strings.ReplaceAll(text, token, "***")
}
