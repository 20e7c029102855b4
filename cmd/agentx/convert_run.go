package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// withProgress runs f with options under which progress, waiting and warnings go to standard error.
func withProgress(cmd *cobra.Command, o *convert.Options, f func() error) error {
	p := newProgress(cmd)
	defer p.close()
	o.Progress, o.OnWait = p.update, p.waiting
	o.Source.Hub = hubOptions(p, o.Root, o.Wait)
	o.Warn = func(format string, args ...any) {
		p.println("agentx: warning: " + fmt.Sprintf(format, args...))
	}
	return f()
}

// runConvert converts. Progress, waiting and warnings go to standard error.
func runConvert(cmd *cobra.Command, o convert.Options) (r *convert.Result, err error) {
	err = withProgress(cmd, &o, func() error {
		r, err = convertWithWarnings(cmd, o)
		return err
	})
	return r, err
}

// convertMemory is where the garbage collector begins to work harder during a conversion, in bytes. What a build of shards needs is
// half of it; without the limit the heap grows to twice that before it is collected.
const convertMemory = 160 << 20

func convertWithWarnings(cmd *cobra.Command, o convert.Options) (*convert.Result, error) {
	if os.Getenv("GOMEMLIMIT") == "" {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(convertMemory))
	}
	if o.Placement.Backend == weka.SHA256MT && slices.Contains(convert.Corpora(), o.Corpus) {
		o.Warn("the corpus %s is agentx's own: prompts have AIPerf's shape, but not its text; agentx corpus aiperf exports that", o.Corpus)
	}
	if warning, _ := o.CheckCorpusSeed(); warning != "" { // options has told the error
		o.Warn("%s; agentx corpus aiperf makes one that says it", warning)
	}
	r, err := convert.Convert(cmd.Context(), o)
	if err != nil {
		return nil, hintConvert(err)
	}
	warnConverted(o, r)
	return r, nil
}

// warnConverted warns of what a conversion left out or found odd.
func warnConverted(o convert.Options, r *convert.Result) {
	if len(r.SkippedEntries) > 0 {
		o.Warn("%s", hfsource.DescribeSkipped(r.SkippedEntries))
	}
	for k, s := range r.Facts.Skipped {
		if k == 10 {
			o.Warn("%d more skipped: --json lists the first %d", r.Facts.AllSkipped()-k, mmapcache.MaxListed)
			break
		}
		o.Warn("skipped %s: %s", s.Where, s.Reason)
	}
	for k, name := range slices.Sorted(maps.Keys(r.Facts.Unknown)) {
		if k == 100 {
			o.Warn("%d more unknown keys: --json lists the first %d", len(r.Facts.Unknown)-k, mmapcache.MaxListed)
			break
		}
		o.Warn("%s", convert.DescribeUnknownKey(r.Facts, name))
	}
	if n := r.Facts.UnknownMore; n > 0 {
		o.Warn("other unknown keys, %d times", n)
	}
	for _, odd := range r.Facts.Oddities {
		o.Warn("%s", convert.DescribeOddity(odd))
	}
}

// stageNames are the stages of a conversion, in order.
var stageNames = []string{"resolve", "plan", "arenas", "fill", "publish", "wait", "verify"}

// printConverted prints the result of a conversion.
func printConverted(w io.Writer, r *convert.Result, wall time.Duration, asJSON bool) error {
	u := measure.ReadProcessUsage()
	if asJSON {
		return printJSON(w, convertedJSON(r, wall, u))
	}
	what := "built"
	if r.Hit {
		what = "hit: prepared before, nothing built"
	}
	found := func(kind string) bool { return r.Parts[kind].Hit && !r.Hit }
	var stages []string
	for _, name := range stageNames {
		if d, ok := r.Stages[name]; ok {
			stages = append(stages, name+" "+secondsText(d))
		}
	}
	f := r.Facts
	fmt.Fprintf(w, "%s%s\n", what, foundText(found))
	fmt.Fprintf(w, "%s traces, %s sessions, %s turns, %s prompt tokens in %s blocks", groupDigits(f.Traces), groupDigits(f.Sessions), groupDigits(f.Turns), groupDigits(int(f.PromptTokens)), groupDigits(f.Blocks))
	if n := f.AllSkipped(); n > 0 {
		fmt.Fprintf(w, ", %s skipped", groupDigits(n))
	}
	if s := r.Shards; s != nil {
		fmt.Fprintf(w, ", %s shards (%s found)", groupDigits(s.Total), groupDigits(s.Found))
	}
	fmt.Fprintf(w, "\n%s read, %s on disk\n", bytefmt.Format(r.InputBytes), bytefmt.Format(r.Bytes))
	fmt.Fprintf(w, "%s: %s; cpu %s, peak memory %s\n", secondsText(wall), strings.Join(stages, ", "), secondsText(u.CPU), bytefmt.Format(u.PeakRSS))
	fmt.Fprintln(w, r.Path)
	return nil
}

// convertedJSON returns what --json prints of a conversion.
func convertedJSON(r *convert.Result, wall time.Duration, u measure.ProcessUsage) map[string]any {
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
		"stages": stages, "wall": wall.Seconds(), "cpu": u.CPU.Seconds(), "peak_rss": u.PeakRSS, "parts": r.Parts,
	}
	if r.Shards != nil {
		out["shards"] = r.Shards
	}
	return out
}

// foundText lists the kinds of directory that existed before, " (found: KIND, ...)", or returns "".
func foundText(found func(kind string) bool) string {
	kinds := slices.DeleteFunc(mmapcache.Kinds(), func(kind string) bool { return !found(kind) })
	if len(kinds) == 0 {
		return ""
	}
	return " (found: " + strings.Join(kinds, ", ") + ")"
}
