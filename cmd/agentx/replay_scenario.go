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

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
)

// scenarios are the scenarios that --scenario can name, the corpora that they pin, and the source of drawn seeds.
type scenarios struct {
	list    []scenario.Scenario
	corpora []scenario.Corpus
	random  io.Reader // of seeds
}

// knownScenarios returns the scenarios of the program.
func knownScenarios() scenarios {
	return scenarios{scenario.All(), scenario.Corpora(), rand.Reader}
}

// named returns the scenario with a name; ok is false if there is none.
func (s scenarios) named(name string) (one scenario.Scenario, ok bool) {
	k := slices.IndexFunc(s.list, func(one scenario.Scenario) bool { return one.Name == name })
	if k < 0 {
		return one, false
	}
	return s.list[k], true
}

// kind is the kind of --scenario.
func (s scenarios) kind() settings.Kind {
	var names []string
	for _, one := range s.list {
		names = append(names, one.Name)
	}
	return settings.Word(names...)
}

// scenarioFlags are --scenario and --unsafe-override, the scenario chosen, and its conflicts with the run.
type scenarioFlags struct {
	name   string
	unsafe bool
	known  scenarios

	chosen    *scenario.Scenario // nil: none
	conflicts []scenario.Conflict
	corpus    scenario.Corpus // the pinned corpus that the dataset is
	pin       scenario.Pin    // what identified it; "": the dataset is no pinned corpus
}

// rows are the settings --scenario and --unsafe-override.
func (f *scenarioFlags) rows() []settings.Setting {
	return []settings.Setting{
		{Name: "scenario", Group: settings.Presets, Plain: true, Kind: f.known.kind(), Default: "", To: &f.name,
			Help: "set options as a scenario has them, and refuse others that it locks: " + either(scenarioNames())},
		{Name: "unsafe-override", Group: settings.Presets, Plain: true, Kind: settings.Yes, Default: false, To: &f.unsafe,
			Help: "start in spite of conflicts with --scenario; the run is then not valid"},
	}
}

// readScenario gives settings the values that the scenario of --scenario has for them.
func (f *replayFlags) readScenario() {
	name := f.flags.Lookup("scenario").Value.String()
	s, ok := f.scenario.known.named(name)
	if !ok {
		if name == "" && f.flags.Lookup("unsafe-override").Value.String() == "true" && !f.set.Refused("scenario") {
			f.add("%s: works only with --scenario", f.named("unsafe-override"))
		}
		return
	}
	values, err := s.Defaults(f.scenario.known.random)
	if err != nil {
		f.errs = append(f.errs, err)
		return
	}
	if name, _ := preset.Canonical(f.flags.Lookup("preset").Value.String()); name == preset.AgentX {
		s.ByName = true
	}
	f.scenario.chosen, f.o.Scenario = &s, &measure.Scenario{Name: s.Name}
	from := settings.Origin{Kind: settings.FromScenario, At: settings.FromScenario + " " + s.Name}
	for _, v := range values {
		if v.Name != "slice-duration" || f.set.Given("report") { // else no file has slices
			f.set.Give(v.Name, v.Value, from)
		}
	}
}

// checkDataset adds conflicts between the scenario and a dataset, and identifies the corpus that the dataset is.
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

// checkPrepared adds conflicts with a prepared dataset if the settings have conflicts already, so that all are told at once. scenarioOf
// checks every other dataset later.
func (f *scenarioFlags) checkPrepared(cmd *cobra.Command, name string) {
	if f.errors() == nil {
		return
	}
	root, _ := cacheRoot(cmd) // a path needs none
	if found, err := cachestore.Find(root, name); err == nil {
		if d, err := datasetProvenance(found.Root, found.Key); err == nil {
			f.checkDataset(d)
		}
	}
}

// errors returns the conflicts that keep the run from starting. The last has the hint to override them, if that is possible.
func (f *scenarioFlags) errors() (list []error) {
	overridable := scenario.Overridable(f.conflicts)
	if f.unsafe && overridable {
		return nil
	}
	for _, c := range f.conflicts {
		list = append(list, usageError{fmt.Errorf("--scenario %s: %w", f.chosen.Name, preset.Text(c.Error()))})
	}
	if last := len(list) - 1; last >= 0 && overridable {
		list[last] = hintError{list[last], "--unsafe-override starts such a run; its result is not valid"}
	}
	return list
}

