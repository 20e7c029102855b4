package replay

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/timeline"
)

// eventLog is a vector of the group event_log.
type eventLog struct{ fixtures.EventLog }

// turnNaming returns the first turn of a conversation whose list names a branch, None if there is none. more says that others
// name it too.
func turnNaming(s fixtures.Conversation, branch string, names func(k int) []string) (at int32, more bool) {
	at = mmapcache.None
	for k := range s.Turns {
		if slices.Contains(names(k), branch) {
			if at != mmapcache.None {
				return at, true
			}
			at = int32(k)
		}
	}
	return at, false
}

// plan returns a trace as a cache has it. ok is false where a cache cannot: a child with children, a branch that several turns
// join, or two branches between the same two turns.
func (e *eventLog) plan(trace string) (p *mmapcache.Plan, ok bool) {
	of := e.Traces[trace]
	root := of.Conversations[of.Root]
	p = &mmapcache.Plan{Trace: mmapcache.Trace{ID: trace}}
	p.Sessions = append(p.Sessions, mmapcache.Session{ID: of.Root, Parent: mmapcache.None, JoinTurn: mmapcache.None, SpawnTurn: mmapcache.None})
	addTurns(p, root)
	seen := map[[2]int32]bool{}
	for _, b := range root.Branches {
		spawn, _ := turnNaming(root, b.ID, func(k int) []string { return root.Turns[k].Spawns })
		join, several := turnNaming(root, b.ID, func(k int) []string { return root.Turns[k].Joins })
		if several || seen[[2]int32{spawn, join}] {
			return nil, false
		}
		seen[[2]int32{spawn, join}] = true
		for _, name := range b.Children {
			child := of.Conversations[name]
			if len(child.Branches) > 0 {
				return nil, false
			}
			s := mmapcache.Session{
				ID: name, Kind: mmapcache.Flat, FirstTurn: uint32(len(p.Turns)), SpawnTurn: spawn, JoinTurn: join, Start: child.Turns[0].TS / 1000,
			}
			if b.Start != nil {
				s.Start = *b.Start / 1000
			}
			at := p.Turns[spawn]
			s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(at.T, at.APITime, child.Turns[0].TS/1000)
			p.Sessions = append(p.Sessions, s)
			addTurns(p, child)
		}
	}
	return p, true
}

// addTurns adds the turns of the last session of a plan.
func addTurns(p *mmapcache.Plan, s fixtures.Conversation) {
	for _, u := range s.Turns {
		p.Turns = append(p.Turns, mmapcache.Turn{T: u.TS / 1000, APITime: u.API / 1000, ThinkTime: math.NaN()})
	}
	p.Sessions[len(p.Sessions)-1].Turns = uint32(len(s.Turns))
}

// schedule returns the schedule of a trace. The recorded order is that of the vector, which states it apart from the times.
func (e *eventLog) schedule(t *testing.T, p *mmapcache.Plan, v view) *schedule {
	s, err := newSchedule(p, v, mmapcache.TimeRules{})
	require.NoError(t, err)
	number := map[string]int{}
	for n, session := range p.Sessions {
		number[session.ID] = n
	}
	for name, n := range number {
		s.Sessions[n].Unplayable = slices.Contains(e.Unbuildable, name)
		for k, u := range e.Traces[p.Trace.ID].Conversations[name].Turns {
			s.Sessions[n].Turns[k].After = nil
			for _, r := range u.Preds {
				s.Sessions[n].Turns[k].After = append(s.Sessions[n].Turns[k].After, conductor.TurnRef{Session: number[r[0].(string)], Turn: int(r[1].(float64))})
			}
		}
	}
	require.NoError(t, s.Validate())
	return s
}

// options returns the options of a run as the vector states them, under a preset.
func (e *eventLog) options(name string) Options {
	switches, _ := preset.Named(name)
	switches.TreeIdleCap = nil
	if e.TreeIdle > 0 {
		seconds := preset.Seconds(e.TreeIdle / 1000)
		switches.TreeIdleCap = &seconds
	}
	ms := func(v float64) time.Duration { return time.Duration(v * 1e6) }
	o := Options{
		Preset: name, Switches: &switches, Concurrency: len(e.Lanes), Grace: ms(e.Grace), Marker: payload.NoMarker,
		Start: Start{Burst: e.Anchor != "spread"}, Limits: Limits{SystemIdle: ms(e.SystemIdle), LaneStart: Off},
	}
	if e.Deadline != nil {
		o.Duration = ms(*e.Deadline)
	}
	if e.LaneStart != nil {
		o.Limits.LaneStart = ms(*e.LaneStart)
	}
	return o.withDefaults()
}

// openings returns what the lanes play first, and how much of their waiting is skipped.
func (e *eventLog) openings(o Options, first []*schedule) (list []conductor.Assignment, skipped []time.Duration) {
	var states []*conductor.StartState
	for lane, s := range first {
		state := s.From(0)
		if at := e.Lanes[lane].TStar; at != nil {
			state = s.At(*at)
		}
		states, list = append(states, state), append(list, conductor.Assignment{Tree: s.Tree, Start: state})
	}
	starts := newStartPolicy(o)
	return list, starts.alignment.Align(states, false, starts.limit)
}

// given gives every lane its first tree, and then the others to any lane.
type given struct{ first, more []conductor.Assignment }

func (g *given) Next(lane int) (a conductor.Assignment, ok bool) {
	if a = g.first[lane]; a.Tree != nil {
		g.first[lane] = conductor.Assignment{}
		return a, true
	}
	if len(g.more) == 0 {
		return a, false
	}
	a, g.more = g.more[0], g.more[1:]
	return a, true
}

