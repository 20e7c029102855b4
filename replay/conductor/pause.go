package conductor

import "time"

// A phase that leaves its trees to the next one ends in a pause: the pressure stage of doc/spec/replay.md 3.6.

// Pause ends the sending, but closes nothing: the sessions wait for the next phase, to which Handoff gives them. From then on
// no timer fires, every turn that could be sent is deferred or stays retained, and a lane whose tree drains takes no other.
// Requests in flight may return; a session whose request is cancelled goes on with its next turn. Done reports when nothing
// is in flight any more. Stop closes what a pause has kept.
func (c *Conductor) Pause(now time.Duration) {
	c.pause()
	c.settle(now)
}

func (c *Conductor) pause() {
	c.paused = true
	c.endArrivals()
	for _, t := range c.lanes {
		if t != nil {
			t.barrier.paused = true
		}
	}
}

// mayRequest reports whether a lane has sent fewer requests than Limits.LaneRequests.
func (c *Conductor) mayRequest(lane int) bool {
	return c.limits.LaneRequests == 0 || c.requests[lane] < c.limits.LaneRequests
}

// countLaneRequest counts a request that a lane has sent.
func (c *Conductor) countLaneRequest(lane int) {
	c.requests[lane]++
	if c.requests[lane] == c.limits.LaneRequests {
		c.endLaneRequests()
	}
}

// endLaneRequests pauses the phase when the last lane has sent its requests, or has finished before.
func (c *Conductor) endLaneRequests() {
	c.below--
	if c.below == 0 && c.limits.LaneRequests > 0 {
		c.pause()
	}
}