// drawsSeed reports whether the scenario has drawn the value of --seed.
func (f *replayFlags) drawsSeed() bool {
	return f.scenario.chosen != nil && f.scenario.chosen.Seed == "" && f.set.From("seed").Kind == settings.FromScenario
}

// reportScenario prints the seed that the scenario has drawn, and a warning for each overridden conflict.
func (f *replayFlags) reportScenario(cmd *cobra.Command) {
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet && f.drawsSeed() {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: --seed %s, drawn for this run by scenario %s", f.set.Value("seed"), f.scenario.chosen.Name))
	}
	for _, c := range f.scenario.conflicts {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: warning: the run is not valid under scenario %s: %v", f.scenario.chosen.Name, preset.Text(c.Error())))
	}
}

// syntheticInput returns "demo" if the traces inside agentx are among the files with these digests, else "".
func syntheticInput(digests []string) string {
	if slices.Contains(digests, manifest.Sum(demo.JSONL())) {
		return "demo"
	}
	return ""
}

// truncation returns, as NAME=VALUE, those changed rules of the reconstruction that leave out recorded requests.
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

// scenarioOf checks the dataset against the scenario and returns what the results record of the scenario, nil without one.
func (f *replayFlags) scenarioOf(cmd *cobra.Command, d measure.Dataset) (*measure.Scenario, error) {
	if f.scenario.chosen == nil {
		return nil, nil
	}
	f.scenario.checkDataset(d)
	if err := f.wrong(); err != nil {
		return nil, err
	}
	f.reportScenario(cmd)
	s := &measure.Scenario{Name: f.scenario.chosen.Name, Corpus: f.scenario.corpus.Repository, PinnedBy: string(f.scenario.pin), MinDuration: f.scenario.chosen.MinDuration.Seconds()}
	for _, c := range f.scenario.conflicts {
		s.Overridden = append(s.Overridden, preset.Text(c.Error()).String())
	}
	return s, nil
}

// checkScenario finds conflicts between the scenario and the settings of a run. A conflict with a file or the environment names its place.
func (f *replayFlags) checkScenario() {
	if f.scenario.chosen == nil {
		return
	}
	f.scenario.conflicts = f.scenario.chosen.Check(f.lockable())
	for k := range f.scenario.conflicts {
		what := &f.scenario.conflicts[k].What
		*what = preset.Text(*what).String()
		name, _, _ := strings.Cut(strings.TrimPrefix(*what, preset.Prefix), " ")
		if from := f.set.From(name); from.Kind == settings.FromFile || from.Kind == settings.FromEnvironment {
			*what += " (" + from.At + ")"
		}
	}
}

// lockable returns the settings of a run that scenarios may lock.
func (f *replayFlags) lockable() scenario.Settings {
	o := &f.o
	p := scenario.Settings{
		ASAP: o.Pace.ASAP, Speed: o.Pace.Speed, MaxGap: o.Pace.MaxGap, SystemIdleCap: o.Limits.SystemIdle, TraceCap: f.set.Text("trace-cap"), CoverageGate: o.Switches.CoverageGate,
		Duration: o.Duration, Requests: o.Requests, Trees: o.Trees, Once: o.Once, Until: len(f.until.targets) > 0,
	}
	p.TraceIdleCap, _ = f.set.Value("trace-idle-cap").(time.Duration)
	p.Marker = f.set.Value("marker").(fmt.Stringer).String()
	p.Unstreamed, p.EndsEarly = contradictions(o.Fields)
	if f.auto.auto != nil || len(f.auto.counts) > 1 {
		p.Sweep = settings.FlagText("concurrency", f.auto.lanes.String())
	}
	return p
}

