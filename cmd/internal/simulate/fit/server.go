package fit

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/scrape"
)

// Told is what the servers of a run tell of their structure, in their metrics.
type Told struct {
	Caching           *bool // whether there is a prefix cache; nil: they do not tell
	Blocks, BlockSize int   // of the pool of one; 0: they do not tell
	MaxSeqs           int   // 0: they do not tell
	MaxBatchedTokens  int   // 0: they do not tell
	Slots             int   // the most requests that ran on one while others waited; 0: none waited
}

// The names of gauges; the first that a server has counts.
var (
	runningGauges   = []string{"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running", "dynamo_component_inflight_requests"}
	waitingGauges   = []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting", "dynamo_frontend_queued_requests"}
	blockSizeGauges = []string{"sglang:page_size", "dynamo_frontend_model_kv_cache_block_size"}
	blocksGauges    = []string{"dynamo_component_total_blocks", "dynamo_frontend_model_total_kv_blocks"}
	seqsGauges      = []string{"dynamo_frontend_model_max_num_seqs"}
	budgetGauges    = []string{"dynamo_frontend_model_max_num_batched_tokens"}
	tokensGauges    = []string{"sglang:max_total_num_tokens"}
)

// cacheConfig is a series of vLLM whose labels are the configuration of its cache.
const cacheConfig = "vllm:cache_config_info"

// Tell returns what the servers of a run tell in their metrics.
func Tell(run *merge.Run) (Told, error) {
	data, err := run.Servers()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Told{}, nil
	case err != nil:
		return Told{}, err
	}
	return tell(data), nil
}

// tell returns what pages of metrics tell.
func tell(data *scrape.Data) (t Told) {
	for k := range data.Series {
		if s := &data.Series[k]; s.Name == cacheConfig {
			t.BlockSize, _ = strconv.Atoi(s.Labels["block_size"])
			t.Blocks, _ = strconv.Atoi(s.Labels["num_gpu_blocks"])
			if on, err := strconv.ParseBool(s.Labels["enable_prefix_caching"]); err == nil {
				t.Caching = &on
			}
		}
	}
	for e := range data.Endpoints {
		most := func(n *int, gauges []string) {
			for _, v := range gauge(data, e, gauges) {
				*n = max(*n, int(v))
			}
		}
		most(&t.BlockSize, blockSizeGauges)
		most(&t.Blocks, blocksGauges)
		most(&t.MaxSeqs, seqsGauges)
		most(&t.MaxBatchedTokens, budgetGauges)
		tokens := 0
		if most(&tokens, tokensGauges); tokens > 0 {
			t.Blocks = max(t.Blocks, tokens/max(t.BlockSize, 1))
		}
		waiting := gauge(data, e, waitingGauges)
		for k, n := range gauge(data, e, runningGauges) {
			if k < len(waiting) && waiting[k] > 0 {
				t.Slots = max(t.Slots, int(n))
			}
		}
	}
	if t.BlockSize < 1 || t.Blocks < 1 {
		t.Blocks, t.BlockSize = 0, 0
	}
	return t
}

// gauge returns the values at each answer of an endpoint of the first gauge that it has, all its series added up; nil: it has none.
func gauge(data *scrape.Data, endpoint int, names []string) (total []float64) {
	for _, name := range names {
		for k := range data.Series {
			s := &data.Series[k]
			if s.Endpoint != endpoint || s.Name != name {
				continue
			}
			if total == nil {
				total = make([]float64, len(data.Endpoints[endpoint].Answers))
			}
			for c := range s.Len() {
				from, values := s.Change(c)
				until := len(total)
				if c+1 < s.Len() {
					until, _ = s.Change(c + 1)
				}
				for a := from; a < until && values != nil; a++ {
					total[a] += values[0]
				}
			}
		}
		if total != nil {
			break
		}
	}
	return total
}

// String says what the servers tell.
func (t Told) String() string {
	var list []string
	if t.Caching != nil {
		list = append(list, "prefix cache "+onOff(*t.Caching))
	}
	if t.Blocks > 0 {
		list = append(list, fmt.Sprintf("%d blocks of %d tokens", t.Blocks, t.BlockSize))
	}
	if t.MaxSeqs > 0 {
		list = append(list, fmt.Sprintf("max_num_seqs %d", t.MaxSeqs))
	}
	if t.MaxBatchedTokens > 0 {
		list = append(list, fmt.Sprintf("max_num_batched_tokens %d", t.MaxBatchedTokens))
	}
	if t.Slots > 0 {
		list = append(list, fmt.Sprintf("at most %d running while others waited", t.Slots))
	}
	if list == nil {
		return "nothing of its structure"
	}
	return strings.Join(list, ", ")
}
