package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// List is a list of runs that differ only in how many lanes they have, or in nothing: doc/spec/replay.md 4.11.
type List struct {
	Concurrencies []int // of the runs, in the order in which they are played; none twice
	Repeat        int   // how often they are all played, one time after the other; 0: once, and the runs have no number
	StopOnFailure bool  // a run whose exit status is not 0 ends the list

	// Next, if it is not nil, chooses the concurrency of each run by those that have ended; 0 ends the list. Concurrencies then has
	// the least, and Repeat is 0.
	Next func(runs []measure.ListedRun) int

	// Begin may complete the options of a run before it begins, such as its callbacks; nil: nothing is left to complete.
	Begin func(o *Options, r measure.ListedRun)
	// End is told how a run ended, and returns the exit status that this means; nil: 1 after an error, else 0.
	End func(r measure.ListedRun, s *measure.Summary, err error) int
	// Index may add to the list what its runs say together, before its index is written; nil: it adds nothing.
	Index func(list *measure.List)
}

// MaxRepeat is the largest List.Repeat.
const MaxRepeat = 64

// RunList plays the runs of a list one after another, over one open cache. Each has fresh counters, connections and markers,
// and a directory of its own below Options.Out, whose ConcurrenciesFile is written after every run. A run that fails does not
// end the list, unless StopOnFailure is set; when ctx ends, the run that is played ends as Run does, and none follows.
//
// The list has the runs that have ended. The error says that the options are wrong, or the index cannot be written.
func RunList(ctx context.Context, o Options, l List) (*measure.List, error) {
	if err := l.validate(o); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	list := &measure.List{Preset: o.WithDefaults().Preset, CacheKey: o.Cache.Manifest.Key, Repeat: l.Repeat}
	if o.Out != "" {
		dir := resultsDir{path: o.Out, unique: o.UniqueOut, overwrite: o.Overwrite}
		if err := dir.make(); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		list.Out = dir.path
	}
	for r := range l.order(list) {
		if ctx.Err() != nil {
			break
		}
		l.play(ctx, o, list.Out, &r)
		list.Runs = append(list.Runs, r)
		if l.Index != nil {
			l.Index(list)
		}
		if err := writeList(list); err != nil {
			return list, fmt.Errorf("results: %w", err)
		}
		if l.StopOnFailure && r.Exit != 0 {
			break
		}
	}
	return list, nil
}

// order returns the runs as they are played. The list has those that have ended.
func (l *List) order(list *measure.List) iter.Seq[measure.ListedRun] {
	if l.Next == nil {
		return slices.Values(l.Runs())
	}
	return func(yield func(measure.ListedRun) bool) {
		for n := l.Next(list.Runs); n > 0; n = l.Next(list.Runs) {
			if !yield(measure.ListedRun{Concurrency: n, Dir: runDir(n)}) {
				return
			}
		}
	}
}

// runDir returns the name of the directory of a run with a number of lanes.
func runDir(concurrency int) string { return fmt.Sprintf("c%04d", concurrency) }

// Runs returns the runs in the order in which they are played, each with the name of its directory.
func (l *List) Runs() (list []measure.ListedRun) {
	for repeat := range max(1, l.Repeat) {
		for _, n := range l.Concurrencies {
			r := measure.ListedRun{Concurrency: n, Dir: runDir(n)}
			if l.Repeat > 0 {
				r.Repeat = repeat + 1
				r.Dir = fmt.Sprintf("%s-r%02d", r.Dir, r.Repeat)
			}
			if l.Repeat > 0 && len(l.Concurrencies) == 1 {
				r.Dir = fmt.Sprintf("r%02d", r.Repeat)
			}
			list = append(list, r)
		}
	}
	return list
}

// play plays one run of a list, and adds its outcome to the list.
func (l *List) play(ctx context.Context, o Options, dir string, r *measure.ListedRun) {
	o.Concurrency, o.UniqueOut = r.Concurrency, false
	if dir == "" {
		r.Dir = ""
	} else {
		o.Out = filepath.Join(dir, r.Dir)
	}
	if l.Begin != nil {
		l.Begin(&o, *r)
	}
	s, err := Run(ctx, o)
	if s != nil {
		r.Summary, r.Headline = s, s.Figures()
	}
	switch {
	case l.End != nil:
		r.Exit = l.End(*r, s, err)
	case err != nil:
		r.Exit = 1
	}
}

// validate returns an error that names the first thing that keeps a run of the list from beginning.
func (l *List) validate(o Options) error {
	if len(l.Concurrencies) == 0 {
		return errors.New("list: no concurrency: want one or more")
	}
	if o.Part.IsSet() {
		return fmt.Errorf("list: part %v: want one run, whose parts all clients play at a time", o.Part)
	}
	for k, n := range l.Concurrencies {
		if slices.Contains(l.Concurrencies[:k], n) {
			return fmt.Errorf("list: concurrency %d occurs twice: its two runs would share a directory", n)
		}
		o.Concurrency = n
		if err := o.Validate(); err != nil {
			return err
		}
	}
	if err := o.Part.CheckOut(o.Out); err != nil || o.Out == "" || o.UniqueOut || o.Overwrite {
		return err
	}
	return l.CheckDir(o.Out)
}

