// Package inspect prints what a prepared cache holds and sends: its traces, their statistics, digests and messages.
package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// WriteDigests writes a JSON line of digests for each trace, or for one.
func WriteDigests(ctx context.Context, w io.Writer, c *mmapcache.Cache, trace, model string) error {
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
			if err := terminal.JSON(w, d); err != nil {
				return err
			}
		}
		return nil
	})
}

// WriteMessages writes one line per turn. The content is what replay sends, byte for byte.
func WriteMessages(ctx context.Context, w *bufio.Writer, c *mmapcache.Cache, sel mmapcache.Selection) error {
	var prompt mmapcache.Prompt
	var line []byte
	return c.EachTurn(ctx, sel, c.TextEncoding(), func(t *mmapcache.RenderedTrace, n, turn int) error {
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

// rowOf adds up the turns of a trace.
func rowOf(s *mmapcache.Structure, t mmapcache.Trace) traceRow {
	r := traceRow{ID: t.ID, Sessions: int(t.Sessions), Turns: int(t.Turns)}
	begin, end := 0.0, 0.0
	for k, turn := range s.Turns.Range(nil, t.FirstTurn, t.Turns) {
		r.PromptTokens += int64(turn.In)
		r.OutputTokens += recordedOut(turn)
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

// recordedOut returns the recorded completion of a turn, 0 tokens where there is none.
func recordedOut(t mmapcache.Turn) int64 {
	if t.Out == mmapcache.NoLength {
		return 0
	}
	return int64(t.Out)
}

// WriteTraces prints the list of traces of a cache.
func WriteTraces(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	list, err := traceRows(c)
	if err != nil {
		return err
	}
	if asJSON {
		return terminal.JSON(w, map[string]any{"traces": list})
	}
	t := tabwriter.NewWriter(terminal.Writer(w), 0, 0, 2, ' ', 0)
	starts := slices.ContainsFunc(list, func(r traceRow) bool { return r.RecordedStart != nil })
	head := "TRACE\tSESSIONS\tTURNS\tPROMPT TOKENS\tSPAN"
	if starts {
		head += "\tSTART"
	}
	fmt.Fprintln(t, head)
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s", terminal.Sanitize(r.ID), bytefmt.Digits(r.Sessions), bytefmt.Digits(r.Turns), bytefmt.Digits(int(r.PromptTokens)), spanText(r.Span))
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

// spanText writes a span of recorded seconds for people. Damaged times give spans of centuries, which a time.Duration cannot hold.
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

// statsOf computes the statistics of all traces of a cache.
func statsOf(c *mmapcache.Cache) (st corpusStats, err error) {
	st = corpusStats{Traces: c.Traces(), Turns: c.Facts.Turns, Sessions: map[string]int{}, Scopes: map[string]int{},
		Generations: c.Facts.Generations, RecordedStarts: c.Facts.Starts, Seams: c.Facts.Seams, ChainBreaks: c.Facts.ChainBreaks,
		Ambiguous: c.Facts.Ambiguous, Dropped: c.Facts.Dropped,
		CorpusTokens: c.CorpusTokens(),
		Oddities:     append([]mmapcache.Oddity{}, c.Facts.Oddities...)}
	isl, osl := measure.Counts{}, measure.Counts{} // a list of them would grow with the dataset
	err = c.EachShard(func(_ int, s *mmapcache.Structure) error {
		st.add(s, isl, osl)
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

// add counts the rows of a shard, and the lengths of its turns.
func (st *corpusStats) add(s *mmapcache.Structure, isl, osl measure.Counts) {
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
		st.OutputTokens += recordedOut(t)
		st.HashIDs += int64(t.HashIDs)
		st.LargestPrompt = max(st.LargestPrompt, t.In)
		isl[int64(t.In)]++
		if t.Out != mmapcache.NoLength {
			osl[int64(t.Out)]++
		}
	}
}

// lengthsText writes a distribution of lengths for people.
func lengthsText(s measure.Stat) string {
	if s.N == 0 {
		return "-"
	}
	whole := func(n measure.Number) string { return bytefmt.Digits(int(math.Round(float64(n)))) }
	return fmt.Sprintf("mean %s  p50 %s  p75 %s  p90 %s  p95 %s  p99 %s  max %s",
		whole(s.Mean), whole(s.P50), whole(s.P75), whole(s.P90), whole(s.P95), whole(s.P99), whole(s.Max))
}

// WriteStats prints statistics of all traces of a cache.
func WriteStats(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	st, err := statsOf(c)
	if err != nil {
		return err
	}
	if asJSON {
		return terminal.JSON(w, st)
	}
	row := func(name, value string) { fmt.Fprintf(w, "%-24s %s\n", terminal.Sanitize(name), value) }
	row("traces", bytefmt.Digits(st.Traces))
	for _, kind := range slices.Sorted(maps.Keys(st.Scopes)) {
		row("  scope "+kind, bytefmt.Digits(st.Scopes[kind]))
	}
	for _, name := range slices.Sorted(maps.Keys(st.Generations)) {
		row("  generation "+name, bytefmt.Digits(st.Generations[name]))
	}
	if st.RecordedStarts > 0 {
		row("  recorded starts", bytefmt.Digits(st.RecordedStarts))
	}
	for _, kind := range slices.Sorted(maps.Keys(st.Sessions)) {
		row("sessions "+kind, bytefmt.Digits(st.Sessions[kind]))
	}
	row("joined, background", bytefmt.Digits(st.Joined)+", "+bytefmt.Digits(st.Background))
	row("seams", bytefmt.Digits(st.Seams))
	row("dropped subagents", bytefmt.Digits(st.Dropped))
	row("guessed clocks", bytefmt.Digits(st.Ambiguous))
	row("turns", bytefmt.Digits(st.Turns))
	row("prompt tokens", bytefmt.Digits(int(st.PromptTokens)))
	row("unique tokens", bytefmt.Digits(int(st.UniqueTokens)))
	row("output tokens", bytefmt.Digits(int(st.OutputTokens)))
	row("largest prompt", bytefmt.Digits(int(st.LargestPrompt)))
	row("hash ids", bytefmt.Digits(int(st.HashIDs)))
	row("distinct blocks", bytefmt.Digits(st.Blocks))
	row("runs of blocks", bytefmt.Digits(st.BlockRuns))
	row("chain breaks", bytefmt.Digits(st.ChainBreaks))
	row("segments", bytefmt.Digits(st.Segments))
	row("theoretical hits, blocks", fmt.Sprintf("%.4f", st.BlockHits))
	row("theoretical hits, tokens", fmt.Sprintf("%.4f", st.TokenHits))
	row("prompt corpus", bytefmt.Digits(st.CorpusTokens)+" tokens")
	row("ISL, tokens", lengthsText(st.ISL))
	row("OSL, tokens", lengthsText(st.OSL))
	for _, o := range st.Oddities {
		row("odd: "+o.Kind, bytefmt.Digits(o.Count))
	}
	return nil
}

// appendQuoted appends s as a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(dst, quoted...)
}
