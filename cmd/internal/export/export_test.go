package export_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/export"
	"github.com/agentx/agentx/cmd/internal/synth"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// opened converts files as far as their tables.
func opened(t *testing.T, rules map[string]string, files ...string) *mmapcache.Cache {
	o := convert.Options{Inputs: files, Root: t.TempDir()}
	require.NoError(t, o.SetProfile(convert.DefaultProfile))
	for name, value := range rules {
		require.NoError(t, o.Rules.Set(name, value))
	}
	r, err := convert.Structure(t.Context(), o)
	require.NoError(t, err)
	d, err := cachestore.OpenStructure(t.Context(), o.Root, r.Key)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d.Cache
}

// request is what a format must keep of a turn. gap is since the answer before it, in milliseconds.
type request struct {
	in, out, gap int
	blocks       []string
}

// read returns the requests of each session, by the name that export gives it. What blocks are called is left out: of whole blocks it keeps
// which are equal, and with chains which begin prompts alike.
func read(t *testing.T, c *mmapcache.Cache, chains bool) map[string][]request {
	sessions := map[string][]request{}
	raw := map[string][][]string{} // by session and turn
	for i := range c.Traces() {
		p, err := c.Plan(i)
		require.NoError(t, err)
		for _, s := range p.Sessions {
			name := strings.ReplaceAll(s.ID, "::", "/")
			if strings.HasPrefix(s.Agent, p.Trace.ID+"/") { // it was exported once
				name = s.Agent
			}
			for k, turn := range p.Turns[s.FirstTurn:][:s.Turns] {
				q := request{in: int(turn.In), out: max(0, int(turn.Out))}
				if k > 0 {
					before := p.Turns[int(s.FirstTurn)+k-1]
					q.gap = int(math.Round(max(0, (turn.T-before.T)*1000-max(0, notNaN(before.APITime))*1000)))
				}
				sessions[name] = append(sessions[name], q)
				raw[name] = append(raw[name], wholeBlocks(p, turn.Last))
			}
		}
	}
	called := map[string]string{}
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for name := range raw {
			if !yield(name) {
				return
			}
		}
	}) {
		for k, blocks := range raw[name] {
			before := ""
			for _, b := range blocks {
				if chains {
					b = before + " " + b
				}
				if called[b] == "" {
					called[b] = fmt.Sprint(len(called))
				}
				before = called[b]
				sessions[name][k].blocks = append(sessions[name][k].blocks, before)
			}
		}
	}
	return sessions
}

