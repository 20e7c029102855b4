package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each kind of file that AIPerf reads is played as it plays it: in its order, whole, at its timestamps or not.
func TestDatasetTypes(t *testing.T) {
	for _, c := range []struct{ kind, row, flags, want string }{
		{"single_turn", `{"text":"a","timestamp":5}`, "", "--format single_turn --seed 7 --tokenizer o200k_base --requests 5 --arrivals lanes"},
		{"single_turn", `{"text":"a","timestamp":5}`, "--fixed-schedule --fixed-schedule-end-offset 9", "--format single_turn --seed 7 --tokenizer o200k_base --requests 5 --to 5ms --arrivals recorded"},
		{"single_turn", `{"text":"a"}`, "--request-rate 2 --arrival-pattern constant", "--format single_turn --seed 7 --tokenizer o200k_base --requests 5 --rate 2 --rate-of requests --arrival constant"},
		{"multi-turn", `{"turns":[{"text":"a","timestamp":5}]}`, "--fixed-schedule", "--format multi_turn --seed 7 --tokenizer o200k_base --requests 5 --arrivals recorded --turns absolute"},
		{"random_pool", `{"text":"a"}`, "", "--format random_pool --sampler-order random --seed 7 --tokenizer o200k_base --requests 5"},
		{"random_pool", `{"text":"a"}`, "--dataset-sampling-strategy shuffle", "--format random_pool --sampler-order shuffle --seed 7 --tokenizer o200k_base --requests 5"},
		{"raw_payload", `{"messages":[]}`, "", "--format raw_payload --seed 7 --tokenizer o200k_base --requests 5"},
		{"INPUTS_JSON", `{"data":[]}`, "", "--format inputs_json --seed 7 --tokenizer o200k_base --requests 5"},
		{"dag_jsonl", `{}`, "", "--format dag_jsonl --seed 7 --tokenizer o200k_base --requests 5"},
		{"mooncake_trace", `{"text_input":"a","timestamp":0}`, "", "--format mooncake_trace --seed 7 --tokenizer o200k_base --requests 5 --arrivals recorded"},
		{"mooncake_trace", `{"messages":[],"timestamp":0}`, "--no-fixed-schedule", "--format mooncake_trace --seed 7 --tokenizer o200k_base --requests 5 --arrivals lanes"},
		{"bailian_trace", `{"chat_id":1,"timestamp":0.5}`, "", "--seed 7 --tokenizer o200k_base --requests 5 --arrivals recorded --turns absolute"},
		{"burst_gpt_trace", `Timestamp,Model`, "", "--seed 7 --tokenizer o200k_base --requests 5 --arrivals lanes"},
	} {
		file := filepath.Join(t.TempDir(), "rows")
		require.NoError(t, os.WriteFile(file, []byte(c.row+"\n"), 0o600))
		tn := tr(t, strings.Replace(base, "traces", file, 1)+" --custom-dataset-type "+c.kind+" "+c.flags)
		require.Empty(t, errorsOf(tn), c.kind)
		line := strings.NewReplacer(" --profile aiperf --preset aiperf-0.13", "", " --url http://h:1 --model m", "").Replace(tn.Line())
		assert.Equal(t, "agentx replay "+file+" "+c.want+baseTail, line, c.kind+" "+c.flags)
	}
	file := filepath.Join(t.TempDir(), "rows")
	require.NoError(t, os.WriteFile(file, []byte(`{"text":"a"}`), 0o600))
	of := strings.Replace(base, "traces", file, 1)
	assert.Contains(t, tr(t, of).Line(), "--format single_turn", "the first row says it")
	assert.Equal(t, []string{"--custom-dataset-type bailian_trace: --input-file " + file + " has rows of single_turn"}, errorsOf(tr(t, of+"--custom-dataset-type bailian_trace")))
	for row, mooncake := range map[string]bool{
		`{"chat_id":1,"parent_chat_id":-1,"timestamp":0.5,"input_length":9,"output_length":1,"type":"text","turn":1,"hash_ids":[1]}`: false,
		`{"schema":"dynamo.agentic_mooncake","version":2,"input_length":9}`:                                                          false,
		`{"input_length":9,"output_length":1}`:                                                                                       true,
	} {
		require.NoError(t, os.WriteFile(file, []byte(row+"\n"), 0o600))
		assert.Empty(t, errorsOf(tr(t, of)), row)
		assert.Equal(t, mooncake, strings.Contains(tr(t, of).Line(), "--set block_size=512"), row)
	}
	table := filepath.Join(t.TempDir(), "table.csv")
	require.NoError(t, os.WriteFile(table, []byte("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type,Session ID,Elapsed time\n"), 0o600))
	of = strings.Replace(base, "traces", table, 1)
	for _, kind := range []string{"weka_trace", "bailian_trace", "mooncake_trace"} {
		assert.Equal(t, []string{"--custom-dataset-type " + kind + ": --input-file " + table + " has rows of burstgpt"}, errorsOf(tr(t, of+"--custom-dataset-type "+kind)))
	}
	assert.Empty(t, errorsOf(tr(t, of+"--custom-dataset-type burst_gpt_trace")))
	tn := tr(t, strings.Replace(base, "--request-count 5", "", 1)+" --custom-dataset-type dag_jsonl")
	assert.NotContains(t, tn.Line(), "--requests", "each tree once, which is the default of a replay")
	tn = tr(t, base+" --custom-dataset-type multi_turn --fixed-schedule --fixed-schedule-start-offset 5")
	assert.Contains(t, strings.Join(errorsOf(tn), "\n"), "not supported: --fixed-schedule-start-offset 5: agentx counts from the first row of a file of mooncake_trace or single_turn alone: leave it out")
}
