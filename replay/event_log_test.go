package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
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
	return o.WithDefaults()
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

// playedOn plays a player against a server of its own: takes says how long a turn takes, and how it ends. What was taken stands with
// its instant.
func playedOn(t testing.TB, p *Player, takes func(PlayedTurn) (time.Duration, conductor.Outcome)) (list []PlayedTurn, at []time.Duration) {
	t.Helper()
	type ending struct {
		id      int
		at      time.Duration
		outcome conductor.Outcome
	}
	var flying []ending
	now := time.Duration(0)
	for {
		for turn, ok := p.Take(now); ok; turn, ok = p.Take(now) {
			list, at = append(list, turn), append(at, now)
			took, outcome := takes(turn)
			flying = append(flying, ending{turn.ID, now + took, outcome})
			slices.SortStableFunc(flying, func(a, b ending) int { return int(a.at - b.at) })
		}
		next, ok := p.Next()
		switch {
		case len(flying) > 0 && (!ok || flying[0].at <= next):
			now = flying[0].at
			require.NoError(t, p.Returned(flying[0].id, now, flying[0].outcome))
			flying = flying[1:]
		case ok:
			now = max(now, next)
		default:
			require.True(t, p.Done())
			require.NoError(t, p.Err())
			return list, at
		}
	}
}

// aSecond is a server that takes a second for each turn.
func aSecond(PlayedTurn) (time.Duration, conductor.Outcome) { return time.Second, conductor.OK }

// A player gives out the turns that a run sends, in its order and at its instants, against a server that takes as long.
//
// Covers S-04.
func TestPlayerPlaysTheRun(t *testing.T) {
	demo := cachetest.Demo(t)
	timed := mooncake(t, 0, 1500, 1500, 4000, 90000)
	for name, set := range map[string]func(*Options){
		"default":         func(*Options) {},
		"flat out":        func(o *Options) { o.Pace = Pace{ASAP: true} },
		"half the traces": func(o *Options) { o.Traces = 8 },
		"shuffled":        func(o *Options) { o.Order = Shuffle },
		"trees":           func(o *Options) { o.Trees = 40; o.Order = Random; o.AllowWrap = true },
		"requests":        func(o *Options) { o.Requests = 150; o.Recycle = RecycleFIFOGuarded },
		"guarded":         func(o *Options) { o.Requests = 150; o.MaxLivePerTrace = true },
		"duration":        func(o *Options) { o.Duration = 7 * time.Minute; o.Grace = time.Hour },
		"sampled":         func(o *Options) { o.Start = Start{Sampled: true} },
		"burst":           func(o *Options) { o.Start = Start{Sampled: true, Burst: true} },
		"ramp":            func(o *Options) { o.Arrivals.Ramp = time.Minute },
		"idle":            func(o *Options) { o.Limits.SystemIdle, o.Limits.TraceIdle = 2*time.Second, 3*time.Second },
		"more lanes":      func(o *Options) { o.Concurrency = 30 },
		"rate": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 0
		},
		"rate, capped": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 2
		},
		"recorded":        func(o *Options) { o.Cache, o.Arrivals = timed, Arrivals{Mode: RecordedArrivals}; o.Concurrency = 2 },
		"a small context": func(o *Options) { o.MaxContext = 20000 },
	} {
		for _, preset := range []string{preset.Default, preset.AIPerf, preset.AgentX} {
			t.Run(name+"/"+preset, func(t *testing.T) {
				o := optionsFor(t, demo, unreachable)
				o.Pace, o.Preset, o.Switches, o.Overwrite = Pace{}, preset, nil, true
				set(&o)
				v, err := virtually(t, o, second)
				require.NoError(t, err)
				p, err := NewPlayer(Options{
					Cache: o.Cache, Concurrency: o.Concurrency, Traces: o.Traces, MaxContext: o.MaxContext, Order: o.Order, Recycle: o.Recycle,
					MaxLivePerTrace: o.MaxLivePerTrace, AllowWrap: o.AllowWrap, Start: o.Start, Arrivals: o.Arrivals, Pace: o.Pace,
					Limits: o.Limits, Preset: o.Preset, Duration: o.Duration, Requests: o.Requests, Trees: o.Trees,
				})
				require.NoError(t, err)
				turns, at := playedOn(t, p, aSecond)
				var want, got []string
				for _, s := range v.sent {
					want = append(want, fmt.Sprint(s.at, s.lane, s.ordinal, s.trace, s.session, s.turn))
				}
				for k, u := range turns {
					plan := cachetest.Plan(o.Cache, u.Trace)
					got = append(got, fmt.Sprint(at[k], u.Lane, u.Tree, plan.Trace.ID, plan.Sessions[u.Session].ID, u.Turn))
					require.Equal(t, k, u.ID)
				}
				require.NotEmpty(t, want)
				require.Equal(t, want, got)
			})
		}
	}
}

