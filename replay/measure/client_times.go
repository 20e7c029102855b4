package measure

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"
)

// clientTimes keep what the client did to the times of requests that ended well: eight numbers of each. From these follows whether it
// was a bottleneck (doc/spec/replay.md 8.11).
type clientTimes struct{ list []requestTimes }

// requestTimes are those of one request, in seconds.
type requestTimes struct {
	late, dispatch      float32 // due to sent; admitted to sent
	connecting, sending float32 // sent to the first byte of the request; to its last byte. 0: not known
	divisor             float32 // of its inter-token latency; 0: it has none
	sent, first, last   float64 // instants: sent, first and last token; 0: it has none
}

// add adds a request that ended well.
func (c *clientTimes) add(r *Record, rules Rules) {
	t := requestTimes{late: float32(r.LatenessSeconds()), dispatch: float32(r.Sent.Seconds() - r.Admitted.Seconds()), sent: r.Sent.Seconds(), first: r.FirstToken.Seconds(), last: r.LastToken.Seconds()}
	if r.SendStart > 0 {
		t.connecting = float32(r.SendStart.Seconds() - r.Sent.Seconds())
		t.sending = float32(max(0, r.SendEnd.Seconds()-r.SendStart.Seconds()))
	}
	if _, ok := rules.ITL(&r.Numbers); ok { // also of 0, where all tokens came at once
		divisor, _ := rules.Divisor(&r.Numbers)
		t.divisor = float32(divisor)
	}
	c.list = append(c.list, t)
}

// Bounds of the rule. Below so few requests its percentiles are those of single ones.
const (
	minClientRequests = 100   // that a run has, unless the client stood still for longStandstill
	clientPart        = 0.05  // of a reported percentile that may be the client's
	lateFrom          = 0.010 // seconds: a request that is sent later is late
	leastPart         = 0.001 // seconds of a time to the first token or a latency: less is never too much
)

// reasons say by what a client is bound; nil: it is not.
func (c *clientTimes) reasons(stood *Standstills, limited bool) (list []string) {
	if len(c.list) < minClientRequests && !stood.Long() {
		return nil
	}
	list = c.late(limited)
	for _, m := range reportedMetrics {
		if reason := c.explain(&m, stood); reason != "" {
			list = append(list, reason)
		}
	}
	return list
}

// ClientBound reports whether so many requests left late: the 50th or the 95th percentile of their lateness is above 10 ms and above 5 %
// of that of their latency, all in seconds.
func ClientBound(requests int, lateness, latency [2]Number) bool {
	if requests < minClientRequests {
		return false
	}
	return lateness[0] > maxLateness(latency[0]) || lateness[1] > maxLateness(latency[1]) // false where one is Missing
}

// maxLateness returns the longest lateness beside a latency that does not bind a client.
func maxLateness(latency Number) Number {
	if latency.IsMissing() {
		return lateFrom
	}
	return max(lateFrom, clientPart*latency)
}

// late says why requests left late: they were ordered late, or left late after that, or both.
func (c *clientTimes) late(limited bool) (list []string) {
	lateness, own := c.sorted(func(t *requestTimes) (float64, bool) { return float64(t.late), true }), c.sorted(func(t *requestTimes) (float64, bool) { return float64(t.dispatch), true })
	latency := c.sorted(func(t *requestTimes) (float64, bool) { return t.last - t.sent, t.last > 0 })
	for _, q := range [...]float64{95, 50} {
		limit, late, own := maxLateness(percentileOf(latency, q)), percentileOf(lateness, q), percentileOf(own, q)
		if !(late > limit) {
			continue
		}
		if own <= limit || late-own > limit {
			why := "its machine was busy"
			if limited {
				why += ", or they waited for a slot of prefill-limit"
			}
			list = append(list, fmt.Sprintf("order: the client ordered requests up to %s (p%g) after they were due: %s", FormatSeconds(late-own), q, why))
		}
		if own > limit {
			list = append(list, fmt.Sprintf("start: requests left up to %s (p%g) after the client had ordered them: its machine was busy", FormatSeconds(own), q))
		}
		return list
	}
	return nil
}

// reportedMetric is a latency that a summary reports, and the client's part in it.
type reportedMetric struct {
	name  string
	least float64 // seconds of it that are never too much
	of    func(t *requestTimes) (float64, bool)
	part  func(t *requestTimes, stood *Standstills) clientParts
}

// clientParts are seconds of a reported time in which the client got a connection, sent, and stood still.
type clientParts [3]float64

var partNames = [...]string{"getting a connection", "sending the request", "standstills of this process"}

var reportedMetrics = []reportedMetric{
	{"ttft", leastPart, func(t *requestTimes) (float64, bool) { return t.first - t.sent, t.first > 0 },
		func(t *requestTimes, stood *Standstills) clientParts { return t.parts(t.first, stood) }},
	{"itl", 0, func(t *requestTimes) (float64, bool) {
		return (t.last - t.first) / float64(max(1, t.divisor)), t.divisor > 0
	},
		func(t *requestTimes, stood *Standstills) clientParts {
			return clientParts{2: (stood.delayed(t.last) - stood.delayed(t.first)) / float64(max(1, t.divisor))}
		}},
	{"latency", leastPart, func(t *requestTimes) (float64, bool) { return t.last - t.sent, t.last > 0 },
		func(t *requestTimes, stood *Standstills) clientParts { return t.parts(t.last, stood) }},
}

