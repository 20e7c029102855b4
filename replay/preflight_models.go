package replay

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/agentx/agentx/replay/wire"
)

// askedModels is the request for the list of models.
const askedModels = "GET /v1/models"

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
		return &wire.Failure{Category: wire.HTTPStatus, Code: 200, Message: "no list of models: " + err.Error()}
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
