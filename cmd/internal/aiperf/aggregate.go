package aiperf

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// timeFormat is RFC 3339 to the microsecond, in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// aggregate returns the JSON file of the whole run as agentx writes it.
func (w *writer) aggregate() object {
	run, res := w.run, w.results
	f := run.Info.Facts
	o := object{
		{"schema_version", run.Rules().SchemaVersion}, {"aiperf_version", aiperfVersion(run)},
	}
	if id := run.Info.BenchmarkID; id != "" {
		o.add("benchmark_id", id)
	}
	if res.End > res.Start {
		o.add("start_time", wallText(res.Start))
		o.add("end_time", wallText(res.End))
	}
	o.add("was_cancelled", f != nil && f.Cancelled)
	reason := incomplete(&run.Info)
	o.add("is_complete", reason == "")
	if reason != "" {
		o.add("incomplete_reason", reason)
	}
	o.addTable(res.Headline)
	if res.Warmup != nil {
		o.add("warmup_metrics", tableObject(res.Warmup))
	}
	o.add("cooldown_metrics", tableObject(res.Cooldown))
	o.add("steady_metrics", tableObject(res.Steady))
	o.add("error_summary", errorSummary(res.Errors, ownError))
	if f != nil {
		o.add("branch_stats", f.Branches)
	}
	o.add("metadata", w.metadata())
	if reasons := invalidReasons(run); len(reasons) > 0 {
		o.add("runtime_submission_invalid_reasons", reasons)
	}
	o.add("input_config", inputConfig(run))
	o.add("run_info", append(launchInfo(run, run.Info.BenchmarkID), runInfo(run)...))
	return o
}

// aiperfVersion is the value of aiperf_version, in which AIPerf has its own version.
func aiperfVersion(run *report.Run) string { return "agentx/" + run.Info.Version }

// wallText writes nanoseconds since 1970.
func wallText(ns int64) string { return time.Unix(0, ns).UTC().Format(timeFormat) }

// incomplete says why a run did not come to its end, or lacks parts of its load; "" if it is complete.
func incomplete(info *measure.RunInfo) string {
	switch f := info.Facts; {
	case !info.Parts.Whole():
		return info.Parts.Title()
	case f == nil:
		return "the run has not ended, or was killed"
	case f.Cancelled:
		return "the run was cancelled"
	}
	return ""
}

// errorSummary lists failures with their counts. fail writes one as the dialect of the files has it.
func errorSummary(groups []report.ErrorGroup, fail func(*measure.Error) *Error) []object {
	list := []object{}
	for k := range groups {
		list = append(list, object{{"error_details", fail(&groups[k].Error)}, {"count", groups[k].Count}})
	}
	return list
}

// inputConfig returns every option of the run by its name.
func inputConfig(run *report.Run) object {
	o := object{{"model", run.Info.Model}, {"urls", run.Info.URLs}, {"preset", run.Info.Preset}}
	seen := map[string]bool{"model": true, "urls": true, "preset": true}
	for _, opt := range run.Info.Options {
		if !seen[opt.Name] {
			seen[opt.Name] = true
			o.add(opt.Name, opt.Value)
		}
	}
	return o
}

// option returns the value of an option as JSON, nil if the results do not have it.
func option(run *report.Run, name string) json.RawMessage {
	for _, opt := range run.Info.Options {
		if opt.Name == name {
			return opt.Value
		}
	}
	return nil
}

// runInfo says how the run was started, and what it did before the first request.
func runInfo(run *report.Run) object {
	o := object{}
	if seed := option(run, "seed"); seed != nil {
		o.add("seed", seed)
	}
	o.add("command", run.Info.Command(run.Info.Dataset.Path))
	o.add("version", run.Info.Version)
	o.add("commit", run.Info.Commit)
	o.add("host", run.Info.Host)
	o.add("start", run.Info.Start)
	o.add("end", run.Info.End)
	if len(run.Info.Preparation) > 0 {
		o.add("preparation", run.Info.Preparation)
	}
	return o
}

// metadata returns the object metadata of the aggregate.
func (w *writer) metadata() object {
	run := w.run
	o := object{}
	o.addVerdict(run)
	o.add("dataset", datasetObject(run))
	o.add("agentx", w.agentx())
	return o
}

