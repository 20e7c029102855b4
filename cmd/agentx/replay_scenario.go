package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/scenario"
)

// scenarios are what --scenario can name, and what a run under one is held against.
type scenarios struct {
	list    []scenario.Scenario
	corpora []scenario.Corpus
	random  io.Reader // of seeds
}

// knownScenarios returns the scenarios of the program.
func knownScenarios() scenarios {
	return scenarios{scenario.All(), scenario.Corpora(), rand.Reader}
}

// named returns a scenario. The error lists them.
func (s scenarios) named(name string) (scenario.Scenario, error) {
	var names []string
	for _, one := range s.list {
		if one.Name == name {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return scenario.Scenario{}, wrongWord(name, either(names), names)
}

// scenarioFlags are the flags of scenarios, and the scenario that a run has.
type scenarioFlags struct {
	name   string
	unsafe bool
	known  scenarios

	chosen    *scenario.Scenario // nil: none
	conflicts []scenario.Conflict
	corpus    scenario.Corpus // that the dataset is
	pin       scenario.Pin    // by what; "": it is none
}

func (f *scenarioFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "scenario", "", "set options as a scenario has them, and refuse others that it locks: "+either(scenarioNames()))
	cmd.Flags().BoolVar(&f.unsafe, "unsafe-override", false, "start in spite of conflicts with --scenario; the run is then not valid")
}

// readScenario gives settings and flags the values of the scenario.
func (r *resolution) readScenario(f *scenarioFlags) {
	if f.name == "" {
		if f.unsafe {
			r.add("%s: goes with --scenario", named(r.flags.Lookup("unsafe-override")))
		}
		return
	}
	s, err := f.known.named(f.name)
	if err != nil {
		r.add("%s %s: %w", named(r.flags.Lookup("scenario")), f.name, err)
		return
	}
	values, err := s.Defaults(f.known.random)
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	if name, _ := preset.Canonical(r.flags.Lookup("preset").Value.String()); name == preset.AgentX {
		s.ByName = true
	}
	f.chosen = &s
	from := origin{fromScenario, fromScenario + " " + s.Name}
	for _, v := range values {
		if v.Name == "slice-duration" && !r.flags.Lookup("report").Changed {
			continue // no file has slices
		}
		shown := fmt.Sprintf("%s=%s (%s)", v.Name, v.Value, from.at)
		if setting := settingNamed(v.Name); setting != nil {
			r.give(given{setting, v.Value, shown, from})
		} else {
			r.setFlag(r.flags.Lookup(strings.ToLower(v.Name)), []string{v.Value}, shown, from)
		}
	}
}

// checkDataset looks for conflicts between the scenario and a dataset.
func (f *scenarioFlags) checkDataset(d measure.Dataset) {
	var digests []string
	for _, in := range d.Inputs {
		digests = append(digests, in.SHA256)
	}
	about := scenario.Dataset{SHA256: digests, Synthetic: syntheticInput(digests), Truncated: truncation(d.Changed)}
	about.Repository, _, _ = d.Hub()
	f.conflicts = append(f.conflicts, f.chosen.CheckDataset(about, f.known.corpora)...)
	f.corpus, f.pin = f.chosen.Identify(about, f.known.corpora)
}

// checkPrepared looks for conflicts with a dataset that is prepared, so that they are told with those of the settings. Others
// are looked at when they are converted.
func (f *scenarioFlags) checkPrepared(cmd *cobra.Command, name string) {
	if f.errors() == nil {
		return
	}
	root, _ := cacheRoot(cmd) // a path needs none
	if found, key, err := cachestore.Find(root, name); err == nil {
		if d, err := datasetProvenance(found, key); err == nil {
			f.checkDataset(d)
		}
	}
}

// errors returns the conflicts that keep the run from starting, the last with what else to try.
func (f *scenarioFlags) errors() (list []error) {
	overridable := scenario.Overridable(f.conflicts)
	if f.unsafe && overridable {
		return nil
	}
	for _, c := range f.conflicts {
		list = append(list, usageError{fmt.Errorf("--scenario %s: %w", f.chosen.Name, c)})
	}
	if last := len(list) - 1; last >= 0 && overridable {
		list[last] = hintError{list[last], "--unsafe-override starts such a run; its result is not valid"}
	}
	return list
}

// draws reports whether the scenario has drawn the value of --seed.
func (f *scenarioFlags) draws(seed *pflag.Flag) bool {
	return f.chosen != nil && f.chosen.Seed == "" && originOf(seed).kind == fromScenario
}

// report prints the seed that was drawn, and the conflicts that are overridden.
func (f *scenarioFlags) report(cmd *cobra.Command) {
	seed := cmd.Flags().Lookup("seed")
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet && f.draws(seed) {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: --seed %s, drawn for this run by scenario %s", seed.Value, f.chosen.Name))
	}
	for _, c := range f.conflicts {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: warning: the run is not valid under scenario %s: %v", f.chosen.Name, c))
	}
}

// syntheticInput returns the name of the embedded traces if they are one of the files with these digests.
func syntheticInput(digests []string) string {
	if slices.Contains(digests, manifest.Sum(demo.JSONL())) {
		return "demo"
	}
	return ""
}

// truncation returns the rules of the reconstruction that leave out recorded requests, of those that differ from a profile.
func truncation(changed json.RawMessage) (list []string) {
	var rules map[string]json.RawMessage
	_ = json.Unmarshal(changed, &rules) // null: none
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		if slices.Contains([]string{"max_isl", "start_offset", "end_offset"}, name) {
			list = append(list, fmt.Sprintf("%s=%s", name, rules[name]))
		}
	}
	return list
}

