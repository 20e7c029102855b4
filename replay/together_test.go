package replay

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
)

// parts are the parts of a load in one process.
type parts struct {
	t       *testing.T
	options []Options
	cancels []context.CancelFunc
	over    func(k int)   // is called when a part has played; nil: it is not
	waits   chan struct{} // is closed when part 0 hears that another waits to be calibrated
	closing sync.Once     // of waits
	ready   atomic.Int64  // parts of which part 0 has heard that their first requests can leave
}

// hearing is what part 0 listens on.
type hearing struct {
	net.Listener
	p *parts
}

func (h hearing) Accept() (net.Conn, error) {
	c, err := h.Listener.Accept()
	return &heardConn{Conn: c, p: h.p}, err
}

type heardConn struct {
	net.Conn
	p     *parts
	all   []byte
	ready bool
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.ready && bytes.Contains(append(c.all, b[:n]...), []byte(`"`+firstRequestsPhase+`"`)) {
		c.ready = true
		c.p.ready.Add(1)
	}
	if c.all = append(c.all, b[:n]...); bytes.Contains(c.all, []byte(`"calibration"`)) {
		c.p.closing.Do(func() { close(c.p.waits) })
	}
	return n, err
}

// partsOf returns the parts of a load, which meet on the loopback interface.
func partsOf(t *testing.T, o Options, of int) *parts {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &parts{t: t, options: make([]Options, of), waits: make(chan struct{})}
	var wait sync.WaitGroup
	for k := range of {
		ctx, cancel := context.WithCancel(t.Context())
		p.cancels = append(p.cancels, cancel)
		p.options[k] = o
		p.options[k].Part = Part{k, of}
		wait.Go(func() {
			m, err := meet.Join(ctx, meet.Options{
				Member: meet.Member{Part: k, Of: of, Host: "here"}, Address: l.Addr().String(),
				Listen: func(context.Context) (net.Listener, error) { return hearing{l, p}, nil },
			})
			require.NoError(t, err)
			p.options[k].Meeting = m
		})
	}
	wait.Wait()
	return p
}

// run plays all parts to their ends.
func (p *parts) run() (list []*measure.Summary, errs []error) {
	list, errs = make([]*measure.Summary, len(p.options)), make([]error, len(p.options))
	var wait sync.WaitGroup
	for k, o := range p.options {
		wait.Go(func() {
			list[k], errs[k] = Run(o.Meeting.Context(), o)
			if p.over != nil {
				p.over(k)
			}
			o.Meeting.Close()
			p.cancels[k]()
		})
	}
	wait.Wait()
	return list, errs
}

func (p *parts) dir(k int) string { return filepath.Join(p.options[k].Out, p.options[k].Part.Dir()) }

// endless are options that several parts play until they are stopped.
func endless(t *testing.T, url string) Options {
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Duration = 6, 10*time.Minute
	return o
}

