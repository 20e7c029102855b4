package replay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// Errors that callers of Run may want to tell apart. A server that cannot serve the run is a *PreflightError. A cache that
// cannot be read wraps manifest.ErrDamaged, and too few traces for the lanes is resume.ErrNoTraces or says what to change.
var (
	// ErrResultsExist is wrapped by the error about a directory that holds results of another run.
	ErrResultsExist = errors.New("results exist already")
)

// PreflightError says that a server cannot serve the run. It is known before the first lane begins.
type PreflightError struct {
	Step   string // that found it: measure.PreparationWait, measure.PreparationReset; "": the preflight
	Reason string // in one line
	Hint   string // what may help: a setting, or an action
}

func (e *PreflightError) Error() string { return cmp.Or(e.Step, "preflight") + ": " + e.Reason }

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
	p := &preflight{Options: o, encoder: e, server: RedactURL(url), hint: preset.Text("{no-preflight} starts without a look at the server").String()}
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
			Reason: p.server + ": it does not say how long its context is: no max_model_len in GET /v1/models, no n_ctx in GET /props", Hint: preset.Setting("max-context TOKENS"),
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

// send sends a body as the run sends its requests.
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

// keyHint is what may help where a server wants a key.
const keyHint preset.Text = "{api-key-env} NAME, or {header} NAME:VALUE"

// messagesKeyHint is that for the Messages API, whose keys stand in x-api-key. Some servers want them in Authorization all the same.
const messagesKeyHint preset.Text = "{api-key-env} NAME, which sends x-api-key; where the server wants Authorization, {header} 'Authorization:Bearer KEY'"

// explain turns the failure of the probe into one line that says what is wrong, and a hint.
func (p *preflight) explain(ctx context.Context, f *wire.Failure) *PreflightError {
	e := &PreflightError{Hint: p.hint}
	message := messageOf(f)
	switch {
	case f.Category == wire.Timeout:
		e.Reason = fmt.Sprintf("%s: no answer in %v", p.server, preflightTimeout)
	case f.Category == wire.Internal: // a limit of this machine: the message says what to do
		e.Reason = fmt.Sprintf("%s: %s", p.server, message)
	case f.Code == 0:
		e.Reason, e.Hint = fmt.Sprintf("%s: %s", p.server, message), connectionHint(message).String()
		if strings.Contains(message, "does not look like a TLS handshake") {
			e.Reason, e.Hint = fmt.Sprintf("%s: it does not speak TLS: %s", p.server, message), preset.Setting("url ")+strings.Replace(p.server, "https:", "http:", 1)
		}
	case f.Code == 400 && strings.Contains(message, "HTTPS"): // as Go and nginx answer HTTP without TLS
		e.Reason, e.Hint = fmt.Sprintf("%s: it speaks TLS: %s", p.server, message), preset.Setting("url ")+strings.Replace(p.server, "http:", "https:", 1)
	case f.Code == 401 || f.Code == 403:
		e.Reason, e.Hint = fmt.Sprintf("%s: %d: %s", p.server, f.Code, message), keyHint.String()
		if p.Endpoint.API() == wire.MessagesAPI {
			e.Hint = messagesKeyHint.String()
		}
	case f.Code == 404 && p.unlisted():
		p.explainModel(e, f)
	case (f.Code == 400 || f.Code == 422) && p.asked != askedModels:
		if fields := p.refusedFields(ctx, f.Message); len(fields) > 0 {
			e.Reason = fmt.Sprintf("%s: %d: the server does not take %s: %s", p.server, f.Code, fieldList(fields), message)
			e.Hint = p.fieldsHint(fields)
			return e
		}
		if p.unlisted() && strings.Contains(strings.ToLower(f.Message), "model") {
			p.explainModel(e, f)
			return e
		}
		fallthrough
	default:
		asked := p.asked
		switch {
		case f.Code != 404 && f.Code != 405 || p.asked == askedModels:
		case strings.Contains(strings.ToLower(f.Message), "model"):
			e.Hint = preset.Setting("model NAME, as the server calls what it serves")
		default:
			asked = "POST " + p.client.Address(p.encoder.Path())
			e.Hint = fmt.Sprintf("correct %s: the root of the server, such as http://HOST:8000, that of its API, http://HOST:8000/v1, or its whole endpoint, http://HOST:8000%s", preset.Setting("url"), p.encoder.Path())
			if p.Endpoint.API() == wire.MessagesAPI {
				e.Hint = preset.Setting("payload chat, where the server has no Messages API; else ") + e.Hint
			}
		}
		e.Reason = fmt.Sprintf("%s: %d: %s: %s", p.server, f.Code, asked, withoutStatus(message, f.Code))
	}
	return e
}