// scenarioOf returns what the results say of the scenario, nil without one. The error is that of conflicts with the dataset.
func (f *replayFlags) scenarioOf(cmd *cobra.Command, d measure.Dataset) (*measure.Scenario, error) {
	if f.scenario.chosen == nil {
		return nil, nil
	}
	f.scenario.checkDataset(d)
	if err := f.wrong(); err != nil {
		return nil, err
	}
	f.scenario.report(cmd)
	s := &measure.Scenario{Name: f.scenario.chosen.Name, Corpus: f.scenario.corpus.Repository, PinnedBy: string(f.scenario.pin), MinDuration: f.scenario.chosen.MinDuration.Seconds()}
	for _, c := range f.scenario.conflicts {
		s.Overridden = append(s.Overridden, c.Error())
	}
	return s, nil
}

// checkScenario looks for conflicts between the scenario and the settings of a run. Those of a file and of the environment
// have their place.
func (f *replayFlags) checkScenario(r *resolution) {
	if f.scenario.chosen == nil {
		return
	}
	f.scenario.conflicts = f.scenario.chosen.Check(f.lockable(r))
	for k := range f.scenario.conflicts {
		what := &f.scenario.conflicts[k].What
		name, _, _ := strings.Cut(*what, " ")
		from := r.values[name].from
		if flag := f.flags.Lookup(strings.ToLower(strings.TrimPrefix(name, "--"))); from.kind == "" && flag != nil {
			from = originOf(flag)
		}
		if from.kind == fromFile || from.kind == fromEnvironment {
			*what += " (" + from.at + ")"
		}
	}
}

// lockable returns the values of a run that scenarios may lock.
func (f *replayFlags) lockable(r *resolution) scenario.Settings {
	value := func(name string) any { return r.values[name].value }
	p := scenario.Settings{Duration: f.duration, Requests: f.requests, Trees: f.trees, Once: f.once, Until: len(f.until.texts) > 0}
	p.IgnoreDelays, _ = value("IgnoreDelays").(bool)
	p.Speed, _ = value("Speed").(float64)
	p.GapCap, _ = value("GapCap").(time.Duration)
	p.TraceIdleCap, _ = value("TraceIdleCap").(time.Duration)
	p.TraceCap, _ = value("TraceCap").(string)
	p.SystemIdleCap, _ = value("SystemIdleCap").(time.Duration)
	p.Marker, _ = value("Marker").(string)
	p.CoverageGate, _ = value("CoverageGate").(bool)
	p.Unstreamed, p.EndsEarly = f.wire.contradictions()
	if f.auto.auto != nil || len(f.concurrency) > 1 {
		p.Sweep = flagText("concurrency", f.flags.Lookup("concurrency").Value.String())
	}
	return p
}

// contradictions returns what asks for answers in one piece, and what lets the model end answers early.
func (f *wireFlags) contradictions() (unstreamed, endsEarly []string) {
	if f.noIgnoreEOS {
		endsEarly = append(endsEarly, "--no-ignore-eos")
	}
	if f.maxTokensField == string(payload.NoLength) {
		endsEarly = append(endsEarly, "--max-tokens-field "+f.maxTokensField)
	}
	var extra map[string]json.RawMessage
	_ = json.Unmarshal([]byte(f.extraBody), &extra) // apply has said what is wrong with it
	if v, ok := extra["stream"]; ok && string(v) != "true" {
		unstreamed = append(unstreamed, fmt.Sprintf("--extra-body has stream %s", v))
	}
	if v, ok := extra["ignore_eos"]; ok && string(v) != "true" {
		endsEarly = append(endsEarly, fmt.Sprintf("--extra-body has ignore_eos %s", v))
	}
	return unstreamed, endsEarly
}

// scenarioNames returns the names that --scenario takes.
func scenarioNames() (names []string) {
	for _, s := range scenario.All() {
		names = append(names, s.Name)
	}
	return names
}
