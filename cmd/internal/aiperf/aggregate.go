package aiperf

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// timeFormat is RFC 3339 to the microsecond, in UTC.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// aggregate returns the object of the aggregate.
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

// aiperfVersion stands where AIPerf has its version.
func aiperfVersion(run *report.Run) string { return "agentx/" + run.Info.Version }

// wallText writes nanoseconds since 1970.
func wallText(ns int64) string { return time.Unix(0, ns).UTC().Format(timeFormat) }

// incomplete says why a run did not come to its end, or is not of all parts of a load; "" if it did.
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

// errorSummary lists failures with their messages.
func errorSummary(groups []report.ErrorGroup, fail func(*measure.Error) *Error) []object {
	list := []object{}
	for k := range groups {
		list = append(list, object{{"error_details", fail(&groups[k].Error)}, {"count", groups[k].Count}})
	}
	return list
}

// inputConfig has every option of the run by its name.
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

// option returns the value of an option, nil if the run does not tell it.
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
	o.add("command", commandLine(run))
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

// commandLine makes the command line from the cache and the options that were given as flags, which tell no secret.
func commandLine(run *report.Run) string {
	words := []string{"agentx", "replay", terminal.Word(run.Info.Dataset.Path)}
	for _, opt := range run.Info.Options {
		if opt.From != "flag" {
			continue
		}
		name := "--" + opt.Name
		var list []string
		if json.Unmarshal(opt.Value, &list) != nil {
			list = []string{optionText(opt.Value)}
		}
		for _, v := range list {
			words = append(words, name+"="+terminal.Word(v))
		}
	}
	return strings.Join(words, " ")
}

// optionText is the value of an option as it stands on a command line.
func optionText(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return s
	}
	return string(v)
}
