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
	const most = float64(1<<62) / 1e6 // about 146 years
	d := time.Duration(min(ms, most) * 1e6)
	if p.MaxGap > 0 {
		d = min(d, p.MaxGap)
	}
	return d
}

// sheet returns what the conductor plays of a trace.
func sheet(p *mmapcache.Plan, pace Pace) *conductor.Tree {
	t := &conductor.Tree{Sessions: make([]conductor.Session, len(p.Sessions))}
	for n, s := range p.Sessions {
		c := &t.Sessions[n]
		c.Turns = make([]conductor.Turn, s.Turns)
		rows := p.Turns[s.FirstTurn:][:s.Turns]
		for k := 1; k < len(rows); k++ {
			c.Turns[k].Delay = pace.gap(timeline.Delay(rows[k-1].T, rows[k-1].APITime, rows[k].T))
		}
		if s.Parent == mmapcache.None {
			continue
		}
		c.SpawnTurn = int(s.SpawnTurn)
		c.OnIssue = s.SpawnFrom == timeline.Issue && !pace.ASAP
		c.Offset = pace.gap(s.SpawnOffset)
		if s.JoinTurn != mmapcache.None {
			joins := &t.Sessions[s.Parent].Turns[s.JoinTurn].Joins
			*joins = append(*joins, n)
		}
	}
	return t
}
