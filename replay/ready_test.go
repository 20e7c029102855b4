package replay

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// gathering is a server that answers no request before so many are there.
type gathering struct {
	*httptest.Server
	connections atomic.Int64 // that it has taken
	requests    atomic.Int64
}

func gather(t *testing.T, first int64) *gathering {
	s, all := new(gathering), make(chan struct{})
	server := mock.New(mock.Config{})
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.requests.Add(1) == first {
			close(all)
		}
		select {
		case <-all:
			server.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// The requests that are due when the measured phase begins find a connection each: none of them makes one, and none is more than they need.
// Where each request has a connection of its own, and where lanes open one after the other, there is nothing to make.
// Covers T-232.
func TestFirstRequestsFindConnections(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(o *Options)
		first   int // first requests of one server
		servers int
		ahead   measure.Ahead
	}{
		"pooled":  {func(*Options) {}, 12, 1, measure.Ahead{Requests: 12, Connections: 12}},
		"sticky":  {func(o *Options) { o.Reuse = wire.StickySessions }, 12, 1, measure.Ahead{Requests: 12, Connections: 12}},
		"never":   {func(o *Options) { o.Reuse = wire.NoReuse }, 12, 1, measure.Ahead{Requests: 12}},
		"servers": {func(*Options) {}, 6, 2, measure.Ahead{Requests: 12, Connections: 12}},
		"part":    {func(o *Options) { o.Part, o.Concurrency = Part{1, 2}, 24; o.Requests *= 2 }, 12, 1, measure.Ahead{Requests: 12, Connections: 12}},
		"ramp":    {func(o *Options) { o.Arrivals.Ramp = time.Millisecond }, 1, 1, measure.Ahead{Requests: 1, Connections: 1}},
		"sampled": {func(o *Options) { o.Start, o.Requests = Start{Sampled: true, Burst: true}, 14 }, 14, 1, measure.Ahead{Requests: 14, Connections: 14}},
		"fewer":   {func(o *Options) { o.Start, o.Requests = Start{Sampled: true, Burst: true}, 9 }, 9, 1, measure.Ahead{Requests: 9, Connections: 9}},
		"prefill": {func(o *Options) { o.Limits.Prefill = 5 }, 1, 1, measure.Ahead{Requests: 5, Connections: 5}},
		"arriving": {func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 1000, Law: arrivals.Constant, Ramp: time.Millisecond}
			o.Pace, o.Concurrency = Pace{}, 0
		}, 1, 1, measure.Ahead{}},
		"arriving part": {func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 1000, Law: arrivals.Constant, Ramp: time.Millisecond}
			o.Pace, o.Part, o.Concurrency = Pace{}, Part{1, 2}, 5
			o.Requests *= 2
		}, 1, 1, measure.Ahead{}},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, cachetest.Demo(t), "")
			var servers []*gathering
			o.URLs, o.Concurrency, o.Requests, o.AllowWrap, o.KeepAlive = nil, 12, 12, true, time.Minute
			for range c.servers {
				s := gather(t, int64(c.first))
				servers, o.URLs = append(servers, s), append(o.URLs, s.URL)
			}
			c.change(&o)
			s, err := Run(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, s.Requests, s.Completed)
			require.EqualValues(t, c.ahead.Connections, s.Connection.Opened)
			dir := o.Out
			if o.Part.Of > 0 {
				dir += "/" + o.Part.Dir()
			}
			info, err := measure.ReadInfo(dir)
			require.NoError(t, err)
			require.Equal(t, c.ahead, *info.Facts.Ahead)
			if c.first == 1 { // what follows the first requests may make connections
				return
			}
			for k, s := range servers {
				require.EqualValues(t, c.first, s.connections.Load(), "server %d: each request has its own", k)
			}
			for _, r := range readRecords(t, dir) {
				require.False(t, r.Reused)
				require.Equal(t, name == "never", r.ConnectStart > 0, "lane %d", r.Lane)
			}
		})
	}
}

// What a warmup has left counts: no more connections are opened than the phase needs beside them.
func TestKeptConnectionsCount(t *testing.T) {
	s := gather(t, 1)
	o := optionsFor(t, cachetest.Demo(t), s.URL)
	o.Concurrency, o.Requests, o.KeepAlive, o.Start, o.Warmup = 4, 8, time.Minute, Start{Sampled: true, Burst: true}, Warmup{Primers: true}
	summary, err := Run(t.Context(), o)
	require.NoError(t, err)
	records := readRecords(t, o.Out)
	var made int64 // by requests
	for _, r := range records {
		if r.ConnectStart > 0 {
			made++
			require.Equal(t, measure.WarmupPhase, r.Phase)
		}
	}
	require.Positive(t, made)
	require.LessOrEqual(t, int64(summary.Connection.Opened), int64(o.Concurrency)-made)
	require.Equal(t, made+int64(summary.Connection.Opened), s.connections.Load())
}

// Before the phase the prompts of the first requests are located, each trace once. A run that is interrupted meanwhile, and one whose server
// takes no connection, leaves the rest to the requests.
func TestReady(t *testing.T) {
	url, stop := serve(t, mock.New(mock.Config{}))
	open := func(ctx context.Context) (ahead *measure.Ahead, rendered map[int]*atomic.Int64) {
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Concurrency, o.AllowWrap = 12, true
		r := newRun(o.WithDefaults())
		defer r.close()
		require.NoError(t, r.prepare(t.Context()))
		require.NoError(t, r.open(t.Context()))
		require.NoError(t, r.start())
		rendered = map[int]*atomic.Int64{}
		for _, tree := range r.sampler.lanes {
			if n := new(atomic.Int64); rendered[tree.index] == nil {
				rendered[tree.index] = n
				tree.loadedTrace.render = sync.OnceValues(func() (*mmapcache.RenderedTrace, error) {
					n.Add(1)
					return nil, nil
				})
			}
		}
		ahead = r.medium.ready(ctx)
		require.NoError(t, r.results.closeRecords())
		return ahead, rendered
	}
	ahead, rendered := open(t.Context())
	require.Equal(t, measure.Ahead{Requests: 12, Connections: 12}, *ahead)
	for trace, n := range rendered {
		require.EqualValues(t, 1, n.Load(), "trace %d", trace)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ahead, rendered = open(ended)
	require.Equal(t, measure.Ahead{Requests: 12}, *ahead)
	for trace, n := range rendered {
		require.Zero(t, n.Load(), "trace %d", trace)
	}

	stop()
	ahead, _ = open(t.Context())
	require.Equal(t, measure.Ahead{Requests: 12}, *ahead)
}
