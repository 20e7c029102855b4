package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
)

// configFile writes a configuration file and makes its directory the working directory.
func configFile(t *testing.T, document string) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("run.yaml", []byte(document), 0o600))
}

// configErrors returns the lines that agentx replay prints about a configuration that is wrong.
func configErrors(t *testing.T, args ...string) []string {
	var out, problems strings.Builder
	require.Equal(t, exitUsage, run(append([]string{"replay", "--print-config"}, args...), nil, &out, &problems), problems.String())
	return strings.Split(strings.TrimSpace(problems.String()), "\n")
}

// A context is a number of tokens, or the server's, which the preflight asks for.
func TestMaxContext(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Equal(t, []string{"agentx: --max-context: the preflight asks the server for its context, and --no-preflight leaves that out: leave one of them out, or give a number of tokens"},
		configErrors(t, "--max-context", "server", "--no-preflight"))
	require.Equal(t, []string{"agentx: --max-context serv: want 0 or more, or server"}, configErrors(t, "--max-context", "serv"))
	for text, want := range map[string]string{"server": `"server"`, "131072": "131072", "0": "0"} {
		var out strings.Builder
		require.Zero(t, run([]string{"replay", "--print-config", "--json", "--max-context", text}, nil, &out, io.Discard))
		var printed map[string]struct{ Value json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(out.String()), &printed))
		require.Equal(t, want, string(printed["max-context"].Value))
	}
}

// Everything that is wrong with a command line, the environment and a file is told at once, a line each.
func TestEveryErrorIsToldAtOnce(t *testing.T) {
	configFile(t, `# a file
Spee: 2
speed: fast
start-min-ratio: 2
max-gap: -1
tree-idle-cap: 10s
concurrency: 0
tree-idle-cap: 20s
negative-duration: subtract
payload: smoke
`)
	t.Setenv("AGENTX_GRACE", "soon")
	t.Setenv("AGENTX_REQUESTS", "-1")
	t.Setenv("AGENTX_SET", "burst-start=perhaps")
	require.Equal(t, []string{
		"agentx: unknown flag: --concurency",
		"try: --concurrency",
		"agentx: --trees many: want a whole number",
		"agentx: --max-gap 1 and --set max-gap=2 both set max-gap: leave one of them out",
		"agentx: --set TreIdleCap=10s: no switch, option or rule of the reconstruction has this name: the nearest are tree-idle-cap, trace-idle-cap, trace-cap",
		"agentx: --set warmup=requests=2,duration=60s: two bounds of the pressure stage: want requests=R or duration=D",
		`agentx: --extra-body: want a JSON object`,
		"agentx: AGENTX_GRACE=soon: want a duration, no negative value",
		"agentx: AGENTX_REQUESTS=-1: want 0 or more",
		"agentx: AGENTX_SET=burst-start=perhaps: want true or false",
		"agentx: run.yaml:2: Spee: unknown key, neither a switch nor an option nor a flag: the nearest are speed, seed, set",
		"agentx: run.yaml:3: speed: fast: want a number above 0",
		"agentx: run.yaml:4: start-min-ratio: 2: want 0 to 1",
		"agentx: run.yaml:5: max-gap: -1: want a duration, no negative value, or off",
		"agentx: run.yaml:7: concurrency: 0: want 1 to 65536, several with commas between, none twice, or auto:FROM-TO",
		"agentx: run.yaml:8: tree-idle-cap: line 6 has this key already",
		"agentx: run.yaml:10: payload: smoke: want chat, anthropic, ids or text",
		"agentx: run.yaml:9: negative-duration: subtract: fixed when the cache is built, so a replay cannot change it: want zero, or nothing (--profile of agentx convert chooses it)",
	}, configErrors(t, "--config", "run.yaml", "--concurency", "8", "--trees", "many", "--max-gap", "1", "--set", "max-gap=2", "--set", "TreIdleCap=10s",
		"--set", "warmup=requests=2,duration=60s", "--set", "start-max-ratio=0.1", "--extra-body", "[]"))
}

