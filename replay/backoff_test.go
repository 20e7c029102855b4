package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// downUntil is a server that cannot be reached before an instant, and then answers after a second.
func downUntil(s *simulation, up time.Duration) {
	s.script = func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if s.at < up {
			return 0, 0, wire.Connection
		}
		return time.Second, 0, ""
	}
}

// usual are the default pauses.
var usual = Backoff{First: time.Second, Max: 30 * time.Second}

// Without recorded gaps, each lane tries a server that is down after pauses of 1, 2, 4, 8, 16, 30 and 30 s. Requests after a
// pause are not late.
func TestLanesThatGetNoConnectionBackOff(t *testing.T) {
	s := &simulation{}
	downUntil(s, 63*time.Second)
	l := s.loop(Options{Concurrency: 2, Duration: 92 * time.Second, Backoff: usual}, turnsOf{0, 0, 0})
	require.NoError(t, l.run())
	var at []float64
	for k, order := range s.sent {
		require.Equal(t, s.sentAt[k], order.Due)
		if order.Lane == 1 {
			at = append(at, s.sentAt[k].Seconds())
		}
	}
	require.Equal(t, []float64{0, 1, 3, 7, 15, 31, 61, 91}, at)
	require.Equal(t, 2, l.progress.Completed)
	pauses := 0.0
	for _, r := range s.records {
		pauses += r.BackOff.Seconds()
	}
	require.Equal(t, 2*(1+2+4+8+16+30+30.0), pauses)
}

func TestBackOff(t *testing.T) {
	seconds := func(n float64) time.Duration { return time.Duration(n * 1e9) }
	b := backoff{usual, map[int]pause{}}
	after := func(lane int, category wire.Category, status int, end float64) float64 {
		a := &answer{Result: wire.Result{Status: status, End: seconds(end)}}
		if category != "" {
			a.Err = &wire.Failure{Category: category}
		}
		return b.after(lane, a).Seconds()
	}
	require.Equal(t, 1.0, after(0, wire.Connection, 0, 0))
	require.Zero(t, after(0, wire.Connection, 0, 0.5), "in flight when the pause began")
	require.Equal(t, 1.0, after(1, wire.Connection, 0, 0.5), "another lane")
	require.Equal(t, 2.0, after(0, wire.Connection, 0, 1))
	require.Zero(t, after(0, wire.Cancelled, 0, 3))
	require.Equal(t, 4.0, after(0, wire.Connection, 0, 3), "a cancellation says nothing of the server")
	require.Zero(t, after(0, wire.Connection, 200, 7), "it broke in the middle of an answer")
	require.Equal(t, 1.0, after(0, wire.Connection, 0, 7), "from the beginning after an answer")
	require.Zero(t, after(0, "", 200, 8))
	require.Equal(t, 1.0, after(0, wire.Connection, 0, 8), "and after a success")
	require.Zero(t, after(1, wire.Internal, 0, 9), "the prompt could not be read")
	limited := &answer{Result: wire.Result{End: seconds(10), Limited: true, Err: &wire.Failure{Category: wire.Internal}}}
	require.Equal(t, time.Second, b.after(1, limited), "a machine without open files needs a pause as a server does")
	b = backoff{Backoff{}, map[int]pause{}}
	require.Zero(t, after(0, wire.Connection, 0, 0))
}

// Failures end a run from the tenth request on that has ended, or from one on each lane. Overflows and cancelled requests count
// neither way (H37), but with FailedShare records: there an overflow is one of those that failures are a share of.
//
//
func TestTooManyFailedRequestsEndARun(t *testing.T) {
	twoOverflowsTwoErrors := func(id int) wire.Category { // among the first 20
		return map[int]wire.Category{3: wire.ContextOverflow, 4: wire.ContextOverflow, 5: wire.HTTPStatus, 19: wire.HTTPStatus}[id]
	}
	for name, c := range map[string]struct {
		rate   float64
		ofAll  bool // records
		lanes  int
		fails  func(id int) wire.Category
		sent   int
		reason string
	}{
		"all":             {0.1, false, 1, func(int) wire.Category { return wire.HTTPStatus }, 10, "10 of 10 requests failed, a share above 0.1"},
		"many lanes":      {0.1, false, 16, func(int) wire.Category { return wire.HTTPStatus }, 31, "16 of 16 requests failed, a share above 0.1"},
		"at the limit":    {0.5, false, 1, func(id int) wire.Category { return map[bool]wire.Category{true: wire.Timeout}[id%2 == 1] }, 200, ""},
		"later":           {0.1, false, 1, func(id int) wire.Category { return map[bool]wire.Category{true: wire.Timeout}[id >= 90] }, 101, "11 of 101 requests failed"},
		"overflows":       {0.1, false, 1, func(int) wire.Category { return wire.ContextOverflow }, 200, ""},
		"diluted not":     {0.1, false, 1, func(id int) wire.Category { return []wire.Category{wire.Timeout, wire.ContextOverflow}[min(1, id%3)] }, 28, "10 of 10 requests failed"},
		"2 of 18":         {0.1, false, 1, twoOverflowsTwoErrors, 20, "2 of 18 requests failed, a share above 0.1"},
		"2 of 20":         {0.1, true, 1, twoOverflowsTwoErrors, 200, ""},
		"without a limit": {0, false, 1, func(int) wire.Category { return wire.HTTPStatus }, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			switches, _ := preset.Named(preset.Default)
			switches.ShareOfRecords = c.ofAll
			s := &simulation{script: func(o conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
				return time.Second, 0, c.fails(o.ID)
			}}
			l := s.loop(Options{Concurrency: c.lanes, Requests: 200, FailedRequestThreshold: c.rate, Switches: &switches}, turnsOf{0, 0, 0})
			err := l.run()
			require.Len(t, s.sent, c.sent)
			require.Len(t, s.records, c.sent)
			if c.reason == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.reason)
			}
		})
	}
}
