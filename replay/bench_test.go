package replay

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
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