// addVerdict adds whether the run is valid under its scenario, and the reasons why it is not.
func (o *object) addVerdict(run *report.Run) {
	reasons := invalidReasons(run)
	if s := run.Info.Scenario; s != nil {
		o.add("scenario", s.Name)
		if len(reasons) > 0 || !isPart(run) { // the scenario judges the whole load
			o.add("submission_valid", len(reasons) == 0)
		}
	}
	if len(reasons) > 0 {
		o.add("submission_invalid_reasons", reasons)
	}
}

// isPart reports whether other parts of the load were played elsewhere.
func isPart(run *report.Run) bool { return run.Info.Part != nil && run.Info.Part.Of > 1 }

// invalidReasons are the reasons why the run is not valid. A run with a scenario that did not come to its end counts as cancelled.
func invalidReasons(run *report.Run) []string {
	if f := run.Info.Facts; f != nil {
		return f.Reasons
	}
	if run.Info.Scenario != nil {
		return []string{measure.RunCancelled}
	}
	return nil
}

// datasetObject says what was played. InferenceX publishes it unchanged.
func datasetObject(run *report.Run) object {
	d := run.Info.Dataset
	o := object{{"source_type", "file"}, {"loader", "agentx"}}
	name, revision, file := d.Hub()
	if name == "" && run.Info.Scenario != nil {
		name = run.Info.Scenario.Corpus // a copy of it, by its content
	}
	if name != "" {
		o[0].value = "huggingface"
		o.add("hf_dataset_name", name)
	}
	if split := splitOf(file); split != "" {
		o.add("hf_split", split)
	}
	if d.Traces > 0 {
		o.add("num_dataset_entries", d.Traces)
	}
	if revision != "" {
		o.add("revision", revision)
	}
	o.add("cache_key", d.Key)
	return o
}

// splitOf returns the split that the name of a file begins with; "" for none.
func splitOf(file string) string {
	base := file[strings.LastIndexByte(file, '/')+1:]
	for _, split := range []string{"train", "validation", "test"} {
		if rest, ok := strings.CutPrefix(base, split); ok && (rest == "" || strings.ContainsRune("-._", rune(rest[0]))) {
			return split
		}
	}
	return ""
}

// agentx returns what agentx tells of a run beyond AIPerf's metadata.
func (w *writer) agentx() object {
	run, res := w.run, w.results
	o := object{{"version", run.Info.Version}, {"preset", run.Info.Preset}}
	if len(run.Info.Switches) > 0 {
		o.add("switches", run.Info.Switches)
	}
	options := object{}
	for _, opt := range run.Info.Options {
		if !slices.Contains([]string{"default", "preset"}, opt.From) {
			options.add(opt.Name, opt.Value)
		}
	}
	o.add("options", options)
	if p := run.Info.Part; p != nil {
		o.add("part", p)
	}
	if p := run.Info.Parts; p != nil {
		o.add("parts", object{{"of", p.Of}, {"used", p.Used}, {"problems", append([]string{}, p.Problems()...)}, {"clock_uncertainty_s", p.Clocks.Uncertainty}})
	}
	o.add("headline", res.HeadlineRule)
	if w := res.Window; w.Known {
		o.add("throughput_window", object{{"kind", w.Kind}, {"start_ns", w.Start}, {"end_ns", w.End}, {"seconds", w.Seconds}})
	}
	o.add("itl_divisor", res.ITLDivisor)
	o.add("token_flow", res.Flow)
	lanes := []object{}
	for _, l := range run.Lanes {
		lanes = append(lanes, object{
			{"lane", l.Lane}, {"trace", l.Trace}, {"first_request_s", l.FirstRequest}, {"start_skipped_s", l.StartSkipped},
			{"gap_skipped_s", l.Skipped}, {"requests", l.Requests},
		})
	}
	o.add("lanes", lanes)
	return o
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// add appends a member.
func (o *object) add(key string, value any) { *o = append(*o, member{key, value}) }

// find returns the value of a member, nil if there is none.
func (o object) find(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// MarshalJSON returns the object.
func (o object) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	text.WriteByte('{')
	for k, m := range o {
		if k > 0 {
			text.WriteByte(',')
		}
		for _, v := range []any{m.key, m.value} {
			data, err := compact(v)
			if err != nil {
				return nil, err
			}
			text.Write(data)
			text.WriteByte(':')
		}
		text.Truncate(text.Len() - 1) // the second colon
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// compact returns a value as JSON without blanks, and with < > & as they are.
func compact(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}

// indented returns a value as JSON that is indented by two blanks, with an end.
func indented(v any, end string) ([]byte, error) {
	data, err := compact(v)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return nil, err
	}
	text.WriteString(end)
	return text.Bytes(), nil
}
