// Package chart tells what prefix caches of several sizes find: as the object of --json, and on a page of charts.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
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
	Tiers       []Tier          `json:"tiers,omitempty"` // the fastest first

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

// Tier is a part of every cache: what the tiers before it drop comes into it, and what is found in it goes to the first. So all together are
// one LRU cache, whose most recent blocks the first one holds.
type Tier struct {
	Name        string         `json:"name"`
	Blocks      int64          `json:"blocks"`   // of each cache
	GiB         *float64       `json:"gib"`      // null: what a token costs is not known
	HitRate     measure.Number `json:"hit_rate"` // of prompt tokens: that it serves
	Share       measure.Number `json:"share"`    // of the hits of all tiers
	SavedTokens int64          `json:"saved_tokens"`
	PerGiB      *float64       `json:"saved_prefill_per_gib"` // seconds of a server of the prefill rate, for a GiB of the tier in all caches
}

// SetTiers sets what tiers of given names and sizes serve. The curve has a point for each with those before it.
func (r *Result) SetTiers(tiers []Tier) {
	total, before := int64(0), int64(0)
	for _, t := range tiers {
		total += t.Blocks
		for k := range r.Points {
			if p := &r.Points[k]; p.Blocks == total {
				found := p.Policies[hitcurve.LRU].SavedTokens
				t.SavedTokens, before = found-before, found
			}
		}
		t.HitRate = r.rate(t.SavedTokens)
		if r.TokenBytes != nil {
			gib := float64(t.Blocks) * float64(r.BlockSize) * float64(*r.TokenBytes) / (1 << 30)
			per := float64(t.SavedTokens) / r.ServerRates.Prefill / (gib * float64(r.Pools))
			t.GiB, t.PerGiB = &gib, &per
		}
		r.Tiers = append(r.Tiers, t)
	}
	for k := range r.Tiers {
		if t := &r.Tiers[k]; before > 0 {
			t.Share = measure.Number(float64(t.SavedTokens) / float64(before))
		}
	}
}

