package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sort"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/mmapcache"
)

func newInspect() *cobra.Command {
	var sel mmapcache.Selection
	var digest, messages, stats, asJSON bool
	var model string
	cmd := &cobra.Command{
		Use:   "inspect CACHE",
		Short: "Show what a prepared cache sends",
		Long: `Show what a prepared cache sends, turn by turn, in a stable text form. Long texts are cut
unless a single turn is chosen.

  --messages  the messages as JSON lines, exactly as sent
  --digest    one JSON line per trace, to compare programs with
  --stats     a table of the corpus`,
		Example: "  agentx inspect $(agentx convert demo | tail -n 1) --trace demo-01-append\n  agentx inspect CACHE --trace ID --session SESSION --turn 0",
		Args:    arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if messages && sel.Trace == "" && sel.Session == "" {
				return usageError{fmt.Errorf("--messages: say which trace with --trace ID")}
			}
			c, err := openCache(cmd, args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			out := bufio.NewWriter(cmd.OutOrStdout())
			switch {
			case sel.Turn < mmapcache.None:
				return usageError{fmt.Errorf("--turn %d: want 0 or more", sel.Turn)}
			case model != "-" && !digest:
				return usageError{fmt.Errorf("--model: goes with --digest")}
			case digest && (messages || stats) || messages && stats:
				return usageError{fmt.Errorf("--digest, --messages, --stats: choose one")}
			case digest:
				err = writeDigests(cmd, out, c, sel.Trace, model)
			case messages:
				err = writeMessages(cmd.Context(), out, c, sel)
			case stats:
				err = writeStats(out, c, asJSON)
			case asJSON:
				return usageError{fmt.Errorf("--json: goes with --stats")}
			default:
				err = c.WriteText(cmd.Context(), out, sel, sel.Turn != mmapcache.None)
			}
			if err != nil {
				return err
			}
			return out.Flush()
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&sel.Trace, "trace", "", "only this trace")
	flags.StringVar(&sel.Session, "session", "", "only this session")
	flags.IntVar(&sel.Turn, "turn", mmapcache.None, "only this turn of each session, from 0")
	flags.BoolVar(&digest, "digest", false, "one JSON line of digests per trace")
	flags.StringVar(&model, "model", "-", "with --digest: model name of every turn; - keeps the recorded ones")
	flags.BoolVar(&messages, "messages", false, "messages as JSON lines")
	flags.BoolVar(&stats, "stats", false, "table of the corpus")
	flags.BoolVar(&asJSON, "json", false, "with --stats: one JSON object")
	return cmd
}

func writeDigests(cmd *cobra.Command, w io.Writer, c *mmapcache.Cache, trace, model string) error {
	found := false
	for i := range c.Structure.Traces.Len() {
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		if id, err := c.TraceID(i); err != nil {
			return err
		} else if trace != "" && id != trace {
			continue
		}
		found = true
		d, err := c.Digest(i, model)
		if err != nil {
			return err
		}
		if err := printJSON(w, d); err != nil {
			return err
		}
	}
	if !found {
		return fmt.Errorf("no trace %q in this cache", trace)
	}
	return nil
}

// writeMessages writes one line per turn. The content goes through as it is rendered, so it is what replay sends.
func writeMessages(ctx context.Context, w *bufio.Writer, c *mmapcache.Cache, sel mmapcache.Selection) error {
	var prompt mmapcache.Prompt
	var line []byte
	return c.Each(ctx, sel, mmapcache.Text, func(t *mmapcache.Tree, n, turn int) error {
		s := t.Sessions[n]
		t.Prompt(turn, &prompt)
		line = append(line[:0], `{"trace":`...)
		line = appendQuoted(line, t.Trace.ID)
		line = append(line, `,"session":`...)
		line = appendQuoted(line, s.ID)
		line = append(line, `,"turn":`...)
		line = strconv.AppendInt(line, int64(turn)-int64(s.FirstTurn), 10)
		line = append(line, `,"messages":[`...)
		for k, m := range prompt.Messages {
			if k > 0 {
				line = append(line, ',')
			}
			line = append(line, m.Opening()...)
			line = append(prompt.Append(line, k), m.Closing()...)
		}
		line = append(line, `],"tokens":`...)
		line = append(strconv.AppendInt(line, int64(prompt.Tokens), 10), "}\n"...)
		_, err := w.Write(line)
		return err
	})
}

// corpusStats is the table of a corpus.
type corpusStats struct {
	Traces          int            `json:"traces"`
	Sessions        map[string]int `json:"sessions"` // by class
	Joined          int            `json:"joined"`
	Background      int            `json:"background"`
	Turns           int            `json:"turns"`
	PromptTokens    int64          `json:"prompt_tokens"`
	UniqueTokens    int64          `json:"unique_tokens"` // of distinct blocks, as far as a prompt holds them, and fillers
	OutputTokens    int64          `json:"output_tokens"`
	LargestPrompt   uint32         `json:"largest_prompt"`
	HashIDs         int64          `json:"hash_ids"`
	Blocks          int            `json:"blocks"` // distinct, over all traces
	BlockRuns       int            `json:"block_runs"`
	Segments        int            `json:"segments"`
	TheoreticalHits float64        `json:"theoretical_hit_rate"`       // the next, under its older name
	BlockHits       float64        `json:"theoretical_block_hit_rate"` // of an unlimited prefix cache, of the blocks with a hash id
	TokenHits       float64        `json:"theoretical_token_hit_rate"` // of all prompt tokens, as servers count
	Scopes          map[string]int `json:"scopes"`                     // traces by hash_id_scope
	Generations     map[string]int `json:"generations"`                // traces by generation of the format
	Seams           int            `json:"seams"`
	ChainBreaks     int            `json:"chain_breaks"`
	Ambiguous       int            `json:"ambiguous_clocks"`
	Dropped         int            `json:"dropped_subagents"`
	CorpusTokens    int            `json:"corpus_tokens"`
}

func statsOf(c *mmapcache.Cache) (corpusStats, error) {
	s := c.Structure
	st := corpusStats{Traces: s.Traces.Len(), Turns: s.Turns.Len(), Sessions: map[string]int{}, Scopes: map[string]int{},
		Generations: c.Facts.Generations, Seams: c.Facts.Seams, ChainBreaks: c.Facts.ChainBreaks,
		Ambiguous: c.Facts.Ambiguous, Dropped: c.Facts.Dropped,
		BlockRuns: s.Runs.Len(), Segments: s.Segments.Len(), CorpusTokens: c.N()}
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		st.Scopes[t.Scope]++
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
		st.HashIDs += int64(t.IDs)
		st.LargestPrompt = max(st.LargestPrompt, t.In)
	}
	st.BlockHits, st.TokenHits = c.HitRates()
	st.TheoreticalHits = st.BlockHits
	sharing, err := c.Sharing()
	st.Blocks, st.UniqueTokens = sharing.Blocks, sharing.Tokens
	return st, err
}

