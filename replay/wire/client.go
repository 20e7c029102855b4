package wire

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/internal/secrets"
)

// Client sends requests to one server. All methods may be called by many goroutines at once.
type Client struct {
	target   target
	resolver *resolver
	tls      *tls.Config
	epoch    time.Time
	timeout  time.Duration // of a request; negative: none

	stallTimeout, firstByteTimeout time.Duration // 0: none

	lenient     bool // Options.LenientStreams
	aiperf      bool // Options.AIPerfForms
	textTokens  bool // Options.TextTokens
	dialTimeout time.Duration
	connect     func(context.Context, netip.AddrPort) (net.Conn, error)
	reuse       Reuse
	errorWait   time.Duration // for the body of an error answer
	maxAnswer   int64         // bytes of an answer

	overflowTexts   []string // lower case
	overflowRegexps []*regexp.Regexp
	dynamoOverflow  bool            // the one text of Dynamo is an overflow
	secrets         *secrets.Filter // of messages

	common   []HeaderField
	given    int    // where Options.Header and the API key begin in common
	rendered []byte // common, as it is sent
	idle     pool
	flights  flights

	// endsLate is set when the last answer did not end within restWait after its last message.
	endsLate atomic.Bool
}

// New returns a client for a server: an http or https URL whose path, if any, precedes the path of every request. Nothing is
// sent or looked up yet. An error names what is wrong, never a secret.
func New(url string, o Options) (*Client, error) {
	t, err := parseTarget(url)
	if err == nil {
		err = o.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("wire: %w", err)
	}
	o = o.withDefaults()
	c := &Client{
		target: t, resolver: newResolver(t.host), tls: tlsConfig(o.TLS, t.host),
		epoch: o.Epoch, timeout: o.Timeout, lenient: o.LenientStreams, aiperf: o.AIPerfForms, textTokens: o.TextTokens, dialTimeout: o.DialTimeout, connect: dialTCP(o.UserTimeout), reuse: o.Reuse, errorWait: errorWait, maxAnswer: maxAnswer,
		stallTimeout: o.StallTimeout, firstByteTimeout: o.FirstByteTimeout,
		overflowRegexps: o.OverflowRegexps, secrets: secretsOf(o, t.query),
		common: commonHeader(o), idle: pool{keep: o.KeepAlive},
	}
	if !named(HeaderField{Name: "User-Agent"}, o.Header) {
		c.given = 1
	}
	c.rendered = appendFields(nil, c.common)
	c.setOverflowPatterns(o.OverflowPatterns)
	return c, nil
}

// tlsConfig returns the configuration of connections to a host: HTTP/1.1 alone.
func tlsConfig(base *tls.Config, host string) *tls.Config {
	if base == nil {
		base = &tls.Config{}
	}
	config := base.Clone()
	config.NextProtos = []string{"http/1.1"}
	config.ServerName = cmp.Or(config.ServerName, host)
	return config
}

// commonHeader returns the fields of every request. A later field replaces an earlier one with the same name.
func commonHeader(o Options) []HeaderField {
	fields := []HeaderField{{"User-Agent", o.UserAgent}}
	if o.APIKey != "" {
		fields = append(fields, HeaderField{"Authorization", "Bearer " + o.APIKey})
	}
	for _, f := range o.Header {
		fields = slices.DeleteFunc(fields, func(old HeaderField) bool { return equalFold(old.Name, f.Name) })
		fields = append(fields, f)
	}
	return fields
}

// Close closes the idle connections; those in use are closed when their request ends. Do still works afterwards, with one
// connection per request.
func (c *Client) Close() { c.idle.close() }

func (c *Client) now() time.Duration { return time.Since(c.epoch) }

// Do sends a request and reads its answer to the end. The result always has Sent and End; its Err says why the request did
// not end well. When ctx ends, so does the request, also in a blocked read or write.
func (c *Client) Do(ctx context.Context, r *Request) Result {
	res := newResult(c.now())
	res.Err = (&call{Client: c, ctx: ctx, request: r, res: &res}).run()
	if res.End == Never {
		res.End = c.now()
	}
	return res
}

// deadline returns when a request must have ended: at its timeout or at the deadline of ctx, the earlier; zero is never.
// The deadline of ctx counts by itself, because a dial ends at it before ctx.Err reports it.
func (c *Client) deadline(ctx context.Context, sent time.Duration) (at time.Time) {
	if c.timeout > 0 {
		at = c.epoch.Add(sent + c.timeout)
	}
	if d, ok := ctx.Deadline(); ok && (at.IsZero() || d.Before(at)) {
		at = d
	}
	return at
}

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
		return fmt.Errorf("user agent %q has byte %#x at %d: leave control characters out", o.UserAgent, o.UserAgent[i], i)
	}
	for i, r := range o.OverflowRegexps {
		if r == nil {
			return fmt.Errorf("overflow regexp %d is nil: leave it out", i)
		}
	}
	if badValueByte(o.APIKey) >= 0 {
		return errors.New("the API key has a control character in it: is there a line feed at its end?")
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
