package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/hitcurve"
)

// curveFlags say which caches --hit-curve compares.
type curveFlags struct {
	on          bool
	policies    []string
	sizes       []string
	rates       []float64
	order       string
	modelConfig string
	tokenBytes  int64
}

// curveNames are the flags that concern --hit-curve alone.
const curveNames = "hit-policy hit-sizes hit-order server-rates model-config kv-bytes-per-token"

func (c *curveFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&c.on, "hit-curve", false, "print the prefix-cache hit rate against the size of the cache, instead of simulating engines; each of --workers is a cache")
	flags.StringSliceVar(&c.policies, "hit-policy", []string{"lru"}, "which blocks a cache drops: lru, fifo, optimal; several with commas")
	flags.StringSliceVar(&c.sizes, "hit-sizes", nil, "sizes of each cache: N blocks, Ntok tokens, NGiB; several with commas (default: powers of two)")
	flags.StringVar(&c.order, "hit-order", "load", "order of the requests: load (as the load sends them to the server), or recorded (as the input has their times)")
	flags.Float64SliceVar(&c.rates, "server-rates", []float64{10000, 50}, "prompt and output tokens a second of the server, which decide the order of requests")
	flags.StringVar(&c.modelConfig, "model-config", "", "config.json of a model, which says what a token costs in its KV cache")
	flags.Int64Var(&c.tokenBytes, "kv-bytes-per-token", 0, "what a token costs in the KV cache of a worker, in place of --model-config")
}

// checkCurve adds what is wrong with the flags of a curve, and what does not go with it.
func (f *simulateFlags) checkCurve(list []*simulateRun) {
	c := &f.curve
	if !c.on {
		for name := range strings.FieldsSeq(curveNames) {
			if f.flags.Lookup(name).Changed {
				f.add("--%s: it concerns --hit-curve", name)
			}
		}
		return
	}
	for _, name := range []string{"out", "per-request", "html", "format", "overwrite", "gate", "sla-ttft", "sla-itl", "sla-e2e", "prefill-workers", "decode-workers", "planner", "router-config"} {
		if f.flags.Lookup(name).Changed {
			f.add("--%s beside --hit-curve, which simulates no engine", name)
		}
	}
	if f.router != string(simulate.RoundRobin) {
		f.add("--router %s beside --hit-curve: want round_robin; the choices of others depend on what caches of one size hold", f.router)
	}
	if len(list) > 1 || strings.HasPrefix(f.workers, "auto") {
		f.add("--hit-curve with several runs: want one value of --workers, --engine and --concurrency")
	}
	for _, p := range c.policies {
		if !slices.Contains(hitcurve.Policies, hitcurve.Policy(p)) {
			f.add("--hit-policy %s: %w", p, wrongWord(p, "lru, fifo or optimal", []string{"lru", "fifo", "optimal"}))
		}
	}
	f.checkOrder()
	if len(c.rates) != 2 {
		f.add("--server-rates: %d numbers: want PREFILL,DECODE", len(c.rates))
	} else if err := c.serverRates().Validate(); err != nil {
		f.add("--server-rates: %w", err)
	}
	f.checkTokenBytes(list[0].config.Engines()[0])
	if _, err := c.blocks(list[0].config.BlockSize()); err != nil {
		f.add("--hit-sizes %w", err)
	}
}

// checkOrder adds what is wrong with --hit-order.
func (f *simulateFlags) checkOrder() {
	switch f.curve.order {
	case "load":
	case "recorded":
		for _, name := range []string{"load", "concurrency", "arrival-speedup", "max-sim-time", "synthetic"} {
			if f.flags.Lookup(name).Changed {
				f.add("--%s beside --hit-order recorded, which plays no load", name)
			}
		}
		for _, line := range f.laneLines() {
			f.add("%s beside --hit-order recorded, which plays no load", f.lanes.show(line.name))
		}
	default:
		f.add("--hit-order %s: want load or recorded", f.curve.order)
	}
}

// maxTokenBytes bounds what a token costs.
const maxTokenBytes = 1 << 32

