package setup

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve/chart"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
)

// curveFlags say which caches --hit-curve compares.
type curveFlags struct {
	on          bool
	policies    []string
	sizes       []string
	tiers       []string
	levels      []engine.Tier // that tiers says
	rates       []float64
	order       string
	modelConfig string
	tokenBytes  int64
	options     hitcurve.Options // of policies and sizes
	tiered      []chart.Tier     // names and sizes
}

// curveNames are the flags that concern --hit-curve alone.
const curveNames = "hit-policy hit-sizes hit-order server-rates"

// rows returns the settings of --hit-curve.
func (c *curveFlags) rows() []settings.Setting {
	row := rowOf(settings.Curve)
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
		row("hit-sizes", lists, nil, &c.sizes, "sizes of each cache: N blocks, Ntok tokens, NGiB, NTiB; several with commas (default: powers of two)"),
		row("tiers", lists, nil, &c.tiers, "tiers of each worker's cache, the fastest first: NAME:SIZE[:GB/s], such as gpu:90GiB,host:1TiB:50,disk:8TiB:6; gpu is the pool; says which share of the hits each serves"),
		row("hit-order", settings.Word("load\tas the load sends requests", "recorded\tas the input has their times"), "load", &c.order, "order of the requests: load (as the load sends them to the server), or recorded (as the input has their times)"),
		row("server-rates", numbersKind("float64Slice", func(text string) ([]float64, error) {
			v, err := strconv.ParseFloat(text, 64)
			return []float64{v}, err
		}), []float64{10000, 50}, &c.rates, "`PREFILL,DECODE` tokens a second of the server, prompt and output, which decide the order of requests"),
		row("model-config", objectKind(), "", &c.modelConfig, "config.json of a model, which says what a token costs in its KV cache"),
		row("kv-bytes-per-token", bytes, int64(0), &c.tokenBytes, "what a token costs in the KV cache of a worker, in place of --model-config and of kv_bytes_per_token of the engine"),
	}
}

// checkCurve adds what is wrong with the flags of a curve, and what does not go with it.
func (f *Flags) checkCurve() {
	c := &f.curve
	if !c.on {
		for name := range strings.FieldsSeq(curveNames) {
			if f.isSet(name) {
				f.add("--%s works only with --hit-curve", name)
			}
		}
		return
	}
	for _, name := range []string{"out", "per-request", "sample", "format", "overwrite", "gate", "sla-ttft", "sla-itl", "sla-e2e", "prefill-workers", "decode-workers", "planner"} {
		if f.isSet(name) {
			f.add("--%s beside --hit-curve, which simulates no engine: leave it out", name)
		}
	}
	if len(f.engines) > 1 || strings.HasPrefix(f.workers, "auto") {
		f.add("--hit-curve: give one --engine, and numbers of --workers, not auto")
	}
	for _, p := range c.policies {
		if c.options.Policies = append(c.options.Policies, hitcurve.Policy(p)); !slices.Contains(hitcurve.Policies, hitcurve.Policy(p)) {
			f.add("%s: %w", f.shown("hit-policy", p), suggest.Wrong(p, "lru, fifo or optimal", []string{"lru", "fifo", "optimal"}))
		}
	}
	f.checkOrder()
	if len(c.rates) != 2 {
		f.add(f.set.Named("server-rates")+": %d numbers: want PREFILL,DECODE", len(c.rates))
	} else if err := c.serverRates().Validate(); err != nil {
		f.add(f.set.Named("server-rates")+": %w", err)
	}
	if c.tokenBytes == 0 {
		c.tokenBytes = int64(f.runs[0].Config.Engines()[0].Config.KVBytesPerToken)
	}
	f.checkSizes(f.runs[0].Config.BlockSize())
}

// checkSizes reads the sizes and tiers of the caches, in blocks. Of tiers the curve has the sizes of each with those before it.
func (f *Flags) checkSizes(blockSize int) {
	c := &f.curve
	for _, text := range c.sizes {
		size, err := engine.ParseSize(text, blockSize, float64(c.tokenBytes))
		if err != nil {
			f.add("--hit-sizes %w", err)
			return
		}
		c.options.Sizes = append(c.options.Sizes, size)
	}
	if len(c.tiers) > 0 && !slices.Contains(c.options.Policies, hitcurve.LRU) {
		f.add("--tiers with --hit-policy %s: tiers drop what was used the longest ago: add lru", strings.Join(c.policies, ","))
	}
	total := int64(0)
	for k, level := range c.levels {
		blocks, err := engine.ParseSize(level.Size, blockSize, float64(c.tokenBytes))
		switch {
		case err == nil && blocks == 0:
			err = fmt.Errorf("%s: want at least a block of %d tokens", c.tiers[k], blockSize)
		case slices.ContainsFunc(c.tiered, func(t chart.Tier) bool { return t.Name == level.Name }):
			err = fmt.Errorf("%s: %s is given twice", c.tiers[k], level.Name)
		}
		if err != nil {
			f.add("--tiers %w", err)
			return
		}
		total += blocks
		c.tiered = append(c.tiered, chart.Tier{Name: level.Name, Blocks: blocks})
		c.options.Sizes = append(c.options.Sizes, total)
	}
}

