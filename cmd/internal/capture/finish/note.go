package finish

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// note is what is to know of a trace and no reader of traces would take: doc/spec/capture.md 9.3. It has no time of day.
type note struct {
	Trace      string `json:"trace"`
	Tokenizer  string `json:"tokenizer"`
	Canon      string `json:"canon"`
	By         string `json:"by"`
	Why        string `json:"why,omitempty"` // "": the session did not end by itself
	Written    bool   `json:"written"`
	Incomplete bool   `json:"incomplete"`
	TornAt     int    `json:"torn_at_line,omitempty"`
	Requests   int    `json:"requests"`
	Recorded   int    `json:"recorded"`

	NotRecorded []notedReason `json:"not_recorded"`
	CutAt       *notedReason  `json:"cut_at,omitempty"`
	Marks       []notedMark   `json:"marks"`
	Agents      []notedAgent  `json:"agents"`
	Stops       []notedStop   `json:"stops"` // where the trace's own word says less

	Ratio       *notedRatio `json:"token_ratio,omitempty"` // tokens counted here to those that the API counted
	MediaTokens int         `json:"media_tokens"`

	GridMS      int64    `json:"grid_ms"`
	MaxGapMS    int64    `json:"max_gap_ms,omitempty"`
	Masks       []string `json:"masks,omitempty"`
	Holes       string   `json:"holes"`
	MinRequests int      `json:"min_requests"`

	Problems []string `json:"problems,omitempty"`
	Alarms   []string `json:"alarms,omitempty"`
}

type notedReason struct {
	Q      int            `json:"q"`
	Reason journal.Reason `json:"reason"`
}

type notedMark struct {
	Q     int    `json:"q"`
	Where string `json:"where"` // in the trace
	Mark  string `json:"mark"`
}

type notedAgent struct {
	ID     string       `json:"agent_id"`
	Parent string       `json:"parent"` // agent_id of another subagent, or "main"
	Tier   journal.Tier `json:"tier"`
}

type notedStop struct {
	Q     int    `json:"q"`
	Where string `json:"where"`
	Word  string `json:"word"`
}

type notedRatio struct {
	Requests int     `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
}

// note returns the note of a trace that is made.
func (d *document) note(r *Result, alarms []string) []byte {
	e := d.Export.WithDefaults()
	n := note{
		Trace: d.Trace, Tokenizer: d.Tokenizer, Canon: d.Canon, By: string(d.By), Why: string(d.Why), Written: r.Written, Incomplete: r.Incomplete,
		Requests: r.Requests, Recorded: r.Recorded, NotRecorded: []notedReason{}, Marks: []notedMark{}, Agents: d.notedAgents(), Stops: []notedStop{},
		GridMS: e.Grid.Milliseconds(), MaxGapMS: e.MaxGap.Milliseconds(), Masks: e.Masks.Names(), Holes: cmp.Or(string(e.Holes), "cut"),
		MinRequests: e.MinRequests, Problems: r.Problems, Alarms: alarms,
	}
	if d.Torn != nil {
		n.TornAt = d.Torn.Line
	}
	if d.cut >= 0 && e.Holes != journal.HolesKeep {
		n.CutAt = &notedReason{d.Requests[d.cut].Q, d.reasons[d.cut]}
	}
	var ratios []float64
	for k := range d.Requests {
		q := &d.Requests[k]
		if d.reasons[k] != "" {
			n.NotRecorded = append(n.NotRecorded, notedReason{q.Q, d.reasons[k]})
			continue
		}
		n.recorded(q, d.wheres[k])
		if q.End.API > 0 {
			ratios = append(ratios, float64(q.IDs.In)/float64(q.End.API))
		}
	}
	n.ratio(ratios)
	text, _ := json.Marshal(n) // numbers and words always marshal: a ratio is finite
	return append(text, '\n')
}

// recorded notes what the trace does not say of a request.
func (n *note) recorded(q *journal.Request, where string) {
	for _, mark := range marksOf(q).Names() {
		n.Marks = append(n.Marks, notedMark{q.Q, where, mark})
	}
	if q.End.Word != q.End.Stop.String() {
		n.Stops = append(n.Stops, notedStop{q.Q, where, q.End.Word})
	}
	n.MediaTokens += q.IDs.Media
}

// ratio notes percentiles of ratios: the least value that so many are not above.
func (n *note) ratio(ratios []float64) {
	if len(ratios) == 0 {
		return
	}
	slices.Sort(ratios)
	at := func(percent int) float64 { return ratios[(len(ratios)*percent+99)/100-1] }
	n.Ratio = &notedRatio{len(ratios), at(50), at(99)}
}

// notedAgents lists the subagents of the trace in its order.
func (d *document) notedAgents() []notedAgent {
	list := []notedAgent{}
	for _, agent := range d.order {
		place := d.Requests[d.agents[agent][0]].Place
		list = append(list, notedAgent{d.names[agent], cmp.Or(d.names[place.Parent], "main"), place.Via})
	}
	return list
}
