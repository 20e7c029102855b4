package capacity

import (
	"math"
	"time"
)

// Target is a condition on a statistic of the requests of a probe, which small values meet.
type Target struct {
	Quantile float64 // 0 to 100; below 0: the mean
	Holds    func(value float64) bool
}

// Mean is the Quantile of a target on the mean.
const Mean = -1

// Bounds of a probe. One of them must be known for a condition to be lost before the end.
type Bounds struct {
	Duration time.Duration // of the sending; 0: no bound
	Requests int           // 0: no bound
}

// Outlook tells when a condition can no longer be met, whatever the rest of the probe brings. It takes the best for the rest:
// every further request has the value 0. Their number is bounded by that of the probe, or by its time that is left and twice
// the rate of its busiest ten seconds.
type Outlook struct {
	Target
	Bounds

	values, good int     // good hold on their own
	sum          float64 // of the values
	ended        int     // requests, with a value or not
	slot         int64   // the ten seconds of the latest request, and how many ended in it
	inSlot, busy int     // busy: in the busiest slot
}

// busySlot is the length of a slot.
const busySlot = 10 * time.Second

// leastEnded is how many requests have ended before an outlook says anything.
const leastEnded = 20

// Add tells the outlook of a request that ended at an instant of the phase. One without a value only counts. Requests come in any
// order of instants, nearly in that of time.
func (o *Outlook) Add(at time.Duration, value float64, known bool) {
	if slot := int64(at / busySlot); slot > o.slot {
		o.slot, o.inSlot = slot, 0
	}
	o.inSlot++
	o.busy = max(o.busy, o.inSlot)
	o.ended++
	if !known {
		return
	}
	o.values++
	o.sum += value
	if o.Holds(value) {
		o.good++
	}
}

// Lost reports whether the condition can no longer be met, at an instant of the phase.
func (o *Outlook) Lost(now time.Duration) bool {
	further := o.further(now)
	if now < busySlot || o.ended < leastEnded || o.values == 0 || math.IsInf(further, 1) {
		return false
	}
	all := float64(o.values) + further
	if o.Quantile < 0 {
		return !o.Holds(o.sum / all)
	}
	// The quantile lies between the values at this place, from 0, and the next: it is lost when already the lower one is bad.
	place := math.Floor(o.Quantile / 100 * (all - 1))
	return further+float64(o.good) <= place
}

// further bounds the number of requests that are still to end.
func (o *Outlook) further(now time.Duration) float64 {
	n := math.Inf(1)
	if o.Requests > 0 {
		n = max(0, float64(o.Requests-o.ended))
	}
	if o.Duration > 0 {
		left := max(0, o.Duration-now)
		n = min(n, math.Ceil(2*float64(o.busy)*left.Seconds()/busySlot.Seconds()))
	}
	return n
}