// A file that is wrong is told with its line.
func TestWrongConfigurationFiles(t *testing.T) {
	for document, want := range map[string]string{
		"speed: 2\n\tGapCap: 1\n":                          `run.yaml:2: found a tab character that violates indentation`,
		"speed: 2: 3\n":                                    `run.yaml:1: mapping values are not allowed in this context`,
		"speed: 2\nmax-gap: *gap\n":                        `run.yaml:2: unknown anchor 'gap' referenced`,
		"[speed, 2]\n":                                     `run.yaml:1: want NAME: VALUE on each line`,
		"speed: 2\n---\nspeed: 3\n":                        `run.yaml:2: want one document`,
		"speed: 2\n\nspeed: 2\n":                           `run.yaml:3: speed: line 1 has this key already`,
		"? [speed]\n: 2\n":                                 `run.yaml:1: want NAME: VALUE on each line`,
		"speed: null\n":                                    `run.yaml:1: speed: null: want a number above 0`,
		"warmup: {requests: 2, duration: 60}\n":            `run.yaml:1: warmup: requests=2,duration=60: two bounds of the pressure stage: want requests=R or duration=D`,
		"warmup: {turns: 2}\n":                             `run.yaml:1: warmup: turns: want requests or duration`,
		"preset: aiperf-0.13\nwarmup: {requests: 2}\n":     `run.yaml:2: warmup: requests=2: under warmup-stage=duration (preset aiperf-0.13) the pressure stage has a duration: want duration=D`,
		"per-chunk-usage: true\nno-stream-options: true\n": `run.yaml:1: per-chunk-usage: true and run.yaml:2: no-stream-options: stream_options asks for usage in every message: leave one of them out`,
		"extra-body: \"[]\"\n":                             `run.yaml:1: extra-body: want a JSON object`,
		"\noverflow-pattern: (\n":                          `run.yaml:2: overflow-pattern: (: error parsing regexp`,
		"header: X\n":                                      `run.yaml:1: header: a field without a colon: want NAME:VALUE`,
		"url: http://a:b@c\n":                              `run.yaml:1: url: wire: target has a user in it`,
		"---\n---\nspeed: 3\n":                             `run.yaml:2: want one document`,
		"speed: '2'\n":                                     `run.yaml:1: speed: "2": want a number above 0`,
		"concurrency: 8,8\n":                               `run.yaml:1: concurrency: 8,8: want 1 to 65536, several with commas between, none twice, or auto:FROM-TO`,
		"concurrency: ['8,9', 1]\n":                        `run.yaml:1: concurrency: line 1: want 1 to 65536`,
		"url: 7\n":                                         `run.yaml:1: url: want a text`,
		"url: [http://a, 7]\n":                             `run.yaml:1: url: line 1: want a text`,
		"model: [a]\n":                                     `run.yaml:1: model: want a text`,
		"config: other.yaml\n":                             `run.yaml:1: config: unknown key, neither a switch nor an option nor a flag: the nearest are once, ca-file, until`,
		"set: [block_sise=64]\n":                           `run.yaml:1: set: block_sise=64: no switch, option or rule of the reconstruction has this name: the nearest are block_size, `,
		"set: [speed=2]\nspeed: 3\n":                       `run.yaml:1: set: speed=2 and run.yaml:2: speed: 3 both set speed: leave one of them out`,
		"preset: aiperf\n":                                 `run.yaml:1: preset: aiperf: want default, aiperf-0.13 or agentx-1.0.12`,
	} {
		configFile(t, document)
		lines := configErrors(t, "--config", "run.yaml")
		require.Len(t, lines, 1, document)
		require.True(t, strings.HasPrefix(lines[0], "agentx: "+want), "%s\n%s", lines[0], want)
	}
	configFile(t, strings.Repeat("# a trace\n", (1<<20)/10+1))
	require.Equal(t, []string{"agentx: --config: run.yaml has more than 1048576 bytes, too many for a configuration file: is it the right file?"}, configErrors(t, "--config", "run.yaml"))
	require.Equal(t, []string{"agentx: --config: open no.yaml: no such file or directory"}, configErrors(t, "--config", "no.yaml"))
}