// contradictions returns the flags that ask for answers in one piece, and those that let the model end answers early.
func contradictions(fields payload.Fields) (unstreamed, endsEarly []string) {
	if fields.OmitIgnoreEOS {
		endsEarly = append(endsEarly, "--no-ignore-eos")
	}
	if fields.Length == payload.NoLength {
		endsEarly = append(endsEarly, "--max-tokens-field "+string(fields.Length))
	}
	var extra map[string]json.RawMessage
	_ = json.Unmarshal(fields.Extra, &extra) // its setting has said what is wrong with it
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

// runProvenance returns what the results record besides measurements: the program, the inputs of the dataset, and every option with its
// origin. sources are the files of the INPUT, if one was converted: a dataset that was built from local files, and is now found for files of
// a hub, gets the names of the hub.
func runProvenance(o *replay.Options, set *settings.Set, sources []mmapcache.Source) (measure.Run, error) {
	dataset, err := datasetProvenance(o.Cache.Root, o.Cache.Manifest.Key)
	for k := range dataset.Inputs {
		if len(sources) == len(dataset.Inputs) && strings.HasPrefix(sources[k].Path, measure.HubPrefix) {
			dataset.Inputs[k].Name = sources[k].Path
		}
	}
	r := measure.Run{Version: version, Commit: commit, Dataset: dataset}
	for _, option := range set.Options() {
		r.Options = append(r.Options, measure.Option{Name: option.Name, Value: option.Value, From: option.From.Kind})
	}
	return r, err
}

// datasetProvenance reads what a dataset was made from out of its manifests, and the names of files out of its provenance.
func datasetProvenance(root, key string) (d measure.Dataset, err error) {
	info, err := cachestore.Describe(root, key)
	if err != nil {
		return d, err
	}
	for _, part := range info.Directories {
		var image struct {
			Rules  json.RawMessage
			Inputs []measure.Input
			Draws  json.RawMessage
		}
		if err := json.Unmarshal(part.Manifest.PreImage, &image); err != nil {
			return d, err
		}
		if image.Rules != nil {
			d.Profile, d.Changed = profileOf(image.Rules)
			d.Inputs = image.Inputs
			if p := part.Provenance; p != nil && len(p.Sources) == len(d.Inputs) {
				for k := range d.Inputs {
					d.Inputs[k].Name = p.Sources[k].Path
				}
			}
		}
		if part.Manifest.Kind == mmapcache.TextsKind {
			if d.Texts, err = textsOf(info, part.Manifest); err != nil {
				return d, err
			}
			if d.Inputs = image.Inputs; part.Provenance != nil {
				for k := range min(len(d.Inputs), len(part.Provenance.Sources)) {
					d.Inputs[k].Name = part.Provenance.Sources[k].Path
				}
			}
		}
		if image.Draws != nil {
			d.Draws = image.Draws
		}
		if p := part.Provenance; p != nil && part.Manifest.Kind == mmapcache.ArenasKind {
			d.Corpus, d.Tokenizer = p.Corpus, p.Tokenizer
		}
	}
	return d, nil
}

// textsOf says what the prompts of a dataset of logs are made of.
func textsOf(info *cachestore.Info, texts *manifest.Manifest) (*measure.Texts, error) {
	f, err := mmapcache.TextFactsOf(texts)
	if err != nil {
		return nil, err
	}
	t := &measure.Texts{Formats: f.Formats}
	for _, part := range info.Directories {
		if part.Manifest.Kind == mmapcache.StructureKind {
			s, err := mmapcache.StructureFactsOf(part.Manifest)
			if err != nil {
				return nil, err
			}
			t.Filler = float64(f.FillerTokens) / float64(max(1, s.PromptTokens))
		}
	}
	return t, nil
}

// profileOf returns the profile whose rules differ least from recorded ones, and the rules that differ.
func profileOf(recorded json.RawMessage) (profile string, changed json.RawMessage) {
	best := -1
	for _, name := range []string{"default", "aiperf"} {
		own := rules.Default()
		if name == "aiperf" {
			own = rules.AIPerf()
		}
		text, _ := json.Marshal(own) // names and numbers always marshal
		if others := changedFields(recorded, text); best < 0 || len(others) < best {
			best, profile, changed = len(others), name, nil
			if best > 0 {
				changed, _ = json.Marshal(others)
			}
		}
	}
	return profile, changed
}

// changedFields returns the fields of a JSON object that another object lacks, or has with another value.
func changedFields(object, other json.RawMessage) map[string]any {
	var a, b map[string]any
	_, _ = json.Unmarshal(object, &a), json.Unmarshal(other, &b) // other JSON has no fields
	maps.DeleteFunc(a, func(name string, v any) bool { w, ok := b[name]; return ok && v == w })
	return a
}
