package replay

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// gate is a server that answers no request before it is opened.
type gate struct {
	server  *mock.Server
	arrived chan struct{} // one for every request
	opened  chan struct{}
}

func newGate() *gate {
	return &gate{mock.New(mock.Config{}), make(chan struct{}, 10_000), make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	absorb(r)
	g.arrived <- struct{}{}
	select {
	case <-g.opened:
		g.server.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// interruption is a context that ends when the test sends on it, and tells the test by receiving.
type interruption struct {
	context.Context
	now chan struct{}
}

func (i interruption) Done() <-chan struct{} { return i.now }

func TestInterruptDrainsAndWritesTheResults(t *testing.T) {
	g := newGate()
	url, _ := serve(t, g)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Duration, o.Grace = 5, 1000*time.Hour, time.Hour
	i := interruption{context.Background(), make(chan struct{})}
	go func() {
		for range o.Concurrency {
			<-g.arrived
		}
		i.now <- struct{}{} // the run has received it
		close(g.opened)
	}()
	p := play(t, i, o)
	require.Equal(t, 5, p.Requests, "nothing is sent after an interrupt")
	require.Equal(t, 5, p.Completed)
	require.Empty(t, g.arrived)
}

func TestInterruptCancelsWhatOutlastsTheGrace(t *testing.T) {
	g := newGate()
	url, _ := serve(t, g)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Duration, o.Grace = 5, 1000*time.Hour, time.Millisecond
	ctx, interrupt := context.WithCancel(context.Background())
	go func() {
		for range o.Concurrency {
			<-g.arrived
		}
		interrupt()
	}()
	p := play(t, ctx, o)
	require.Equal(t, measure.Buckets{CancelledAtEnd: 5}, p.Buckets)
	require.Empty(t, p.Errors)
	for _, r := range p.records {
		require.Equal(t, wire.Cancelled, r.Error.Category)
	}
}

func TestDeadlines(t *testing.T) {
	s := time.Second
	e := deadlines{duration: 10 * s, grace: 3 * s, interruptGrace: 30 * s}
	require.False(t, e.reached(10*s-1))
	require.True(t, e.reached(10*s))
	require.False(t, e.reached(11*s), "it is reached once")
	require.Equal(t, 13*s, e.cancelAt)
	e.interrupt(12 * s)
	require.Equal(t, 13*s, e.cancelAt, "an interrupt makes no grace longer")

	e = deadlines{duration: 100 * s, grace: 50 * s, interruptGrace: 30 * s}
	require.True(t, e.reached(100*s))
	e.interrupt(105 * s)
	require.Equal(t, 135*s, e.cancelAt, "but shorter")

	e = deadlines{}
	require.False(t, e.reached(1<<60), "no bound of time")
	e.interrupt(7 * s)
	require.Equal(t, 7*s+1, e.cancelAt)

	e = deadlines{duration: 5 * s, grace: 0}
	require.True(t, e.reached(5*s))
	require.Equal(t, 5*s+1, e.cancelAt, "0 would mean never")

	e = deadlines{duration: 5 * s, grace: time.Hour, interruptGrace: 30 * s}
	e.interrupt(1 * s)
	require.Equal(t, 31*s, e.cancelAt, "an interrupt has a grace of half a minute at most")
	require.False(t, e.reached(6*s), "it ended before")
}

func TestDeadlineWithCooldown(t *testing.T) {
	server := mock.New(mock.Config{})
	const duration = 60 * time.Millisecond
	var begun sync.Map // trace and session whose first request has been answered
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		absorb(r)
		if _, again := begun.LoadOrStore(r.Header.Get("X-Correlation-ID"), true); again {
			select {
			case <-time.After(duration): // past the deadline, whenever it was sent
			case <-r.Context().Done():
			}
		}
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace, o.Switches = duration, time.Hour, withoutGrace()
	p := play(t, context.Background(), o)
	require.Positive(t, p.Buckets.Cooldown)
	require.Zero(t, p.Buckets.CancelledAtEnd)
	require.Equal(t, p.Requests, p.Completed)
	for _, r := range p.records {
		require.Less(t, r.Due.Seconds(), duration.Seconds())
		require.Equal(t, r.End.Seconds() > duration.Seconds(), r.Bucket == measure.Cooldown)
		require.Equal(t, r.End.Seconds() > duration.Seconds(), r.Deadline.Seconds() == duration.Seconds())
	}
}

func TestDeadlineCancelsWhatOutlastsTheGrace(t *testing.T) {
	_, url := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: "stall", Rate: 1}}})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 10*time.Millisecond, time.Millisecond
	p := play(t, context.Background(), o)
	require.Equal(t, measure.Buckets{CancelledAtEnd: 4}, p.Buckets)
	require.Zero(t, p.Measured)
}

// A grace that counts from the last request does not begin while another is due, and begins anew with every further one.
//
// Covers T-47.
func TestGraceFromTheLastRequest(t *testing.T) {
	d := deadlines{grace: 5 * time.Second, lastSent: true}
	d.sent(time.Second, false)
	require.Equal(t, 6*time.Second, d.next())
	d.sent(time.Second, true)
	require.Equal(t, time.Duration(math.MaxInt64), d.next(), "such as a turn of a lane that is held")
	d.sent(4*time.Second, false)
	require.False(t, d.cancelDue(9*time.Second-1))
	require.True(t, d.cancelDue(9*time.Second))
	d.sent(4*time.Second, false)
	require.Equal(t, 9*time.Second+cancelDrain, d.next(), "the sending has ended")
}