// Preset, scenario, file, environment, flag: a later one beats an earlier one, by whichever name.
func TestWhoHasTheLastWord(t *testing.T) {
	configFile(t, "preset: aiperf-0.13\nSpeed: 2\nIgnoreDelaysKeepsOrder: true\nAnchor: phase\nconcurrency: 4\nGrace: 1m\ntimeout: 90\n")
	t.Setenv("AGENTX_CONFIG", "run.yaml")
	shown := shownConfig(t)
	for name, want := range map[string][2]string{
		"preset":       {`"aiperf-0.13"`, "run.yaml:1"},
		"spawn-offset": {`"branch"`, "preset aiperf-0.13"},
		"speed":        {`2`, "run.yaml:2"}, "asap-keeps-order": {`true`, "run.yaml:3"}, "anchor": {`"phase"`, "run.yaml:4"},
		"concurrency": {`4`, "run.yaml:5"}, "grace": {`60`, "run.yaml:6"}, "timeout": {`90`, "run.yaml:7"},
		"tree-idle-cap": {`null`, "preset aiperf-0.13"}, "lane-start-cap": {`300`, "default"},
	} {
		require.Equal(t, want, [2]string{string(shown[name].Value), shown[name].From}, name)
	}
	require.NotContains(t, shown, "requests", "flags that are not set are not shown")

	t.Setenv("AGENTX_SPEED", "3")
	t.Setenv("AGENTX_CONCURRENCY", "5")
	t.Setenv("AGENTX_SET", "anchor=zero")
	t.Setenv("AGENTX_PRESET", "agentx-1.0.12")
	shown = shownConfig(t)
	for name, want := range map[string][2]string{
		"preset": {`"agentx-1.0.12"`, "AGENTX_PRESET"}, "speed": {`3`, "AGENTX_SPEED"}, "anchor": {`"zero"`, "AGENTX_SET"},
		"concurrency": {`5`, "AGENTX_CONCURRENCY"}, "join-timing": {`"timed"`, "preset agentx-1.0.12"}, "grace": {`60`, "run.yaml:6"},
	} {
		require.Equal(t, want, [2]string{string(shown[name].Value), shown[name].From}, name)
	}

	shown = shownConfig(t, "--set", "speed=4", "--concurrency", "6", "--set", "anchor=phase", "--preset", "default", "--grace", "0", "--set", "grace=0s")
	for name, want := range map[string][2]string{
		"preset": {`"default"`, "--preset"}, "speed": {`4`, "--set"}, "anchor": {`"phase"`, "--set"}, "concurrency": {`6`, "--concurrency"},
		"join-timing": {`"timed"`, "preset default"}, "tree-idle-cap": {`300`, "preset default"}, "asap-keeps-order": {`true`, "run.yaml:3"},
	} {
		require.Equal(t, want, [2]string{string(shown[name].Value), shown[name].From}, name)
	}
}

// Rules of the reconstruction come in the order of their sources, too: the last has the last word.
func TestTheLastSourceOfARuleWins(t *testing.T) {
	configFile(t, "set: [block_size=32]\n")
	t.Setenv("AGENTX_SET", "block_size=64")
	set := shownConfig(t, "--config", "run.yaml", "--set", "block_size=128")["set"]
	require.JSONEq(t, `["block_size=32", "block_size=64", "block_size=128"]`, string(set.Value))
	require.Equal(t, "--set", set.From)
}

// What --print-config prints is a file for --config that sets the same.
func TestPrintedConfigurationCanBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range preset.Names {
		args := []string{
			"--preset", name, "--set", "spawn-offset=branch", "--warmup", "duration=90s", "--set", "lane-start-cap=0.00001s", "--max-gap", "1m", "--set", "prefill-limit=3",
			"--marker", "off", "--url", "http://a", "--url", "http://b", "--model", "m: x\ny", "--concurrency", "8,7", "--duration", "400000h", "--asap",
			"--set", "block_size=128", "--set", "system-idle-cap=1m", "--max-error-rate", "0.1", "--no-ignore-eos", "--header", "X-Key: very-secret",
		}
		text := agentx(t, append([]string{"replay", "--print-config"}, args...)...)
		require.NotContains(t, text, "very-secret")
		require.NoError(t, os.WriteFile("again.yaml", []byte(text), 0o600))
		before, after := shownConfig(t, args...), shownConfig(t, "--config", "again.yaml")
		require.Contains(t, before, "header")
		delete(before, "header")
		require.Len(t, after, len(before))
		for name, v := range before {
			require.JSONEq(t, string(v.Value), string(after[name].Value), name)
			if auto := strings.Contains(text, "\n# "+name+": "); auto && v.From == "default" {
				require.Equal(t, "default", after[name].From, "%s: the run finds out what it means, also from the file", name)
				continue
			}
			require.Regexp(t, `^again\.yaml:[0-9]+$`, after[name].From)
		}
		require.Regexp(t, `(?m)^# arrivals: lanes +# default; the run may choose another$`, text)
		require.Regexp(t, regexp.MustCompile(`(?m)^spawn-offset: branch +# --set$`), text)
		require.Regexp(t, regexp.MustCompile(`(?m)^speed: 1 +# default$`), text)
	}
}

