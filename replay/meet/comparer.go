package meet

import (
	"sync"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// exchanges is how many exchanges of stamps a comparison of two clocks has: the one with the shortest round trip counts.
const exchanges = 8

// readingEvery is how old the last reading may become before another is kept, whatever its uncertainty.
const readingEvery = 10 * time.Second

// comparer keeps what exchanges of stamps say of a part's clock beside that of part 0.
type comparer struct {
	mu    sync.Mutex
	kept  measure.Clock              // that the results have
	best  *measure.ClockReading      // since the last that is kept; nil: none
	rtt   time.Duration              // slowest round trip of the comparison
	count int                        // exchanges of comparisons
	busy  bool                       // a comparison is under way: nothing is kept before its end
	write func(measure.ClockReading) // gets what is kept; nil: nothing does yet
}

// add takes an exchange: the answer to a question, and when it came. A bad one, whose stamps go back, is left out.
func (c *comparer) add(m *message, t4 int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Compare {
		c.count++
	}
	rtt := (t4 - m.T1) - (m.T3 - m.T2)
	if t4 < m.T1 || m.T3 < m.T2 || rtt < 0 {
		return
	}
	c.rtt = max(c.rtt, time.Duration(t4-m.T1))
	drifted := int64(measure.MaxDrift * float64(t4-m.T1)) // meanwhile
	r := measure.ClockReading{
		Unix: m.T1 + (t4-m.T1)/2, Offset: ((m.T2 - m.T1) + (m.T3 - t4)) / 2, Uncertainty: rtt/2 + drifted + 2, // halves are rounded
	}
	if c.best == nil || r.Uncertainty < c.best.Uncertainty {
		c.best = &r
	}
	if n := len(c.kept); !c.busy && n > 0 && (r.Uncertainty < c.kept[n-1].Uncertainty || r.Unix-c.kept[n-1].Unix >= int64(readingEvery)) {
		c.keep()
	}
}

// keep keeps the best exchange since the last that is kept. The caller holds the lock.
func (c *comparer) keep() {
	best := c.best
	c.best = nil
	if n := len(c.kept); best == nil || n > 0 && best.Unix <= c.kept[n-1].Unix {
		return
	}
	c.kept = append(c.kept, *best)
	if c.write != nil {
		c.write(*best)
	}
}

// begin begins a comparison, of which end keeps the best exchange. It returns how many exchanges there were.
func (c *comparer) begin() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.best, c.rtt, c.busy = nil, 0, true
	return c.count
}

// reached reports whether there were so many exchanges.
func (c *comparer) reached(count int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count >= count
}

// end ends a comparison, keeps the best exchange, and returns the slowest round trip since begin.
func (c *comparer) end() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.keep()
	return c.rtt
}

// tell makes write get every reading that is kept, and those that were.
func (c *comparer) tell(write func(measure.ClockReading)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = write
	if write != nil {
		for _, r := range c.kept {
			write(r)
		}
	}
}

// own returns the instant of the part's clock that an instant of part 0's clock is.
func (c *comparer) own(at int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.kept); n > 0 {
		at -= c.kept[n-1].Offset
	}
	return time.Unix(0, at)
}
