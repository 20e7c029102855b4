package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// inspectFlags say what to show of a cache, and how.
type inspectFlags struct {
	sel                                  mmapcache.Selection
	turn                                 int // None: all
	all, digest, messages, stats, asJSON bool
	model                                string
}

func (f *inspectFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.sel.Trace, "trace", "", "only this trace")
	flags.StringVar(&f.sel.Session, "session", "", "only this session")
	flags.IntVar(&f.turn, "turn", mmapcache.None, "only this turn of each session, from 0")
	flags.Lookup("turn").DefValue = "0" // usage prints no default
	flags.BoolVar(&f.all, "all", false, "show every turn of every trace")
	flags.BoolVar(&f.digest, "digest", false, "print one JSON line of digests per trace")
	flags.StringVar(&f.model, "model", "-", "with --digest: model name of every turn; - keeps the recorded ones")
	flags.BoolVar(&f.messages, "messages", false, "print messages as JSON lines")
	flags.BoolVar(&f.stats, "stats", false, "print statistics of all traces")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object: the list of traces, or with --stats the statistics")
}

// turns reports whether the flags ask for turns.
func (f *inspectFlags) turns() bool {
	return f.all || f.sel.Trace != "" || f.sel.Session != "" || f.turn != mmapcache.None
}

// check returns a usage error for flags that do not go together.
func (f *inspectFlags) check() error {
	switch {
	case f.messages && f.sel.Trace == "" && f.sel.Session == "":
		return usageError{fmt.Errorf("--messages: say which trace with --trace ID")}
	case f.turn < mmapcache.None:
		return usageError{fmt.Errorf("--turn %d: want 0 or more", f.turn)}
	case f.model != "-" && !f.digest:
		return usageError{fmt.Errorf("--model: goes with --digest")}
	case f.digest && (f.messages || f.stats) || f.messages && f.stats:
		return usageError{fmt.Errorf("--digest, --messages, --stats: choose one")}
	case f.asJSON && !f.stats && (f.digest || f.messages || f.turns()):
		return usageError{fmt.Errorf("--json: goes with the list of traces and with --stats")}
	}
	return nil
}

