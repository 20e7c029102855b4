package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

// BenchmarkReplay plays bodies of 400 KB on 16 lanes without gaps. The server is the mock or, as sink, a handler that reads
// and answers and does nothing else. It runs in this process, so the figures include it.
func BenchmarkReplay(b *testing.B) {
	c := cachetest.Large(b)
	const answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for name, server := range map[string]http.Handler{
		"mock": mock.New(mock.Config{}),
		"sink": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			url, _ := serve(b, server)
			o := optionsFor(b, c, url)
			o.Endpoint, o.Concurrency, o.Requests, o.AllowWrap, o.Out = payload.ChatCompletions, 16, max(b.N, 1), true, b.TempDir()
			before := measure.ReadProcessUsage()
			s, err := Run(context.Background(), o)
			if err != nil || s.Completed != o.Requests {
				b.Fatal(s, err)
			}
			used := measure.ReadProcessUsage().Since(before)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(used.CPU.Seconds()/float64(b.N)*1e6, "cpu-us/req")
			b.ReportMetric(float64(s.Client.BytesSent)/float64(b.N), "bytes/req")
			b.ReportMetric(float64(s.Lateness.P99)*1e6, "late-p99-us")
		})
	}
}

// inProcess answers every request at once, so that lateness comes from the conductor and its clock alone.
type inProcess struct {
	epoch    time.Time
	events   chan event
	lateness []float64 // seconds
}

func (s *inProcess) send(r *request) {
	now := time.Since(s.epoch)
	s.lateness = append(s.lateness, (now - r.dispatch.Due).Seconds())
	e := event{kind: returned, id: r.dispatch.ID, answer: &answer{Result: wire.Result{Sent: now, End: now}}}
	go func() { s.events <- e }()
}

func (s *inProcess) cancelAll()                       {}
func (s *inProcess) look(time.Duration) time.Duration { return 0 }
func (s *inProcess) record(*measure.Record) error     { return nil }
func (s *inProcess) onEvent(conductor.Event)          {}

// spaced gives every lane a session of turns that are gap apart. The lanes begin one after the other within the first gap.
type spaced struct {
	tree  *conductor.Tree
	gap   time.Duration
	lanes int
}

func newSpaced(gap, length time.Duration, lanes int) spaced {
	turns := make([]conductor.Turn, 2+length/gap)
	for k := range turns {
		turns[k].Delay = gap
	}
	return spaced{&conductor.Tree{Sessions: []conductor.Session{{Turns: turns}}}, gap, lanes}
}

func (s spaced) Next(lane int) (conductor.Assignment, bool) {
	first := conductor.LiveSession{Due: s.gap * time.Duration(lane) / time.Duration(s.lanes)}
	return conductor.Assignment{Tree: s.tree, Start: &conductor.StartState{TurnsDone: []int{0}, Live: []conductor.LiveSession{first}}}, true
}

// BenchmarkLateness measures the time from due to sent. An operation is a run of two seconds:
//   - conductor: 10,000 turns a second, answered in process, for the conductor and its clock alone
//   - wire: 10,000 turns a second with bodies of 4 KB, sent to a mock in this process
//   - recorded: 1,000 turns a second with the prompts of the demo corpus
func BenchmarkLateness(b *testing.B) {
	const length = 2 * time.Second
	b.Run("conductor", func(b *testing.B) {
		var all []float64
		for b.Loop() {
			s := &inProcess{epoch: time.Now(), events: make(chan event, 1024)}
			o := Options{Concurrency: 1000, Duration: length, Switches: withoutTreeIdle()}
			o.Progress = func(Progress) {}
			timer := newWakeTimer()
			source := newSpaced(100*time.Millisecond, length, o.Concurrency)
			if err := newLoop(o, measuredPhase(o, treesOf{source}, s), &realClock{epoch: s.epoch, timer: timer, events: s.events}, s).run(); err != nil {
				b.Fatal(err)
			}
			timer.close()
			all = append(all, s.lateness...)
		}
		reportLateness(b, all, float64(b.N)*length.Seconds())
	})
	b.Run("wire", func(b *testing.B) {
		var prompts []int
		for range 400 {
			prompts = append(prompts, 1000) // tokens
		}
		c := cachetest.Prepare(b, cachetest.TraceLine("even", prompts...), "code") // a second apart, answered after a quarter of a second
		lateOnTheWire(b, c, Options{Concurrency: 1000, AllowWrap: true, Duration: length, Pace: Pace{Speed: 7.5}, Start: middle})
	})
	b.Run("recorded", func(b *testing.B) {
		lateOnTheWire(b, cachetest.Demo(b), Options{
			Concurrency: 200, AllowWrap: true, Duration: length, Pace: Pace{Speed: 5, MaxGap: 400 * time.Millisecond}, Start: middle,
		})
	})
}

// middle lets lanes begin anywhere in their traces, so that they do not send at the same instants.
var middle = Start{Sampled: true, Ratios: &resume.Ratios{Min: 0, Max: 0.75}}