// loggedTurn is a row of a log: when a turn of a session was sent or ended, and how.
type loggedTurn struct {
	at      time.Duration
	lane    int
	session string
	turn    int
	outcome string
}

// sortLog sorts rows, of which those of one instant may come in any order.
func sortLog(list []loggedTurn) []loggedTurn {
	slices.SortFunc(list, func(a, b loggedTurn) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.lane-b.lane, cmp.Compare(a.session, b.session), a.turn-b.turn, cmp.Compare(a.outcome, b.outcome))
	})
	return list
}

// rowsOf decodes the rows of a vector.
func rowsOf(rows [][]any) (list []loggedTurn) {
	for _, r := range rows {
		l := loggedTurn{at: time.Duration(math.Round(r[0].(float64) * 1e6)), lane: int(r[1].(float64)), session: r[2].(string), turn: int(r[3].(float64))}
		if len(r) > 4 {
			l.outcome = r[4].(string)
		}
		list = append(list, l)
	}
	return sortLog(list)
}

var outcomes = map[string]wire.Category{"ok": "", "error": wire.HTTPStatus, "overflow": wire.ContextOverflow, "cancelled": wire.Cancelled}

// prepare returns the options of a run of the log, the trees that it plays, and how long each turn takes and how it ends.
func (e *eventLog) prepare(t *testing.T, name string, plans []*mmapcache.Plan) (
	o Options, source *given, script func(conductor.Dispatch) (time.Duration, string), skipped []time.Duration) {
	o = e.options(name)
	var list []*schedule
	source = &given{}
	for _, p := range plans {
		list = append(list, e.schedule(t, p, o.view()))
	}
	source.first, skipped = e.openings(o, list[:len(e.Lanes)])
	for _, s := range list[len(e.Lanes):] {
		source.more = append(source.more, conductor.Assignment{Tree: s.Tree})
	}
	return o, source, func(d conductor.Dispatch) (time.Duration, string) {
		session := plans[d.Tree].Sessions[d.Session].ID
		turn := session + ":" + strconv.Itoa(d.Turn)
		ms := e.Service["default"]
		for _, key := range []string{session, turn} {
			if v, ok := e.Service[key]; ok {
				ms = v
			}
		}
		return time.Duration(ms * 1e6), cmp.Or(e.Outcomes[turn], "ok")
	}, skipped
}

// play plays the log with plans, and returns what was sent and what ended.
func (e *eventLog) play(t *testing.T, name string, plans []*mmapcache.Plan) (sends, ends []loggedTurn, skipped []time.Duration) {
	o, source, script, skipped := e.prepare(t, name, plans)
	session := func(d conductor.Dispatch) string { return plans[d.Tree].Sessions[d.Session].ID }
	sim := &simulation{script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		took, outcome := script(d)
		return took, 0, outcomes[outcome]
	}}
	require.NoError(t, sim.loop(o, source).run())
	for k, d := range sim.sent {
		sends = append(sends, loggedTurn{at: sim.sentAt[k], lane: d.Lane, session: session(d), turn: d.Turn})
	}
	named := slices.Collect(maps.Keys(outcomes))
	for _, r := range sim.records {
		l := loggedTurn{at: time.Duration(math.Round(r.End.Seconds() * 1e9)), outcome: "ok"}
		if r.Error != nil {
			l.outcome = named[slices.IndexFunc(named, func(o string) bool { return outcomes[o] == r.Error.Category })]
		}
		ends = append(ends, l)
	}
	return sortLog(sends), sortLog(ends), skipped
}

// TestEventLogsOfPlans plays the vectors of the group event_log with plans as a cache has them, the view of the preset, its start
// and the loop. Package conductor plays all of them, and those that are missing here: cases whose trees no plan can hold, and
// those in which a request is refused, which no transport does.
//
// Covers T-36, T-45.
func TestEventLogsOfPlans(t *testing.T) {
	list, err := fixtures.Cases("event_log")
	require.NoError(t, err)
	ran := map[string]int{}
	for _, c := range list {
		var e eventLog
		require.NoError(t, json.Unmarshal(c.In, &e))
		plans, ok := e.plans()
		if !ok || len(e.Refused) > 0 {
			continue
		}
		ran[c.Preset]++
		t.Run(c.Name+"/"+c.Preset, func(t *testing.T) {
			var want struct {
				Sends, Ends [][]any
				Skipped     []float64 `json:"lane_skipped_ms"`
			}
			require.NoError(t, json.Unmarshal(c.Want, &want))
			sends, ends, skipped := e.play(t, c.Preset, plans)
			require.Equal(t, rowsOf(want.Sends), sends)
			logged := rowsOf(want.Ends)
			for k, l := range logged { // the sender, which the simulation replaces, fills in the rest
				logged[k] = loggedTurn{at: l.at, outcome: l.outcome}
			}
			require.Equal(t, sortLog(logged), ends)
			for lane, ms := range want.Skipped {
				require.Equal(t, time.Duration(ms*1e6), skipped[lane])
			}
		})
	}
	require.Equal(t, map[string]int{"default": 42, "aiperf-0.13": 40, "agentx-1.0.12": 41}, ran)
}

// plans returns the plans of the trees in the order in which they are opened. ok is false if one is none.
func (e *eventLog) plans() (list []*mmapcache.Plan, ok bool) {
	var traces []string
	for _, l := range e.Lanes {
		traces = append(traces, l.Trace)
	}
	for _, trace := range append(traces, e.Recycle...) {
		p, ok := e.plan(trace)
		if !ok {
			return nil, false
		}
		list = append(list, p)
	}
	return list, true
}
