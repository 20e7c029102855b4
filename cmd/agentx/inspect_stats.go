package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

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
