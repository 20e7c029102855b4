package reconstruct

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/trace"
)

// turnsOf scans a list of requests of a vector, and returns it on the clock of the trace.
func turnsOf(t *testing.T, requests json.RawMessage) (*trace.Trace, []turn) {
	text := fmt.Sprintf(`{"id":"t","models":[],"block_size":4,"hash_id_scope":"local","requests":%s}`, requests)
	tr, err := weka.Scan([]byte(text), rules.Default())
	require.NoError(t, err)
	var list []turn
	for k := range tr.Entries {
		r := &tr.Entries[k].Request
		list = append(list, turn{r, r.T, k, none})
	}
	return tr, list
}

func TestChains(t *testing.T) {
	type in struct {
		Requests       json.RawMessage
		SeamMaxGap     *float64 `json:"seam_max_gap_s"`
		SeamMinOverlap *float64 `json:"seam_min_overlap"`
	}
	type want struct {
		Preamble *int
		Main     []int
		Workers  []struct {
			Requests []int
			Fork     *struct {
				Tail, Depth int
				ParentFirst int `json:"parent_first"`
			}
		}
		Seams, Unclassified int
	}
	fixtures.EachWeka(t, "chains", func(t *testing.T, in in, want want) {
		rules := rules.Default()
		override(&rules.SeamMaxGap, in.SeamMaxGap)
		override(&rules.SeamMinOverlap, in.SeamMinOverlap)
		_, list := turnsOf(t, in.Requests)
		got := splitAgents(list, true, rules)
		if want.Preamble == nil {
			assert.Equal(t, none, got.preamble)
		} else {
			assert.Equal(t, *want.Preamble, got.preamble)
		}
		assert.Equal(t, want.Main, got.main)
		assert.Equal(t, want.Seams, got.seams)
		assert.Equal(t, want.Unclassified, got.unclassified)
		require.Len(t, got.workers, len(want.Workers))
		for k, w := range want.Workers {
			g := got.workers[k]
			assert.Equal(t, w.Requests, g.requests)
			if w.Fork == nil {
				assert.Equal(t, none, g.fork.tail)
				continue
			}
			assert.Equal(t, w.Fork.Tail, g.fork.tail)
			assert.Equal(t, w.Fork.Depth, g.fork.depth)
		}
	})
}

// A request without ids, or of the same instant as another, after a seam: sorted by time, or in the order of the seam.
//
// Covers P12.
func TestOrderOfSplicedChains(t *testing.T) {
	request := func(t float64, model, ids string) string {
		return fmt.Sprintf(`{"t":%g,"type":"n","model":%q,"in":8,"out":9,"hash_ids":[%s]}`, t, model, ids)
	}
	first, seam, without, worker := request(0, "m", "1,2"), request(2, "m", "1,5"), request(4, "m", ""), request(6, "w", "1,7")
	title := `{"t":-1,"type":"n","model":"m","in":8,"out":9,"hash_ids":[90]}`
	tests := []struct {
		name           string
		requests       []string
		top            bool
		sorted, joined []int
	}{
		{"split", []string{first, seam, without, worker}, true, []int{0, 1, 2}, []int{0, 2, 1}},
		{"one conversation at the top", []string{without, first, seam}, true, []int{0, 1, 2}, []int{0, 1, 2}},
		{"one conversation inside a marker", []string{without, first, seam}, false, []int{1, 2, 0}, []int{1, 0, 2}},
		{"with a preamble", []string{first, seam, without, worker, title}, false, []int{4, 0, 1, 2}, []int{4, 0, 1, 2}},
		{"one request inside a marker", []string{first}, false, []int{0}, []int{0}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			_, list := turnsOf(t, json.RawMessage("["+strings.Join(c.requests, ",")+"]"))
			assert.Equal(t, c.sorted, splitAgents(list, c.top, rules.Default()).main)
			assert.Equal(t, c.joined, splitAgents(list, c.top, rules.AIPerf()).main)
		})
	}
}

// Covers P13.
func TestClassification(t *testing.T) {
	type in struct {
		Requests []struct {
			Model   string
			In, Out int64
		}
		MainModel       string `json:"main_model"`
		AuxMaxRequests  *int64 `json:"aux_max_requests"`
		AuxCrossModel   *bool  `json:"aux_cross_model"`
		ReductionOSLMax *int64 `json:"reduction_osl_max"`
		Peak            int64
		Number          int
		Group           *[2]int
	}
	type want struct{ Class, Suffix string }
	fixtures.EachWeka(t, "classification", func(t *testing.T, in in, want want) {
		names := map[string]int{in.MainModel: 0}
		var list []turn
		for _, q := range in.Requests {
			if _, ok := names[q.Model]; !ok {
				names[q.Model] = len(names)
			}
			list = append(list, turn{Request: &trace.Request{Model: names[q.Model], In: q.In, Out: q.Out}})
		}
		place := groupPlace{none, none}
		if in.Group != nil {
			place = groupPlace{in.Group[0], in.Group[1]}
		}
		rules := rules.Default()
		override(&rules.AuxMaxRequests, in.AuxMaxRequests)
		override(&rules.AuxCrossModel, in.AuxCrossModel)
		override(&rules.AuxReductionOSLMax, in.ReductionOSLMax)
		class, suffix := mainChain{0, in.Peak}.classify(list, in.Number, place, rules)
		assert.Equal(t, want.Class, class)
		assert.Equal(t, want.Suffix, suffix)
	})
}

// override sets an option that a vector gives.
func override[T any](option *T, given *T) {
	if given != nil {
		*option = *given
	}
}

func TestWorkerGroups(t *testing.T) {
	type in struct {
		Requests json.RawMessage
		GroupMin int64 `json:"group_min"`
	}
	type want struct {
		Workers []struct {
			Requests []int
			Class    string
			Suffix   string
			Group    *[2]int
		}
	}
	fixtures.EachWeka(t, "worker_groups", func(t *testing.T, in in, want want) {
		rules := rules.Default()
		rules.WorkerGroupMin = in.GroupMin
		_, list := turnsOf(t, in.Requests)
		got := splitAgents(list, true, rules).workers
		require.Len(t, got, len(want.Workers))
		for k, w := range want.Workers {
			assert.Equal(t, w.Requests, got[k].requests)
			assert.Equal(t, w.Class, got[k].class)
			assert.Equal(t, w.Suffix, got[k].suffix)
			place := groupPlace{none, none}
			if w.Group != nil {
				place = groupPlace{w.Group[0], w.Group[1]}
			}
			assert.Equal(t, place, got[k].place)
		}
	})
}

// Covers P17.
func TestInheritance(t *testing.T) {
	type in struct {
		BlockSize    int   `json:"block_size"`
		ToolTokens   int64 `json:"tool_tokens"`
		SystemTokens int64 `json:"system_tokens"`
		Base, First  []int64
	}
	fixtures.EachWeka(t, "inheritance", func(t *testing.T, in in, want struct{ Counts [2]int64 }) {
		got := prefixSizes{in.ToolTokens, in.SystemTokens}.inherit(in.BlockSize, idsOf(in.Base), idsOf(in.First))
		assert.Equal(t, want.Counts, [2]int64{got.tool, got.system})
	})
}
