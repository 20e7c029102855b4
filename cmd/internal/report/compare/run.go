package compare

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// The kinds of directories that are compared.
const (
	kindAgentx = "agentx"
	kindAIPerf = "aiperf"
)

// run is what was read of one run.
type run struct {
	Source
	name, kind string
	label      string // that the run was given; "": none
	gpus       int    // that served it; 0: not known

	summary  measure.Summary
	ending   measure.Ending // of a run of AIPerf
	requests requests
	warmup   requests      // its instants are before those of requests, on the same clock
	samples  *interval.Run // nil: the run is not ours, and its samples are those of its requests
	settings settings
	inputs   string        // names of the files of the dataset; "": not known
	lacks    []string      // what is not known, one line each
	rowsSeed interval.Seed // of the rows of a run that is not ours
}

// datasetText names the dataset: by its inputs, where they are known, and the beginning of its key.
func (r *run) datasetText() string {
	key := shown(r.settings["dataset"])
	if r.inputs == "" {
		return key
	}
	return r.inputs + " (" + key + ")"
}

// readRun reads a run: its records, or where it has none the files of AIPerf.
func readRun(s Source, name string) (*run, error) {
	if s.Files != nil || exists(s.Dir, measure.RecordsFile) || exists(s.Dir, measure.RunFile) || merge.IsLoad(s.Dir) {
		return readOurs(s, name)
	}
	r, err := readAIPerf(s, name)
	if errors.Is(err, aiperf.ErrNoFiles) {
		return nil, fmt.Errorf("%s: not the results of a run: neither %s nor files of AIPerf", s.Dir, measure.RecordsFile)
	}
	return r, err
}

// readOurs reads a run of agentx.
func readOurs(s Source, name string) (*run, error) {
	if s.Files == nil {
		var err error
		if s.Files, err = merge.Open(s.Dir, merge.Options{Partial: s.Partial}); err != nil {
			return nil, err
		}
	}
	info := s.Files.Info
	if s.SLO != nil {
		info.SLO = s.SLO
	}
	rules, err := measure.RulesOfRun(info.Run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.Dir, measure.RunFile), err)
	}
	r := &run{Source: s, name: name, kind: kindAgentx, samples: interval.NewRun(info, rules), lacks: slices.Clone(s.Files.Missing)}
	if err := r.readRecords(rules, info); err != nil {
		return nil, err
	}
	if r.samples.Seed, err = interval.SeedOf(s.Files.RecordFiles()...); err != nil {
		return nil, err
	}
	if !s.Files.Known {
		r.lacks = append(r.lacks, fmt.Sprintf("there is no %s: what was run is not known", measure.RunFile))
		return r, nil
	}
	if r.Note == "" {
		r.Note = info.Run.Option("note")
	}
	if p := r.summary.Parts; p != nil && r.Note == "" {
		r.Note = partsNote(&r.summary)
	}
	r.label, r.gpus = info.Run.Option("label"), info.Run.GPUs()
	r.settings, r.inputs = settingsOf(&info, rules), info.Dataset.Names()
	return r, nil
}

// partsNote says of which parts of a load a run is, and what their clocks leave open of its rates.
func partsNote(s *measure.Summary) string {
	text := s.Parts.Title()
	if clocks := s.Parts.ClockText(); clocks != "" {
		text += "; rates" + s.ClockMargin(true) + ": " + clocks
	}
	return text
}

// readRecords reads the requests of a run of agentx, and computes its summary.
func (r *run) readRecords(rules measure.Rules, info measure.RunInfo) error {
	reader, err := r.Files.Records()
	if err != nil {
		return fmt.Errorf("%s: not the results of a run: %w", r.Dir, err)
	}
	defer reader.Close()
	all := measure.NewAggregate(rules, info.SLO...)
	for record, err := range measure.All(reader) {
		if err != nil {
			return err
		}
		all.Add(record)
		if record.Phase == measure.WarmupPhase {
			r.warmup.add(record, rules)
			continue
		}
		r.requests.add(record, rules)
		r.samples.Add(record)
	}
	r.warmup.shift(-warmupOf(&info, &r.warmup))
	if reader.Torn() {
		r.lacks = append(r.lacks, "the last line of its records is cut off and left out")
	}
	r.summary = all.Summary(info)
	return nil
}