// CheckDir does what CheckResultsDir does for a list of runs: it also looks into the directory of each run.
func (l *List) CheckDir(dir string) error {
	if err := CheckResultsDir(dir); err != nil {
		return err
	}
	var names []string
	for _, r := range l.Runs() {
		names = append(names, r.Dir)
	}
	if l.Next != nil { // any run of a list
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if listedDir().MatchString(e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	for _, name := range names {
		if err := CheckResultsDir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// listedDir matches what runDir returns.
var listedDir = lazyregexp.New(`^c[0-9]{4,}$`)

// maxListIndex bounds ConcurrenciesFile, bytes.
const maxListIndex = 64 << 20

// ReadList reads the index of a list of runs.
func ReadList(dir string) (*measure.List, error) {
	path := filepath.Join(dir, ConcurrenciesFile)
	data, err := regular.Read(path, maxListIndex)
	if err != nil {
		return nil, err
	}
	var list measure.List
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &list, nil
}

// writeList writes the index of a list of runs.
func writeList(list *measure.List) error {
	if list.Out == "" {
		return nil
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(list.WithoutSummaries()); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(list.Out, ConcurrenciesFile), text.Bytes())
}

// selectTraces returns the positions in the cache of the traces that options select: with MaxContext those whose requests
// all fit it, with overhead tokens added to each prompt.
func selectTraces(o Options, overhead int) (kept []int, err error) {
	peaks := make([]int, o.Cache.Traces())
	if o.MaxContext > 0 {
		if peaks, err = longestRequests(o.Cache, len(peaks), overhead); err != nil {
			return nil, err
		}
	}
	kept = firstFitting(peaks, o.MaxContext, o.Traces)
	if len(kept) == 0 && len(peaks) > 0 {
		err := fmt.Errorf("none of %d traces fits a context of %d tokens: the smallest needs %d", len(peaks), o.MaxContext, slices.Min(peaks))
		if overhead > 0 {
			err = fmt.Errorf("%w, of which %d are a marker, and the chat template as the server counts it", err, overhead)
		}
		return nil, err
	}
	return kept, nil
}

// peakTokens returns the tokens of a trace's longest request, prompt and completion together.
func peakTokens(p *mmapcache.Plan, rules mmapcache.TimeRules, overhead int) (peak int) {
	for _, session := range p.Sessions {
		for k, t := range p.Turns[session.FirstTurn:][:session.Turns] {
			peak = max(peak, promptTokens(p, int(session.FirstTurn), k, rules)+overhead+rules.MaxTokens(session.Kind, t))
		}
	}
	return peak
}

// promptTokens returns the recorded tokens of the prompt of a turn of a session. Where the turns are what is new, those of the turns before
// and of the answers to them count, too.
func promptTokens(p *mmapcache.Plan, first, turn int, rules mmapcache.TimeRules) int {
	tokens := int(p.Turns[first+turn].In)
	if rules.LiveAnswers {
		for _, t := range p.Turns[first : first+turn] {
			tokens += int(t.In) + max(0, int(t.Out))
		}
	}
	return tokens
}

// firstFitting returns the positions of the first traces whose peak fits a context, at most wanted of them. peaks and
// maxContext are in tokens; 0 is no limit. doc/spec/reconstruction.md 7.4.
func firstFitting(peaks []int, maxContext, wanted int) (kept []int) {
	for k, peak := range peaks {
		if wanted > 0 && len(kept) == wanted {
			break
		}
		if maxContext <= 0 || peak <= maxContext {
			kept = append(kept, k)
		}
	}
	return kept
}

// ServerContext is a MaxContext: as many tokens as the server has, which tells them to the preflight.
const ServerContext = -1

// fitContext chooses the traces again where the preflight has found what fits: the length of the server's context, or a chat template, which
// leaves less of it than overhead did before. It notes how many traces are too long, and says so.
func (r *run) fitContext(before int) error {
	again := r.MaxContext > 0 && r.overhead() > before
	p := r.results.info.Preflight
	if r.MaxContext == ServerContext {
		r.MaxContext, again = int(*p.ContextTokens), true
	}
	if again {
		if err := r.chooseTraces(); err != nil {
			return err
		}
	}
	c := &measure.Context{Tokens: r.MaxContext, Traces: r.found, LeftOut: r.found - r.fitting}
	if p != nil && p.ContextTokens != nil {
		c.Server, c.From = int(*p.ContextTokens), p.ContextFrom
		above, err := r.above(c.Server)
		if err != nil {
			return err
		}
		c.Above = above
	}
	if c.Tokens == 0 && c.Server == 0 {
		return nil
	}
	r.results.info.Context = c
	if text := c.Skipped(); text != "" {
		r.reporter.notice(text)
	}
	if text := c.Played(); text != "" {
		r.reporter.warn(text)
	}
	return nil
}

// above counts the traces that are played and have a request of more than some tokens.
func (r *run) above(tokens int) (n int, err error) {
	last := -1
	for _, k := range r.traces {
		last = max(last, k)
	}
	peaks, err := longestRequests(r.Cache, last+1, r.overhead())
	if err != nil {
		return 0, err
	}
	for _, k := range r.traces {
		if peaks[k] > tokens {
			n++
		}
	}
	return n, nil
}

// longestRequests returns the tokens of the longest request of each of the first n traces, prompt and completion together, with overhead
// tokens added to each prompt.
func longestRequests(c *mmapcache.Cache, n, overhead int) (peaks []int, err error) {
	err = c.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := 0; k < s.Traces.Len() && first+k < n; k++ {
			peaks = append(peaks, peakTokens(s.Plan(k), c.Facts.Rules, overhead))
		}
		if len(peaks) == n {
			return fs.SkipAll
		}
		return nil
	})
	return peaks, err
}