// checkOrder adds what is wrong with --hit-order.
func (f *Flags) checkOrder() {
	if f.curve.order == "recorded" {
		if f.Config.Router == simulate.KVRouter {
			f.add("--router kv_router beside --hit-order recorded: a router needs to know which requests are at work")
		}
		for _, name := range []string{"load", "concurrency", "arrival-speedup", "max-sim-time", "synthetic"} {
			if f.isSet(name) {
				f.add("--%s beside --hit-order recorded, which plays no load: leave it out", name)
			}
		}
		for _, name := range f.lanesSet() {
			f.add("%s beside --hit-order recorded, which plays no load: leave it out", f.set.Show(name))
		}
	}
}

// maxTokenBytes bounds what a token costs.
const maxTokenBytes = 1 << 32

// readTiers reads --tiers, and what a token costs where a flag says it.
func (f *Flags) readTiers() {
	c := &f.curve
	for _, text := range c.tiers {
		parts := strings.SplitN(text, ":", 3)
		t, err := engine.Tier{Name: parts[0]}, error(nil)
		if len(parts) == 3 {
			t.GBPerS, err = strconv.ParseFloat(parts[2], 64)
		}
		if len(parts) == 1 || t.Name == "" || err != nil {
			f.add("--tiers %s: want NAME:SIZE or NAME:SIZE:GB/s, such as host:1TiB:50", text)
			c.tiers, c.levels = nil, nil
			return
		}
		t.Size = parts[1]
		c.levels = append(c.levels, t)
	}
	if c.modelConfig == "" {
		return
	}
	switch {
	case c.tokenBytes != 0:
		f.add("--model-config beside --kv-bytes-per-token: leave one of them out")
	default:
		data, err := regular.Read(c.modelConfig, maxObject)
		if err == nil {
			c.tokenBytes, err = hitcurve.BytesPerToken(data)
		}
		if err != nil {
			f.add("%s: %w", f.shown("model-config", c.modelConfig), err)
		}
	}
}

// tieredEngine returns an engine with what --tiers and the costs of a token say: of the tiers the first is the pool.
func (f *Flags) tieredEngine(c engine.Config) engine.Config {
	if f.curve.on {
		return c
	}
	if f.curve.tokenBytes > 0 {
		c.KVBytesPerToken = float64(f.curve.tokenBytes)
	}
	if len(f.curve.levels) == 0 {
		return c
	}
	pool := f.curve.levels[0]
	blocks, err := engine.ParseSize(pool.Size, c.BlockSize, c.KVBytesPerToken)
	switch {
	case pool.Name != engine.PoolTier || pool.GBPerS != 0:
		f.add("--tiers %s: the first tier is the pool of the workers: want %s:SIZE", f.curve.tiers[0], engine.PoolTier)
		return c
	case err != nil:
		f.add("--tiers %w", err)
		return c
	}
	tiered := c
	tiered.Blocks, tiered.Tiers = int(min(blocks, math.MaxInt32)), f.curve.levels[1:]
	if err := tiered.Validate(); err != nil {
		f.addEach("--tiers", err, "engine: ")
		return c
	}
	return tiered
}

// serverRates returns the rates as --server-rates has them. There are two.
func (c *curveFlags) serverRates() hitcurve.Rates {
	return hitcurve.Rates{Prefill: c.rates[0], Decode: c.rates[1]}
}

// printCurves computes the curves and prints them.
func (f *Flags) printCurves(ctx context.Context, w io.Writer) error {
	o, page := f.curve.options, f.Player.HTML
	if page != "" {
		o.Fine = chart.Smooth
	}
	if page == simulate.PageFile { // the page of a curve has another name than that of a run
		page = chart.PageFile
	}
	var curves []*chart.Result
	recorded := f.curve.order == "recorded"
	for _, r := range f.runs {
		curve, err := r.Config.HitCurve(ctx, f.curve.serverRates(), recorded, o)
		if err != nil {
			return err
		}
		one := chart.New(curve, &r.Config, f.curve.serverRates(), recorded, f.curve.tokenBytes)
		one.Name = r.Name
		one.SetTiers(f.curve.tiered)
		curves = append(curves, one)
	}
	if page != "" {
		if err := chart.Write(page, "Hit-rate curve", curves, f.Player.Origin); err != nil {
			return err
		}
	}
	switch {
	case f.JSON && len(curves) == 1:
		return terminal.JSON(w, curves[0])
	case f.JSON:
		return terminal.JSON(w, map[string]any{"curves": curves})
	}
	var texts []string
	for _, c := range curves {
		texts = append(texts, c.Text(o.Policies))
	}
	if page != "" {
		texts = append(texts, fmt.Sprintf("page            %s\n", page))
	}
	_, err := io.WriteString(w, strings.Join(texts, "\n"))
	return err
}