func newInspect() *cobra.Command {
	var f inspectFlags
	var c convertFlags
	cmd := &cobra.Command{
		Use:   "inspect CACHE|INPUT",
		Short: "Show what a prepared cache holds and sends",
		Long: `List the traces of a prepared cache, or show what it sends. An INPUT is converted first, or found
converted.

Without flags it lists the traces: sessions, turns, prompt tokens, the span from the start of the
first turn to the end of the last, as recorded, and the start in the recording if it has one. With --trace, --session or --turn it shows what
is sent, turn by turn, in a stable text form; long texts are cut unless a single turn is chosen.

  --all       every turn of every trace in that form
  --messages  the messages as JSON lines, exactly as sent
  --digest    one JSON line per trace, to compare programs with
  --stats     statistics of all traces, with the lengths of prompts (ISL) and completions (OSL)

The tables of a cache are Arrow files, for any program that reads those: doc/tables.md.`,
		Example: "  agentx inspect demo\n  agentx inspect demo --trace demo-01-append\n  agentx inspect CACHE --trace ID --session SESSION --turn 0",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			dataset, err := openDataset(cmd, &c, args[0])
			if err != nil {
				return err
			}
			defer dataset.Close()
			if f.turn != mmapcache.None {
				f.sel.Turn = &f.turn
			}
			if err := checkSelection(dataset.Cache, args[0], f.sel); err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			if err := f.write(cmd.Context(), out, dataset.Cache); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	f.register(cmd)
	c.registerForInput(cmd)
	return cmd
}

// write writes what the flags ask for.
func (f *inspectFlags) write(ctx context.Context, out *bufio.Writer, c *mmapcache.Cache) error {
	switch {
	case f.digest:
		return writeDigests(ctx, out, c, f.sel.Trace, f.model)
	case f.messages:
		return writeMessages(ctx, out, c, f.sel)
	case f.stats:
		return writeStats(out, c, f.asJSON)
	case f.turns():
		return c.WriteText(ctx, out, f.sel, f.turn != mmapcache.None)
	}
	return writeTraces(out, c, f.asJSON)
}

func writeDigests(ctx context.Context, w io.Writer, c *mmapcache.Cache, trace, model string) error {
	return c.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := range s.Traces.Len() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if trace != "" && s.Traces.At(k).ID != trace {
				continue
			}
			d, err := c.Digest(first+k, model)
			if err != nil {
				return err
			}
			if err := printJSON(w, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeMessages writes one line per turn. The content is what replay sends, byte for byte.
func writeMessages(ctx context.Context, w *bufio.Writer, c *mmapcache.Cache, sel mmapcache.Selection) error {
	var prompt mmapcache.Prompt
	var line []byte
	return c.EachTurn(ctx, sel, mmapcache.Text, func(t *mmapcache.RenderedTrace, n, turn int) error {
		s := t.Sessions[n]
		t.Prompt(turn, &prompt)
		line = append(line[:0], `{"trace":`...)
		line = appendQuoted(line, t.Trace.ID)
		line = append(line, `,"session":`...)
		line = appendQuoted(line, s.ID)
		line = append(line, `,"turn":`...)
		line = strconv.AppendInt(line, int64(turn)-int64(s.FirstTurn), 10)
		line = append(line, `,"messages":[`...)
		line = payload.AppendMessages(line, &prompt)
		line = append(line, `],"tokens":`...)
		line = append(strconv.AppendInt(line, int64(prompt.Tokens), 10), "}\n"...)
		_, err := w.Write(line)
		return err
	})
}

// traceRow is a line of the list of traces.
type traceRow struct {
	ID           string  `json:"id"`
	Sessions     int     `json:"sessions"`
	Turns        int     `json:"turns"`
	PromptTokens int64   `json:"prompt_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Span         float64 `json:"span"` // seconds from the start of the first turn to the end of the last, as recorded

	RecordedStart *float64 `json:"recorded_start_ms"` // on the clock of the recording; nil where it has none
}

// traceRows reads the list of traces of a cache.
func traceRows(c *mmapcache.Cache) (list []traceRow, err error) {
	err = c.EachShard(func(_ int, s *mmapcache.Structure) error {
		for k := range s.Traces.Len() {
			r := rowOf(s, s.Traces.At(k))
			if ms, ok := s.RecordedStart(k); ok {
				r.RecordedStart = &ms
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

func rowOf(s *mmapcache.Structure, t mmapcache.Trace) traceRow {
	r := traceRow{ID: t.ID, Sessions: int(t.Sessions), Turns: int(t.Turns)}
	begin, end := 0.0, 0.0
	for k, turn := range s.Turns.Range(nil, t.FirstTurn, t.Turns) {
		r.PromptTokens += int64(turn.In)
		r.OutputTokens += int64(turn.Out)
		if k == 0 {
			begin, end = turn.T, turn.T
		}
		begin, end = min(begin, turn.T), max(end, turn.T)
		if turn.APITime > 0 { // it was recorded
			end = max(end, turn.T+turn.APITime)
		}
	}
	r.Span = end - begin
	return r
}

// writeTraces prints the list of traces of a cache.
func writeTraces(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	list, err := traceRows(c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, map[string]any{"traces": list})
	}
	t := tabwriter.NewWriter(sanitizer{w}, 0, 0, 2, ' ', 0)
	starts := slices.ContainsFunc(list, func(r traceRow) bool { return r.RecordedStart != nil })
	head := "TRACE\tSESSIONS\tTURNS\tPROMPT TOKENS\tSPAN"
	if starts {
		head += "\tSTART"
	}
	fmt.Fprintln(t, head)
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s", sanitize(r.ID), groupDigits(r.Sessions), groupDigits(r.Turns), groupDigits(int(r.PromptTokens)), spanText(r.Span))
		if starts {
			fmt.Fprint(t, "\t"+startText(r.RecordedStart))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// startText writes a recorded start, in milliseconds, for people: all of its digits, in seconds.
func startText(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms/1000, 'f', -1, 64) + "s"
}

const year = 365.25 * 24 * 3600 // seconds

// spanText writes a span of recorded time, in seconds, for people. Damaged times give spans of centuries, which a
// time.Duration does not hold.
func spanText(seconds float64) string {
	if seconds > 100*year {
		return fmt.Sprintf("%.0f years", seconds/year)
	}
	unit := time.Second
	if seconds < 10 {
		unit = time.Second / 10
	}
	return time.Duration(seconds * 1e9).Round(unit).String()
}

// checkSelection returns an error if a cache lacks the trace or session of a selection. It suggests the most similar name.
func checkSelection(c *mmapcache.Cache, cache string, sel mmapcache.Selection) error {
	if sel.Trace == "" && sel.Session == "" {
		return nil
	}
	var traces, sessions []string
	err := c.EachShard(func(_ int, s *mmapcache.Structure) error {
		for i := range s.Traces.Len() {
			t := s.Traces.At(i)
			traces = append(traces, t.ID)
			if sel.Session == "" || sel.Trace != "" && sel.Trace != t.ID {
				continue
			}
			for k := range t.Sessions {
				sessions = append(sessions, s.Sessions.At(int(t.FirstSession+k)).ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case sel.Trace != "" && !slices.Contains(traces, sel.Trace):
		return unknownName("trace", sel.Trace, traces, "agentx inspect "+cache+" lists them")
	case sel.Session != "" && !slices.Contains(sessions, sel.Session):
		return unknownName("session", sel.Session, sessions, "agentx inspect "+cache+" --all | grep ^session")
	}
	return nil
}

// unknownName returns an error about a name that a cache lacks. It suggests the most similar name, or else how to look.
func unknownName(what, name string, names []string, look string) error {
	err := fmt.Errorf("no %s %q in this cache", what, name)
	if near := suggest.Closest(name, names); near != "" {
		return hintError{err, fmt.Sprintf("--%s %s", what, near)}
	}
	return hintError{err, look}
}

// corpusStats are statistics of all traces of a cache.
type corpusStats struct {
	Traces          int            `json:"traces"`
	Sessions        map[string]int `json:"sessions"` // by class
	Joined          int            `json:"joined"`
	Background      int            `json:"background"`
	Turns           int            `json:"turns"`
	PromptTokens    int64          `json:"prompt_tokens"`
	UniqueTokens    int64          `json:"unique_tokens"` // of distinct blocks, as far as prompts hold them, and of fillers
	OutputTokens    int64          `json:"output_tokens"`
	LargestPrompt   uint32         `json:"largest_prompt"`
	HashIDs         int64          `json:"hash_ids"`
	Blocks          int            `json:"blocks"` // distinct, over all traces
	BlockRuns       int            `json:"block_runs"`
	Segments        int            `json:"segments"`
	TheoreticalHits float64        `json:"theoretical_hit_rate"`       // BlockHits under its older name
	BlockHits       float64        `json:"theoretical_block_hit_rate"` // of an unlimited prefix cache, of the blocks with a hash id
	TokenHits       float64        `json:"theoretical_token_hit_rate"` // of all prompt tokens, as servers count
	Scopes          map[string]int `json:"scopes"`                     // traces by hash_id_scope
	Generations     map[string]int `json:"generations"`                // traces by generation of the format
	RecordedStarts  int            `json:"recorded_starts"`            // traces whose recording says when they began
	Seams           int            `json:"seams"`
	ChainBreaks     int            `json:"chain_breaks"`
	Ambiguous       int            `json:"ambiguous_clocks"`
	Dropped         int            `json:"dropped_subagents"`
	CorpusTokens    int            `json:"corpus_tokens"`
	ISL             measure.Stat   `json:"isl"` // length of prompts, tokens
	OSL             measure.Stat   `json:"osl"` // length of completions, tokens

	Oddities []mmapcache.Oddity `json:"oddities"`
}

func statsOf(c *mmapcache.Cache) (st corpusStats, err error) {
	st = corpusStats{Traces: c.Traces(), Turns: c.Facts.Turns, Sessions: map[string]int{}, Scopes: map[string]int{},
		Generations: c.Facts.Generations, RecordedStarts: c.Facts.Starts, Seams: c.Facts.Seams, ChainBreaks: c.Facts.ChainBreaks,
		Ambiguous: c.Facts.Ambiguous, Dropped: c.Facts.Dropped,
		CorpusTokens: c.CorpusTokens(),
		Oddities:     append([]mmapcache.Oddity{}, c.Facts.Oddities...)}
	isl, osl := measure.Counts{}, measure.Counts{} // a list of them would grow with the dataset
	err = c.EachShard(func(_ int, s *mmapcache.Structure) error {
		st.add(s)
		for i := range s.Turns.Len() {
			t := s.Turns.At(i)
			isl[int64(t.In)]++
			osl[int64(t.Out)]++
		}
		return nil
	})
	if err != nil {
		return st, err
	}
	st.ISL, st.OSL = isl.Stat(), osl.Stat()
	if st.BlockHits, st.TokenHits, err = c.HitRates(); err != nil {
		return st, err
	}
	st.TheoreticalHits = st.BlockHits
	sharing, err := c.Sharing()
	st.Blocks, st.UniqueTokens = sharing.Blocks, sharing.Tokens
	return st, err
}

// add counts the rows of a shard.
func (st *corpusStats) add(s *mmapcache.Structure) {
	st.BlockRuns += s.Runs.Len()
	st.Segments += s.Segments.Len()
	for i := range s.Traces.Len() {
		st.Scopes[s.Traces.At(i).Scope]++
	}
	for i := range s.Sessions.Len() {
		e := s.Sessions.At(i)
		st.Sessions[e.Kind.String()]++
		if e.Parent != mmapcache.None {
			if e.JoinTurn == mmapcache.None {
				st.Background++
			} else {
				st.Joined++
			}
		}
	}
	for i := range s.Turns.Len() {
		t := s.Turns.At(i)
		st.PromptTokens += int64(t.In)
		st.OutputTokens += int64(t.Out)
		st.HashIDs += int64(t.HashIDs)
		st.LargestPrompt = max(st.LargestPrompt, t.In)
	}
}

// lengthsText writes a distribution of lengths for people.
func lengthsText(s measure.Stat) string {
	if s.N == 0 {
		return "-"
	}
	whole := func(n measure.Number) string { return groupDigits(int(math.Round(float64(n)))) }
	return fmt.Sprintf("mean %s  p50 %s  p75 %s  p90 %s  p95 %s  p99 %s  max %s",
		whole(s.Mean), whole(s.P50), whole(s.P75), whole(s.P90), whole(s.P95), whole(s.P99), whole(s.Max))
}

func writeStats(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	st, err := statsOf(c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, st)
	}
	row := func(name, value string) { fmt.Fprintf(w, "%-24s %s\n", sanitize(name), value) }
	row("traces", groupDigits(st.Traces))
	for _, kind := range slices.Sorted(maps.Keys(st.Scopes)) {
		row("  scope "+kind, groupDigits(st.Scopes[kind]))
	}
	for _, name := range slices.Sorted(maps.Keys(st.Generations)) {
		row("  generation "+name, groupDigits(st.Generations[name]))
	}
	if st.RecordedStarts > 0 {
		row("  recorded starts", groupDigits(st.RecordedStarts))
	}
	for _, kind := range slices.Sorted(maps.Keys(st.Sessions)) {
		row("sessions "+kind, groupDigits(st.Sessions[kind]))
	}
	row("joined, background", groupDigits(st.Joined)+", "+groupDigits(st.Background))
	row("seams", groupDigits(st.Seams))
	row("dropped subagents", groupDigits(st.Dropped))
	row("guessed clocks", groupDigits(st.Ambiguous))
	row("turns", groupDigits(st.Turns))
	row("prompt tokens", groupDigits(int(st.PromptTokens)))
	row("unique tokens", groupDigits(int(st.UniqueTokens)))
	row("output tokens", groupDigits(int(st.OutputTokens)))
	row("largest prompt", groupDigits(int(st.LargestPrompt)))
	row("hash ids", groupDigits(int(st.HashIDs)))
	row("distinct blocks", groupDigits(st.Blocks))
	row("runs of blocks", groupDigits(st.BlockRuns))
	row("chain breaks", groupDigits(st.ChainBreaks))
	row("segments", groupDigits(st.Segments))
	row("theoretical hits, blocks", fmt.Sprintf("%.4f", st.BlockHits))
	row("theoretical hits, tokens", fmt.Sprintf("%.4f", st.TokenHits))
	row("prompt corpus", groupDigits(st.CorpusTokens)+" tokens")
	row("ISL, tokens", lengthsText(st.ISL))
	row("OSL, tokens", lengthsText(st.OSL))
	for _, o := range st.Oddities {
		row("odd: "+o.Kind, groupDigits(o.Count))
	}
	return nil
}
