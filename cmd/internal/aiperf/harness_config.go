package aiperf

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// settings reads the options of a run for input_config. A method returns nil for an option that the harness would leave out.
type settings struct{ run *report.Run }

// number returns an option that is a number, or a duration in seconds, as a float; nil if it is off or 0.
func (s settings) number(name string) any {
	if f, ok := s.float(name); ok && f != 0 {
		return report.Float(f)
	}
	return nil
}

// float returns an option that is a number; ok is false if it is off or no number.
func (s settings) float(name string) (f float64, ok bool) {
	v := option(s.run, name)
	return f, v != nil && string(v) != "null" && json.Unmarshal(v, &f) == nil
}

// count returns an option that is a count; nil if it is 0.
func (s settings) count(name string) any {
	if f, ok := s.float(name); ok && f > 0 {
		return int64(f)
	}
	return nil
}

// text returns an option that is a text, "" for another.
func (s settings) text(name string) (text string) {
	_ = json.Unmarshal(option(s.run, name), &text) // another value is none
	return text
}

// list returns an option that is a list of texts, nil for another.
func (s settings) list(name string) (list []string) {
	_ = json.Unmarshal(option(s.run, name), &list) // another value is none
	return list
}

// yes returns true if an option is on, nil if it is off.
func (s settings) yes(name string) any {
	if string(option(s.run, name)) == "true" {
		return true
	}
	return nil
}

// isSet reports whether the user has set the option.
func (s settings) isSet(name string) bool {
	for _, o := range s.run.Info.Options {
		if o.Name == name {
			return slices.Contains([]string{"flag", "environment", "file"}, o.From)
		}
	}
	return false
}

// only returns v if a condition holds, else nil.
func only(holds bool, v any) any {
	if !holds {
		return nil
	}
	return v
}

// set appends a member, unless its value is nil.
func (o *object) set(key string, v any) {
	if v != nil {
		o.add(key, v)
	}
}

// harnessInput returns the settings of the run in the names of the harness, in its order. What the run does not know is left out.
func (w *writer) harnessInput() object {
	run, s := w.run, settings{w.run}
	o := object{
		{"models", object{{"items", []object{{{"name", run.Info.Model}}}}}},
		{"endpoint", s.endpoint()}, {"datasets", []object{s.dataset()}}, {"phases", []object{s.phase()}},
	}
	dir, err := filepath.Abs(w.Out)
	if err != nil {
		dir = w.Out
	}
	artifacts := object{{"dir", dir}}
	artifacts.set("slice_duration", only(w.Slice > 0, report.Float(w.Slice.Seconds())))
	o.add("artifacts", append(artifacts, member{"auto_plot", false}, member{"plot_required", false}))
	o.set("slos", s.levels())
	o.add("tokenizer", object{{"name", s.tokenizer()}})
	o.add("gpu_telemetry", object{{"enabled", false}})
	o.add("server_metrics", s.scrape())
	o.add("network_latency", object{{"enabled", false}})
	for _, key := range []string{"otel", "mlflow", "wandb"} {
		o.add(key, object{})
	}
	runtime := object{{"ui", "none"}}
	runtime.set("stats_interval", only(s.filled() || s.isSet("stats-interval"), s.number("stats-interval")))
	o.add("runtime", runtime)
	if sc := run.Info.Scenario; sc != nil {
		o.add("scenario", sc.Name)
		o.set("unsafe_override", s.yes("unsafe-override"))
	}
	return o
}

// filled reports whether the run is under the scenario that has values for everything that no flag gives.
func (s settings) filled() bool {
	return s.run.Info.Scenario != nil && s.run.Info.Scenario.Name == scenarioOfHarness
}

// scenarioOfHarness is the scenario of the harness that has values of its own for everything.
const scenarioOfHarness = "agentx"

// redacted stands where a secret was.
const redacted = "<redacted>"

