package aiperf

import (
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// metadata returns the object metadata of the aggregate.
func (w *writer) metadata() object {
	run := w.run
	o := object{}
	o.addVerdict(run)
	o.add("dataset", datasetObject(run))
	o.add("agentx", w.agentx())
	return o
}

// addVerdict adds what the scenario of a run says.
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

// invalidReasons are those of the run. A run with a scenario that did not end is a cancelled one.
func invalidReasons(run *report.Run) []string {
	if f := run.Info.Facts; f != nil {
		return f.Reasons
	}
	if run.Info.Scenario != nil {
		return []string{measure.RunCancelled}
	}
	return nil
}

// datasetObject says what was played. InferenceX publishes it as it stands.
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

// agentx returns what AIPerf's metadata does not have.
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
