package replay

import (
	"context"
	"encoding/json"
	"errors"

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
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(document, &list); err != nil {
		return errors.New("want an object with data")
	}
	p.models = nil
	for _, m := range list.Data {
		id := clip(m.ID, maxMessage)
		if id != p.Model {
			id = p.client.Redact(id)
		}
		p.models = append(p.models, id)
	}
	return nil
}