// withoutStatus returns a message behind a status without that status, which the body of an answer often repeats.
func withoutStatus(message string, code int) string {
	status, body, _ := strings.Cut(message, ": ")
	if phrase, ok := strings.CutPrefix(status, fmt.Sprintf("%d ", code)); ok && strings.Contains(strings.ToLower(body), strings.ToLower(phrase)) {
		return strings.TrimPrefix(body, fmt.Sprintf("%d ", code))
	}
	return message
}

// unlisted reports whether the server lists models, but not that of the run.
func (p *preflight) unlisted() bool {
	return len(p.models) > 0 && !slices.Contains(p.models, p.Model)
}

// maxNamedModels is how many models of a server an error names.
const maxNamedModels = 5

// explainModel says that the server has other models, and names some.
func (p *preflight) explainModel(e *PreflightError, f *wire.Failure) {
	var names []string
	for _, m := range p.models[:min(maxNamedModels, len(p.models))] {
		names = append(names, fmt.Sprintf("%q", m))
	}
	if more := len(p.models) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	e.Reason = fmt.Sprintf("%s: %d: model %q is not served here: it has %s", p.server, f.Code, p.Model, strings.Join(names, ", "))
	e.Hint = preset.Setting("model ") + p.models[0]
}

// fieldList names one field or several.
func fieldList(fields []string) string {
	if len(fields) == 1 {
		return "the field " + fields[0]
	}
	return "the fields " + strings.Join(fields, ", ")
}

// fieldsHint names the settings that leave fields out.
func (p *preflight) fieldsHint(fields []string) string {
	var list []string
	for _, name := range fields {
		if setting := p.Fields.SettingFor(p.Endpoint, name); setting != "" {
			list = append(list, setting)
		}
	}
	return strings.Join(list, " ")
}

// connectionHint returns what may help where no connection was made.
func connectionHint(message string) preset.Text {
	switch {
	case strings.Contains(message, "x509") || strings.Contains(message, "certificate"):
		return "SSL_CERT_FILE=FILE with the certificate of the authority that signed the server's"
	case strings.Contains(message, "lookup"):
		return "{url} with a host that this machine can resolve"
	case strings.Contains(message, "HTTP"):
		return "{url} with https:// where the server speaks TLS, with the port of its API"
	}
	return "start the server or correct {url}; {no-preflight} starts without a look at it"
}

// messageOf returns the message of a failure in one line. Of a JSON answer that is the message in it.
func messageOf(f *wire.Failure) string {
	text := f.Message
	if k := strings.IndexByte(text, '{'); k >= 0 && f.Code > 0 {
		if inner := messageIn(text[k:]); inner != "" {
			text = inner
		}
	}
	return clip(strings.Join(strings.Fields(text), " "), maxMessage)
}

