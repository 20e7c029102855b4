package workload

import (
	"cmp"
	"fmt"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/conductor"
)

// LanesOptions say what the load of lanes plays, and how.
type LanesOptions struct {
	// Replay is what replay.NewPlayer takes: a cache and how its trees are played. Concurrency is the number of lanes. Recorded
	// response times play no part, but in the gaps that were measured from them.
	Replay replay.Options

	BlockSize int // of the engine, tokens
	IDWidth   preset.Choice
}

// LanesLoad is the load in which lanes play trees of sessions: doc/spec/simulate.md 3.2. The player that drives servers decides what is
// sent, in which order and when; here the fleet is the server. It numbers blocks when a trace is first played.
type LanesLoad struct {
	player  *replay.Player
	cache   *mmapcache.Cache
	traces  []lanesTrace // by position in the cache
	reader  *prompts
	numbers *Chains
	err     error // the cache cannot be read
}

// lanesTrace are the turns of a trace as the fleet gets them.
type lanesTrace struct {
	session  int      // number of its first session
	firsts   []uint32 // by session: its first turn
	requests []request
}

// request is the part of a turn that does not depend on when it is played.
type request struct {
	prompt, output int32
	chain          []engine.Run
}

// Lanes returns the load of lanes. Options.Validate of Replay does not hold for it: a model and servers are not needed.
func Lanes(o LanesOptions) (*LanesLoad, error) {
	if o.BlockSize < 1 {
		return nil, fmt.Errorf("lanes: blocks of %d tokens: want at least 1", o.BlockSize)
	}
	player, err := replay.NewPlayer(o.Replay)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	c := o.Replay.Cache
	reader, err := newPrompts(c, o.IDWidth)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	return &LanesLoad{player: player, cache: c, traces: make([]lanesTrace, c.Traces()), reader: reader, numbers: NewChains(reader.tokens, o.BlockSize)}, nil
}

// Next returns when the next turn is due if none completes before.
func (l *LanesLoad) Next() (int64, bool) {
	at, ok := l.player.Next()
	return int64(at), ok && l.err == nil
}

// Release takes the next turn that is due.
func (l *LanesLoad) Release(now int64) (t Turn, ok bool) {
	p, ok := l.player.Take(time.Duration(now))
	if !ok {
		return t, false
	}
	trace, err := l.trace(p.Trace)
	if err != nil {
		l.err = err
		return t, false
	}
	r := &trace.requests[int(trace.firsts[p.Session])+p.Turn]
	return Turn{
		ID: p.ID, Session: trace.session + p.Session, Number: p.Turn, Prompt: int(r.prompt), Output: int(r.output), Chain: r.chain,
	}, true
}

// Completed says that a turn has ended.
func (l *LanesLoad) Completed(id int, now int64) { l.returned(id, now, conductor.OK) }

// Refused says that a turn has ended because its prompt can fit no worker. It ends the session, whose later prompts are longer.
func (l *LanesLoad) Refused(id int, now int64) { l.returned(id, now, conductor.Overflow) }

func (l *LanesLoad) returned(id int, now int64, outcome conductor.Outcome) {
	if err := l.player.Returned(id, time.Duration(now), outcome); err != nil {
		panic(err) // the fleet completes each turn once
	}
}

// Left returns 0 when nothing is left to release or to complete, else how many trees are open, at least 1: how many turns that makes is
// not known before they are played.
func (l *LanesLoad) Left() int {
	if l.player.Done() || l.err != nil {
		return 0
	}
	return max(1, l.player.Counts().TreesOpen)
}

// Err returns what ended the play before its bounds.
func (l *LanesLoad) Err() error {
	if err := cmp.Or(l.player.Err(), l.err); err != nil {
		return fmt.Errorf("lanes: %w", err)
	}
	return nil
}

// trace returns the turns of a trace, whose blocks it numbers the first time.
func (l *LanesLoad) trace(k int) (t *lanesTrace, err error) {
	if t = &l.traces[k]; t.requests != nil {
		return t, nil
	}
	plan, err := l.cache.Plan(k)
	if err != nil {
		return nil, err
	}
	if t.session, err = l.cache.FirstSession(k); err != nil {
		return nil, err
	}
	for n := range plan.Sessions {
		t.firsts = append(t.firsts, plan.Sessions[n].FirstTurn)
	}
	if err := l.reader.open(plan); err != nil {
		return nil, err
	}
	t.requests = make([]request, len(plan.Turns))
	for n, turn := range plan.Turns {
		t.requests[n] = request{
			prompt: int32(max(turn.In, 1)), output: int32(max(turn.MaxTokens(), 1)), chain: l.numbers.Add(l.reader.ids(turn), int(turn.In)),
		}
	}
	return t, nil
}
