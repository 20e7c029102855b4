package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// Limits of the preflight.
const (
	modelsTimeout    = 10 * time.Second // of the list of models, and of a connection
	preflightTimeout = 60 * time.Second // of the one request
	sampleTokens     = 8                // of its prompt: fewer than a block of any prefix cache
	maxModels        = 20               // of the list that the results name
	maxSaid          = 300              // bytes of what a server says that an error repeats
)

// PreflightError is a server that cannot serve a run, known before the first lane begins.
type PreflightError struct {
	Reason string // in one line
	Hint   string // what may help
}

func (e *PreflightError) Error() string { return "preflight: " + e.Reason }

// preflight looks at the server once: the list of its models, then one request like those of the run, for one token.
type preflight struct {
	Options
	encoder *payload.Encoder
	client  *wire.Client
	server  string   // its URL without what may be a secret
	models  []string // that it lists
	found   measure.Preflight
}

// lookAt returns what a look at the server of a run tells. The error is a *PreflightError, or that of the context.
func lookAt(ctx context.Context, o Options, e *payload.Encoder) (measure.Preflight, error) {
	p := &preflight{Options: o, encoder: e, server: RedactURL(o.URL)}
	var err error
	p.client, err = wire.New(o.URL, wire.Options{Timeout: preflightTimeout, DialTimeout: modelsTimeout, Header: o.Header, APIKey: o.APIKey})
	if err != nil {
		return p.found, err
	}
	defer p.client.Close()
	p.list(ctx)
	f := p.ask(ctx)
	switch {
	case ctx.Err() != nil:
		return p.found, context.Cause(ctx)
	case f != nil:
		err := p.explain(ctx, f)
		p.found.Error = err.Reason
		return p.found, err
	}
	return p.found, nil
}

// list asks for the models. The one request has the last word, whatever comes of it: there are servers without a list, some
// that break a connection over it, and gateways that show it to nobody.
func (p *preflight) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	status, document, f := p.client.Get(ctx, "/v1/models")
	var list struct{ Data []struct{ ID string } }
	if f == nil && status/100 == 2 && json.Unmarshal(document, &list) == nil {
		for _, m := range list.Data {
			p.models = append(p.models, clip(m.ID, maxSaid))
		}
		p.found.Models = p.models[:min(maxModels, len(p.models))]
	}
}

// ask sends the one request.
func (p *preflight) ask(ctx context.Context) *wire.Failure {
	body, tokens, err := p.encoder.Probe(sampleTokens)
	if err != nil {
		return &wire.Failure{Category: wire.Internal, Message: err.Error()}
	}
	res := p.send(ctx, body)
	if tokens > 0 && res.Usage.Prompt >= 0 {
		sent, added := int64(tokens), res.Usage.Prompt-int64(tokens)
		p.found.SentTokens, p.found.PromptTokens, p.found.TemplateTokens = &sent, &res.Usage.Prompt, &added
	}
	return serious(&res)
}

func (p *preflight) send(ctx context.Context, body plainBody) wire.Result {
	return p.client.Do(ctx, &wire.Request{
		Path: p.encoder.Path(), Stream: true, Body: body, Header: []wire.HeaderField{{Name: "X-Request-ID", Value: p.NewID()}},
	})
}

// serious returns the failure of a request that says that others will fail, too. A single token may well be none that can
// be seen: an answer without content will do where it is a stream or has a finish reason.
func serious(res *wire.Result) *wire.Failure {
	f := res.Err
	switch {
	case f == nil, f.Category == wire.StreamTruncated:
		return nil
	case f.Category == wire.NoContent && (res.FinishReason != "" || !res.SingleBody && res.LastMessage != wire.Never):
		return nil
	}
	return f
}

// plainBody is a request body in memory.
type plainBody []byte

// Size returns its length.
func (b plainBody) Size() int64 { return int64(len(b)) }