// No part sends before the first requests of all are made ready.
func TestPartsSendTogether(t *testing.T) {
	s := mock.New(mock.Config{})
	var p *parts
	var early atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.ready.Load() < 2 {
			early.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	o := endless(t, url)
	o.Duration, o.Requests = 0, 30
	p = partsOf(t, o, 3)
	list, errs := p.run()
	for k, s := range list {
		require.NoError(t, errs[k])
		require.EqualValues(t, 2, s.Connection.Opened)
	}
	require.Zero(t, early.Load())
}

// Parts that have met begin together, after part 0 alone has reset the caches. Each writes the meeting and its clock.
func TestPartsPlayTogether(t *testing.T) {
	s := mock.New(mock.Config{})
	var resets, before atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+"reset_prefix_cache" {
			resets.Add(1)
			return
		}
		if resets.Load() == 0 {
			before.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	o := endless(t, url)
	o.Duration, o.Requests, o.Warmup, o.Start, o.CacheReset = 0, 90, Warmup{Primers: true}, Start{Sampled: true}, CacheReset{Enabled: true}
	p := partsOf(t, o, 3)
	list, errs := p.run()
	var starts [2][]time.Time // by phase
	for k, s := range list {
		require.NoError(t, errs[k])
		require.Nil(t, s.Valid)
		require.Equal(t, 30, s.Requests)
		info, err := measure.ReadInfo(p.dir(k))
		require.NoError(t, err)
		require.Equal(t, p.options[0].Meeting.ID(), info.Part.Meeting)
		require.Empty(t, info.Facts.LostParts)
		require.Len(t, info.Phases, 2)
		clock, err := measure.ReadClock(p.dir(k))
		require.NoError(t, err)
		require.Equal(t, k == 0, len(clock) == 1 && clock[0].Offset == 0 && clock[0].Uncertainty == 0)
		for n, phase := range info.Phases {
			at, uncertainty := clock.Move(phase.Start)
			require.Less(t, uncertainty, time.Second)
			starts[n] = append(starts[n], at)
			require.GreaterOrEqual(t, phase.Start.UnixNano(), clock[0].Unix, "the first line is of before")
		}
		require.Equal(t, k == 0, len(info.Preparation) == 1, "part 0 alone resets")
	}
	require.EqualValues(t, 1, resets.Load())
	require.Zero(t, before.Load(), "nothing is sent before the reset")
	for k := range list {
		info, err := measure.ReadInfo(p.dir(k))
		require.NoError(t, err)
		end := info.Phases[0].Start.Add(time.Duration(1e9 * info.Phases[0].Duration))
		for _, at := range starts[1] {
			require.WithinRange(t, at, end.Add(-time.Millisecond), end.Add(time.Hour), "profiling begins when the warmup of the last part has ended")
		}
	}
}

// A machine is calibrated when no part sends any more: another part may be on it.
func TestPartsEndBeforeOneIsCalibrated(t *testing.T) {
	s := mock.New(mock.Config{})
	over := make(chan struct{})
	var p *parts
	slow, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-p.waits:
		case <-over:
		}
		s.ServeHTTP(w, r)
	}))
	url, _ := serve(t, s)
	o := endless(t, url)
	o.Duration, o.Requests = 0, 12
	p = partsOf(t, o, 2)
	p.options[0].URLs = []string{slow}
	var early atomic.Bool
	p.over = func(k int) {
		if k == 1 {
			select {
			case <-p.waits:
			default:
				early.Store(true)
			}
			close(over)
		}
	}
	list, errs := p.run()
	for k, s := range list {
		require.NoError(t, errs[k])
		require.Equal(t, 6, s.Requests)
	}
	require.False(t, early.Load(), "part 1 has not waited for part 0")
}

// What ends one part ends all, whichever it is: an interrupt, failures above the limit, a preparation that fails, a reset that
// fails, records that cannot be written. No part is left waiting.
//
// Covers D-11.
func TestWhatEndsAPartEndsAll(t *testing.T) {
	for name, c := range map[string]struct {
		how    meet.How
		reason string
		change func(o *Options, p *parts, k int)
	}{
		"an interrupt": {meet.Interrupted, "interrupted", func(o *Options, p *parts, k int) {
			o.Progress = func(Progress) { p.cancels[k]() }
		}},
		"failures": {meet.Failed, "stopped: ", func(o *Options, p *parts, _ int) {
			_, o.URLs[0] = mocked(p.t, mock.Config{Faults: []mock.Fault{{Kind: "status=500", Rate: 1}}})
			o.FailedRequestThreshold = 0.5
		}},
		"a preflight": {meet.Failed, "preflight: ", func(o *Options, p *parts, _ int) {
			_, o.URLs[0] = mocked(p.t, mock.Config{Faults: []mock.Fault{{Kind: "status=500", Rate: 1}}})
			o.SkipPreflight = false
		}},
		"a warmup": {meet.Failed, "a request of its warmup failed: ", func(o *Options, p *parts, _ int) {
			_, o.URLs[0] = mocked(p.t, mock.Config{Faults: []mock.Fault{{Kind: "status=500", Rate: 1}}})
			for n := range p.options {
				p.options[n].Warmup = Warmup{Duration: time.Minute}
			}
		}},
		"a directory": {meet.Failed, "results: ", func(o *Options, p *parts, k int) {
			require.NoError(p.t, os.MkdirAll(filepath.Join(p.dir(k), RunFile), 0o700))
		}},
	} {
		for k := range 3 {
			t.Run(name, func(t *testing.T) {
				_, url := mocked(t, mock.Config{})
				p := partsOf(t, endless(t, url), 3)
				for n := range p.options {
					p.options[n].URLs = []string{url}
					p.options[n].Out = filepath.Join(t.TempDir(), "out")
				}
				c.change(&p.options[k], p, k)
				_, errs := p.run()
				for n, o := range p.options {
					if n == k {
						require.Nil(t, o.Meeting.Stopped())
						require.Equal(t, c.how == meet.Interrupted, errs[n] == nil, "%v", errs[n])
						continue
					}
					s := o.Meeting.Stopped()
					require.NotNil(t, s)
					require.Equal(t, k, s.Part)
					require.Equal(t, c.how, s.How)
					require.Contains(t, s.Reason, c.reason)
					require.NoError(t, errs[n])
					info, err := measure.ReadInfo(p.dir(n))
					require.NoError(t, err)
					require.True(t, info.Facts.Cancelled)
				}
			})
		}
	}
}

