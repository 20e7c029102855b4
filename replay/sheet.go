package replay

import (
	"time"

	"github.com/agentx/agentx/internal/timeline"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
)

// Pace says how recorded gaps are played. The zero value plays them as recorded.
type Pace struct {
	Speed  float64       // gaps are divided by it; 0 means 1
	MaxGap time.Duration // longest gap that is played, after Speed; 0: no limit
	ASAP   bool          // gaps are 0
}

// gap returns how long a recorded gap, in milliseconds, is played.
func (p Pace) gap(ms float64) time.Duration {
	if p.ASAP {
		return 0
	}
	if p.Speed > 0 {
		ms /= p.Speed
	}
	if !(ms > 0) { // NaN too
		return 0
	}
	const most = float64(1<<62) / 1e6 // about 146 years
	d := time.Duration(min(ms, most) * 1e6)
	if p.MaxGap > 0 {
		d = min(d, p.MaxGap)
	}
	return d
}

// sheet returns what the conductor plays of a trace.
func sheet(p *mmapcache.Plan, pace Pace, rules mmapcache.TimeRules) (*conductor.Tree, error) {
	times, err := p.Times(rules, mmapcache.View{View: timeline.View{IgnoreDelays: pace.ASAP}})
	if err != nil {
		return nil, err
	}
	t := &conductor.Tree{Sessions: make([]conductor.Session, len(p.Sessions))}
	for n, s := range p.Sessions {
		c := &t.Sessions[n]
		c.Turns = make([]conductor.Turn, s.Turns)
		for k, u := range times.Turns[s.FirstTurn:][:s.Turns] {
			c.Turns[k].Delay = pace.gap(u.Delay)
		}
		if s.Parent == mmapcache.None {
			continue
		}
		spawn := times.Sessions[n]
		c.Parent, c.SpawnTurn = int(s.Parent), int(s.SpawnTurn)
		c.OnIssue = spawn.From == timeline.Issue
		c.Offset = pace.gap(spawn.Offset)
		if spawn.Join != mmapcache.None {
			joins := &t.Sessions[s.Parent].Turns[spawn.Join].Joins
			*joins = append(*joins, n)
		}
	}
	return t, nil
}
