package convert

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Warnings tells what a conversion left out or found odd.
func (r *Result) Warnings(warn func(format string, args ...any)) {
	if len(r.SkippedEntries) > 0 {
		warn("%s", hfsource.DescribeSkipped(r.SkippedEntries))
	}
	for k, s := range r.Facts.Skipped {
		if k == 10 {
			warn("%d more skipped: the JSON output lists the first %d", r.Facts.AllSkipped()-k, mmapcache.MaxListed)
			break
		}
		warn("skipped %s: %s", s.Where, s.Reason)
	}
	for k, name := range slices.Sorted(maps.Keys(r.Facts.Unknown)) {
		if k == 100 {
			warn("%d more unknown keys: the JSON output lists the first %d", len(r.Facts.Unknown)-k, mmapcache.MaxListed)
			break
		}
		warn("%s", describeUnknownKey(r.Facts, name))
	}
	if n := r.Facts.UnknownMore; n > 0 {
		warn("other unknown keys, %d times", n)
	}
	for _, odd := range r.Facts.Oddities {
		warn("%s", describeOddity(odd))
	}
}

// stageNames are the stages of a conversion, in order.
var stageNames = []string{"resolve", "plan", "arenas", "fill", "publish", "wait", "verify"}

// Write writes the result of a conversion for people, and what it cost: time, processor time, and memory in bytes.
func (r *Result) Write(w io.Writer, wall, cpu time.Duration, peak int64) {
	what := "built"
	if r.Hit {
		what = "hit: prepared before, nothing built"
	}
	var stages []string
	for _, name := range stageNames {
		if d, ok := r.Stages[name]; ok {
			stages = append(stages, name+" "+bytefmt.Seconds(d))
		}
	}
	f := r.Facts
	fmt.Fprintf(w, "%s%s\n", what, cachestore.FoundText(r.Parts, r.Hit))
	fmt.Fprintf(w, "%s, %s, %s, %s", bytefmt.Count(f.Traces, "trace"), bytefmt.Count(f.Sessions, "session"), bytefmt.Count(f.Turns, "turn"), bytefmt.Count(int(f.PromptTokens), "prompt token"))
	if t := r.Texts; t.Messages == 0 {
		fmt.Fprintf(w, " in %s blocks", bytefmt.Digits(f.Blocks))
	} else {
		fmt.Fprintf(w, " in %s with their text; %.1f %% of the tokens are filler for what the log lacks\n", bytefmt.Count(t.Messages, "message"), 100*float64(t.FillerTokens)/float64(max(1, f.PromptTokens)))
		fmt.Fprintf(w, "%s: %s", strings.Join(t.Formats, ", "), countsText(t.Counts, "nothing left out or assumed"))
		if len(t.Redacted) > 0 {
			fmt.Fprintf(w, "; secrets replaced: %s", countsText(t.Redacted, ""))
		}
	}
	if n := f.AllSkipped(); n > 0 {
		fmt.Fprintf(w, ", %s skipped", bytefmt.Digits(n))
	}
	if s := r.Shards; s != nil {
		fmt.Fprintf(w, ", %s shards (%s found)", bytefmt.Digits(s.Total), bytefmt.Digits(s.Found))
	}
	fmt.Fprintf(w, "\n%s read, %s on disk\n", bytefmt.Format(r.InputBytes), bytefmt.Format(r.Bytes))
	fmt.Fprintf(w, "%s: %s; cpu %s, peak memory %s\n", bytefmt.Seconds(wall), strings.Join(stages, ", "), bytefmt.Seconds(cpu), bytefmt.Format(peak))
	fmt.Fprintln(w, r.Path)
}

// countsText lists counts by name, or says that there are none.
func countsText(counts map[string]int, none string) string {
	if len(counts) == 0 {
		return none
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, name+" "+bytefmt.Digits(counts[name]))
	}
	return strings.Join(list, ", ")
}

// JSON is Write for programs.
func (r *Result) JSON(wall, cpu time.Duration, peak int64) map[string]any {
	f, stages := r.Facts, map[string]float64{}
	for _, name := range stageNames {
		stages[name] = r.Stages[name].Seconds()
	}
	out := map[string]any{
		"path": r.Path, "key": r.Key, "hit": r.Hit, "traces": f.Traces, "sessions": f.Sessions, "turns": f.Turns,
		"prompt_tokens": f.PromptTokens, "output_tokens": f.OutputTokens, "blocks": f.Blocks,
		"input_bytes": r.InputBytes, "bytes": r.Bytes, "passed_over": len(r.SkippedEntries),
		"skipped": f.Skipped, "skipped_more": f.SkippedMore, "unknown": f.Unknown, "unknown_more": f.UnknownMore,
		"oddities": append([]mmapcache.Oddity{}, f.Oddities...), "dropped_subagents": f.Dropped, "ambiguous_clocks": f.Ambiguous,
		"stages": stages, "wall": wall.Seconds(), "cpu": cpu.Seconds(), "peak_rss": peak, "parts": r.Parts,
	}
	if r.Texts.Messages > 0 {
		out["texts"] = r.Texts
	}
	if r.Shards != nil {
		out["shards"] = r.Shards
	}
	return out
}

// Write writes an explanation for people.
func (e *Explanation) Write(w io.Writer) {
	w = terminal.Writer(w)
	if e.Shards != nil {
		e.Shards.write(w)
	}
	for _, p := range e.Parts {
		what := "miss"
		if p.Hit {
			what = "hit"
		}
		fmt.Fprintf(w, "%-4s  %-9s  %s  %s\n", what, p.Kind, p.Key[:cachestore.KeyShown], p.Why)
		writeNearest(w, p.Nearest)
	}
	switch {
	case e.Refused != "":
		fmt.Fprintf(w, "convert would be refused: %s\n", e.Refused)
	case e.Hit:
		fmt.Fprintf(w, "convert would hit: %s\n", e.Path)
	default:
		fmt.Fprintf(w, "convert would build: %s\n", e.Path)
	}
}

// writeNearest writes similar parts for people, with the fields in which their keys differ.
func writeNearest(w io.Writer, list []SimilarPart) {
	for _, n := range list {
		fmt.Fprintf(w, "      nearest    %s  %s\n", n.Key[:cachestore.KeyShown], n.Source)
		for _, d := range n.Differences {
			fmt.Fprintf(w, "        %-20s here %s, there %s\n", d.Field, d.Want, d.Have)
		}
	}
}

// maxMissing is how many files an explanation for people names of which shards are missing.
const maxMissing = 10

// write writes which shards exist, and why the others do not.
func (s *ShardsExplanation) write(w io.Writer) {
	what := "miss"
	if s.Complete == s.Files {
		what = "hit"
	}
	exist := bytefmt.Digits(s.Found)
	if s.Total > 0 {
		exist += " of " + bytefmt.Digits(s.Total)
	}
	fmt.Fprintf(w, "%-4s  %-9s  %s shards exist; %s of %s files have all of theirs\n", what, "shards", exist, bytefmt.Digits(s.Complete), bytefmt.Digits(s.Files))
	left := s.Files - s.Complete
	for k, m := range s.Missing {
		if k == maxMissing {
			fmt.Fprintf(w, "      and %s more files, which the JSON output lists\n", bytefmt.Digits(left))
			break
		}
		left -= m.Files
		fmt.Fprintf(w, "      %s, shard %d: %s\n", m.File, m.Found, m.Why)
	}
	writeNearest(w, s.Nearest)
}
