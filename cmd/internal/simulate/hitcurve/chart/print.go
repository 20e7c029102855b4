package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

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

// size says how large a cache is.
func (p *Point) size() string {
	text := fmt.Sprintf("%s blocks (%s tokens", bytefmt.Digits(int(p.Blocks)), bytefmt.Digits(int(p.Tokens)))
	if p.GiB != nil {
		text += fmt.Sprintf(", %.2f GiB", *p.GiB)
	}
	return text + ")"
}

func share(v measure.Number) string { return measure.FormatFigure(v, slo.Share) }