// checkTokenBytes finds what a token costs; 0: nothing says it.
func (f *simulateFlags) checkTokenBytes(e simulate.Engine) {
	c := &f.curve
	switch {
	case c.modelConfig != "" && c.tokenBytes != 0:
		f.add("--model-config beside --kv-bytes-per-token: want one of them")
	case c.modelConfig != "":
		data, err := regular.Read(c.modelConfig, maxObject)
		if err == nil {
			c.tokenBytes, err = hitcurve.BytesPerToken(data)
		}
		if err != nil {
			f.add("%s: %w", flagText("model-config", c.modelConfig), err)
		}
	case f.flags.Lookup("kv-bytes-per-token").Changed && (c.tokenBytes < 1 || c.tokenBytes > maxTokenBytes):
		f.add("--kv-bytes-per-token %d: want 1 to %d", c.tokenBytes, int64(maxTokenBytes))
	case c.tokenBytes == 0:
		c.tokenBytes = int64(e.Config.KVBytesPerToken)
	}
}

func (c *curveFlags) serverRates() hitcurve.Rates {
	return hitcurve.Rates{Prefill: c.rates[0], Decode: c.rates[1]}
}

// blocks returns the sizes in blocks, rounded down.
func (c *curveFlags) blocks(blockSize int) (list []int64, err error) {
	for _, text := range c.sizes {
		number, unit := text, float64(1)
		switch {
		case strings.HasSuffix(text, "tok"):
			number, unit = strings.TrimSuffix(text, "tok"), 1/float64(blockSize)
		case strings.HasSuffix(text, "GiB") && c.tokenBytes == 0:
			return nil, fmt.Errorf("%s: what a token costs is not known: add --model-config or --kv-bytes-per-token", text)
		case strings.HasSuffix(text, "GiB"):
			number, unit = strings.TrimSuffix(text, "GiB"), (1<<30)/(float64(blockSize)*float64(c.tokenBytes))
		}
		v, err := strconv.ParseFloat(number, 64)
		if size := math.Floor(v * unit); err == nil && size >= 0 && size < 1<<53 {
			list = append(list, int64(size))
			continue
		}
		return nil, fmt.Errorf("%s: want a number of blocks, such as 16384, of tokens, such as 1e6tok, or 80GiB", text)
	}
	return list, nil
}

// printCurve computes the curve and prints it.
func (f *simulateFlags) printCurve(ctx context.Context, w io.Writer, config simulate.Config) error {
	o := hitcurve.Options{}
	for _, p := range f.curve.policies {
		o.Policies = append(o.Policies, hitcurve.Policy(p))
	}
	var err error
	if o.Sizes, err = f.curve.blocks(config.BlockSize()); err != nil {
		return usageError{err}
	}
	curve, err := config.HitCurve(ctx, f.curve.serverRates(), f.curve.order == "recorded", o)
	if err != nil {
		return err
	}
	c := f.curve.result(curve, &config)
	if f.asJSON {
		return printJSON(w, c)
	}
	return c.write(w, o.Policies)
}

// curveResult is the object of --json.
type curveResult struct {
	Requests    int            `json:"requests"`
	InputTokens int64          `json:"input_tokens"`
	Pools       int            `json:"pools"`
	BlockSize   int            `json:"block_size"`
	TokenBytes  *int64         `json:"kv_bytes_per_token"` // null: not known
	Order       string         `json:"order"`              // load or recorded
	Load        simulate.Load  `json:"load"`
	Concurrency int            `json:"concurrency"` // 0: load trace
	ServerRates hitcurve.Rates `json:"server_rates"`
	Unlimited   curvePoint     `json:"unlimited"` // the least size at which LRU finds what caches without a limit find
	Points      []curvePoint   `json:"points"`
}

// curvePoint is one size of each cache.
type curvePoint struct {
	Blocks   int64                          `json:"blocks"`
	Tokens   int64                          `json:"tokens"`
	GiB      *float64                       `json:"gib"` // null: what a token costs is not known
	Policies map[hitcurve.Policy]curveFound `json:"policies"`
}

// curveFound is what the caches of a size find, all together.
type curveFound struct {
	HitRate      measure.Number `json:"hit_rate"` // of prompt tokens
	SavedTokens  int64          `json:"saved_tokens"`
	SavedPrefill float64        `json:"saved_prefill"` // seconds of a server of the prefill rate
}