// A part that fails tells the others at once, not when its own requests in flight have ended.
//
// Covers D-11.
func TestFailureIsToldBeforeTheGrace(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	p := partsOf(t, endless(t, url), 3)
	for k := range p.options {
		p.options[k].Concurrency, p.options[k].AllowWrap = 36, true
	}
	failing := &p.options[1]
	failing.URLs = []string{""}
	_, failing.URLs[0] = mocked(t, mock.Config{Faults: []mock.Fault{{Kind: "stall", Rate: 0.3}, {Kind: "status=500", Rate: 0.7}}})
	failing.FailedRequestThreshold, failing.Grace = 0.5, time.Second
	over := make(chan int, 3)
	p.over = func(k int) { over <- k }
	_, errs := p.run()
	require.ErrorContains(t, errs[1], "requests failed, a share above 0.5")
	<-over
	<-over
	require.Equal(t, 1, <-over, "it waits for what it has in flight")
}

// A tree that is deadlocked ends all parts, where StopOnDeadlock is set.
//
// Covers D-11.
func TestDeadlockEndsAll(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := endless(t, url)
	o.Concurrency, o.StopOnDeadlock = 16, true
	p := partsOf(t, o, 2)
	wedged := p.options[1]
	p.options = p.options[:1]
	var wait sync.WaitGroup
	wait.Go(func() {
		r := newRun(wedged.WithDefaults())
		defer r.close()
		require.NoError(t, errors.Join(r.prepare(t.Context()), r.open(t.Context()), r.start()))
		name, _ := waitForEachOther(r)
		require.NotEmpty(t, name)
		s, err := r.play(wedged.Meeting.Context())
		require.NoError(t, err)
		require.Equal(t, 1, s.Deadlocked())
		require.NoError(t, errors.Join(r.together.endClock(), r.results.write(s)))
		wedged.Meeting.Finish(t.Context())
		wedged.Meeting.Close()
	})
	_, errs := p.run()
	wait.Wait()
	p.cancels[1]()
	require.NoError(t, errs[0])
	require.Equal(t, &meet.Stop{Part: 1, Of: 2, Host: "here", How: meet.Wedged, Reason: "a tree is deadlocked, and stop-on-deadlock is set"}, p.options[0].Meeting.Stopped())
}

// A part that is lost while the load is played makes the results of the others not valid, also those of part 0 where its own part was
// over before.
func TestLostPartMakesTheOthersInvalid(t *testing.T) {
	for _, dead := range []int{0, 2} {
		_, url := mocked(t, mock.Config{})
		p := partsOf(t, endless(t, url), 3)
		var once sync.Once
		p.options[dead].Progress = func(Progress) {
			once.Do(func() {
				p.options[dead].Meeting.Close() // as its death looks to the others
			})
		}
		for k := range p.options {
			if k == 0 && dead > 0 {
				p.options[k].Requests = 6 // over before the other is lost
				continue
			}
			p.options[k].Duration = 3 * time.Second
		}
		list, errs := p.run()
		for k, s := range list {
			require.NoError(t, errs[k])
			if k == dead {
				continue
			}
			require.Equal(t, []string{measure.PartLost}, s.Reasons, "part %d", k)
			require.False(t, *s.Valid)
			info, err := measure.ReadInfo(p.dir(k))
			require.NoError(t, err)
			require.Equal(t, []measure.LostPart{{Number: dead, Host: "here", Cause: "its connection ended"}}, info.Facts.LostParts)
			require.Equal(t, s.Reasons, info.Facts.Reasons)
		}
	}
}
