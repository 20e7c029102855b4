package finish

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// The journal of the specification becomes its trace, byte for byte, and a note.
//
// Covers C-4.
func TestTraceOfTheSpecification(t *testing.T) {
	s := newScript(t, journal.Export{})
	s.example()
	require.NoError(t, s.Close())
	r, err := Finish(t.Context(), s.folder, head.Trace)
	require.NoError(t, err)
	assert.Equal(t, Result{Trace: head.Trace, Requests: 3, Recorded: 3, NotRecorded: map[journal.Reason]int{}, Marks: map[string]int{"out_counted": 1}, Written: true}, r)

	trace, err := os.ReadFile(filepath.Join(s.folder.Dir(), "traces", "cap-3f9a1c20.json"))
	require.NoError(t, err)
	assert.Equal(t, `{"id":"cap-3f9a1c20","models":["m-large","m-small"],"block_size":4,"hash_id_scope":"local","tool_tokens":0,"system_tokens":9,"requests":[`+
		`{"t":0,"type":"s","model":"m-large","in":22,"out":9,"hash_ids":[0,1,2,3,4],"input_types":["text"],"output_types":["text","tool_use"],"stop":"tool_use","api_time":2,"ttft":0.61},`+
		`{"t":5.1,"type":"s","model":"m-large","in":50,"out":31,"hash_ids":[0,1,2,3,4,5,6,7,8,9,10,11],"input_types":["tool_result"],"output_types":["tool_use"],"stop":"tool_use","api_time":2.9,"ttft":0.5,"think_time":3.1},`+
		`{"t":8.31,"type":"subagent","agent_id":"agent_001","subagent_type":"Explore","duration_ms":1210,"total_tokens":25,"tool_use_count":0,"status":"completed","models":["m-small"],"tool_tokens":0,"system_tokens":9,"requests":[{"t":8.31,"type":"n","model":"m-small","in":18,"out":7,"hash_ids":[0,1,12,13],"input_types":["text"],"output_types":["text"],"stop":"end_turn","api_time":1.21}]}],`+
		`"totals":{"parent_tokens":{"input":72,"output":40},"subagent_tokens":{"input":18,"output":7},"combined_tokens":{"input":90,"output":47},"subagent_count":1}}`+"\n", string(trace))

	text, err := os.ReadFile(filepath.Join(s.folder.Dir(), "notes", "cap-3f9a1c20.json"))
	require.NoError(t, err)
	assert.Equal(t, `{"trace":"cap-3f9a1c20","tokenizer":"o200k_base","canon":"canon-1","by":"header","why":"idle","written":true,"incomplete":false,"requests":3,"recorded":3,`+
		`"not_recorded":[],"marks":[{"q":2,"where":"requests[2].requests[0]","mark":"out_counted"}],"agents":[{"agent_id":"agent_001","parent":"main","tier":1}],`+
		`"stops":[{"q":1,"where":"requests[1]","word":"tool_calls"},{"q":2,"where":"requests[2].requests[0]","word":"stop"}],"token_ratio":{"requests":1,"p50":2,"p99":2},"media_tokens":3,`+
		`"grid_ms":10,"holes":"cut","min_requests":1}`+"\n", string(text))
	assert.NoFileExists(t, s.folder.Path(head.Trace))
}

// reasonsOf writes the reasons of a note as q:reason.
func reasonsOf(t *testing.T, f *files) string {
	var n note
	require.NoError(t, json.Unmarshal(f.note, &n))
	var list []string
	for _, r := range n.NotRecorded {
		list = append(list, string(rune('0'+r.Q))+":"+string(r.Reason))
	}
	return strings.Join(list, " ")
}

