package export

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/mmapcache"
)

// row is a line of JSON.
type row struct {
	end  int64 // milliseconds
	line any
}

// write writes lines.
func (x *exporter) write(rows []row) error {
	for _, r := range rows {
		text, err := json.Marshal(r.line)
		if err == nil {
			_, err = x.out.Write(append(text, '\n'))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ids returns the numbers of the blocks of a prompt, one for each block that it has. A block that the recording has no id for is one of its own.
func (x *exporter) ids(t *mmapcache.Turn) []int64 {
	blocks, _, _ := x.prompt(t.Last)
	list := make([]int64, 0, int(t.In)/int(x.block)+1)
	for _, b := range blocks {
		list = append(list, x.number(b, &x.last))
	}
	for need := (int64(t.In) + x.block - 1) / x.block; int64(len(list)) < need; x.last++ {
		list = append(list, x.last)
	}
	return list
}

// sessionName returns the name of a session: that of its trace, and of the agent.
func (x *exporter) sessionName(s *mmapcache.Session) string {
	return strings.ReplaceAll(s.ID, "::", "/")
}

// mooncakeRow is a row of Mooncake's format: the first of a session has a timestamp, a later one the time since the answer before it.
type mooncakeRow struct {
	SessionID string   `json:"session_id"`
	Timestamp *float64 `json:"timestamp,omitempty"`
	Delay     *float64 `json:"delay,omitempty"`
	In        uint32   `json:"input_length"`
	Out       int32    `json:"output_length"`
	HashIDs   []int64  `json:"hash_ids"`
}

// mooncake writes the sessions of the trace one after the other.
func (x *exporter) mooncake() error {
	var rows []row
	for n := range x.plan.Sessions {
		s := &x.plan.Sessions[n]
		turns := x.turns(s)
		for k := range turns {
			t := &turns[k]
			r := mooncakeRow{SessionID: x.sessionName(s), In: t.In, Out: max(0, t.Out), HashIDs: x.ids(t)}
			if k == 0 {
				r.Timestamp = new(thousandths(x.start + x.ms(t.T)))
			} else {
				r.Delay = new(thousandths(max(0, (t.T-turns[k-1].T-duration(&turns[k-1]))*1000)))
			}
			rows = append(rows, row{line: r})
		}
	}
	x.total.Unlinked += len(x.plan.Sessions) - 1
	return x.write(rows)
}

// thousandths rounds milliseconds to microseconds.
func thousandths(ms float64) float64 { return math.Round(ms*1000) / 1000 }

// dynamoRow is a row of a request trace of Dynamo.
type dynamoRow struct {
	Schema  string        `json:"schema"`
	Type    string        `json:"event_type"`
	Time    int64         `json:"event_time_unix_ms"`
	Source  string        `json:"event_source"`
	Agent   dynamoAgent   `json:"agent_context"`
	Request dynamoRequest `json:"request"`
}

type dynamoAgent struct {
	ID     string `json:"session_id"`
	Parent string `json:"parent_session_id,omitempty"`
}

type dynamoRequest struct {
	ID       string        `json:"request_id"`
	Model    string        `json:"model"`
	In       uint32        `json:"input_tokens"`
	Out      int32         `json:"output_tokens"`
	Received int64         `json:"request_received_ms"`
	Total    int64         `json:"total_time_ms"`
	Replay   dynamoReplay  `json:"replay"`
	Finish   *dynamoFinish `json:"finish_reason_metadata,omitempty"`
}

type dynamoReplay struct {
	Block  int64   `json:"trace_block_size"`
	Length uint32  `json:"input_length"`
	Hashes []int64 `json:"input_sequence_hashes"`
}

type dynamoFinish struct {
	Reason string `json:"finish_reason"`
}

// dynamo writes the requests of the trace in the order of their ends. A hash is the number of a chain: of a block behind the same blocks.
func (x *exporter) dynamo() error {
	var rows []row
	for n := range x.plan.Sessions {
		s := &x.plan.Sessions[n]
		agent := dynamoAgent{ID: x.sessionName(s)}
		if n > 0 {
			agent.Parent = x.sessionName(&x.plan.Sessions[0])
		}
		turns := x.turns(s)
		for k := range turns {
			t := &turns[k]
			received := int64(math.Round(x.start + x.ms(t.T)))
			end := int64(math.Round(x.start + x.ms(t.T+duration(t))))
			r := dynamoRow{Schema: "dynamo.request.trace.v1", Type: "request_end", Time: end, Source: "dynamo", Agent: agent, Request: dynamoRequest{
				ID: fmt.Sprintf("%s#%d", agent.ID, k), Model: t.Model, In: t.In, Out: max(0, t.Out), Received: received, Total: end - received,
				Replay: dynamoReplay{x.block, t.In, x.hashes(t)}}}
			if reason := answer(turns, k); reason != "" {
				r.Request.Finish = &dynamoFinish{map[string]string{"tool": "tool_calls", "text": "stop"}[reason]}
			}
			rows = append(rows, row{end, r})
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.end, b.end) })
	return x.write(rows)
}

// hashes returns the chains of the blocks of a prompt.
func (x *exporter) hashes(t *mmapcache.Turn) []int64 {
	list := x.ids(t)
	before := int64(-1)
	for k, id := range list {
		key := [2]int64{before, id}
		chain, known := x.chains[key]
		if !known {
			x.last++
			chain = x.last
			x.chains[key] = chain
		}
		before, list[k] = chain, chain
	}
	return list
}
