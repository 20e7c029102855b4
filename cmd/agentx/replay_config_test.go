package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
)

// shownConfig returns what --print-config --json shows with some arguments, without the flags.
func shownConfig(t *testing.T, args ...string) map[string]struct {
	Value json.RawMessage
	From  string
} {
	var shown map[string]struct {
		Value json.RawMessage
		From  string
	}
	out := agentx(t, append([]string{"replay", "--print-config", "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	return shown
}

// The command has the switches of each preset as the vectors have them, also those that a run gets.
//
// Covers T-44.
func TestPresetsAreThoseOfTheVectors(t *testing.T) {
	type in struct{ Preset string }
	type want struct{ Switches map[string]json.RawMessage }
	seen := 0
	fixtures.EachCase(t, "preset", fixtures.Counts{1, 1, 1}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		seen++
		require.Len(t, want.Switches, 26)
		shown := shownConfig(t, "--preset", in.Preset)
		for name, value := range want.Switches {
			one := shown[preset.Renamed(name)]
			require.JSONEq(t, string(value), string(one.Value), name)
			require.Equal(t, "preset "+in.Preset, one.From, name)
		}
		s, _ := preset.Named(in.Preset)
		require.Equal(t, s, *optionsWith(t, "preset="+in.Preset).Switches)
	})
	require.Len(t, preset.Names, seen)
}

// texts are values; every setting accepts at least one that is not its default.
var texts = []string{"0.5", "7", "7s", "primers", "X-Other", "x/y", "/a", "http://h", "X-A: b", "ttft.p95=5%", `{"a":1}`, "true", "false", "off"}

// another returns a text that is a value of a setting, and not its default; "" if there is none.
func another(row *settings.Setting) string {
	for _, text := range append(slices.Clone(row.Kind.Words), texts...) {
		if v, ok := row.Kind.Read(text); ok && !slices.Contains([]string{row.Kind.Text(row.Default)}, row.Kind.Text(v)) {
			return text
		}
	}
	return ""
}

// Every setting goes through every door: flag, variable, --set, file, schema, --print-config and back, completion, help and the options of
// the results; and it changes the options of a run.
func TestEverySettingGoesThroughEveryDoor(t *testing.T) {
	published, err := os.ReadFile(publishedSchema)
	require.NoError(t, err)
	var schema struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(published, &schema))
	help := agentx(t, "help", "replay")
	t.Chdir(t.TempDir())
	certificate := certificateFile(t)
	plain, names := optionsWith(t), optionNames(t)
	for _, row := range settings.Replay(new(replay.Options)) {
		text := another(&row)
		switch row.Name {
		case "flow-curve": // which has one value
			continue
		case "negative-duration": // which is only shown
			text = "zero"
		case "ca-file":
			text = certificate
		case "start-min-ratio":
			text = "0.5"
		}
		require.NotEmpty(t, text, row.Name)
		assert.Contains(t, schema.Properties, row.Name)
		assert.Contains(t, help, "--"+row.Name, "help")
		doors := map[string][]string{"flag": {"--" + row.Name + "=" + text}, "set": {"--set", row.Name + "=" + text}, "environment": nil, "file": {"--config", "run.yaml"}}
		quoted, _ := json.Marshal(text)
		if v, _ := row.Kind.Read(text); !strings.HasPrefix(row.Kind.Type, "string") { // which YAML knows
			quoted = []byte(strings.Trim(string(row.Kind.JSON(v)), `"`))
		}
		require.NoError(t, os.WriteFile("run.yaml", []byte(row.Name+": "+string(quoted)+"\n"), 0o600))
		with := map[string][]string{"rate-of": {"--rate", "5"}, "arrival": {"--rate", "5"}}[row.Name]
		var values []string
		for door, args := range doors {
			if door == "environment" {
				t.Setenv(settings.Variable(row.Name), text)
			}
			printed := agentx(t, append([]string{"replay", "--print-config"}, slices.Concat(with, args)...)...)
			got := shownConfig(t, slices.Concat(with, args)...)[row.Name]
			require.NoError(t, os.Unsetenv(settings.Variable(row.Name)))
			values = append(values, string(got.Value))
			assert.NotContains(t, []string{"default", ""}, got.From, row.Name+" by "+door)
			if row.Masked == "" && row.Name != "url" {
				require.NoError(t, os.WriteFile("again.yaml", []byte(printed), 0o600))
				assert.Equal(t, string(got.Value), string(shownConfig(t, "--config", "again.yaml")[row.Name].Value), "%s by %s and back", row.Name, door)
			}
		}
		assert.Len(t, slices.Compact(values), 1, row.Name)
		if row.Name != "negative-duration" {
			assert.NotEqual(t, plain, optionsWith(t, row.Name+"="+text), row.Name)
		}
		if len(row.Kind.Words) > 1 {
			assert.Contains(t, agentx(t, "__complete", "replay", "--set", row.Name+"="), row.Name+"="+row.Kind.Words[0])
		}
		assert.Contains(t, names, row.Name)
	}
}

// The results of a run say what it played: a simulation gets the options from them again, whatever was set.
//
// Covers S-96.
func TestResultsSayWhatWasPlayed(t *testing.T) {
	played := func(o replay.Options) []any {
		o.Marker = payload.NoMarker // else it is that of the cache
		o = o.WithDefaults()
		return []any{o.Preset, *o.Switches, o.Start, o.Order, o.Recycle, o.MaxLivePerTrace, o.AllowWrap, o.Warmup, o.Arrivals, o.Pace, o.Limits, o.Traces, o.MaxContext, o.Duration, o.Requests, o.Trees, o.Once, o.StopOnDeadlock}
	}
	seen := map[string]bool{}
	for _, row := range settings.Replay(new(replay.Options)) {
		text := another(&row)
		if !slices.Contains([]string{settings.Played, settings.Arrivals, settings.Load, settings.Switches}, row.Group) || text == "" {
			continue
		}
		for _, preset := range preset.Names {
			var cmd cobra.Command
			var f replayFlags
			f.register(&cmd)
			require.NoError(t, cmd.Flags().Parse([]string{"--preset", preset, "--" + row.Name + "=" + text}))
			f.set.Resolve(nil)
			run := measure.Run{Preset: preset}
			for _, o := range f.set.Options() {
				run.Options = append(run.Options, measure.Option{Name: o.Name, Value: o.Value})
			}
			o, err := settings.PlayedBy(&run)
			require.NoError(t, err, row.Name)
			require.Equal(t, played(f.o), played(o), "%s=%s", row.Name, text)
			seen[fmt.Sprint(played(o))] = true
		}
	}
	require.Greater(t, len(seen), 60, "the options change what is played")
	_, err := settings.PlayedBy(&measure.Run{Options: []measure.Option{{Name: "speed", Value: json.RawMessage(`"fast"`)}}})
	require.ErrorContains(t, err, `speed "fast": want a number above 0`)
	_, err = settings.PlayedBy(&measure.Run{Options: []measure.Option{{Name: "speed"}}})
	require.ErrorContains(t, err, "speed has no value")
}

// optionNames lists the options that the results of a run have.
func optionNames(t *testing.T) (names []string) {
	var cmd cobra.Command
	f := replayFlags{scenario: scenarioFlags{known: knownScenarios()}}
	f.register(&cmd)
	f.set.Settle()
	for _, o := range f.set.Options() {
		names = append(names, o.Name)
	}
	return names
}

// Names of before November 2026 are read, with one line that has the new ones; twice the same is refused under either name.
func TestOldNamesAreRead(t *testing.T) {
	configFile(t, "GapCap: 90\nIgnoreDelays: true\n")
	r := runLine("replay", "--print-config", "--config", "run.yaml", "--set", "SpawnOffset=branch", "--set", "StopOnWedge=true")
	require.Zero(t, r.status, r.problems)
	require.Equal(t, "agentx: warning: old names, which the next release will not accept: SpawnOffset is spawn-offset, StopOnWedge is stop-on-deadlock, GapCap is max-gap, IgnoreDelays is asap\n", r.problems)
	for _, line := range []string{`max-gap: 90s +# run.yaml:1`, `asap: true +# run.yaml:2`, `spawn-offset: branch +# --set`, `stop-on-deadlock: true +# --set`} {
		require.Regexp(t, `(?m)^`+line+`$`, r.stdout)
	}
	configFile(t, "GapCap: 90\nmax-gap: 90\n")
	require.Contains(t, configErrors(t, "--config", "run.yaml"), "agentx: run.yaml:2: max-gap: line 1 has this key already, as GapCap")
	require.Contains(t, configErrors(t, "--set", "max-gap=2s", "--set", "GapCap=3s"), "agentx: --set max-gap=2s and --set GapCap=3s both set max-gap: leave one of them out")
}

// A name that nothing has is told with the one that was meant, in every spelling of one of before.
func TestNamesThatAreClose(t *testing.T) {
	t.Chdir(t.TempDir())
	for set, want := range map[string]string{
		"gapcap=3s":      "--set gapcap=3s: no switch, option or rule of the reconstruction has this name: the nearest are max-gap, ",
		"gap_cap=3s":     "--set gap_cap=3s: no switch, option or rule of the reconstruction has this name: the nearest are max-gap, ",
		"config=x":       "--set config=x: --set accepts only keys of a file: use --config",
		"max-gap=1e9h":   "--set max-gap=1e9h: want a duration such as 90s or 10m, up to 2562047h, or seconds below 1e+09",
		"ramp=1001h":     "--set ramp=1001h: want a duration of 0 or more, at most 1000h0m0s, or off",
		"sampler_order=": "warning: old names, which the next release will not accept: sampler_order is sampler-order",
	} {
		require.Contains(t, configErrors(t, "--set", set)[0], "agentx: "+want, set)
	}
	r := runLine("simulate", "--synthetic", "in=1,out=1,n=1", "--set", "StopOnWedge=true")
	require.Contains(t, r.problems, "agentx: --set StopOnWedge=true: StopOnWedge is stop-on-deadlock, a setting of a replay that a simulation does not have: ")
}

// A variable that looks as if it set a flag, and sets none, is told in one line with the one that was meant.
func TestMistypedVariables(t *testing.T) {
	t.Setenv("AGENTX_GAP_CAP", "2s")
	t.Setenv("AGENTX_NO_SUCH", "1")
	t.Setenv("AGENTX_PARTS", "2")
	t.Setenv("AGENTX_WORKERS", "2")
	r := runLine("version", "--quiet")
	require.Zero(t, r.status)
	require.Equal(t, "agentx: warning: variables of the environment that agentx does not know: AGENTX_GAP_CAP (the nearest that is: AGENTX_MAX_GAP), AGENTX_NO_SUCH (the nearest that is: AGENTX_NO_WAIT)\n", r.problems)
}

// A value that is wrong is told with where it comes from: a flag, --set, a variable or a line of a file.
func TestWrongValuesAreToldWithTheirOrigin(t *testing.T) {
	configFile(t, "workers: x\nengine: {a: 1}\ngate: y\n")
	simulation := []string{"simulate", "--synthetic", "in=1,out=1,n=1"}
	expect := func(args []string, wants ...string) {
		r := runLine(args...)
		require.Equal(t, exitUsage, r.status)
		for _, want := range wants {
			require.Contains(t, r.problems, "agentx: "+want)
		}
	}
	expect(append(simulation, "--config", "run.yaml"), "run.yaml:1: workers: x: want a number", `run.yaml:2: engine: {"a":1}: unknown key`, "run.yaml:3: gate: y: want NAME<VALUE")
	expect(append(simulation, "--set", "workers=auto"), "--set workers=auto: nothing to keep")
	expect(append(simulation, "--workers", "2,2"), "--workers 2,2: 2 is given twice")
	configFile(t, "engine: {a: 1, a: 2}\n")
	expect(append(simulation, "--config", "run.yaml"), `run.yaml:1: engine: line 1: mapping key "a" already defined`)
	for name, text := range map[string]string{"WORKERS": "x", "GATE": "y", "SLO": "z", "REPORT": "pdf"} {
		t.Setenv("AGENTX_"+name, text)
	}
	expect(simulation, "AGENTX_WORKERS=x: want a number", "AGENTX_GATE=y: want NAME<VALUE")
	expect([]string{"report", "."}, "AGENTX_GATE=y: want NAME<VALUE", "AGENTX_SLO=z: want NAME<VALUE")
	require.Subset(t, configErrors(t), []string{"agentx: AGENTX_SLO=z: want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s", "agentx: AGENTX_REPORT=pdf: want html, aiperf, json, csv or parquet"})
}

const publishedSchema = "../../doc/replay-config.schema.json"

// The published schema is the one that the command prints: agentx replay --config-schema > doc/replay-config.schema.json.
func TestPublishedSchemaIsThatOfTheCommand(t *testing.T) {
	published, err := os.ReadFile(publishedSchema)
	require.NoError(t, err)
	require.True(t, string(published) == agentx(t, "replay", "--config-schema"), "make it again: go run ./cmd/agentx replay --config-schema > doc/replay-config.schema.json")
}

// readSchema returns the published schema.
func readSchema(t *testing.T) (*jsonschema.Schema, *jsonschema.Resolved) {
	published, err := os.ReadFile(publishedSchema)
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(published, &schema))
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return &schema, resolved
}