// warmupOf returns the seconds from the start of the warmup to the start of profiling, or if the run does not tell that, to the last answer of
// the warmup.
func warmupOf(info *measure.RunInfo, warmup *requests) float64 {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return p.Offset
		}
	}
	return warmup.last()
}

// before returns the seconds from the first request of the warmup to the first of profiling; 0 without a warmup.
func (r *run) before() float64 {
	if r.warmup.n() == 0 {
		return 0
	}
	return max(0, r.requests.first()-r.warmup.first())
}

// sample returns the values of a metric over the headline, with their trees.
func (r *run) sample(metric string) interval.Sample {
	if r.samples != nil {
		return r.samples.Sample(metric)
	}
	return r.requests.sample(metric)
}

// seed returns the seed of the intervals of the run.
func (r *run) seed() interval.Seed {
	if r.samples != nil {
		return r.samples.Seed
	}
	return r.rowsSeed
}

// marks are the remarks that put the figures of a run in doubt: tables mark the run, and charts draw it hollow. Beside other runs that is one, too,
// whose servers found in their caches what earlier runs had left there.
func (r *run) marks() []string {
	list := append([]string{}, r.summary.RemarksOf(measure.Broken, measure.Warning)...)
	for _, m := range r.summary.Remarks {
		if m.Kind == "cached" {
			list = append(list, m.Text)
		}
	}
	return list
}

// figure returns a number of the run; Missing where it is not known.
func (r *run) figure(f slo.Figure) measure.Number {
	v := r.summary.Figure(f)
	if v.IsMissing() {
		return measure.Missing
	}
	return v
}

// per returns by what a value of a metric in files of AIPerf is divided to have our unit.
func per(m *measure.Metric) float64 {
	if m.Unit == slo.Seconds {
		return 1e3
	}
	return 1
}