// messageIn returns the message of a JSON document: error.message, error, message or detail; "" if it has none.
func messageIn(document string) string {
	var doc struct {
		Error           json.RawMessage
		Message, Detail any
	}
	if json.NewDecoder(strings.NewReader(document)).Decode(&doc) != nil {
		return ""
	}
	var object struct{ Message any }
	_ = json.Unmarshal(doc.Error, &object) // a string is no object
	var plain any
	_ = json.Unmarshal(doc.Error, &plain) // nor is an object a string
	for _, v := range []any{object.Message, plain, doc.Message, doc.Detail} {
		if s, ok := v.(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// clip cuts a text to about n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}

// askedModels is the request for the list of models.
const askedModels = "GET /v1/models"

// Models returns the models that the first server of some options lists, within a second; nil: it lists none. Nothing else of the options
// need be complete.
func Models(ctx context.Context, o Options) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := wire.New(o.URLs[0], o.clientOptions())
	if err != nil {
		return nil
	}
	defer c.Close()
	p := &preflight{Options: o, client: c}
	p.listModels(ctx)
	return p.found.Models
}

// listModels asks for the models. A failure does not matter, because the probe decides: there are servers without a list,
// some that break the connection over it, and gateways that refuse it.
func (p *preflight) listModels(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	document, f := p.client.Get(ctx, "/v1/models")
	if f == nil && p.readModels(document) == nil {
		p.found.Models = p.models[:min(maxModels, len(p.models))]
	}
}

// findModel looks for the model in the list of the server. A list without it counts as an answer 404.
func (p *preflight) findModel(ctx context.Context) *wire.Failure {
	p.asked = askedModels
	document, f := p.client.Get(ctx, "/v1/models")
	if f != nil {
		return f
	}
	if err := p.readModels(document); err != nil {
		return &wire.Failure{Category: wire.HTTPStatus, Code: 200, Message: "the answer is not a list of models: " + err.Error()}
	}
	if p.unlisted() || len(p.models) == 0 {
		return &wire.Failure{Category: wire.HTTPStatus, Code: 404, Message: "it does not list the model " + p.Model}
	}
	return nil
}

// readModels reads a list of models.
func (p *preflight) readModels(document []byte) error {
	var list struct {
		Data []struct {
			ID          string
			MaxModelLen any `json:"max_model_len"` // of vLLM and SGLang; any other server may mean anything by it
		}
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return errors.New("want an object with data")
	}
	p.models = nil
	lengths := map[int64]bool{}
	for _, m := range list.Data {
		n := tokensOf(m.MaxModelLen)
		if m.ID == p.Model && n > 0 {
			p.context = n
		}
		lengths[n] = true
		id := clip(m.ID, maxMessage)
		if id != p.Model {
			id = p.client.Redact(id)
		}
		p.models = append(p.models, id)
	}
	delete(lengths, 0)
	if p.context == 0 && len(lengths) == 1 { // an adapter does not say that of its model
		p.context = slices.Collect(maps.Keys(lengths))[0]
	}
	return nil
}

// askContext notes how long the context is: max_model_len of the list of models, else n_ctx of a slot of llama.cpp, whose list has
// the context that the model was trained for.
func (p *preflight) askContext(ctx context.Context) {
	n, from := p.context, "max_model_len"
	if n == 0 {
		ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
		defer cancel()
		document, f := p.client.GetBelowRoot(ctx, "/props")
		var props struct {
			Settings struct {
				Tokens any `json:"n_ctx"`
			} `json:"default_generation_settings"`
		}
		if f != nil || json.Unmarshal(document, &props) != nil {
			return
		}
		n, from = tokensOf(props.Settings.Tokens), "n_ctx"
	}
	if n > 0 {
		p.found.ContextTokens, p.found.ContextFrom = &n, from
	}
}

// maxContextTokens is the longest context that is believed.
const maxContextTokens = 1 << 40

// tokensOf returns a number of tokens of a JSON document; 0: it is none.
func tokensOf(v any) int64 {
	if n, ok := v.(float64); ok && n >= 1 && n <= maxContextTokens {
		return int64(n)
	}
	return 0
}

// otherEndpoints says of every URL that ends in an endpoint to which no request goes where they go, and what to do.
func (o *Options) otherEndpoints() (list []string) {
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil {
			continue // which Validate refuses
		}
		for _, e := range payload.Endpoints() {
			if e.Path() != o.Endpoint.Path() && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), e.Path()) {
				list = append(list, fmt.Sprintf("the URL of %s ends in %s, and requests of payload %s go to %s: choose the payload of that endpoint, or give the root of the server",
					u.Host, e.Path(), o.Endpoint, o.Endpoint.Path()))
				break
			}
		}
	}
	return list
}
