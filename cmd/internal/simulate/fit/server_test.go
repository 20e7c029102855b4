package fit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/scrape"
)

// Covers S-89.
func TestServersTell(t *testing.T) {
	on := true
	for _, c := range []struct {
		name, page string
		want       Told
		text       string
	}{
		{"nothing", ``, Told{}, "nothing of its structure"},
		{"vLLM", `{"series":0,"endpoint":0,"name":"vllm:cache_config_info","type":"gauge","labels":{"block_size":"16","num_gpu_blocks":"2340","enable_prefix_caching":"True"}}
{"series":1,"endpoint":0,"name":"vllm:num_requests_running","type":"gauge","labels":{}}
{"series":2,"endpoint":0,"name":"vllm:num_requests_waiting","type":"gauge","labels":{}}
{"endpoint":0,"at":1,"took":1,"values":[[0,1],[1,9],[2,0]]}
{"endpoint":0,"at":2,"took":1,"values":[[1,8],[2,3]]}
{"endpoint":0,"at":3,"took":1,"values":[[1,2],[2,1]]}
`, Told{Caching: &on, Blocks: 2340, BlockSize: 16, Slots: 8}, "prefix cache on, 2340 blocks of 16 tokens, at most 8 running while others waited"},
		{"a pool without a number", `{"series":0,"endpoint":0,"name":"vllm:cache_config_info","type":"gauge","labels":{"block_size":"16","num_gpu_blocks":"None"}}
`, Told{}, "nothing of its structure"},
		{"SGLang", `{"series":0,"endpoint":0,"name":"sglang:page_size","type":"gauge","labels":{}}
{"series":1,"endpoint":0,"name":"sglang:max_total_num_tokens","type":"gauge","labels":{}}
{"endpoint":0,"at":1,"took":1,"values":[[0,32],[1,64000]]}
`, Told{Blocks: 2000, BlockSize: 32}, "2000 blocks of 32 tokens"},
		{"Dynamo", `{"series":0,"endpoint":0,"name":"dynamo_frontend_model_kv_cache_block_size","type":"gauge","labels":{}}
{"series":1,"endpoint":0,"name":"dynamo_component_total_blocks","type":"gauge","labels":{}}
{"series":2,"endpoint":0,"name":"dynamo_frontend_model_max_num_seqs","type":"gauge","labels":{}}
{"series":3,"endpoint":0,"name":"dynamo_frontend_model_max_num_batched_tokens","type":"gauge","labels":{}}
{"endpoint":0,"at":1,"took":1,"values":[[0,64],[1,500],[2,6],[3,2048]]}
`, Told{Blocks: 500, BlockSize: 64, MaxSeqs: 6, MaxBatchedTokens: 2048}, "500 blocks of 64 tokens, max_num_seqs 6, max_num_batched_tokens 2048"},
	} {
		data, err := scrape.Read(strings.NewReader(`{"endpoint":0,"url":"http://a/metrics"}` + "\n" + c.page))
		require.NoError(t, err, c.name)
		got := tell(data)
		require.Equal(t, c.want, got, c.name)
		require.Equal(t, c.text, got.String())
	}
}

// What a server tells is not searched for.
//
// Covers S-89.
func TestWhatIsToldIsNotSearched(t *testing.T) {
	off := false
	p := &problem{list: []Request{{Output: 2, Last: 1}}, o: Options{Workers: 1, Told: Told{Slots: 8}}}
	require.Equal(t, []int{1, 0}, p.choices()[cached])
	require.Contains(t, p.choices()[slots], 8)
	p.o.Told.MaxSeqs, p.o.Told.MaxBatchedTokens = 6, 2048
	require.Equal(t, []int{6}, p.choices()[slots])
	require.Equal(t, []int{2048}, p.choices()[budget])
	p.o.Told.Caching = &off
	require.Equal(t, []int{0}, p.choices()[cached])
	p.list[0].Cached = 64
	require.Equal(t, []int{1}, p.choices()[cached], "its answers say so")
}

// An answer is cut at the instants of messages, where they are most of its tokens.
//
// Covers S-83.
func TestMarksOfAnAnswer(t *testing.T) {
	r := Request{Output: 41, First: 100, Last: 500}
	require.Equal(t, []mark{{0, 100}, {40, 500}}, r.marks())
	for k := range 41 {
		r.Messages = append(r.Messages, int64(100+10*k))
	}
	require.Equal(t, []mark{{0, 100}, {10, 200}, {20, 300}, {30, 400}, {40, 500}}, r.marks())
	r.Messages = r.Messages[:19]
	require.Len(t, r.marks(), 2, "too few messages")
	r.Output = 1
	require.Equal(t, []mark{{0, 100}}, r.marks())
}