// endpoint returns the section endpoint: servers and requests.
func (s settings) endpoint() object {
	o := object{{"urls", s.run.Info.URLs}}
	o.set("type", only(s.filled() || len(s.run.Info.Launch) == 0 || s.launched("--endpoint-type") != "", s.text("payload")))
	o.set("api_key", only(s.text("api-key-env") != "", redacted))
	o.set("timeout", only(s.isSet("timeout"), s.number("timeout")))
	o.add("streaming", true)
	o.set("connection_reuse", only(s.isSet("connection-reuse"), s.text("connection-reuse")))
	o.set("use_legacy_max_tokens", only(s.text("max-tokens-field") == "max_tokens", true))
	o.add("use_server_token_count", true)
	if names := s.list("header"); len(names) > 0 {
		headers := object{}
		for _, name := range names {
			headers.add(name, redacted)
		}
		o.add("headers", headers)
	}
	if body := s.text("extra-body"); body != "" && json.Valid([]byte(body)) {
		o.add("extra", json.RawMessage(body))
	}
	return o
}

// dataset returns the only entry of the section datasets.
func (s settings) dataset() object {
	o := object{{"name", "main"}}
	loader, repository := s.loader()
	if loader != "" {
		o = append(o, member{"type", "public"}, member{"dataset", loader})
	} else {
		format := s.launched("--custom-dataset-type")
		if format == "" {
			format = "weka_trace"
		}
		o = append(o, member{"type", "file"}, member{"path", s.input()}, member{"format", format})
	}
	o.set("entries", s.count("limit-traces"))
	o.set("random_seed", s.seed())
	o.set("hf_weka_dataset", only(loader == genericLoader, repository))
	o.set("trace_idle_gap_cap_seconds", s.number("trace-idle-cap"))
	o.set("use_think_time_only", s.yes("think-time-only"))
	o.set("max_context_length", s.count("max-context"))
	o.set("cache_bust", only(s.isSet("marker"), object{{"target", s.text("marker")}}))
	return o
}

// seed returns the seed, nil if the run does not tell it.
func (s settings) seed() any {
	if v := option(s.run, "seed"); v != nil {
		return v
	}
	return nil
}

// genericLoader is the harness's loader for any repository of the hub.
const genericLoader = "weka_hf"

// loader returns the harness's name of the public dataset that was played, and its repository; "" if the dataset is not public.
func (s settings) loader() (name, repository string) {
	repository, _, _ = s.run.Info.Dataset.Hub()
	if repository == "" && s.run.Info.Scenario != nil {
		repository = s.run.Info.Scenario.Corpus
	}
	if name = s.launched("--public-dataset"); name != "" || repository == "" {
		return name, repository
	}
	base, ok := strings.CutPrefix(repository, "semianalysisai/")
	if !ok || !strings.HasPrefix(base, "cc-traces-weka-") {
		return genericLoader, repository
	}
	return "semianalysis_" + strings.ReplaceAll(base, "-", "_"), repository
}

// input returns the path of the input: as the command line has it, else that of its only file, or of the directory of its files.
func (s settings) input() string {
	if path := s.launched("--input-file"); path != "" {
		return path
	}
	inputs := s.run.Info.Dataset.Inputs
	switch {
	case len(inputs) == 0 || inputs[0].Name == "":
		return s.run.Info.Dataset.Path
	case len(inputs) == 1:
		return inputs[0].Name
	}
	return filepath.Dir(inputs[0].Name)
}

// tokenizer returns the name of the tokenizer: as the command line has it, else that of the prompts. The harness calls o200k_base builtin.
func (s settings) tokenizer() string {
	if name := s.launched("--tokenizer"); name != "" {
		return name
	}
	if name := s.run.Info.Dataset.Tokenizer; name != "" && name != "o200k_base" {
		return name
	}
	return "builtin"
}

