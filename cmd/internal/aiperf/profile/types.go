package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/suggest"
)

// datasetType is a kind of file that AIPerf reads.
type datasetType struct {
	name   string
	format string // --format of agentx; "": the first row says it
	shown  string // the format of recordings that the first row shows; "": that of Weka
	rows   bool   // a row is a request; session_id, timestamp and delay, in milliseconds, are members of it
	timed  bool   // AIPerf sends rows at their timestamps where the first row has one
	starts bool   // a session can have a recorded start
	order  string // sampler-order where none is asked for; "": that of the preset
	trees  bool   // without a bound each tree is played once
}

// single reports whether each session is one request, whatever the rows say.
func (d *datasetType) single() bool { return d.name == "burst_gpt_trace" || d.name == "random_pool" }

// datasetTypes are those that agentx plays.
var datasetTypes = []datasetType{
	{name: "weka_trace"},
	{name: "mooncake_trace", shown: "mooncake", rows: true, timed: true, starts: true},
	{name: "bailian_trace", shown: "bailian", timed: true, starts: true},
	{name: "burst_gpt_trace", shown: "burstgpt", starts: true},
	{name: "single_turn", format: "single_turn", rows: true, starts: true},
	{name: "multi_turn", format: "multi_turn", starts: true},
	{name: "random_pool", format: "random_pool", order: "random"},
	{name: "raw_payload", format: "raw_payload"},
	{name: "inputs_json", format: "inputs_json"},
	{name: "dag_jsonl", format: "dag_jsonl", trees: true},
}

// refusedTypes are those that agentx does not play, with what to do.
var refusedTypes = map[string]string{
	"sagemaker_data_capture": "agentx reads the bodies of requests: jq -c '.captureData.endpointInput.data | fromjson' FILE makes rows of raw_payload",
	"baseten_trace":          "agentx reads rows: write its columns as lines of mooncake_trace, with text_input, timestamp in ms, session_id and output_length",
	"tracelab":               "its rows say neither which prompts share what nor what they hold; agentx plays recorded traces: agentx fetch lists public ones",
	"speed_bench":            "agentx reads files: write its prompts as lines of single_turn or multi_turn",
}

// chooseType finds the kind of the input, by name or by its first row, and whether AIPerf would play rows at their timestamps.
func (t *translation) chooseType(file string) {
	text, row := t.value("--custom-dataset-type"), firstRow(file)
	kind, shown := oneSpelling(text), convert.FormatOf(file)
	switch {
	case text != "":
	case shown == "bailian":
		kind = "bailian_trace"
	case row.InputLength != nil && (shown == "" || shown == "mooncake"):
		kind = "mooncake_trace"
	default:
		kind = shown
	}
	k := slices.IndexFunc(datasetTypes, func(d datasetType) bool { return d.name == kind })
	if k < 0 {
		t.refuseType(text, kind)
		return
	}
	if t.kind = datasetTypes[k]; file == "" {
		t.add("--custom-dataset-type %s: say which: --input-file FILE", text)
		return
	}
	if t.lengths = kind == "mooncake_trace" && row.InputLength != nil; kind == "mooncake_trace" && !t.lengths && slices.Contains(convert.LogFormats(), shown) {
		t.kind.format = kind
	}
	if t.kind.format == "" && shown != "" && shown != t.kind.shown {
		t.add("--custom-dataset-type %s: --input-file %s has rows of %s", text, file, shown)
	}
	if t.kind.format != "" {
		t.set("format", t.kind.format)
	}
	if t.kind.order != "" && !t.has("--dataset-sampling-strategy") {
		t.set("sampler-order", t.kind.order)
	}
	if t.kind.timed && row.Timestamp != nil && !t.has("--no-fixed-schedule") && !t.has("--fixed-schedule") && !t.has("--scenario") {
		t.scheduleByRows(text)
	}
}

// refuseType refuses a kind that agentx does not play; no name is none of these.
func (t *translation) refuseType(text, kind string) {
	var words []string
	for _, d := range datasetTypes {
		words = append(words, d.name)
	}
	for name, try := range refusedTypes {
		if kind == name || name == "speed_bench" && strings.HasPrefix(kind, name) {
			t.addProblem(Problem{fmt.Errorf("not supported: --custom-dataset-type %s: agentx does not read it", text), try})
			return
		}
	}
	if text != "" {
		t.add("not supported: --custom-dataset-type %s: %w", text, suggest.Wrong(kind, suggest.Either(words), words))
	}
}