func (c *curveFlags) result(curve *hitcurve.Curve, config *simulate.Config) *curveResult {
	r := &curveResult{
		Requests: curve.Requests, InputTokens: curve.InputTokens, Pools: curve.Pools, BlockSize: config.BlockSize(),
		Order: c.order, Load: config.LoadOf(), Concurrency: config.Concurrency, ServerRates: c.serverRates(),
	}
	if c.tokenBytes > 0 {
		r.TokenBytes = &c.tokenBytes
	}
	point := func(size int64, found map[hitcurve.Policy]int64) curvePoint {
		p := curvePoint{Blocks: size, Tokens: size * int64(r.BlockSize), Policies: map[hitcurve.Policy]curveFound{}}
		if c.tokenBytes > 0 {
			gib := float64(p.Tokens) * float64(c.tokenBytes) / (1 << 30)
			p.GiB = &gib
		}
		for policy, tokens := range found {
			rate := measure.Number(math.NaN())
			if r.InputTokens > 0 {
				rate = measure.Number(float64(tokens) / float64(r.InputTokens))
			}
			p.Policies[policy] = curveFound{rate, tokens, float64(tokens) / r.ServerRates.Prefill}
		}
		return p
	}
	r.Unlimited = point(curve.Enough, map[hitcurve.Policy]int64{hitcurve.LRU: curve.Found})
	for _, p := range curve.Points {
		r.Points = append(r.Points, point(p.Size, p.Found))
	}
	return r
}

// write prints the curve for people.
func (r *curveResult) write(w io.Writer, policies []hitcurve.Policy) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	line("requests", "%s, %s prompt tokens", groupDigits(r.Requests), groupDigits(int(r.InputTokens)))
	load := string(r.Load)
	if r.Concurrency > 0 {
		load += " " + strconv.Itoa(r.Concurrency)
	}
	if r.Order == "recorded" {
		line("order", "recorded")
	} else {
		line("order", "load %s, a server of %g prompt and %g output tokens/s", load, r.ServerRates.Prefill, r.ServerRates.Decode)
	}
	line("caches", "%d, blocks of %d tokens", r.Pools, r.BlockSize)
	top := r.Unlimited.Policies[hitcurve.LRU]
	line("unlimited", "%s of prompt tokens; LRU needs %s", shareFigure(top.HitRate), r.Unlimited.text())

	fmt.Fprintf(&b, "\n%12s %14s", "blocks", "tokens")
	if r.TokenBytes != nil {
		fmt.Fprintf(&b, " %10s", "GiB")
	}
	for _, p := range policies {
		fmt.Fprintf(&b, " %9s", p)
	}
	fmt.Fprintf(&b, " %16s %14s\n", "prefill saved", "of the ideal")
	for _, p := range r.Points {
		fmt.Fprintf(&b, "%12s %14s", groupDigits(int(p.Blocks)), groupDigits(int(p.Tokens)))
		if p.GiB != nil {
			fmt.Fprintf(&b, " %10.2f", *p.GiB)
		}
		for _, policy := range policies {
			fmt.Fprintf(&b, " %9s", shareFigure(p.Policies[policy].HitRate))
		}
		one := p.Policies[policies[0]]
		share := measure.Number(math.NaN())
		if top.SavedTokens > 0 {
			share = measure.Number(float64(one.SavedTokens) / float64(top.SavedTokens))
		}
		fmt.Fprintf(&b, " %16s %14s\n", secondsFigure(measure.Number(one.SavedPrefill)), shareFigure(share))
	}
	fmt.Fprintf(&b, "\nSizes are those of each cache. Prefill saved: by %s, in seconds of the server's prompt rate.\n", policies[0])
	_, err := io.WriteString(w, b.String())
	return err
}

// text says how large a cache is.
func (p *curvePoint) text() string {
	text := fmt.Sprintf("%s blocks (%s tokens", groupDigits(int(p.Blocks)), groupDigits(int(p.Tokens)))
	if p.GiB != nil {
		text += fmt.Sprintf(", %.2f GiB", *p.GiB)
	}
	return text + ")"
}