// Holes cut a trace, drop it, or are passed over; what was not served is none. An attempt that was made again is left out; equal
// complete requests stay.
//
// Covers C-30.
func TestHolesAndRetries(t *testing.T) {
	grow := func(q int, begin, end int64, x journal.Outcome) ask {
		return ask{q: q, begin: begin, end: end, base: q - 1, keep: q, add: 1, x: x}
	}
	for _, c := range []struct {
		name             string
		write            func(s *script)
		cut, drop, keep  string // reasons under each flag
		nCut, nAll       int    // requests in the trace
		incomplete, note bool
	}{
		{name: "nothing is missing", nCut: 3, nAll: 3, write: func(s *script) {
			for q := range 3 {
				s.do(grow(q, int64(q)*1000, int64(q)*1000+500, ""))
			}
		}},
		{name: "not served", nCut: 1, nAll: 1, cut: "1:status 2:transport 3:no_output", drop: "1:status 2:transport 3:no_output", keep: "1:status 2:transport 3:no_output", write: func(s *script) {
			s.do(grow(0, 0, 500, ""))
			s.do(grow(1, 1000, 1500, journal.BadStatus))
			s.start(ask{q: 2, begin: 2000})
			s.stop(ask{q: 2, end: 2100, x: journal.Transport})
			s.do(ask{q: 3, begin: 3000, end: 3100, base: 1, keep: 2, add: 1, x: journal.NoOutput})
		}},
		{name: "a hole", nCut: 1, nAll: 2, incomplete: true, cut: "1:queue 2:queue", drop: "0:queue 1:queue 2:queue", keep: "1:queue", write: func(s *script) {
			s.do(grow(0, 0, 500, ""))
			s.start(ask{q: 1, begin: 1000})
			require.NoError(t, s.Write(journal.Hole{Q: 1, Reason: journal.HoleQueue}))
			s.stop(ask{q: 1, end: 1500})
			s.do(ask{q: 2, begin: 2000, end: 2500, base: 0, keep: 1, add: 2})
		}},
		{name: "a hole behind another keeps its reason", nCut: 0, nAll: 1, incomplete: true, cut: "0:parse_request 1:parse_request 2:oversize", drop: "0:parse_request 1:parse_request 2:oversize", keep: "0:parse_request 2:oversize", write: func(s *script) {
			s.start(ask{q: 0})
			require.NoError(t, s.Write(journal.Hole{Q: 0, Reason: journal.HoleParse}))
			s.stop(ask{q: 0, end: 1500})
			s.do(ask{q: 1, begin: 2000, end: 2500, base: -1, add: 2})
			s.start(ask{q: 2, begin: 3000})
			require.NoError(t, s.Write(journal.Hole{Q: 2, Reason: journal.HoleOversize}))
			s.stop(ask{q: 2, end: 3500, x: journal.Partial})
		}},
		{name: "a lost copy of what was not served is no hole", nCut: 0, nAll: 0, cut: "0:status", drop: "0:status", keep: "0:status", write: func(s *script) {
			s.start(ask{q: 0})
			require.NoError(t, s.Write(journal.Hole{Q: 0, Reason: journal.HoleOversize}))
			s.stop(ask{q: 0, end: 1500, x: journal.BadStatus})
		}},
		{name: "no end", nCut: 1, nAll: 2, incomplete: true, cut: "1:aborted 2:aborted", drop: "0:aborted 1:aborted 2:aborted", keep: "1:aborted", write: func(s *script) {
			s.do(grow(0, 0, 500, ""))
			s.do(grow(1, 1000, 0, ""))
			s.do(ask{q: 2, begin: 2000, end: 2500, base: 1, keep: 1, add: 2})
		}},
		{name: "no blocks", nCut: 0, nAll: 0, incomplete: true, cut: "0:aborted", drop: "0:aborted", keep: "0:aborted", write: func(s *script) {
			s.start(ask{q: 0})
			s.stop(ask{q: 0, end: 1500})
		}},
		{name: "aborted, and made again", nCut: 2, nAll: 2, cut: "1:retry", drop: "1:retry", keep: "1:retry", write: func(s *script) {
			s.do(grow(0, 0, 500, ""))
			s.do(grow(1, 1000, 1500, journal.Aborted))
			s.do(ask{q: 2, begin: 601_500, end: 601_800, base: 1, keep: 2})
		}},
		{name: "made again too late", nCut: 1, nAll: 2, incomplete: true, cut: "1:aborted 2:aborted", drop: "0:aborted 1:aborted 2:aborted", keep: "1:aborted", write: func(s *script) {
			s.do(grow(0, 0, 500, ""))
			s.do(grow(1, 1000, 1500, journal.Aborted))
			s.do(ask{q: 2, begin: 601_501, end: 601_800, base: 1, keep: 2})
		}},
		{name: "partial, made again twice, and once more in vain", nCut: 1, nAll: 1, cut: "0:retry 1:retry 3:status", drop: "0:retry 1:retry 3:status", keep: "0:retry 1:retry 3:status", write: func(s *script) {
			s.do(ask{q: 0, end: 500, base: -1, add: 2, x: journal.Partial})
			s.do(ask{q: 1, begin: 1000, end: 1500, base: 0, keep: 2, x: journal.ClientGone})
			s.do(ask{q: 2, begin: 2000, end: 2500, base: 0, keep: 2, x: journal.Partial})
			s.do(ask{q: 3, begin: 3000, end: 3500, base: 0, keep: 2, x: journal.BadStatus})
		}},
		{name: "another tail, another agent", nCut: 3, nAll: 3, write: func(s *script) {
			s.do(ask{q: 0, end: 500, base: -1, add: 2, x: journal.Partial})
			s.do(ask{q: 1, begin: 1000, end: 1500, base: 0, keep: 2, tail: 1})
			s.do(ask{q: 2, agent: 1, begin: 2000, end: 2500, base: 0, keep: 2})
		}},
		{name: "equal, at once", nCut: 4, nAll: 4, write: func(s *script) {
			for q := range 4 {
				s.do(ask{q: q, begin: 7, end: 500, base: max(q-1, 0), keep: min(2*q, 2), add: max(2-2*q, 0)})
			}
		}},
		{name: "an orphan", nCut: 1, nAll: 1, cut: "0:orphan 2:orphan", drop: "0:orphan 2:orphan", keep: "0:orphan 2:orphan", write: func(s *script) {
			s.do(ask{q: 0, agent: 3, end: 500, base: -1, add: 2})
			s.do(ask{q: 1, begin: 10, end: 500, base: -1, add: 2})
			s.do(ask{q: 2, agent: 3, begin: 2000, end: 2500, base: 0, keep: 2})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, flag := range []struct {
				holes journal.Holes
				want  string
			}{{journal.HolesCut, c.cut}, {journal.HolesDrop, c.drop}, {journal.HolesKeep, c.keep}} {
				s := newScript(t, journal.Export{Holes: flag.holes})
				c.write(s)
				f, trace := s.built()
				assert.Equal(t, flag.want, reasonsOf(t, f), flag.holes)
				want := c.nCut
				if flag.holes == journal.HolesKeep {
					want = c.nAll
				} else if flag.holes == journal.HolesDrop && c.incomplete {
					want = 0
				}
				assert.Equal(t, want, f.Recorded, flag.holes)
				assert.Equal(t, c.incomplete, f.Incomplete, flag.holes)
				assert.Equal(t, want > 0, trace != nil, flag.holes)
				reasons := 0
				for _, n := range f.NotRecorded {
					reasons += n
				}
				assert.Equal(t, f.Requests, f.Recorded+reasons, "recorded and reasons are all requests")
			}
		})
	}
}

// A trace with fewer requests than asked for is not written; its note says what there was.
func TestShortTraces(t *testing.T) {
	s := newScript(t, journal.Export{MinRequests: 4})
	s.example()
	f, trace := s.built()
	assert.Nil(t, trace)
	assert.False(t, f.Written)
	assert.Contains(t, string(f.note), `"written":false,"incomplete":false,"requests":3,"recorded":3,`)
}