// optionsWith returns the options of a run with some values of settings.
func optionsWith(t *testing.T, set ...string) replay.Options {
	var cmd cobra.Command
	f := replayFlags{scenario: scenarioFlags{known: knownScenarios()}}
	f.register(&cmd)
	args := []string{"--url", "http://127.0.0.1:1", "--model", "m", "--out", filepath.Join(t.TempDir(), "out")}
	for _, text := range set {
		args = append(args, "--"+text)
	}
	require.NoError(t, cmd.Flags().Parse(args))
	f.set.Resolve(nil)
	f.checkSettings()
	f.options()
	require.NoError(t, f.wrong())
	f.o.Out = ""
	return f.o
}

// Values that are off arrive as such.
func TestOffArrives(t *testing.T) {
	o := optionsWith(t, "tree-idle-cap=off", "lane-start-cap=null", "back-off=off", "grace=0", "primer-lead-max=off", "max-gap=0")
	require.Nil(t, o.Switches.TreeIdleCap)
	require.Equal(t, []time.Duration{replay.Off, replay.Off, replay.Off, replay.Off, 0},
		[]time.Duration{o.Limits.LaneStart, o.Backoff.Max, o.Grace, o.Warmup.LeadMax, o.Pace.MaxGap})
	require.Equal(t, replay.Off, optionsWith(t, "system-idle-cap=10s").Warmup.LeadMax, "the system cap bounds leads instead")
	require.Equal(t, 10*time.Second, optionsWith(t).Warmup.LeadMax)
}

// A trace-idle-cap of 0 is the shortest one, as in the harness; off is none.
//
// Covers T-72.
func TestTraceIdleCapOfZero(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 1, "0s": 1, "2ns": 2, "300": 300 * time.Second, "off": 0} {
		require.Equal(t, want, optionsWith(t, "trace-idle-cap="+text).Limits.TraceIdle, text)
	}
}

// The results list a value with the kind of its origin, as JSON.
func TestResultsListOrigins(t *testing.T) {
	configFile(t, "speed: 2\n")
	t.Setenv("AGENTX_MAX_GAP", "1")
	var cmd cobra.Command
	var f replayFlags
	f.register(&cmd)
	require.NoError(t, cmd.Flags().Parse([]string{"--config", "run.yaml", "--asap", "--preset", "aiperf-0.13", "--anchor", "phase"}))
	list := map[string]string{}
	f.set.Resolve(nil)
	for _, o := range f.set.Options() {
		list[o.Name] = string(o.Value) + " " + o.From.Kind
	}
	for name, want := range map[string]string{
		"speed": "2 file", "max-gap": "1 environment", "asap": "true flag",
		"anchor": `"phase" flag`, "spawn-offset": `"branch" preset`, "tree-idle-cap": "null preset", "asap-keeps-order": "false preset",
		"grace": "30 default", "preset": `"aiperf-0.13" flag`, "config": `"run.yaml" flag`, "system-idle-cap": "null default",
	} {
		require.Equal(t, want, list[name], name)
	}
	require.NotContains(t, list, "print-config")
	require.NotContains(t, list, "set")
}

// The results list what a throttled request becomes, also where nothing says so. Presets that imitate other tools refuse to wait, and have
// no limits on silence unless they are given.
func TestRetryAfterIsChosen(t *testing.T) {
	for args, want := range map[string][2]string{
		"": {`"wait"`, "default"}, "--duration 20s": {`"record"`, "default"}, "--duration 20s --once": {`"wait"`, "default"},
		"--duration 20s --arrivals recorded": {`"wait"`, "default"}, "--retry-after record": {`"record"`, "--retry-after"},
		"--set retry-after=off": {`"off"`, "--set"}, "--preset aiperf-0.13": {`"off"`, "preset aiperf-0.13"},
		"--preset agentx-1.0.12 --set retry-after=off": {`"off"`, "--set"},
	} {
		got := shownConfig(t, strings.Fields(args)...)["retry-after"]
		require.Equal(t, want, [2]string{string(got.Value), got.From}, args)
	}
	require.Equal(t, []string{
		"agentx: --retry-after wait: the tool that preset aiperf-0.13 imitates does not look at Retry-After: leave it out, or choose --preset default",
	}, configErrors(t, "--preset", "aiperf-0.13", "--retry-after", "wait"))
	for _, name := range []string{"stall-timeout", "first-byte-timeout"} {
		require.Equal(t, "null", string(shownConfig(t, "--preset", "agentx-1.0.12")[name].Value))
		require.Equal(t, "7", string(shownConfig(t, "--preset", "aiperf-0.13", "--set", name+"=7s")[name].Value))
	}
	require.Equal(t, replay.Off, optionsWith(t, "stall-timeout=0").StallTimeout)
}

