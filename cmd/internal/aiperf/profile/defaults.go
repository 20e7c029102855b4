package profile

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/replay/preset"
)

var errNoRecording = errors.New("no recording: without one AIPerf makes synthetic prompts, and agentx plays recordings")

// addDefaults adds settings for what AIPerf does without a flag and agentx replay does not.
func (t *translation) addDefaults() {
	if !t.has("--url") {
		t.servers(given{name: "--url"})
	}
	if !t.has("--model-names") {
		t.add("--model: name the model to ask for")
	}
	if _, given := t.given["--streaming"]; !t.has("--streaming") && (given || !t.Harness || !t.has("--scenario")) {
		t.add("not supported: a run without --streaming: agentx reads answers as streams: add it")
	}
	if !t.has("--use-server-token-count") && !t.presumed() {
		t.note("no --use-server-token-count: counts are the server's nonetheless; agentx encodes nothing while it measures")
	}
	if t.has("--per-chunk-usage") && !t.has("--use-server-token-count") {
		t.add("%s: works only with --use-server-token-count", t.given["--per-chunk-usage"].name)
	}
	t.defaultTokenizer()
	t.addArrivals()
	if t.lengths && !t.has("--prompt-input-tokens-block-size") {
		t.set("set", "block_size=512") // of Mooncake's rows, which do not say it
	}
	if t.lengths && t.rows().longest > 1 {
		t.sessionRows()
	}
	t.addBody()
	if !t.has("--scenario") && !t.scheduled() && !t.kind.trees {
		t.addBounds()
	}
	if !t.has("--random-seed") && !t.presumed() {
		t.drawSeed()
	}
	if t.as == preset.AgentX && !t.inAgentX() && t.Environ["AIPERF_HTTP_TCP_USER_TIMEOUT"] == "" {
		t.set("tcp-user-timeout", "30s") // that of the preset is of the scenario agentx
	}
	if t.Harness {
		t.addHarness()
	}
	if len(t.sessionHeaders) > 0 {
		t.set("session-header", strings.Join(t.sessionHeaders, ","))
	}
	t.set("out", t.directory())
	t.set("overwrite", true)
	t.set("report", "aiperf")
}

// sessionRows sets how rows of a session become prompts. AIPerf sends earlier rows and the answers to them before each row.
func (t *translation) sessionRows() {
	if t.Harness {
		t.set("set", "session_rows=whole")
		return
	}
	if e := t.endpoint(); !e.LiveAnswers() {
		t.add("not supported: --endpoint-type %s with rows of sessions (--input-file %s): agentx keeps the answers that later turns have before them for chats alone: --endpoint-type chat", e.AIPerf(), t.Data)
	}
	t.set("set", "session_rows=live")
}

// addBody passes on the extra inputs. Without a scenario AIPerf adds neither ignore_eos nor a marker.
func (t *translation) addBody() {
	asksForLength := slices.ContainsFunc(t.extra, func(p pair) bool { return p.name == "ignore_eos" })
	if len(t.extra) > 0 {
		t.set("extra-body", joinPairs(t.extra))
	}
	if t.has("--scenario") {
		return
	}
	if !asksForLength || strings.Contains(joinPairs(t.extra), `"ignore_eos":false`) {
		t.set("no-ignore-eos", true)
	}
	if !t.has("--cache-bust") {
		t.set("marker", "off")
	}
}

// defaultRequests is how many requests AIPerf sends when nothing else ends a run.
const defaultRequests = "10"

// addBounds bounds a run without a bound as AIPerf does.
func (t *translation) addBounds() {
	if !t.has("--request-count") && !t.has("--benchmark-duration") && !t.has("--conversation-num") {
		t.note("no --request-count, --benchmark-duration or --num-conversations: %s requests, as AIPerf", defaultRequests)
		t.set("requests", defaultRequests)
	}
}

// drawSeed draws a seed, so that the printed command repeats the same run.
func (t *translation) drawSeed() {
	seed, err := scenario.DrawSeed(t.Random)
	if err != nil {
		t.add("--random-seed: %w", err)
		return
	}
	t.note("no --random-seed: %s, drawn for this run", seed)
	t.set("seed", seed)
}

// directory returns the directory of the results: the one asked for, or one below artifacts with the name that AIPerf makes.
func (t *translation) directory() string {
	if dir := t.value("--output-artifact-dir"); dir != "" {
		return dir
	}
	model := strings.ReplaceAll(t.value("--model-names"), "/", "_")
	return filepath.Join("artifacts", model+"-"+t.endpoint().Provider()+"-"+t.endpoint().AIPerf()+"-"+t.load())
}

// load names the load in AIPerf's way: concurrency4, fixed_schedule, concurrency4-request_rate5.0.
func (t *translation) load() string {
	lanes := t.value("--concurrency")
	if rate, err := number(t.value("--request-rate")); err == nil {
		name := "request_rate" + numberText(rate)
		if rate == math.Trunc(rate) {
			name += ".0"
		}
		if lanes != "" {
			name = "concurrency" + lanes + "-" + name
		}
		return name
	}
	if t.scheduled() {
		return "fixed_schedule"
	}
	if lanes == "" || strings.Contains(lanes, ",") {
		lanes = "1"
	}
	return "concurrency" + lanes
}
