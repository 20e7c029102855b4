package trace

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

// valid has a request and a subagent with one.
func valid() *Trace {
	return &Trace{ID: "t", BlockSize: 64, Scope: ScopeLocal, Models: []string{"m"}, Entries: []Entry{
		{Request: Request{T: -3, In: 130, Out: -1, IDs: IDs{Runs: []Run{{1, 2}, {-9, 1}, {math.MaxInt64, 2}}, Len: 5}}},
		{Subagent: &Subagent{AgentID: "a", ToolTokens: -5, Requests: []Request{{In: MaxTokens, Out: MaxTokens, APITime: Seconds{-1, true}}}}},
	}}
}

func TestCheck(t *testing.T) {
	assert.NoError(t, valid().Check())
	for want, change := range map[string]func(*Trace, *Request, *Subagent){
		`block_size: block size 0: want 1 to 1048576 tokens`:                                  func(t *Trace, _ *Request, _ *Subagent) { t.BlockSize = 0 },
		`block_size: block size -64: want 1 to 1048576 tokens`:                                func(t *Trace, _ *Request, _ *Subagent) { t.BlockSize = -64 },
		`block_size: block size 1048577: want 1 to 1048576 tokens`:                            func(t *Trace, _ *Request, _ *Subagent) { t.BlockSize = MaxBlockSize + 1 },
		`hash_id_scope: scope 3: want absent, local or global`:                                func(t *Trace, _ *Request, _ *Subagent) { t.Scope = 3 },
		`system_tokens: 16777217 tokens: larger than 16777216`:                                func(t *Trace, _ *Request, _ *Subagent) { t.SystemTokens = MaxTokens + 1 },
		`requests[0]: in = 99999999999, out = -1: larger than 16777216 tokens`:                func(_ *Trace, r *Request, _ *Subagent) { r.In = 99_999_999_999 },
		`requests[0]: in = -1: a prompt cannot have a negative length`:                        func(_ *Trace, r *Request, _ *Subagent) { r.In = -1 },
		`requests[0]: in = 130, out = -16777217: larger than 16777216 tokens`:                 func(_ *Trace, r *Request, _ *Subagent) { r.Out = -MaxTokens - 1 },
		`requests[0].t: 1e+300 seconds: beyond 1e+15`:                                         func(_ *Trace, r *Request, _ *Subagent) { r.T = 1e300 },
		`requests[0].t: NaN is not a finite number`:                                           func(_ *Trace, r *Request, _ *Subagent) { r.T = math.NaN() },
		`requests[0].api_time: +Inf is not a finite number`:                                   func(_ *Trace, r *Request, _ *Subagent) { r.APITime = Seconds{math.Inf(1), true} },
		`requests[0].think_time: -1e+16 seconds: beyond 1e+15`:                                func(_ *Trace, r *Request, _ *Subagent) { r.ThinkTime = Seconds{-1e16, true} },
		`requests[0].model: model 1 of 1`:                                                     func(_ *Trace, r *Request, _ *Subagent) { r.Model = 1 },
		`requests[1].t: 1.7638056e+15 looks like microseconds since 1970: want seconds`:       func(_ *Trace, _ *Request, s *Subagent) { s.T = 1763805600000000 },
		`requests[1].tool_tokens: -16777217 tokens: larger than 16777216`:                     func(_ *Trace, _ *Request, s *Subagent) { s.ToolTokens = -MaxTokens - 1 },
		`requests[1].requests[0]: in = 16777217, out = 16777216: larger than 16777216 tokens`: func(_ *Trace, _ *Request, s *Subagent) { s.Requests[0].In++ },
		`requests[1].requests[0].hash_ids: runs [{5 1}] of a list of 2 ids: want runs that are as long as possible, of that many ids together`: func(_ *Trace, _ *Request, s *Subagent) {
			s.Requests[0].IDs = IDs{Runs: []Run{{5, 1}}, Len: 2}
		},
		`requests[0].hash_ids: runs [{1 1} {2 1}] of a list of 2 ids: want runs that are as long as possible, of that many ids together`: func(_ *Trace, r *Request, _ *Subagent) {
			r.IDs = IDs{Runs: []Run{{1, 1}, {2, 1}}, Len: 2}
		},
		`requests[0].hash_ids: runs [{1 -4} {9 6}] of a list of 2 ids: want runs that are as long as possible, of that many ids together`: func(_ *Trace, r *Request, _ *Subagent) {
			r.IDs = IDs{Runs: []Run{{1, -4}, {9, 6}}, Len: 2}
		},
	} {
		tr := valid()
		change(tr, &tr.Entries[0].Request, tr.Entries[1].Subagent)
		if err := tr.Check(); assert.Error(t, err, want) {
			assert.Equal(t, `trace "t": `+want, err.Error())
		}
	}
}

// A time that is missing may be anything.
func TestCheckIgnoresMissingTimes(t *testing.T) {
	tr := valid()
	tr.Entries[0].APITime.V = math.Inf(1)
	assert.NoError(t, tr.Check())
}