// allows reports whether a schema allows a YAML document.
func allows(t *testing.T, schema *jsonschema.Resolved, document string) bool {
	var v any
	require.NoError(t, yaml.Unmarshal([]byte(document), &v))
	text, err := json.Marshal(v)
	require.NoError(t, err)
	var instance any
	require.NoError(t, json.Unmarshal(text, &instance))
	return schema.Validate(instance) == nil
}

// The example of the documentation can be read, and says what it says there.
func TestExampleOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../doc/replay.md")
	require.NoError(t, err)
	_, text, _ = bytes.Cut(text, []byte("\n## Configuration\n"))
	_, text, ok := bytes.Cut(text, []byte("\n\n    preset: "))
	require.True(t, ok)
	text, _, _ = bytes.Cut(text, []byte("\n\n"))
	document := "preset: " + strings.ReplaceAll(string(text), "\n    ", "\n") + "\n"
	_, resolved := readSchema(t)
	require.True(t, allows(t, resolved, document))
	configFile(t, document)
	shown := shownConfig(t, "--config", "run.yaml")
	for name, want := range map[string]string{
		"preset": `"aiperf-0.13"`, "spawn-offset": `"recorded"`, "join-timing": `"immediate"`, "start": `"sampled"`, "warmup": `"duration=90s"`, "system-idle-cap": `10`,
		"max-gap": `null`, "concurrency": `8`, "duration": `1800`, "url": `["http://10.0.0.1:8000","http://10.0.0.2:8000"]`, "header": `["X-Team"]`,
	} {
		require.JSONEq(t, want, string(shown[name].Value), name)
	}
	require.Equal(t, "run.yaml:2", shown["spawn-offset"].From)
}