// phase returns the only entry of the section phases: load and bounds.
func (s settings) phase() object {
	o := object{{"name", measure.ProfilingPhase}, {"kind", measure.ProfilingPhase}, {"type", "concurrency"}}
	o.set("requests", s.count("requests"))
	o.set("duration", s.number("duration"))
	o.add("concurrency", s.run.Info.Lanes)
	o.set("grace_period", s.number("grace"))
	o.add("timing_mode", "agentic_replay")
	o.set("failed_request_threshold", s.number("max-error-rate"))
	if s.text("start") == "sampled" {
		for key, name := range map[string]string{"trajectory_start_min_ratio": "start-min-ratio", "trajectory_start_max_ratio": "start-max-ratio"} {
			if f, ok := s.float(name); ok {
				o.add(key, report.Float(f))
			}
		}
		slices.SortFunc(o[len(o)-min(2, len(o)):], func(x, y member) int { return -strings.Compare(x.key, y.key) })
	}
	o.set("burst_phase_starts", s.yes("burst-start"))
	o.set("system_idle_gap_cap_seconds", s.number("system-idle-cap"))
	o.addWarmup(s.text("warmup"))
	o.set("agentic_warmup_grace_period", s.number("warmup-grace"))
	return o
}

// addWarmup adds the bound of the warmup's pressure stage, from a value of --warmup.
func (o *object) addWarmup(warmup string) {
	kind, value, _ := strings.Cut(warmup, "=")
	switch kind {
	case "requests":
		if n, err := strconv.Atoi(value); err == nil {
			o.add("warmup_requests_per_lane", n)
		}
	case "duration":
		d, err := time.ParseDuration(value)
		if err != nil {
			d, err = time.ParseDuration(value + "s") // a number of seconds
		}
		if err == nil {
			o.add("agentic_cache_warmup_duration", report.Float(d.Seconds()))
		}
	}
}

// levelTags are the metrics of service levels that the harness knows, by their names here.
var levelTags = map[string]string{"ttft": "time_to_first_token", "itl": "inter_token_latency", "latency": "request_latency"}

// levels returns the service levels on requests, in ms; nil if there are none.
func (s settings) levels() any {
	o := object{}
	for _, c := range s.run.Info.SLO {
		if tag := levelTags[c.Metric]; tag != "" && c.OfEach {
			o.add(tag, report.Float(c.Limit*1e3))
		}
	}
	return only(len(o) > 0, o)
}

// scrape returns the section server_metrics.
func (s settings) scrape() object {
	urls := s.list("scrape")
	if slices.Contains(urls, "off") {
		return object{{"enabled", false}}
	}
	return object{{"enabled", true}, {"urls", append([]string{}, urls...)}, {"formats", []string{"json", "csv"}}}
}

// launched returns the value of a flag on the command line of the harness that the run stands in for, "" if that does not have it.
func (s settings) launched(name string) string {
	words := s.run.Info.Launch
	for k, word := range words {
		if word == name && k+1 < len(words) {
			return words[k+1]
		}
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
	}
	return ""
}

// launchInfo returns the members of run_info that AIPerf has: id, seed, trial and command.
func launchInfo(run *report.Run, id string) object {
	o := object{{"benchmark_id", id}}
	o.set("random_seed", settings{run}.seed())
	o.add("trial", 0)
	o.add("cli_command", launchText(run))
	return o
}

// harnessID returns an id of 12 hexadecimal digits: the first ones of ours.
func harnessID(id string) string {
	hex := strings.ReplaceAll(id, "-", "")
	return hex[:min(12, len(hex))]
}

// launchText returns the command line of the harness that the run stands in for, as the harness writes it: with quotes around words that are
// neither flags nor numbers. Another run has its own command line.
func launchText(run *report.Run) string {
	if len(run.Info.Launch) == 0 {
		return run.Info.Command(run.Info.Dataset.Path)
	}
	words := []string{"aiperf"}
	for _, word := range run.Info.Launch {
		_, err := strconv.ParseFloat(word, 64)
		if err != nil && !strings.HasPrefix(word, "-") && word != "profile" && word != "true" && word != "false" {
			word = "'" + word + "'"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// publicDataset describes the public dataset that was played; nil if the dataset is not public.
func publicDataset(run *report.Run) object {
	loader, repository := settings{run}.loader()
	if loader == "" {
		return nil
	}
	_, _, file := run.Info.Dataset.Hub()
	split := splitOf(file)
	if split == "" {
		split = "train"
	}
	o := object{{"source_type", "public_dataset"}, {"loader", loader}, {"hf_dataset_name", repository}, {"hf_split", split}}
	o.set("num_dataset_entries", settings{run}.count("limit-traces"))
	return o
}