// WriteTo writes it.
func (b plainBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// explain says in one line what is wrong, and what to try.
func (p *preflight) explain(ctx context.Context, f *wire.Failure) *PreflightError {
	e := &PreflightError{Hint: "--no-preflight starts without a look at the server"}
	said := said(f)
	switch {
	case f.Category == wire.Timeout:
		e.Reason = fmt.Sprintf("%s: no answer in %v", p.server, preflightTimeout)
	case f.Code == 0:
		e.Reason, e.Hint = fmt.Sprintf("%s: %s", p.server, said), adviseConnection(said)
	case f.Code == 401 || f.Code == 403:
		e.Reason, e.Hint = fmt.Sprintf("%s: %d: %s", p.server, f.Code, said), "--api-key-env NAME, or --header NAME:VALUE"
	case f.Code == 404 && p.unlisted():
		p.explainModel(e, f)
	case f.Code == 400 || f.Code == 422:
		if fields := p.refused(ctx, f.Message); len(fields) > 0 {
			e.Reason = fmt.Sprintf("%s: %d: the server does not take %s: %s", p.server, f.Code, named(fields), said)
			e.Hint = p.adviseFields(fields)
			return e
		}
		if p.unlisted() && strings.Contains(strings.ToLower(f.Message), "model") {
			p.explainModel(e, f)
			return e
		}
		fallthrough
	default:
		e.Reason = fmt.Sprintf("%s: %d: POST %s: %s", p.server, f.Code, p.encoder.Path(), said)
	}
	return e
}

// named writes the names of fields.
func named(fields []string) string {
	if len(fields) == 1 {
		return "the field " + fields[0]
	}
	return "the fields " + strings.Join(fields, ", ")
}

// unlisted reports whether the server lists models, and not that of the run.
func (p *preflight) unlisted() bool {
	return len(p.models) > 0 && !slices.Contains(p.models, p.Model)
}

func (p *preflight) explainModel(e *PreflightError, f *wire.Failure) {
	var names []string
	for _, m := range p.models[:min(5, len(p.models))] {
		names = append(names, fmt.Sprintf("%q", m))
	}
	if more := len(p.models) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	e.Reason = fmt.Sprintf("%s: %d: model %q is not served here: it has %s", p.server, f.Code, p.Model, strings.Join(names, ", "))
	e.Hint = "--model " + p.models[0]
}

// refused returns the fields of the body that the server does not take: the one that its answer names, else the fewest
// without which it takes the request.
func (p *preflight) refused(ctx context.Context, answer string) []string {
	body, _, err := p.encoder.Probe(sampleTokens)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(body, &fields) != nil {
		return nil
	}
	var optional, named []string
	for name := range fields {
		if !slices.Contains([]string{"messages", "prompt", "model", "stream"}, name) {
			optional = append(optional, name)
		}
	}
	slices.Sort(optional)
	for _, name := range optional {
		if strings.Contains(answer, name) {
			named = append(named, name)
		}
	}
	if len(named) == 1 {
		return named
	}
	if !p.takesWithout(ctx, fields, optional) {
		return nil
	}
	for _, name := range slices.Clone(optional) {
		if fewer := slices.DeleteFunc(slices.Clone(optional), func(n string) bool { return n == name }); p.takesWithout(ctx, fields, fewer) {
			optional = fewer
		}
	}
	return optional
}

// takesWithout reports whether the server takes the request without some fields.
func (p *preflight) takesWithout(ctx context.Context, fields map[string]json.RawMessage, names []string) bool {
	rest := map[string]json.RawMessage{}
	for name, value := range fields {
		if !slices.Contains(names, name) {
			rest[name] = value
		}
	}
	body, err := json.Marshal(rest)
	if err != nil {
		return false
	}
	res := p.send(ctx, body)
	return serious(&res) == nil
}

// adviseFields names the flags that leave fields out.
func (p *preflight) adviseFields(fields []string) string {
	var flags []string
	for _, name := range fields {
		flags = append(flags, p.Fields.FlagFor(name))
	}
	return strings.Join(flags, " ")
}

func adviseConnection(said string) string {
	switch {
	case strings.Contains(said, "x509") || strings.Contains(said, "certificate"):
		return "SSL_CERT_FILE=FILE with the certificate of who signed the server's"
	case strings.Contains(said, "lookup"):
		return "--url with a host that this machine can resolve"
	case strings.Contains(said, "HTTP"):
		return "--url with https:// where the server speaks TLS, with the port of its API"
	}
	return "start the server or correct --url; --no-preflight starts without a look at it"
}

// said is what a failure says, in one line: of a JSON answer its message.
func said(f *wire.Failure) string {
	text := f.Message
	if k := strings.IndexByte(text, '{'); k >= 0 && f.Code > 0 {
		var doc struct {
			Error           json.RawMessage
			Message, Detail any
		}
		var inner struct{ Message any }
		if json.NewDecoder(strings.NewReader(text[k:])).Decode(&doc) == nil {
			_ = json.Unmarshal(doc.Error, &inner) // a string is no object
			var plain any
			_ = json.Unmarshal(doc.Error, &plain)
			for _, v := range []any{inner.Message, plain, doc.Message, doc.Detail} {
				if s, ok := v.(string); ok && s != "" {
					text = s
					break
				}
			}
		}
	}
	return clip(strings.Join(strings.Fields(text), " "), maxSaid)
}

// clip cuts a text to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// RedactURL is a URL without user, query and fragment: with nothing in it that may be a secret.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