// configReader returns a function that reports whether the command reads a document as its configuration file without an error.
func configReader(t *testing.T) func(document string) bool {
	file := filepath.Join(t.TempDir(), "run.yaml")
	var cmd cobra.Command
	f := replayFlags{scenario: scenarioFlags{known: knownScenarios()}}
	f.register(&cmd)
	new(convertFlags).registerForInput(&cmd)
	f.set.Adopt("")
	return func(document string) bool {
		require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
		f.set.Forget()
		f.errs = nil
		require.NoError(t, cmd.Flags().Set("config", file))
		f.set.Resolve(nil)
		return len(f.errs) == 0
	}
}

// more are settings that the command checks more closely than a schema can.
var more = []string{"url", "otlp", "header", "scrape", "until", "overflow-pattern", "extra-body"}

// The schema and the command agree on every key with values of every type.
func TestSchemaAgreesWithTheCommand(t *testing.T) {
	values := []string{
		"null", "~", "true", "false", "on", "off", `"off"`, "0", "1", "-1", "2", "70000", "0.25", "1.4", "1.5", "1.50", "1e3", ".5", "0x10", "1_000", "-0.5",
		"90s", "0s", "1h30m", "1.5m", "-5s", "5 s", "5x", `"90"`, `"0"`, `"1"`, `"1.5"`, `""`, "abc", "zero", "sampled", "aiperf-0.13", "ids", "primers",
		"requests=2", "requests=0", "requests=", "duration=60s", "duration=0s", "requests=2,duration=60s", "requests=2 ",
		"{requests: 2}", "{requests: 0}", "{duration: 60}", "{duration: 1m}", "{duration: 0s}", "{requests: 2, duration: 60}", "{turns: 2}", "{}",
		"8,16", "8,,16", "8,", `"8, 16"`, "0,8", "[]", "[1, 2]", `["a", "b"]`, "a/b?c",
	}
	schema, resolved := readSchema(t)
	reads := configReader(t)
	keys := []string{"speeed", "--speed", "config", "print-config", "StartRatio"}
	for name := range schema.Properties {
		if name != "set" && name != "cache" && name != "quiet" && name != "no-color" && name != "json" { // set has values of its own; the others are not the replay's
			keys = append(keys, name)
		}
	}
	require.Greater(t, len(keys), 80)
	allowed := 0
	for _, key := range keys {
		for _, value := range values {
			document := key + ": " + value + "\n"
			want := reads(document)
			if want {
				allowed++
			}
			if want || !slices.Contains(more, key) {
				assert.Equal(t, want, allows(t, resolved, document), document)
			}
		}
	}
	require.Greater(t, allowed, 400)
	for document, want := range map[string]bool{
		"":                                     true,
		"# nothing\n":                          true,
		"[a]\n":                                false,
		"speed: 2\nmax-gap: 1m\nurl: http://x": true,
	} {
		assert.Equal(t, want, reads(document), document)
		assert.Equal(t, want, allows(t, resolved, document), document)
	}
}