// The vectors of the group event_log, with a player: it takes each turn when the vector sends it. Left out are those in which requests
// are cancelled at the end of a grace, which no simulated server does, and those that no plan can hold.
//
// Covers S-04.
func TestEventLogsOfAPlayer(t *testing.T) {
	list, err := fixtures.Cases("event_log")
	require.NoError(t, err)
	ran := map[string]int{}
	for _, c := range list {
		var e eventLog
		require.NoError(t, json.Unmarshal(c.In, &e))
		plans, ok := e.plans()
		if !ok || len(e.Refused) > 0 || e.Deadline != nil {
			continue
		}
		ran[c.Preset]++
		t.Run(c.Name+"/"+c.Preset, func(t *testing.T) {
			var want struct{ Sends [][]any }
			require.NoError(t, json.Unmarshal(c.Want, &want))
			o, source, script, _ := e.prepare(t, c.Preset, plans)
			p := newPlayer(o, measuredPhase(o, treesOf{source}, nil), func(d conductor.Dispatch) (int, int) { return 0, d.Tree })
			turns, at := playedOn(t, p, func(u PlayedTurn) (time.Duration, conductor.Outcome) {
				took, outcome := script(conductor.Dispatch{Tree: u.Tree, Session: u.Session, Turn: u.Turn})
				return took, map[string]conductor.Outcome{"ok": conductor.OK, "error": conductor.Failed, "overflow": conductor.Overflow}[outcome]
			})
			var sends []loggedTurn
			for k, u := range turns {
				sends = append(sends, loggedTurn{at: at[k], lane: u.Lane, session: plans[u.Tree].Sessions[u.Session].ID, turn: u.Turn})
			}
			require.Equal(t, rowsOf(want.Sends), sortLog(sends))
		})
	}
	require.Equal(t, map[string]int{"default": 36, "aiperf-0.13": 34, "agentx-1.0.12": 35}, ran)
}

// A player needs no prompts, and says which options it cannot use.
//
// Covers S-04.
func TestPlayerOfAStructure(t *testing.T) {
	demo := cachetest.Demo(t)
	c, err := mmapcache.OpenStructure(demo.Root, demo.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer c.Close()
	for text, o := range map[string]Options{
		"cache: nil: want an open cache":                                                         {},
		"warmup: a player has none":                                                              {Cache: c, Warmup: Warmup{Requests: 3}},
		"limits: prefill 2: a player does not learn of first tokens":                             {Cache: c, Limits: Limits{Prefill: 2}},
		"StopOnDeadlock: a player goes on with the next tree":                                    {Cache: c, StopOnDeadlock: true},
		"none of 16 traces fits a context of 10 tokens":                                          {Cache: c, MaxContext: 10},
		"17 lanes, but 16 distinct traces, and without a marker no two lanes may play one trace": {Cache: c, Concurrency: 17, Requests: 10},
		"have no recorded start":                                                                 {Cache: c, Arrivals: Arrivals{Mode: RecordedArrivals}},
		"seed \"x\": want a decimal number":                                                      {Cache: c, Seed: "x"},
	} {
		_, err := NewPlayer(o)
		require.ErrorContains(t, err, text)
	}
	p, err := NewPlayer(Options{Cache: c, Concurrency: 4})
	require.NoError(t, err)
	turns, _ := playedOn(t, p, aSecond)
	require.Len(t, turns, c.Facts.Turns, "every turn once")
	require.Equal(t, 16, p.Counts().TreesDrained)
	require.Error(t, p.Returned(0, 1<<50, conductor.OK), "it has returned before")
}

func TestOrders(t *testing.T) {
	traces := []int{3, 5, 7, 11, 13, 17, 19, 23}
	deal := func(d dealer, turns int) (list []int) {
		d.traces = traces
		for k := range turns {
			list = append(list, d.at(k))
		}
		return list
	}
	require.Equal(t, append(slices.Clone(traces), traces...), deal(dealer{}, 16))

	shuffled := deal(dealer{order: Shuffle, seed: "42"}, 24)
	require.Equal(t, shuffled, deal(dealer{order: Shuffle, seed: "42"}, 24))
	require.NotEqual(t, shuffled, deal(dealer{order: Shuffle, seed: "43"}, 24))
	require.NotEqual(t, shuffled[:8], shuffled[8:16], "a new order for every pass")
	for pass := range 3 {
		require.ElementsMatch(t, traces, shuffled[8*pass:8*pass+8])
	}
	again := dealer{traces: traces, order: Shuffle, seed: "42"} // looking ahead shows what will be dealt
	for _, turn := range []int{7, 11, 6, 12, 8, 15, 16, 9, 23} {
		require.Equal(t, shuffled[turn], again.at(turn))
	}

	random := deal(dealer{order: Random, seed: "42"}, 800)
	require.Equal(t, random, deal(dealer{order: Random, seed: "42"}, 800))
	for _, trace := range traces {
		n := 0
		for _, r := range random {
			if r == trace {
				n++
			}
		}
		require.InDelta(t, 100, n, 50, trace)
	}
}