func notNaN(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// wholeBlocks returns the ids, with their scope, of the whole blocks that a prompt begins with.
func wholeBlocks(p *mmapcache.Plan, last int32) (list []string) {
	for at := last; at != mmapcache.None; at = p.Segments[at].Parent {
		s := p.Segments[at]
		if s.Flags&(mmapcache.Filler|mmapcache.Head) != 0 {
			continue
		}
		for k := int(s.Count) - 1; k >= 0; k-- {
			b := s.First + uint32(k)
			for _, r := range p.Runs {
				if b >= r.First && b-r.First < r.Count {
					list = append(list, fmt.Sprint(r.Scope, r.ID+int64(b-r.First)))
				}
			}
		}
	}
	slices.Reverse(list)
	return list
}

// What is exported and converted again has the same requests, tokens, gaps, and blocks: where no id is unknown, exactly.
func TestRoundTrips(t *testing.T) {
	described, err := synth.Described("synth:isl=900,osl=30,traces=5,turns=3,gap=2s,shared-prefix=256,groups=2")
	require.NoError(t, err)
	inputs := map[string][]string{"demo": {write(t, demo.JSONL())}, "described": {write(t, described)}}
	rows := "{\"timestamp\":%d,\"input_length\":600,\"output_length\":1,\"hash_ids\":[1,2]}\n"
	inputs["two files"] = []string{write(t, fmt.Appendf(nil, rows, 5)), write(t, fmt.Appendf(nil, rows, 7))} // whose equal ids are other blocks
	ended := func(session, parent string, at, took, id int) string {
		return fmt.Sprintf(`{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":%d,"agent_context":{"session_id":%q,"parent_session_id":%q},"request":{"request_id":"%d","input_tokens":64,"output_tokens":1,"request_received_ms":%d,"total_time_ms":%d,"replay":{"trace_block_size":64,"input_length":64,"input_sequence_hashes":[%d]}}}`+"\n",
			at+took, session, parent, at, at, took, id)
	}
	inputs["hanging"] = []string{write(t, []byte(ended("a", "", 0, 10, 1)+ended("b", "a", 15, 3, 1)+ended("a", "", 20, 10, 1)+ended("c", "a", 40, 10, 2)+ended("a", "", 60, 5, 1)))}
	for _, kind := range []string{"agentic_mooncake", "applied_compute_agentic"} {
		files, err := filepath.Glob("../../../convert/testdata/loads/" + kind + "/*/trace.jsonl")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, f := range files {
			inputs[kind+"/"+filepath.Base(filepath.Dir(f))] = []string{f}
		}
	}
	for name, files := range inputs {
		c := opened(t, nil, files...)
		for _, format := range export.Formats() {
			t.Run(name+"/"+format, func(t *testing.T) {
				text := &strings.Builder{}
				total, err := export.Write(t.Context(), c, format, text)
				require.NoError(t, err)
				again := &strings.Builder{}
				_, err = export.Write(t.Context(), c, format, again)
				require.NoError(t, err)
				require.Equal(t, text.String(), again.String())
				rules := map[string]string{}
				if format == "mooncake" {
					rules["block_size"], rules["session_rows"] = fmt.Sprint(total.BlockSize), "whole"
				}
				if format != "dynamo" && name != "demo" { // these recordings say which requests are one conversation, and the formats do not
					rules["split_agents"] = "false"
				}
				back := opened(t, rules, write(t, []byte(text.String())))
				want, got := read(t, c, format == "dynamo"), read(t, back, format == "dynamo")
				require.Len(t, got, len(want))
				for session := range want {
					require.Len(t, got[session], len(want[session]), session)
					for k, w := range want[session] {
						g := got[session][k]
						assert.Equal(t, []int{w.in, w.out}, []int{g.in, g.out}, "%s %d", session, k)
						assert.InDelta(t, w.gap, g.gap, 1, "%s %d", session, k)
					}
				}
				assert.Equal(t, shared(want), shared(got))
				if format == "weka" && !strings.HasPrefix(name, "agentic") { // of agentic_mooncake some hang on others below the main one
					assert.Equal(t, placed(t, c), placed(t, back))
				}
			})
		}
	}
}

// shared returns, for each two turns, how many whole blocks of their beginnings are equal.
func shared(sessions map[string][]request) map[string]int {
	list := map[string]int{}
	for a, x := range sessions {
		for j := range x {
			for b, y := range sessions {
				for k := range y {
					n := 0
					for n < len(x[j].blocks) && n < len(y[k].blocks) && x[j].blocks[n] == y[k].blocks[n] {
						n++
					}
					if n > 0 && (a != b || j != k) {
						list[fmt.Sprint(a, j, b, k)] = n
					}
				}
			}
		}
	}
	return list
}

// placed returns where the sessions of a cache hang.
func placed(t *testing.T, c *mmapcache.Cache) (list []string) {
	for i := range c.Traces() {
		p, err := c.Plan(i)
		require.NoError(t, err)
		for _, s := range p.Sessions {
			list = append(list, fmt.Sprintf("%s %v %d %d %v %.0f", s.ID, s.Kind, s.SpawnTurn, s.JoinTurn, s.SpawnFrom, s.SpawnOffset))
		}
	}
	return list
}

func write(t *testing.T, data []byte) string {
	path := filepath.Join(t.TempDir(), "in.jsonl")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// A session whose first blocks end in a part of one, and one block behind others, as it is written in each format.
func TestWrittenRows(t *testing.T) {
	c := opened(t, map[string]string{"block_size": "64", "split_agents": "false"}, write(t, []byte(`{"session_id":"s","timestamp":1000,"input_length":100,"output_length":7,"hash_ids":[5,9]}
{"session_id":"s","delay":250,"input_length":150,"output_length":0,"hash_ids":[5,9,3]}
{"session_id":"s","delay":1,"input_length":128,"output_length":2,"hash_ids":[9,5]}
`)))
	for format, want := range map[string]string{
		"mooncake": `{"session_id":"s","timestamp":1000,"input_length":100,"output_length":7,"hash_ids":[0,1]}
{"session_id":"s","delay":250,"input_length":150,"output_length":0,"hash_ids":[0,1,2]}
{"session_id":"s","delay":1,"input_length":128,"output_length":2,"hash_ids":[1,0]}
`,
		"dynamo": `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1000,"event_source":"dynamo","agent_context":{"session_id":"s"},"request":{"request_id":"s#0","model":"unknown","input_tokens":100,"output_tokens":7,"request_received_ms":1000,"total_time_ms":0,"replay":{"trace_block_size":64,"input_length":100,"input_sequence_hashes":[3,4]}}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1250,"event_source":"dynamo","agent_context":{"session_id":"s"},"request":{"request_id":"s#1","model":"unknown","input_tokens":150,"output_tokens":0,"request_received_ms":1250,"total_time_ms":0,"replay":{"trace_block_size":64,"input_length":150,"input_sequence_hashes":[3,4,6]}}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1251,"event_source":"dynamo","agent_context":{"session_id":"s"},"request":{"request_id":"s#2","model":"unknown","input_tokens":128,"output_tokens":2,"request_received_ms":1251,"total_time_ms":0,"replay":{"trace_block_size":64,"input_length":128,"input_sequence_hashes":[7,8]}}}
`,
		"weka": `{"id":"s","models":["unknown"],"block_size":64,"hash_id_scope":"global","tool_tokens":0,"system_tokens":0,"requests":[` +
			`{"t":0,"type":"s","model":"unknown","in":100,"out":7,"hash_ids":[0],"input_types":[],"output_types":[],"stop":""},` +
			`{"t":0.25,"type":"s","model":"unknown","in":150,"out":0,"hash_ids":[0,1],"input_types":[],"output_types":[],"stop":"","think_time":0.25}`,
	} {
		text := &strings.Builder{}
		total, err := export.Write(t.Context(), c, format, text)
		require.NoError(t, err)
		assert.Contains(t, text.String(), want)
		assert.NotContains(t, text.String(), "\n\n")
		assert.True(t, strings.HasSuffix(text.String(), "}\n"))
		assert.Equal(t, export.Total{BlockSize: 64, Traces: 1, Sessions: 1, Requests: 3, PromptTokens: 378, OutputTokens: 9}, total)
	}
}