// readAIPerf reads a run from files of AIPerf. What these lack stays empty.
func readAIPerf(s Source, name string) (*run, error) {
	d, err := aiperf.OpenDirectory(s.Dir)
	if err != nil {
		return nil, err
	}
	r := &run{Source: s, name: name, kind: kindAIPerf, settings: settings{}}
	for _, text := range d.Lacks {
		if file, _, whole := strings.Cut(text, ":"); whole && strings.HasPrefix(text, "there is no ") {
			r.lacks = append(r.lacks, file) // the rest is about other readers of the files
		}
	}
	rows := filepath.Join(d.Path, aiperf.NamesOf("").Rows)
	if r.rowsSeed, err = interval.SeedOf(rows); err == nil {
		err = r.readRows(rows)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.summarize(d)
	if a := d.Aggregate; a != nil {
		r.settings = aiperfSettings(a)
	}
	return r, nil
}

// readRows reads the requests of the phase profiling, because AIPerf's own numbers are over these.
func (r *run) readRows(path string) error {
	trees := map[string]int32{}
	origin := int64(0)
	return aiperf.EachRow(path, func(row *aiperf.Row) error {
		m := &row.Metadata
		if m.Phase != "" && m.Phase != measure.ProfilingPhase {
			return nil
		}
		origin = cmp.Or(origin, m.RequestStart)
		root := cmp.Or(m.RootID, m.CorrelationID, m.Conversation)
		tree, ok := trees[root]
		if !ok {
			tree = int32(len(trees))
			trees[root] = tree
		}
		at := func(ns int64) float64 { return float64(ns-origin) / 1e9 }
		start, first := at(m.RequestStart), none
		values := map[string]float64{}
		for _, v := range row.Metrics {
			values[v.Tag] = v.Value.Float64()
		}
		if ttft, ok := values["time_to_first_token"]; ok {
			first = start + ttft/1e3
		}
		s := headline
		if row.Error != nil {
			s = failed
		}
		end := max(start, at(m.RequestEnd))
		r.requests.addTimes(tree, s, start, first, end)
		r.ending.Add(&measure.Record{Tree: int(tree), Numbers: measure.Numbers{Sent: measure.At(start), End: measure.At(end)}})
		for _, m := range eachRequest {
			v, ok := values[m.Tag]
			r.requests.addValue(m.Name, v/per(&m), ok && row.Error == nil)
		}
		return nil
	})
}

// summarize computes the figures of the run from its rows, and takes from the aggregate what the rows do not tell.
func (r *run) summarize(d *aiperf.Directory) {
	s := &r.summary
	s.DeadlockedTrees, s.PhaseDuration = measure.Missing, measure.Missing
	s.RequestRate, s.OutputTokenRate, s.PromptTokenRate, s.TokenHitRate = measure.Missing, measure.Missing, measure.Missing, measure.Missing
	s.ErrorRate = measure.Missing
	if n := d.Rows.Succeeded + d.Rows.Failed; n > 0 {
		s.Requests, s.Completed, s.Measured = n, d.Rows.Succeeded, d.Rows.Succeeded
		s.ErrorRate = measure.Number(d.Rows.Failed) / measure.Number(n)
	}
	for _, m := range eachRequest {
		*m.Stat(&s.Metrics) = measure.NewStat(r.requests.sample(m.Name).Values)
	}
	defer s.AddRemarks(&r.ending, nil)
	a := d.Aggregate
	if a == nil {
		return
	}
	s.Valid, s.Reasons = a.Valid, a.Reasons
	for _, m := range eachRequest {
		if m.Stat(&s.Metrics).N == 0 {
			*m.Stat(&s.Metrics) = statOf(a.Headline.Find(m.Tag), per(&m))
		}
	}
	scalar := func(to *measure.Number, tag string) {
		if b := a.Headline.Find(tag); b != nil {
			if v, ok := b.Find("avg"); ok {
				*to = measure.Number(v.Float64())
			}
		}
	}
	scalar(&s.RequestRate, "request_throughput")
	scalar(&s.OutputTokenRate, "output_token_throughput")
	scalar(&s.PromptTokenRate, "input_token_throughput")
	if s.Measured == 0 {
		completed := measure.Number(0)
		scalar(&completed, "request_count")
		s.Measured = int(completed)
	}
}

// statOf returns the statistics that a block has.
func statOf(b *report.Block, per float64) measure.Stat {
	stat := measure.NewStat(nil)
	if b == nil {
		return stat
	}
	for name, to := range map[string]*measure.Number{
		"avg": &stat.Mean, "p50": &stat.P50, "p75": &stat.P75, "p90": &stat.P90, "p95": &stat.P95, "p99": &stat.P99, "max": &stat.Max, "std": &stat.Std,
	} {
		if v, ok := b.Find(name); ok {
			*to = measure.Number(v.Float64() / per)
		}
	}
	if n, ok := b.Find("count"); ok {
		stat.N = int(n.Int64())
	}
	return stat
}

// aiperfSettings returns the settings of the run that the aggregate tells.
func aiperfSettings(a *aiperf.Aggregate) settings {
	s := settings{}
	for name, paths := range map[string][][]string{
		"dataset":     {{"metadata", "dataset", "cache_key"}},
		"preset":      {{"metadata", "agentx", "preset"}},
		"scenario":    {{"metadata", "scenario"}},
		"model":       {{"input_config", "model"}, {"input_config", "models", "items", "0", "name"}},
		"server":      {{"input_config", "url"}, {"input_config", "endpoint", "urls", "0"}},
		"seed":        {{"input_config", "seed"}, {"input_config", "random_seed"}},
		"concurrency": {{"input_config", "concurrency"}, {"input_config", "phases", "0", "concurrency"}},
	} {
		for _, path := range paths {
			if value := a.Setting(path...); value != "" && s[name] == "" {
				s[name] = value
			}
		}
	}
	s["version"] = a.Version
	return s
}

// settings are the settings of one run as texts by name. A missing one is not known.
type settings map[string]string

// mustEqual are the settings that runs must share to be comparable, with titles, in the order of the banner. All options that are neither in
// mayDiffer nor in notPlayed must be equal, too.
var mustEqual = []struct{ name, title string }{
	{"dataset", "dataset key"}, {"profile", "profile"}, {"seed", "seed"}, {"preset", "preset"}, {"scenario", "scenario"},
	{"model", "model"}, {"payload", "payload"}, {"marker", "marker"}, {"throughput", "definition of throughput"},
}

// mayDiffer are settings in which comparable runs may differ: the load, the server, and who ran it.
var mayDiffer = []string{
	"concurrency", "server", "engine", "gpu", "version", "commit", "host",
	"duration", "requests", "trees", "once", "header", "slo", "until", "prefault",
	"grace", "timeout", "stall-timeout", "first-byte-timeout", "gone-after", "retry-after", "max-error-rate", "stop-on-deadlock", "back-off", "tcp-user-timeout", "wait-ready", "wait-ready-mode",
	"wait-ready-interval", "no-calibrate", "until-interval", "reset-cache-path", "reset-cache-timeout", "stats-interval", "correlation-header", "session-header",
}

// notPlayed are options that do not change what is sent, or that settings have under another name.
var notPlayed = strings.Fields(`url api-key-env preset scenario unsafe-override set config cache quiet no-color profile tokenizer corpus workers force verify-hit
	trust-root wait no-wait skip-invalid strict out overwrite json report prefix slice-duration scrape listen otlp no-preflight calibrate allow-failures
	stop-on-failure repeat drain part meet meet-timeout start-at label note gpus`)

// settingsOf returns the settings of a run of agentx.
func settingsOf(info *measure.RunInfo, rules measure.Rules) settings {
	s := settings{
		"dataset": info.Dataset.Key, "profile": info.Dataset.Profile + changes(info.Dataset.Changed), "preset": info.Preset, "model": info.Model,
		"scenario": "none", "throughput": definition(info, rules), "concurrency": strconv.Itoa(info.Lanes), "server": strings.Join(info.URLs, ", "),
		"version": info.Version, "commit": info.Commit, "host": info.Host, "seed": drawsSeed(info.Dataset.Draws),
	}
	if sc := info.Scenario; sc != nil {
		s["scenario"] = sc.Name
		if len(sc.Overridden) > 0 {
			s["scenario"] += ", overridden: " + strings.Join(sc.Overridden, "; ")
		}
	}
	if info.Arrivals != nil && info.Lanes == 0 {
		s["concurrency"] = "no cap"
	}
	known := maps.Clone(s)
	for _, o := range info.Options {
		if _, is := known[o.Name]; o.Name == "seed" || !is && !slices.Contains(notPlayed, o.Name) {
			s[o.Name] = plainText(o.Value)
		}
	}
	return s
}

// addUnits adds the unit to numbers of seconds.
func (s settings) addUnits(inSeconds func(name string) bool) {
	for name, text := range s {
		if _, err := strconv.ParseFloat(text, 64); err == nil && inSeconds(name) {
			s[name] = text + " s"
		}
	}
}

// definition says what the throughputs divide by, and which requests they are over.
func definition(info *measure.RunInfo, rules measure.Rules) string {
	window := "from the first request to the last token"
	switch {
	case rules.DeliveredOnly:
		window = "what was delivered by the deadline"
	case rules.PhaseWindow && !info.Facts.WholePhase().IsMissing():
		window = "length of the phase"
	}
	of := "requests that ended by the deadline"
	if rules.GraceIncluded {
		of = "requests of the grace, too"
	}
	return fmt.Sprintf("%s; %s; inter-token latency over %s", window, of, rules.DivisorRule())
}

// changes returns ", changed: RULES" for the rules of a reconstruction that differ from the profile's, else "".
func changes(changed json.RawMessage) string {
	if text := plainText(changed); text != "" && text != "off" && text != "{}" {
		return ", changed: " + text
	}
	return ""
}

// drawsSeed returns the seed of a dataset from the JSON of its draws.
func drawsSeed(draws json.RawMessage) string {
	var d struct{ Seed json.RawMessage }
	_ = json.Unmarshal(draws, &d)
	return plainText(d.Seed)
}

// plainText writes a JSON value for people: texts without quotes, lists with commas, "off" for null and for the empty list.
func plainText(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && len(value) > 0 && value[0] == '"' {
		return text
	}
	var texts []string
	if json.Unmarshal(value, &texts) == nil && len(value) > 0 && value[0] == '[' {
		return cmp.Or(joined(texts), "off")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return ""
	}
	if compact.String() == "null" {
		return "off"
	}
	return compact.String()
}

// requests are the requests of a phase of a run, as a column for each number, in the order of its records. Instants are seconds since the start
// of the phase. NaN is a value that a request does not have.
type requests struct {
	tree  []int32
	state []state

	start, firstToken, end []float64

	values map[string][]float64 // by the name of a metric, of requests that ended well: of the metrics that are drawn, or of all
}

// state says which numbers count a request.
type state uint8

const (
	headline state = iota // it ended well, and the published numbers are over it
	late                  // it ended well, behind the deadline
	failed
	apart // the end of the run cancelled it, or it did not fit the context: it is in no number, also not in the error rate
)

// states are the states that a ratio of a metric counts under a name.
var states = map[string][]int{"measured": {int(headline)}, "failed": {int(failed)}, "ended": {int(headline), int(late), int(failed)}}

// stateOf returns the state of a record.
func stateOf(r *measure.Record) state {
	switch {
	case r.Bucket != measure.Profiling && r.Bucket != measure.Cooldown:
		return apart
	case r.Error != nil:
		return failed
	case r.Bucket == measure.Cooldown:
		return late
	}
	return headline
}

var none = math.NaN()

// add adds a record of the profiling phase.
func (q *requests) add(r *measure.Record, rules measure.Rules) {
	first := none
	if r.FirstToken > 0 {
		first = r.FirstToken.Seconds()
	}
	q.addTimes(int32(r.Tree), stateOf(r), r.Sent.Seconds(), first, r.End.Seconds())
	for _, m := range drawn {
		v, ok := m.Of(&r.Numbers, rules)
		q.addValue(m.Name, v, ok && r.Error == nil)
	}
}

// addTimes adds what every request has.
func (q *requests) addTimes(tree int32, s state, start, firstToken, end float64) {
	q.tree, q.state = append(q.tree, tree), append(q.state, s)
	q.start, q.firstToken, q.end = append(q.start, start), append(q.firstToken, firstToken), append(q.end, end)
}

// addValue adds the value of one metric of the request that was added last.
func (q *requests) addValue(metric string, v float64, ok bool) {
	if q.values == nil {
		q.values = map[string][]float64{}
	}
	if !ok {
		v = none
	}
	q.values[metric] = append(q.values[metric], v)
}

// n returns how many requests there are.
func (q *requests) n() int { return len(q.start) }

// first returns when the first request was sent.
func (q *requests) first() float64 {
	if len(q.start) == 0 {
		return 0
	}
	return slices.Min(q.start)
}

// last returns when the last request was over.
func (q *requests) last() float64 {
	return slices.Max(append([]float64{q.first()}, q.end...))
}

// span returns the seconds from the first request to the end of the last one.
func (q *requests) span() float64 { return q.last() - q.first() }

// shift adds seconds to all instants.
func (q *requests) shift(by float64) {
	for _, list := range [][]float64{q.start, q.firstToken, q.end} {
		for k := range list {
			list[k] += by
		}
	}
}

// sample returns the values of a metric over the headline, with their trees.
func (q *requests) sample(metric string) (s interval.Sample) {
	for k, v := range q.values[metric] {
		if q.state[k] == headline && !math.IsNaN(v) {
			s.Values, s.Trees = append(s.Values, v), append(s.Trees, q.tree[k])
		}
	}
	return s
}

// treeCount returns how many trees have a request.
func (q *requests) treeCount() int {
	trees := map[int32]bool{}
	for _, tree := range q.tree {
		trees[tree] = true
	}
	return len(trees)
}