// parts returns those of the time from sent to an instant. A standstill while the client connects or sends is part of these.
func (t *requestTimes) parts(until float64, stood *Standstills) clientParts {
	connecting := min(float64(t.connecting), until-t.sent)
	sending := min(float64(t.sending), until-t.sent-connecting)
	return clientParts{connecting, sending, min(stood.delayed(until), until-t.sent-connecting-sending)}
}

// explain says how much of a metric the client explains: by how much its 95th or 50th percentile would be another without the client; "":
// not more than clientPart. A first token that is noted late makes an inter-token latency too short.
func (c *clientTimes) explain(m *reportedMetric, stood *Standstills) string {
	reported := c.sorted(m.of)
	without := func(parts ...int) []float64 {
		return c.sorted(func(t *requestTimes) (float64, bool) {
			v, ok := m.of(t)
			if ok {
				own := m.part(t, stood)
				for _, k := range parts {
					v -= own[k]
				}
			}
			return v, ok
		})
	}
	all := without(0, 1, 2)
	for _, q := range [...]float64{95, 50} {
		is, would := percentileOf(reported, q), percentileOf(all, q)
		if own := abs(is - would); !(own > clientPart*is && float64(own) > m.least) {
			continue // also where they are Missing
		}
		var by []string
		for k, name := range partNames {
			if own := abs(is - percentileOf(without(k), q)); own > clientPart/5*is {
				by = append(by, name+" "+FormatSeconds(own))
			}
		}
		return fmt.Sprintf("%s: its p%g would be %s, not %s, without what the client cost: %s", m.name, q, FormatSeconds(would), FormatSeconds(is), cmp.Or(strings.Join(by, ", "), "several things"))
	}
	return ""
}

// sorted returns a figure of all requests that have it.
func (c *clientTimes) sorted(of func(*requestTimes) (float64, bool)) []float64 {
	list := make([]float64, 0, len(c.list))
	for k := range c.list {
		if v, ok := of(&c.list[k]); ok {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return list
}

func abs(n Number) Number { return max(n, -n) }

// percentileOf returns a percentile of sorted values, Missing without one.
func percentileOf(sorted []float64, q float64) Number {
	if len(sorted) == 0 {
		return Missing
	}
	return Number(Percentile(sorted, q))
}

// Standstill is a time in which the client did nothing, whatever arrived meanwhile: it was stopped, its machine was busy, or memory was
// collected. What it received then has a later instant than it should.
type Standstill struct {
	At       float64 `json:"at"` // since the start of the phase, seconds
	Seconds  float64 `json:"seconds"`
	InFlight int     `json:"in_flight"` // requests, over it
}

// Standstills are those of a phase that were longer than StandstillFrom.
type Standstills struct {
	N       int          `json:"n"`
	Seconds float64      `json:"seconds"` // all together
	Longest Standstill   `json:"longest"`
	List    []Standstill `json:"list,omitempty"` // by instant: the maxStandstills longest ones; nil in a summary
}

// StandstillFrom is the longest standstill that is not noted, maxStandstills how many are kept.
const (
	StandstillFrom = 10 * time.Millisecond
	maxStandstills = 1000
)

const longStandstill = 1.0 // seconds: a longer one is always said

// Add adds a standstill that came after the others.
func (s *Standstills) Add(one Standstill) {
	s.N++
	s.Seconds += one.Seconds
	if one.Seconds > s.Longest.Seconds {
		s.Longest = one
	}
	if s.List = append(s.List, one); len(s.List) == 2*maxStandstills {
		s.Cut()
	}
}

// Cut forgets all standstills of the list but the longest ones.
func (s *Standstills) Cut() {
	if len(s.List) <= maxStandstills {
		return
	}
	slices.SortStableFunc(s.List, func(a, b Standstill) int { return cmp.Compare(b.Seconds, a.Seconds) })
	s.List = s.List[:maxStandstills]
	slices.SortFunc(s.List, func(a, b Standstill) int { return cmp.Compare(a.At, b.At) })
}

// Summary returns the standstills without the list. Nil stays nil.
func (s *Standstills) Summary() *Standstills {
	if s == nil {
		return nil
	}
	return &Standstills{N: s.N, Seconds: s.Seconds, Longest: s.Longest}
}

// With returns the standstills of two clients together, without lists; nil if there are none.
func (s *Standstills) With(o *Standstills) *Standstills {
	if s == nil || o == nil {
		return cmp.Or(s.Summary(), o.Summary())
	}
	all := Standstills{N: s.N + o.N, Seconds: s.Seconds + o.Seconds, Longest: s.Longest}
	if o.Longest.Seconds > s.Longest.Seconds {
		all.Longest = o.Longest
	}
	return &all
}

// Long reports whether the longest one is always said.
func (s *Standstills) Long() bool { return s != nil && s.Longest.Seconds > longStandstill }

// afterStandstill is how long a client that goes on may take to note what has arrived meanwhile, in seconds.
const afterStandstill = 0.005

// delayed returns by how much an instant at which something was noted may be late: it arrived at the earliest when the standstill began,
// in which or just behind which it was noted. A standstill delays nothing else: a server goes on sending.
func (s *Standstills) delayed(at float64) float64 {
	if s == nil {
		return 0
	}
	k := sort.Search(len(s.List), func(k int) bool { return s.List[k].At >= at }) - 1
	if k < 0 || at > s.List[k].At+s.List[k].Seconds+afterStandstill {
		return 0
	}
	return min(s.List[k].Seconds, at-s.List[k].At)
}