// Runs that are known to be short are not calibrated, unless that is asked for. The later source wins, and two of one source contradict
// each other, also by the name of before.
func TestCalibrationIsChosen(t *testing.T) {
	for _, c := range []struct {
		args       string
		value      string // of no-calibrate
		from       string
		fromBefore string // AGENTX_NO_CALIBRATE
	}{
		{"", "false", "default", ""},
		{"--duration 20s --requests 1000", "false", "default", ""},
		{"--duration 19s", "true", "default", ""},
		{"--requests 999", "true", "default", ""},
		{"--requests 999 --no-calibrate=false", "false", "--no-calibrate", ""},
		{"--requests 999 --set Calibrate=true", "false", "--set", ""},
		{"--set Calibrate=false", "true", "--set", ""},
		{"--no-calibrate", "true", "--no-calibrate", ""},
		{"", "true", "AGENTX_NO_CALIBRATE", "true"},
		{"--set Calibrate=true", "false", "--set", "true"},
		{"--set Calibrate=false --no-calibrate", "true", "--no-calibrate", ""},
	} {
		t.Setenv("AGENTX_NO_CALIBRATE", c.fromBefore)
		if c.fromBefore == "" {
			require.NoError(t, os.Unsetenv("AGENTX_NO_CALIBRATE"))
		}
		got := shownConfig(t, strings.Fields(c.args)...)["no-calibrate"]
		require.Equal(t, c.value, string(got.Value), "%+v", c)
		require.Equal(t, c.from, got.From, "%+v", c)
	}
	require.Equal(t, []string{
		"agentx: warning: old names, which the next release will not accept: Calibrate=true is no-calibrate=false",
		"agentx: --no-calibrate true and --set Calibrate=true both set no-calibrate: leave one of them out",
	}, configErrors(t, "--no-calibrate", "--set", "Calibrate=true"))
}

// One mistake is told in one line: nothing says of a setting with a wrong value, or by a wrong name, that it is missing, or what it
// contradicts.
func TestOneMistakeIsToldOnce(t *testing.T) {
	configFile(t, "ulr: http://h\nmodel: m\n")
	require.NoError(t, os.WriteFile("broken.yaml", []byte("url: [\n"), 0o600))
	for _, args := range []string{
		"--ur http://h --model m", "--url ftp://h --model m", "--url http://127.0.0.1:1 --mdel m", "--set ulr=http://h --model m",
		"--config run.yaml", "--config broken.yaml", "--config no.yaml",
		"--url http://127.0.0.1:1 --model m --rate x --arrival constant", "--url http://127.0.0.1:1 --model m --arrivals x --rate 1",
		"--url http://127.0.0.1:1 --model m --concurrency auto --slo ttft", "--url http://127.0.0.1:1 --model m --concurrency auto:9-3 --drain 2s",
		"--url http://127.0.0.1:1 --model m --part 3/2 --meet h:7", "--url http://127.0.0.1:1 --model m --scenario x --unsafe-override",
		"--url http://127.0.0.1:1 --model m --part 0/2 --concurrency 4 --out o --reset-cache --start-at noon",
		"--url http://127.0.0.1:1 --model m --start-min-ratio 2 --start-max-ratio 0.1",
	} {
		r := runLine(append([]string{"replay", "demo", "--cache", "c"}, strings.Fields(args)...)...)
		require.Equal(t, exitUsage, r.status, args)
		require.Equal(t, 1, strings.Count(r.problems, "agentx: "), "%s\n%s", args, r.problems)
		require.LessOrEqual(t, strings.Count(r.problems, "try: "), 1, "%s\n%s", args, r.problems)
	}
}