// tiersText returns the table of tiers for people; "" without tiers.
func (r *Result) tiersText() string {
	if len(r.Tiers) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-12s %12s %10s %10s %10s %16s\n", "tier", "blocks", "GiB", "serves", "of hits", "saved by a GiB")
	for _, t := range r.Tiers {
		gib, per := "-", "-"
		if t.GiB != nil {
			gib, per = fmt.Sprintf("%.2f", *t.GiB), measure.FormatFigure(measure.Number(*t.PerGiB), slo.Seconds)
		}
		fmt.Fprintf(&b, "%-12s %12s %10s %10s %10s %16s\n", t.Name, bytefmt.Digits(int(t.Blocks)), gib, share(t.HitRate), share(t.Share), per)
	}
	return b.String()
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

// point returns a size with the tokens that each policy found, as shares, tokens and seconds.
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

// PageFile is the name of the page in a directory of results.
const PageFile = "hitcurve.html"

// Smooth is how many sizes a page wants of a curve of LRU, besides those that the user asked for.
const Smooth = 400

// Write writes the page of curves to a file, which appears whole and replaces an older one. Equal curves give equal bytes.
func Write(path, title string, curves []*Result, origin page.Origin) error {
	text, err := html(title, curves, origin)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}

// head is what the page has besides columns.
type head struct {
	Curves   []*Result         `json:"curves"`
	Policies []hitcurve.Policy `json:"policies"` // those that were computed
	Origin   page.Origin       `json:"origin"`
}

// html returns the text of the page.
func html(title string, curves []*Result, origin page.Origin) ([]byte, error) {
	if len(curves) == 0 {
		return nil, errors.New("hit curve: a page needs at least one curve")
	}
	h := head{Curves: curves, Origin: origin, Policies: []hitcurve.Policy{}}
	for _, p := range hitcurve.Policies {
		if len(curves[0].Points) > 0 {
			if _, computed := curves[0].Points[0].Policies[p]; computed {
				h.Policies = append(h.Policies, p)
			}
		}
	}
	p := &page.Page{Kind: "hitcurve", Title: title, Head: h}
	for k, c := range curves {
		p.Tables = append(p.Tables, c.lines(k)...)
	}
	var text bytes.Buffer
	err := page.Write(&text, p)
	return text.Bytes(), err
}

// lines has a table for each policy: what it finds by size. That of LRU has the fine sizes too, from the least size of the points.
func (r *Result) lines(k int) (list []page.Table) {
	for _, policy := range hitcurve.Policies {
		var sizes, found []int64
		next, least := 0, int64(0)
		if len(r.Points) > 0 {
			least = r.Points[0].Blocks
		}
		add := func(size, tokens int64) { sizes, found = append(sizes, size), append(found, tokens) }
		for _, p := range r.Points {
			one, computed := p.Policies[policy]
			if !computed {
				continue
			}
			for policy == hitcurve.LRU && next < len(r.fine) && r.fine[next].Size <= p.Blocks {
				if size := r.fine[next].Size; size > least && size < p.Blocks {
					add(r.fine[next].Size, r.fine[next].Found)
				}
				next++
			}
			add(p.Blocks, one.SavedTokens)
		}
		for policy == hitcurve.LRU && len(sizes) > 0 && next < len(r.fine) {
			add(r.fine[next].Size, r.fine[next].Found)
			next++
		}
		if len(sizes) > 0 {
			list = append(list, page.Table{Name: fmt.Sprintf("%s.%d", policy, k), Columns: []page.Column{page.Ints("blocks", "", sizes), page.Ints("found", "tokens", found)}})
		}
	}
	return list
}

// Text returns a curve for people.
func (r *Result) Text(policies []hitcurve.Policy) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	if r.Name != "" {
		line("curve", "%s", r.Name)
	}
	line("requests", "%s, %s prompt tokens", bytefmt.Digits(r.Requests), bytefmt.Digits(int(r.InputTokens)))
	load := string(r.Load)
	if r.Concurrency > 0 {
		load += " " + strconv.Itoa(r.Concurrency)
	}
	if r.Order == "recorded" {
		line("order", "recorded")
	} else {
		line("order", "load %s, a server of %g prompt and %g output tokens/s", load, r.ServerRates.Prefill, r.ServerRates.Decode)
	}
	top, words := r.Unlimited.Policies[hitcurve.LRU], "LRU needs"
	if r.Pools > 1 && r.Router == simulate.KVRouter {
		line("caches", "%d, blocks of %d tokens, by %s", r.Pools, r.BlockSize, r.Router)
		words = "nothing is evicted from"
	} else {
		line("caches", "%d, blocks of %d tokens", r.Pools, r.BlockSize)
	}
	line("unlimited", "%s of prompt tokens; %s %s", share(top.HitRate), words, r.Unlimited.size())

	fmt.Fprintf(&b, "\n%12s %14s", "blocks", "tokens")
	if r.TokenBytes != nil {
		fmt.Fprintf(&b, " %10s", "GiB")
	}
	for _, p := range policies {
		fmt.Fprintf(&b, " %9s", p)
	}
	fmt.Fprintf(&b, " %16s %14s\n", "prefill saved", "of the ideal")
	for _, p := range r.Points {
		b.WriteString(p.row(policies, top.SavedTokens))
	}
	b.WriteString(r.tiersText())
	fmt.Fprintf(&b, "\nSizes are those of each cache. Prefill saved: by %s, in seconds of the server's prompt rate.\n", policies[0])
	return b.String()
}

// row returns a line of the table. What it saves is compared with the tokens that caches without a limit save.
func (p *Point) row(policies []hitcurve.Policy, ideal int64) string {
	text := fmt.Sprintf("%12s %14s", bytefmt.Digits(int(p.Blocks)), bytefmt.Digits(int(p.Tokens)))
	if p.GiB != nil {
		text += fmt.Sprintf(" %10.2f", *p.GiB)
	}
	for _, policy := range policies {
		text += fmt.Sprintf(" %9s", share(p.Policies[policy].HitRate))
	}
	one, part := p.Policies[policies[0]], measure.Number(math.NaN())
	if ideal > 0 {
		part = measure.Number(float64(one.SavedTokens) / float64(ideal))
	}
	return text + fmt.Sprintf(" %16s %14s\n", measure.FormatFigure(measure.Number(one.SavedPrefill), slo.Seconds), share(part))
}

// size returns the size of a cache in blocks, tokens and GiB as a text.
func (p *Point) size() string {
	text := fmt.Sprintf("%s blocks (%s tokens", bytefmt.Digits(int(p.Blocks)), bytefmt.Digits(int(p.Tokens)))
	if p.GiB != nil {
		text += fmt.Sprintf(", %.2f GiB", *p.GiB)
	}
	return text + ")"
}

func share(v measure.Number) string { return measure.FormatFigure(v, slo.Share) }
