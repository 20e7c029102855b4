package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/wire"
)

// keyHint is what may help where a server wants a key.
const keyHint = "--api-key-env NAME, or --header NAME:VALUE"

// messagesKeyHint is that for the Messages API, whose keys stand in x-api-key. Some servers want them in Authorization all the same.
const messagesKeyHint = "--api-key-env NAME, which sends x-api-key; where the server wants Authorization, --header 'Authorization:Bearer KEY'"

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
		e.Reason, e.Hint = fmt.Sprintf("%s: %s", p.server, message), connectionHint(message)
	case f.Code == 401 || f.Code == 403:
		e.Reason, e.Hint = fmt.Sprintf("%s: %d: %s", p.server, f.Code, message), keyHint
		if p.Endpoint.API() == wire.MessagesAPI {
			e.Hint = messagesKeyHint
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
		if f.Code == 404 && p.Endpoint.API() == wire.MessagesAPI && p.asked != askedModels {
			e.Hint = "--payload chat, where the server has no Messages API"
		}
		e.Reason = fmt.Sprintf("%s: %d: %s: %s", p.server, f.Code, p.asked, message)
	}
	return e
}

// unlisted reports whether the server lists models, but not that of the run.
func (p *preflight) unlisted() bool {
	return len(p.models) > 0 && !slices.Contains(p.models, p.Model)
}

// maxNamedModels is how many models of a server an error names.
const maxNamedModels = 5

func (p *preflight) explainModel(e *PreflightError, f *wire.Failure) {
	var names []string
	for _, m := range p.models[:min(maxNamedModels, len(p.models))] {
		names = append(names, fmt.Sprintf("%q", m))
	}
	if more := len(p.models) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	e.Reason = fmt.Sprintf("%s: %d: model %q is not served here: it has %s", p.server, f.Code, p.Model, strings.Join(names, ", "))
	e.Hint = "--model " + p.models[0]
}

func fieldList(fields []string) string {
	if len(fields) == 1 {
		return "the field " + fields[0]
	}
	return "the fields " + strings.Join(fields, ", ")
}

// fieldsHint names the flags that leave fields out.
func (p *preflight) fieldsHint(fields []string) string {
	var flags []string
	for _, name := range fields {
		if flag := p.Fields.FlagFor(p.Endpoint, name); flag != "" {
			flags = append(flags, flag)
		}
	}
	return strings.Join(flags, " ")
}

func connectionHint(message string) string {
	switch {
	case strings.Contains(message, "x509") || strings.Contains(message, "certificate"):
		return "SSL_CERT_FILE=FILE with the certificate of the authority that signed the server's"
	case strings.Contains(message, "lookup"):
		return "--url with a host that this machine can resolve"
	case strings.Contains(message, "HTTP"):
		return "--url with https:// where the server speaks TLS, with the port of its API"
	}
	return "start the server or correct --url; --no-preflight starts without a look at it"
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
