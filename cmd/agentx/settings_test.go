package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
)

// texts are values of which every setting takes one that is not its default.
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
	require.Equal(t, "agentx: warning: old names, which the next release does not take: SpawnOffset is spawn-offset, StopOnWedge is stop-on-deadlock, GapCap is max-gap, IgnoreDelays is asap\n", r.problems)
	for _, line := range []string{`max-gap: 90s +# run.yaml:1`, `asap: true +# run.yaml:2`, `spawn-offset: branch +# --set`, `stop-on-deadlock: true +# --set`} {
		require.Regexp(t, `(?m)^`+line+`$`, r.stdout)
	}
	configFile(t, "GapCap: 90\nmax-gap: 90\n")
	require.Contains(t, configErrors(t, "--config", "run.yaml"), "agentx: run.yaml:2: max-gap: line 1 has this key already, as GapCap")
	require.Contains(t, configErrors(t, "--set", "max-gap=2s", "--set", "GapCap=3s"), "agentx: --set max-gap=2s and --set GapCap=3s: both set max-gap: want one of the two")
}

// A name that nothing has is told with the one that was meant, in every spelling of one of before.
func TestNamesThatAreClose(t *testing.T) {
	t.Chdir(t.TempDir())
	for set, want := range map[string]string{
		"gapcap=3s":      "--set gapcap=3s: no switch, option or rule of the reconstruction has this name: the nearest are max-gap, ",
		"gap_cap=3s":     "--set gap_cap=3s: no switch, option or rule of the reconstruction has this name: the nearest are max-gap, ",
		"config=x":       "--set config=x: --set sets what a file can: want --config",
		"max-gap=1e9h":   "--set max-gap=1e9h: want a duration such as 90s or 10m, up to 2562047h, or seconds below 1e+09",
		"ramp=1001h":     "--set ramp=1001h: want a duration, no negative value, at most 1000h0m0s, or off",
		"sampler_order=": "warning: old names, which the next release does not take: sampler_order is sampler-order",
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
	require.Equal(t, "agentx: warning: in the environment, and not read: AGENTX_GAP_CAP (the nearest that is: AGENTX_MAX_GAP), AGENTX_NO_SUCH (the nearest that is: AGENTX_NO_WAIT)\n", r.problems)
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
	expect(append(simulation, "--workers", "2,2"), "--workers 2,2: 2 twice")
	configFile(t, "engine: {a: 1, a: 2}\n")
	expect(append(simulation, "--config", "run.yaml"), `run.yaml:1: engine: line 1: mapping key "a" already defined`)
	for name, text := range map[string]string{"WORKERS": "x", "GATE": "y", "SLO": "z", "REPORT": "pdf"} {
		t.Setenv("AGENTX_"+name, text)
	}
	expect(simulation, "AGENTX_WORKERS=x: want a number", "AGENTX_GATE=y: want NAME<VALUE")
	expect([]string{"report", "."}, "AGENTX_GATE=y: want NAME<VALUE", "AGENTX_SLO=z: want NAME<VALUE")
	require.Subset(t, configErrors(t), []string{"agentx: AGENTX_SLO=z: want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s", "agentx: AGENTX_REPORT=pdf: want html, aiperf, json, csv or parquet"})
}
