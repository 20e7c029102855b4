package hub

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/lazyregexp"
)

// ErrBusy is wrapped by the error of Fetch when another process downloads the same file and Options.Wait is used up.
var ErrBusy = durable.ErrBusy

// Errors that stay inside the package, as causes of an *Error.
var (
	errHeaderTimeout = errors.New("no answer in time")
	errIdleTimeout   = errors.New("the body came too slowly")
	errTruncated     = errors.New("truncated")
	errLongListing   = fmt.Errorf("the listing of the commit is too long: more than %d files, %d pages or %d MiB", maxFiles, maxPages, maxListing>>20)
)

// Class is the kind of a failure. It decides about retries and about the use of local copies: doc/spec/hub.md 4.
type Class int

// The classes. After ClassNotHub and ClassUnavailable, Fetch uses a verified local copy of the same commit if there is one.
const (
	ClassNotHub      Class = iota + 1 // the server is not a Hugging Face hub: a proxy's page, a captive portal
	ClassNotFound                     // no such repository, revision or file; or a private one
	ClassGated                        // the terms of the repository must be accepted first
	ClassDisabled                     // the hub has disabled the repository
	ClassCredentials                  // the hub refuses the token
	ClassUnavailable                  // rate limits, 5xx, timeouts, connections: after all attempts
	ClassMismatch                     // content that differs from the digest or size that the hub names
	ClassInvalid                      // a name, an address, a card or an option that this package refuses
	ClassNotCached                    // offline, and not in the cache
	ClassLocalDisk                    // an error of this machine's disk
)

// Error is a failure of Parse or Fetch.
type Error struct {
	Class                Class
	Repo, Revision, File string // what it is about, as far as that is known
	Text                 string // what is wrong
	Status               int    // of the last reply; 0: there was none
	RequestID            string // of the last reply, for the hub's support
	Hint                 string // what the user can do; may be empty
	Err                  error  // the cause; may be nil

	kind   string // of Repo: dataset or model
	secret string // the token, which a server may repeat in a message
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Repo != "" {
		b.WriteString(cmp.Or(e.kind, datasets.word) + " " + e.Repo)
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
		b.WriteString(": " + redact(e.Err.Error()))
	}
	var reply []string
	if e.Status != 0 {
		reply = append(reply, fmt.Sprintf("status %d", e.Status))
	}
	if e.RequestID != "" {
		reply = append(reply, "request id "+e.RequestID)
	}
	if reply != nil {
		b.WriteString(" (" + strings.Join(reply, ", ") + ")")
	}
	return redactToken(b.String(), e.secret)
}

func (e *Error) Unwrap() error { return e.Err }

// Hint returns what the user can do about an error of this package, "" if there is nothing to say.
func Hint(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Hint
	}
	return ""
}

// classOf returns the class of an error, 0 if it is not an *Error.
func classOf(err error) Class {
	var e *Error
	if errors.As(err, &e) {
		return e.Class
	}
	return 0
}

// hubFailed reports whether Fetch may use a local copy of the same commit after an error.
func hubFailed(err error) bool {
	class := classOf(err)
	return class == ClassUnavailable || class == ClassNotHub
}

func diskError(text string, err error) error {
	return &Error{Class: ClassLocalDisk, Text: text, Err: err}
}

// secrets matches queries of addresses (signed ones are secret), user:password, and tokens.
var secrets = lazyregexp.New(`\?[^\s"'<>]*|//[^\s"<>]*@|(?i:bearer)\s+[^\s"<>]+|hf_[A-Za-z0-9_]+`)

// redact replaces the secrets in a text.
func redact(text string) string {
	return secrets().ReplaceAllStringFunc(text, func(s string) string {
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

// redactToken removes the token from a text.
func redactToken(text, token string) string {
	if len(token) < 4 {
		return text
	}
	return strings.ReplaceAll(text, token, "***")
}

// sanitize makes a text of a server printable on one line: without control characters and secrets, at most limit bytes.
func sanitize(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if text = redact(strings.TrimSpace(text)); len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
