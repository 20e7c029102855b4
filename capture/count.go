package capture

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/agentx/agentx/capture/finish"
	"github.com/agentx/agentx/capture/journal"
)

// begin counts a recorder among those that are not over.
func (c *Capture) begin(r *recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorders[r] = true
}

// end is begin's counterpart.
func (c *Capture) end(r *recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recorders, r)
	if len(c.recorders) == 0 && c.none != nil {
		close(c.none)
		c.none = nil
	}
}

// alive returns the recorders that are not over, and a channel that is closed when there are none.
func (c *Capture) alive() (list []*recorder, none <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.recorders {
		list = append(list, r)
	}
	if c.none == nil {
		c.none = make(chan struct{})
	}
	none = c.none
	if len(list) == 0 {
		close(c.none)
		c.none = nil
	}
	return list, none
}

// leave counts a request that belongs to no session.
func (c *Capture) leave(why journal.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.NotRecorded[why]++
	c.metrics.left(why, 1)
}

// unwritten counts the requests of a session without a journal.
func (c *Capture) unwritten(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Sessions++
	c.total.Incomplete++
	c.total.NotRecorded[journal.HoleJournal] += n
	c.metrics.left(journal.HoleJournal, n)
}

// unrecorded says that a session is not recorded, once a minute.
func (c *Capture) unrecorded(trace string, err error) {
	now := c.options.Now()
	c.mu.Lock()
	say := c.silent || now-c.said >= int64(time.Minute)
	if say {
		c.said, c.silent = now, false
	}
	c.mu.Unlock()
	if say {
		c.options.Log.Error("a session is not recorded", "trace", trace, "reason", string(journal.HoleJournal), "error", err)
	}
}

var errInternal = errors.New("a fault of agentx")

// finished makes a trace of a journal that is complete. Requests that the journal lacks could not be written.
func (c *Capture) finished(trace string, requests int) {
	c.turns <- struct{}{}
	result, err := c.finish(trace)
	<-c.turns
	if err != nil {
		c.options.Log.Error("a journal could not be finished: agentx capture finish does it later", "trace", trace, "error", err)
		result = finish.Result{Trace: trace, Incomplete: true}
	}
	lacking := requests - result.Requests
	result.Incomplete = result.Incomplete || lacking > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(result)
	if err != nil {
		c.failed++
	}
	if lacking > 0 {
		c.total.NotRecorded[journal.HoleJournal] += lacking
		c.metrics.left(journal.HoleJournal, lacking)
	}
	c.metrics.finished(result, err)
}

func (c *Capture) finish(trace string) (r finish.Result, err error) {
	defer func() {
		if recover() != nil {
			err = errInternal
		}
	}()
	return finish.Finish(c.ctx, c.folder, trace)
}

// unfinished returns an error where journals could not be finished, which the log has named.
func (c *Capture) unfinished() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of the journals could not be finished: agentx capture finish %s does it later", c.failed, c.options.Dir)
}

// Summary is what a capture came to.
type Summary struct {
	finish.Total // its requests are all that were seen

	Bytes int64                `json:"bytes_carried"`
	Added map[string]Quantiles `json:"added"` // seconds, by stage
	Out   string               `json:"out"`
}

// Quantiles of a time, in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Summary returns what the capture came to. Call it after Serve.
func (c *Capture) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := *c.total
	total.Requests, total.NotRecorded, total.Marks = int(c.seen.Load()), maps.Clone(total.NotRecorded), maps.Clone(total.Marks)
	return Summary{Total: total, Bytes: c.bytes.Load(), Added: c.metrics.quantiles(), Out: c.options.Dir}
}

// String returns a line for people.
func (s Summary) String() string {
	left := 0
	for _, n := range s.NotRecorded {
		left += n
	}
	return fmt.Sprintf("%d requests of %d sessions: %d recorded in %d traces, %d not", s.Requests, s.Sessions, s.Recorded, s.Traces, left)
}
