package replay

import (
	"context"
	"encoding/json"
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
	preflightTimeout = 60 * time.Second // of the probe
	probeTokens      = 8                // of the probe's prompt: fewer than a block of any prefix cache
	maxModels        = 20               // of the list that the results name
	maxMessage       = 300              // bytes of a server's message that an error repeats
)

// preflight looks at the server before a run: it lists the models, then sends a probe, a request like those of the run for
// one token.
type preflight struct {
	Options
	encoder *payload.Encoder
	client  *wire.Client
	server  string   // its URL without secrets
	hint    string   // what may help where nothing better is known
	asked   string   // the last request: its method and path
	models  []string // that it lists
	context int64    // tokens of its context, as the list says; 0: it does not
	found   measure.Preflight
}

// runPreflight looks at every server of a run, until one refuses. It returns what it found of that one, else of the one whose
// chat template adds most tokens. The error is a *PreflightError, or that of the context.
func runPreflight(ctx context.Context, o Options, e *payload.Encoder) (found measure.Preflight, err error) {
	var least measure.Preflight // of the shortest context
	for k, url := range o.URLs {
		f, err := lookAt(ctx, o, e, url)
		if len(o.URLs) > 1 {
			f.URL = RedactURL(url)
		}
		if err != nil {
			return f, err
		}
		if k == 0 || f.Template() > found.Template() {
			found = f
		}
		if n := f.ContextTokens; n != nil && (least.ContextTokens == nil || *n < *least.ContextTokens) {
			least = f
		}
	}
	found.ContextTokens, found.ContextFrom = least.ContextTokens, least.ContextFrom
	return found, nil
}

// lookAt lists the models of a server, and probes it.
func lookAt(ctx context.Context, o Options, e *payload.Encoder, url string) (measure.Preflight, error) {
	p := &preflight{Options: o, encoder: e, server: RedactURL(url), hint: "--no-preflight starts without a look at the server"}
	var err error
	w := o.clientOptions()
	w.Timeout, w.DialTimeout, w.LenientStreams = preflightTimeout, modelsTimeout, o.Switches.LenientStreams
	p.client, err = wire.New(url, w)
	if err != nil {
		return p.found, err
	}
	defer p.client.Close()
	p.listModels(ctx)
	f := p.probe(ctx)
	switch {
	case ctx.Err() != nil:
		return p.found, context.Cause(ctx)
	case f != nil:
		return p.found, p.refuse(p.explain(ctx, f))
	}
	p.askContext(ctx)
	if ctx.Err() != nil {
		return p.found, context.Cause(ctx)
	}
	if p.MaxContext == ServerContext && p.found.ContextTokens == nil {
		return p.found, p.refuse(&PreflightError{
			Reason: p.server + ": it does not tell how long its context is: no max_model_len in GET /v1/models, no n_ctx in GET /props", Hint: "--max-context TOKENS",
		})
	}
	return p.found, nil
}

// refuse notes why the run is not started.
func (p *preflight) refuse(err *PreflightError) error {
	p.found.Error = err.Reason
	return err
}

// probe sends the one request, and measures how many tokens the chat template adds to its prompt.
func (p *preflight) probe(ctx context.Context) *wire.Failure {
	body, tokens, err := p.encoder.Probe(probeTokens)
	if err != nil {
		return &wire.Failure{Category: wire.Internal, Message: err.Error()}
	}
	res := p.send(ctx, body)
	if tokens > 0 && res.Usage.Prompt >= 0 {
		sent, added := int64(tokens), res.Usage.Prompt-int64(tokens)
		p.found.SentTokens, p.found.PromptTokens, p.found.TemplateTokens = &sent, &res.Usage.Prompt, &added
	}
	return decisive(&res)
}

// probeOnce asks for one token; nil: the status of the answer is 200 to 299.
func (p *preflight) probeOnce(ctx context.Context) *wire.Failure {
	body, _, err := p.encoder.Probe(probeTokens)
	if err != nil {
		return &wire.Failure{Category: wire.Internal, Message: err.Error()}
	}
	res := p.send(ctx, body)
	if res.Status/100 == 2 {
		return nil
	}
	return res.Err
}

func (p *preflight) send(ctx context.Context, body rawBody) wire.Result {
	p.asked = "POST " + p.encoder.Path()
	return p.client.Do(ctx, &wire.Request{
		Path: p.encoder.Path(), API: p.Endpoint.API(), Stream: true, Body: body, Header: []wire.HeaderField{{Name: "X-Request-ID", Value: p.NewID()}},
	})
}

// decisive returns the failure of a probe, if other requests will fail for the same reason. One token may be invisible, so
// an answer without content passes if it is a stream or has a finish reason.
func decisive(res *wire.Result) *wire.Failure {
	f := res.Err
	switch {
	case f == nil, f.Category == wire.StreamTruncated:
		return nil
	case f.Category == wire.NoContent && (res.FinishReason != "" || !res.SingleBody && res.LastMessage != wire.Never):
		return nil
	}
	return f
}

// rawBody is a request body in memory.
type rawBody []byte

// Size returns its length.
func (b rawBody) Size() int64 { return int64(len(b)) }

// WriteTo writes it.
func (b rawBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(b)
	return int64(n), err
}

// refusedFields returns the fields of the body that the server does not take: the one that its answer names, else the
// fewest without which it takes the probe.
func (p *preflight) refusedFields(ctx context.Context, answer string) []string {
	body, _, err := p.encoder.Probe(probeTokens)
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
	if !p.passesWithout(ctx, fields, optional) {
		return nil
	}
	for _, name := range slices.Clone(optional) {
		if fewer := slices.DeleteFunc(slices.Clone(optional), func(n string) bool { return n == name }); p.passesWithout(ctx, fields, fewer) {
			optional = fewer
		}
	}
	return optional
}

// passesWithout reports whether the server takes the probe without some fields.
func (p *preflight) passesWithout(ctx context.Context, fields map[string]json.RawMessage, names []string) bool {
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
	return decisive(&res) == nil
}

// RedactURL returns a URL without user, query and fragment, which may be secrets.
func RedactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "the server"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