func writeStats(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	var st corpusStats
	if err := c.Guard(func() (err error) { st, err = statsOf(c); return err }); err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, st)
	}
	row := func(name, value string) { fmt.Fprintf(w, "%-24s %s\n", visible(name), value) }
	row("traces", group(st.Traces))
	for _, kind := range sortedKeys(st.Scopes) {
		row("  scope "+kind, group(st.Scopes[kind]))
	}
	for _, name := range sortedKeys(st.Generations) {
		row("  generation "+name, group(st.Generations[name]))
	}
	for _, kind := range sortedKeys(st.Sessions) {
		row("sessions "+kind, group(st.Sessions[kind]))
	}
	row("joined, background", group(st.Joined)+", "+group(st.Background))
	row("seams", group(st.Seams))
	row("dropped subagents", group(st.Dropped))
	row("guessed clocks", group(st.Ambiguous))
	row("turns", group(st.Turns))
	row("prompt tokens", group(int(st.PromptTokens)))
	row("unique tokens", group(int(st.UniqueTokens)))
	row("output tokens", group(int(st.OutputTokens)))
	row("largest prompt", group(int(st.LargestPrompt)))
	row("hash ids", group(int(st.HashIDs)))
	row("distinct blocks", group(st.Blocks))
	row("runs of blocks", group(st.BlockRuns))
	row("chain breaks", group(st.ChainBreaks))
	row("segments", group(st.Segments))
	row("theoretical hits, blocks", fmt.Sprintf("%.4f", st.BlockHits))
	row("theoretical hits, tokens", fmt.Sprintf("%.4f", st.TokenHits))
	row("prompt corpus", group(st.CorpusTokens)+" tokens")
	return nil
}

func sortedKeys(m map[string]int) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
