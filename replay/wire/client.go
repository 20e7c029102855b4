package wire

import (
	"cmp"
	"context"
	"crypto/tls"
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
