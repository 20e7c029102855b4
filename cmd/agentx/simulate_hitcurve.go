package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/hitcurve"
	"github.com/agentx/agentx/simulate/hitcurve/chart"
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

func (c *curveFlags) rows() []settings.Setting {
	row := func(name string, k settings.Kind, value, to any, help string) settings.Setting {
		return settings.Setting{Name: name, Group: settings.Curve, Plain: true, Kind: k, Default: value, To: to, Help: help}
	}
	lists := settings.List(func(text string) ([]string, error) { return strings.Split(text, ","), nil })
	lists.Type = "stringSlice"
	policies := lists
	policies.Words = []string{"lru", "fifo", "optimal"}
	bytes := settings.Kind{Want: fmt.Sprintf("1 to %d", int64(maxTokenBytes)), Type: "int64", Tags: []string{settings.Int}, Read: func(text string) (any, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= 1 && n <= maxTokenBytes
	}}
	return []settings.Setting{
		row("hit-curve", settings.Yes, false, &c.on, "print the prefix-cache hit rate against the size of the cache, instead of simulating engines; each of --workers is a cache"),
		row("hit-policy", policies, []string{"lru"}, &c.policies, "which blocks a cache drops: lru, fifo, optimal; several with commas"),
		row("hit-sizes", lists, nil, &c.sizes, "sizes of each cache: N blocks, Ntok tokens, NGiB; several with commas (default: powers of two)"),
		row("hit-order", settings.Word("load\tas the load sends requests", "recorded\tas the input has their times"), "load", &c.order, "order of the requests: load (as the load sends them to the server), or recorded (as the input has their times)"),
		row("server-rates", numbersKind("float64Slice", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }), []float64{10000, 50}, &c.rates, "`PREFILL,DECODE` tokens a second of the server, prompt and output, which decide the order of requests"),
		row("model-config", objectKind(), "", &c.modelConfig, "config.json of a model, which says what a token costs in its KV cache"),
		row("kv-bytes-per-token", bytes, int64(0), &c.tokenBytes, "what a token costs in the KV cache of a worker, in place of --model-config"),
	}
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
	for _, name := range []string{"out", "per-request", "sample", "format", "overwrite", "gate", "sla-ttft", "sla-itl", "sla-e2e", "prefill-workers", "decode-workers", "planner"} {
		if f.flags.Lookup(name).Changed {
			f.add("--%s beside --hit-curve, which simulates no engine", name)
		}
	}
	if len(f.engines) > 1 || strings.HasPrefix(f.workers, "auto") {
		f.add("--hit-curve: want one --engine, and numbers of --workers")
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
	if f.curve.order == "recorded" {
		if f.router == string(simulate.KVRouter) {
			f.add("--router kv_router beside --hit-order recorded: a router needs to know which requests are at work")
		}
		for _, name := range []string{"load", "concurrency", "arrival-speedup", "max-sim-time", "synthetic"} {
			if f.flags.Lookup(name).Changed {
				f.add("--%s beside --hit-order recorded, which plays no load", name)
			}
		}
		for _, name := range f.lanesSet() {
			f.add("%s beside --hit-order recorded, which plays no load", f.set.Show(name))
		}
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
			f.add("%s: %w", settings.FlagText("model-config", c.modelConfig), err)
		}
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

// printCurves computes the curves and prints them.
func (f *simulateFlags) printCurves(ctx context.Context, w io.Writer, list []*simulateRun) error {
	o, page := hitcurve.Options{}, ""
	if f.html != "" {
		o.Fine, page = chart.Smooth, f.curvePage()
	}
	for _, p := range f.curve.policies {
		o.Policies = append(o.Policies, hitcurve.Policy(p))
	}
	var err error
	if o.Sizes, err = f.curve.blocks(list[0].config.BlockSize()); err != nil {
		return usageError{err}
	}
	var curves []*chart.Result
	recorded := f.curve.order == "recorded"
	for _, r := range list {
		curve, err := r.config.HitCurve(ctx, f.curve.serverRates(), recorded, o)
		if err != nil {
			return err
		}
		one := chart.New(curve, &r.config, f.curve.serverRates(), recorded, f.curve.tokenBytes)
		one.Name = r.Name
		curves = append(curves, one)
	}
	if page != "" {
		if err := chart.Write(page, "Hit-rate curve", curves); err != nil {
			return err
		}
	}
	if f.asJSON {
		if len(curves) == 1 {
			return printJSON(w, curves[0])
		}
		return printJSON(w, struct {
			Curves []*chart.Result `json:"curves"`
		}{curves})
	}
	for k, c := range curves {
		if k > 0 {
			fmt.Fprintln(w)
		}
		if err := writeCurve(w, c, o.Policies); err != nil {
			return err
		}
	}
	if page != "" {
		fmt.Fprintln(w)
	}
	return printPage(w, page)
}

// curvePage returns the file of the page of a curve. That of a run has another name.
func (f *simulateFlags) curvePage() string {
	if f.html == simulate.PageFile {
		return chart.PageFile
	}
	return f.html
}

// writeCurve prints a curve for people.
func writeCurve(w io.Writer, r *chart.Result, policies []hitcurve.Policy) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	if r.Name != "" {
		line("curve", "%s", r.Name)
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
	top, words := r.Unlimited.Policies[hitcurve.LRU], "LRU needs"
	if r.Pools > 1 && r.Router == simulate.KVRouter {
		line("caches", "%d, blocks of %d tokens, by %s", r.Pools, r.BlockSize, r.Router)
		words = "nothing is evicted from"
	} else {
		line("caches", "%d, blocks of %d tokens", r.Pools, r.BlockSize)
	}
	line("unlimited", "%s of prompt tokens; %s %s", shareFigure(top.HitRate), words, sizeText(&r.Unlimited))

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

// sizeText says how large a cache is.
func sizeText(p *chart.Point) string {
	text := fmt.Sprintf("%s blocks (%s tokens", groupDigits(int(p.Blocks)), groupDigits(int(p.Tokens)))
	if p.GiB != nil {
		text += fmt.Sprintf(", %.2f GiB", *p.GiB)
	}
	return text + ")"
}
