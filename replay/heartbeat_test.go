package replay

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// A beat that comes more than 10 ms late is a standstill, from when it was due, with the requests that were in flight before it.
//
// Covers T-152.
func TestHeartbeat(t *testing.T) {
	ms := func(n float64) time.Duration { return time.Duration(n * 1e6) }
	told := new(atomic.Pointer[measure.Standstills])
	h := &heartbeat{due: ms(102), stop: make(chan struct{}), stopped: make(chan struct{}), told: told}
	h.beat(ms(102), 1)
	h.beat(ms(103), 2)   // a ticker may be early
	h.beat(ms(115), 3)   // 10 ms after it was due
	h.beat(ms(127.5), 4) // 10.5 ms after
	require.Equal(t, &measure.Standstills{N: 1, Seconds: 0.0105, Longest: measure.Standstill{At: 0.117, Seconds: 0.0105, InFlight: 3}}, told.Load(), "while the phase is played")
	h.beat(ms(129.5), 7)
	h.beat(ms(2131.5), 0) // stopped for two seconds
	h.beat(ms(2133.5), 5)
	close(h.stopped)
	require.Equal(t, &measure.Standstills{
		N: 2, Seconds: 0.0105 + 2, Longest: measure.Standstill{At: 0.1315, Seconds: 2, InFlight: 7},
		List: []measure.Standstill{{At: 0.117, Seconds: 0.0105, InFlight: 3}, {At: 0.1315, Seconds: 2, InFlight: 7}},
	}, h.end())
}

func TestHeartbeatWithoutStandstills(t *testing.T) {
	var none *heartbeat
	require.Nil(t, none.end())
	h := &heartbeat{stop: make(chan struct{}), stopped: make(chan struct{})}
	close(h.stopped)
	require.Nil(t, h.end())
}
