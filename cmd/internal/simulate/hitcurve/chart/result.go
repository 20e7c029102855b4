// Package chart tells what prefix caches of several sizes find: as the object of --json, and on a page of charts.
package chart

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/replay/measure"
)

// Result is a curve, and what it is of: doc/spec/simulate.md 16.
type Result struct {
	Name        string          `json:"name,omitempty"` // what tells it from others; empty: there is one
	Requests    int             `json:"requests"`
	InputTokens int64           `json:"input_tokens"`
	Pools       int             `json:"pools"`
	Router      simulate.Router `json:"router"`
	BlockSize   int             `json:"block_size"`
	TokenBytes  *int64          `json:"kv_bytes_per_token"` // null: not known
	Order       string          `json:"order"`              // load or recorded
	Load        simulate.Load   `json:"load"`
	Concurrency int             `json:"concurrency"` // 0: load trace
	ServerRates hitcurve.Rates  `json:"server_rates"`
	Unlimited   Point           `json:"unlimited"` // a size at which LRU finds what caches without a limit find: in turn the least, routed the one that evicts nothing
	Points      []Point         `json:"points"`

	fine []hitcurve.Fine
}

// Point is one size of each cache.
type Point struct {
	Blocks   int64                     `json:"blocks"`
	Tokens   int64                     `json:"tokens"`
	GiB      *float64                  `json:"gib"` // null: what a token costs is not known
	Policies map[hitcurve.Policy]Found `json:"policies"`
}

// Found is what the caches of a size find, all together.
type Found struct {
	HitRate      measure.Number `json:"hit_rate"` // of prompt tokens
	SavedTokens  int64          `json:"saved_tokens"`
	SavedPrefill float64        `json:"saved_prefill"` // seconds of a server of the prefill rate
}

// New returns the result of a curve. recorded says that turns came by their recorded times; a token costs so many bytes, 0: not known.
func New(curve *hitcurve.Curve, c *simulate.Config, rates hitcurve.Rates, recorded bool, tokenBytes int64) *Result {
	r := &Result{
		Requests: curve.Requests, InputTokens: curve.InputTokens, Pools: curve.Pools, Router: c.Router, BlockSize: c.BlockSize(),
		Order: "load", Load: c.LoadOf(), Concurrency: c.Concurrency, ServerRates: rates, Points: []Point{}, fine: curve.Fine,
	}
	if recorded {
		r.Order = "recorded"
	}
	if tokenBytes > 0 {
		r.TokenBytes = &tokenBytes
	}
	r.Unlimited = r.point(curve.Enough, map[hitcurve.Policy]int64{hitcurve.LRU: curve.Found})
	for _, p := range curve.Points {
		r.Points = append(r.Points, r.point(p.Size, p.Found))
	}
	return r
}

func (r *Result) point(size int64, found map[hitcurve.Policy]int64) Point {
	p := Point{Blocks: size, Tokens: size * int64(r.BlockSize), Policies: map[hitcurve.Policy]Found{}}
	if r.TokenBytes != nil {
		gib := float64(p.Tokens) * float64(*r.TokenBytes) / (1 << 30)
		p.GiB = &gib
	}
	for policy, tokens := range found {
		p.Policies[policy] = Found{r.rate(tokens), tokens, float64(tokens) / r.ServerRates.Prefill}
	}
	return p
}

// rate returns the share of prompt tokens; NaN of none.
func (r *Result) rate(tokens int64) measure.Number {
	if r.InputTokens == 0 {
		return measure.Number(math.NaN())
	}
	return measure.Number(float64(tokens) / float64(r.InputTokens))
}