func lateOnTheWire(b *testing.B, c *mmapcache.Cache, o Options) {
	_, url := mocked(b, mock.Config{})
	o.Cache, o.URLs, o.Model, o.Marker, o.SkipPreflight = c, []string{url}, "m", payload.NoMarker, true
	var all []float64
	var cpu time.Duration
	var sent int64
	for b.Loop() {
		o.Out = b.TempDir()
		s, err := Run(context.Background(), o)
		if err != nil {
			b.Fatal(err)
		}
		cpu += time.Duration(float64(s.Client.CPU) * 1e9)
		sent += s.Client.BytesSent
		all = append(all, latenessOf(b, o.Out)...)
	}
	reportLateness(b, all, float64(b.N)*o.Duration.Seconds())
	b.ReportMetric(float64(cpu.Microseconds())/float64(len(all)), "cpu-us/turn") // the mock's, too, as in the next
	b.ReportMetric(cpu.Seconds()/(float64(sent)/1e9), "cpu-s/GB")
	b.ReportMetric(float64(sent)/float64(len(all)), "bytes/turn")
}

func latenessOf(b *testing.B, dir string) (list []float64) {
	for _, r := range readRecords(b, dir) {
		list = append(list, r.LatenessSeconds())
	}
	return list
}

func reportLateness(b *testing.B, list []float64, seconds float64) {
	slices.Sort(list)
	b.ReportMetric(float64(len(list))/seconds, "turns/s")
	for _, q := range []float64{50, 99} {
		b.ReportMetric(1e6*measure.Percentile(list, q), fmt.Sprintf("us-p%.0f", q))
	}
	b.ReportMetric(1e6*list[len(list)-1], "us-max")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkBurst sends the first request of many lanes at once, bodies of 400 KB, to the sink of calibrations. An operation is one burst of
// each kind: ready, as a run does it; cold, without what is made ready before; bare, the same bytes from memory on open connections. The
// sink runs in this process, so it shares the cores. The figures are the least of all operations: until the last body is written.
func BenchmarkBurst(b *testing.B) {
	for _, lanes := range []int{256, 1024, 4096} {
		b.Run(fmt.Sprint(lanes), func(b *testing.B) {
			c := burstCache(b)
			s, err := newSink("/v1/completions")
			if err != nil {
				b.Fatal(err)
			}
			defer s.close()
			ready, cold, bare, readyCPU, coldCPU := math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
			for b.Loop() {
				wall, cpu := burst(b, c, s.url(), lanes, func(m medium) medium { return m })
				ready, readyCPU = min(ready, wall), min(readyCPU, cpu)
				wall, cpu = burst(b, c, s.url(), lanes, func(m medium) medium { return coldMedium{m} })
				cold, coldCPU = min(cold, wall), min(coldCPU, cpu)
				bare = min(bare, bareBurst(b, c, s, lanes))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(1e3*ready, "ready-ms")
			b.ReportMetric(1e3*cold, "cold-ms")
			b.ReportMetric(1e3*bare, "bare-ms")
			b.ReportMetric(ready/cold, "ready/cold")
			b.ReportMetric(ready/bare, "ready/bare")
			b.ReportMetric(readyCPU/coldCPU, "cpu-ready/cold")
		})
	}
}

// coldMedium makes nothing ready.
type coldMedium struct{ medium }

func (coldMedium) ready(context.Context) *measure.Ahead { return nil }

// burstCache has as many traces as the public corpus, each with one request of 100,000 tokens.
func burstCache(b *testing.B) *mmapcache.Cache {
	var lines strings.Builder
	for k := range 600 {
		lines.WriteString(cachetest.TraceLine(fmt.Sprintf("burst-%d", k), 100_000+k))
	}
	return cachetest.Prepare(b, lines.String(), "code")
}

// burst plays the first request of lanes, and returns when the last body was written, and the CPU of the phase, in seconds.
func burst(b *testing.B, c *mmapcache.Cache, url string, lanes int, on func(medium) medium) (wall, cpu float64) {
	o := optionsFor(b, c, url)
	var ids atomic.Int64
	o.Concurrency, o.Requests, o.AllowWrap, o.Out, o.NewID = lanes, lanes, true, b.TempDir(), func() string { return newCalibrationID(1, ids.Add(1)) }
	r := newRun(o.WithDefaults())
	r.medium = on(r.medium)
	defer r.close()
	if err := errors.Join(r.prepare(b.Context()), r.open(b.Context()), r.start()); err != nil {
		b.Fatal(err)
	}
	s, err := r.play(b.Context())
	if err != nil || s.Completed != lanes {
		b.Fatal(s, err)
	}
	if err := r.results.write(s); err != nil {
		b.Fatal(err)
	}
	for _, q := range readRecords(b, o.Out) {
		wall = max(wall, q.SendEnd.Seconds())
	}
	return wall, float64(s.Client.CPU)
}

// bareBurst writes a body of such a burst on as many connections, and returns when the last was written, in seconds.
func bareBurst(b *testing.B, c *mmapcache.Cache, s *sink, lanes int) float64 {
	body := bytes.Repeat([]byte("a"), 430_000)
	head := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n", newCalibrationID(1, 1), len(body))
	conns := make([]net.Conn, lanes)
	for k := range conns {
		nc, err := net.Dial("tcp", s.listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		conns[k] = nc
	}
	var last atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for _, nc := range conns {
		all.Go(func() {
			queue := net.Buffers{[]byte(head), body}
			_, err := queue.WriteTo(nc)
			for at := int64(time.Since(start)); ; {
				if old := last.Load(); at <= old || last.CompareAndSwap(old, at) {
					break
				}
			}
			if err == nil {
				_, err = nc.Read(make([]byte, 1<<10))
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	return time.Duration(last.Load()).Seconds()
}
