package wire

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"time"
)

// What the zero values of Options mean.
const (
	DefaultTimeout     = 6 * time.Hour
	DefaultDialTimeout = 30 * time.Second
	DefaultUserTimeout = 30 * time.Second
	DefaultKeepAlive   = 4 * time.Second // many servers close an idle connection after 5 s
	DefaultUserAgent   = "agentx"
)

// Options of a Client. The zero value works: each field says what 0 means.
type Options struct {
	Epoch       time.Time     // instant 0 of all results, with a monotonic reading; zero: when New is called
	Timeout     time.Duration // of a request, from Sent to End; 0: DefaultTimeout; negative: none
	DialTimeout time.Duration // of a connection, TLS included; 0: DefaultDialTimeout

	// How long a server may send nothing: in the middle of an answer, and before its first byte. 0: for ever. The caller has EndStalled
	// look at them.
	StallTimeout, FirstByteTimeout time.Duration

	UserTimeout time.Duration // how long the server's machine may leave bytes unacknowledged, on Linux; 0: DefaultUserTimeout; negative: as long as the system does
	KeepAlive   time.Duration // how long an idle connection is kept; 0: DefaultKeepAlive; negative: a connection per request
	Reuse       Reuse         // which requests may use a kept connection

	UserAgent string        // header field of every request, unless Header has one; "": DefaultUserAgent
	Header    []HeaderField // sent with every request; replace those of Request.Header with the same names
	APIKey    string        // sent as a bearer token, unless Header has Authorization; never printed
	TLS       *tls.Config   // of https targets; nil: the system's roots

	// LenientStreams makes an answer with status 200 and any content a success, even if it has an error object or stops without
	// a finish reason and [DONE].
	LenientStreams bool

	// AIPerfForms reads of an answer what AIPerf 0.13.0 reads. Else all forms count that servers are known to write: server-sent
	// events under any content type, errors without the member error, content in other members, usage in a choice.
	AIPerfForms bool

	// TextTokens looks for tokens in messages with text, reasoning or a tool call alone, as AIPerf does. Else a message without any of these
	// tells of a token, too, where usage has grown in it, or its text is empty and a token came before.
	TextTokens bool

	// OverflowPatterns are texts that mark a failure as a context overflow, in any letter case. Nil means
	// DefaultOverflowPatterns and the one text of Dynamo; an empty list means that no text does. OverflowRegexps do the
	// same and are matched as they are written.
	OverflowPatterns []string
	OverflowRegexps  []*regexp.Regexp
}

// Validate returns an error that names the first field whose value cannot be used. The error never contains a secret.
func (o Options) Validate() error {
	if !o.Epoch.IsZero() && o.Epoch == o.Epoch.Round(0) { // Round strips the monotonic reading
		return fmt.Errorf("epoch %v has no monotonic reading: want a value of time.Now", o.Epoch)
	}
	if i := badValueByte(o.UserAgent); i >= 0 {
		return fmt.Errorf("user agent %q has byte %#x at %d", o.UserAgent, o.UserAgent[i], i)
	}
	for i, r := range o.OverflowRegexps {
		if r == nil {
			return fmt.Errorf("overflow regexp %d is nil", i)
		}
	}
	if badValueByte(o.APIKey) >= 0 {
		return errors.New("the API key has a control character in it")
	}
	for i := range o.Header {
		if err := o.Header[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// withDefaults returns the options with the default in place of every zero.
func (o Options) withDefaults() Options {
	if o.Epoch.IsZero() {
		o.Epoch = time.Now()
	}
	o.Timeout = cmp.Or(o.Timeout, DefaultTimeout)
	o.DialTimeout = cmp.Or(o.DialTimeout, DefaultDialTimeout)
	o.UserTimeout = cmp.Or(o.UserTimeout, DefaultUserTimeout)
	o.KeepAlive = cmp.Or(o.KeepAlive, DefaultKeepAlive)
	if o.Reuse == NoReuse {
		o.KeepAlive = -1
	}
	o.UserAgent = cmp.Or(o.UserAgent, DefaultUserAgent)
	return o
}
