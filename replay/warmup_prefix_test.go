package replay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// capture keeps the requests that a server gets.
type capture struct {
	server http.Handler
	mu     sync.Mutex
	bodies map[string][]byte      // by request id
	header map[string]http.Header // by request id
}

func (c *capture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	id := r.Header.Get("X-Request-ID")
	c.bodies[id], c.header[id] = body, r.Header.Clone()
	c.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	c.server.ServeHTTP(w, r)
}

// A primer and the first request of its session in profiling, or in the pressure stage, have the same headers but for the
// request id, and the whole prompt of the primer is the beginning of the prompt of that request, byte by byte.
//
// Covers T-21, INV-12.
func TestPrimerIsAPrefix(t *testing.T) {
	c := cachetest.Demo(t)
	for _, name := range fixtures.Presets {
		for _, endpoint := range []payload.Endpoint{payload.Completions, payload.ChatCompletions} {
			for _, w := range []Warmup{{Primers: true}, {Duration: 20 * time.Millisecond}} {
				got := &capture{server: mock.New(mock.Config{}), bodies: map[string][]byte{}, header: map[string]http.Header{}}
				url, _ := serve(t, got)
				o := warming(t, c, name, w)
				o.URLs, o.Concurrency, o.Endpoint, o.Pace, o.Requests, o.Grace = []string{url}, 32, endpoint, Pace{Speed: 2000}, 300, time.Minute
				_, err := Run(t.Context(), o)
				require.NoError(t, err)
				records := readRecords(t, o.Out)
				slices.SortFunc(records, func(a, b measure.Record) int { return a.Turn - b.Turn })
				next := map[string]measure.Record{} // by correlation id: the first request after the primer
				primers := map[string]measure.Record{}
				for _, r := range records {
					_, primed := primers[r.CorrelationID]
					switch {
					case r.Phase == measure.WarmupPhase && !primed && r.Turn > 0 || r.Phase == measure.WarmupPhase && !primed:
						primers[r.CorrelationID] = r
					case primed && next[r.CorrelationID].RequestID == "":
						next[r.CorrelationID] = r
					}
				}
				compared := 0
				for id, r := range next {
					p := primers[id]
					require.Equal(t, p.Turn+1, r.Turn)
					require.EqualValues(t, 1, p.MaxTokens)
					a, b := got.bodies[p.RequestID], got.bodies[r.RequestID]
					require.Contains(t, string(a), `tokens":1,`)
					if endpoint == payload.Completions {
						requireSharedPrefix(t, c, p, a, b)
					} else {
						require.Equal(t, firstUserMessage(t, a)[:len("[rid:0123456789ab]")], firstUserMessage(t, b)[:len("[rid:0123456789ab]")])
					}
					x, y := got.header[p.RequestID].Clone(), got.header[r.RequestID].Clone()
					for _, h := range []http.Header{x, y} {
						h.Del("X-Request-ID")
						h.Del("Content-Length")
					}
					require.Equal(t, x, y)
					compared++
				}
				require.Greater(t, compared, 20)
			}
		}
	}
}

// requireSharedPrefix compares how many tokens the prompts of two bodies share with how many those of the recording share: a
// turn and the next of its session. The marker comes on top.
func requireSharedPrefix(t *testing.T, c *mmapcache.Cache, r measure.Record, bodies ...[]byte) {
	var recorded, sent [2][]uint32
	for k := range recorded {
		turn := r.Turn + k
		require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{Trace: r.Trace, Session: r.Session, Turn: &turn}, mmapcache.IDs, func(tree *mmapcache.RenderedTrace, _, row int) error {
			var p mmapcache.Prompt
			tree.Prompt(row, &p)
			for m := range p.Messages {
				recorded[k] = append(recorded[k], p.AppendTokenIDs(nil, m)...)
			}
			return nil
		}))
		var body struct{ Prompt []uint32 }
		require.NoError(t, json.Unmarshal(bodies[k], &body))
		sent[k] = body.Prompt
	}
	require.Equal(t, shared(recorded)+len(sent[0])-len(recorded[0]), shared(sent), "%s#%d", r.Session, r.Turn)
}

// firstUserMessage returns the text of the first message of a user, which the marker begins.
func firstUserMessage(t *testing.T, body []byte) string {
	var chat struct {
		Messages []struct{ Role, Content string }
	}
	require.NoError(t, json.Unmarshal(body, &chat))
	for _, m := range chat.Messages {
		if m.Role == "user" {
			require.True(t, strings.HasPrefix(m.Content, "[rid:"))
			return m.Content
		}
	}
	t.Fatal("no message of a user")
	return ""
}

// shared returns how many tokens two prompts begin with in common.
func shared(prompts [2][]uint32) (n int) {
	for n < len(prompts[0]) && n < len(prompts[1]) && prompts[0][n] == prompts[1][n] {
		n++
	}
	return n
}

// Two lanes play one trace: the root of lane 0 waits at its t*, lane 1 is ready. Both keep their markers, whatever phases
// there are, and the next tree of lane 1 has a new one.
//
// Covers T-4.
func TestMarkersKeepTheirTree(t *testing.T) {
	for _, name := range fixtures.Presets {
		for _, w := range []Warmup{{Primers: true}, {Duration: time.Second}} {
			o := warming(t, recorded(t, mixed("m")), name, w)
			o.Concurrency, o.Requests = 2, 30
			r, err := virtually(t, o, second, at(45, 61))
			require.NoError(t, err)
			markers := map[int]payload.Marker{} // by lane: of its primers
			for _, s := range r.of(measure.WarmupPhase) {
				if s.phaseOfPrimers {
					markers[s.lane] = s.marker
				}
			}
			require.NotEqual(t, markers[0], markers[1])
			recycled := false
			for k, s := range r.sent {
				require.Equal(t, s.ordinal < 2, s.marker == markers[s.lane], "%v", s)
				pass := r.records[slices.IndexFunc(r.records, func(m measure.Record) bool { return m.Tree == s.ordinal })].Pass
				if s.ordinal >= 2 {
					require.GreaterOrEqual(t, pass, 2)
					recycled = true
				}
				for _, other := range r.sent[:k] {
					require.Equal(t, other.ordinal == s.ordinal, other.marker == s.marker)
				}
			}
			require.True(t, recycled)
		}
	}
}

// Markers do not depend on the order in which lanes are visited: here 100 permutations of the lanes' instants.
//
// Covers T-5.
func TestMarkersDoNotDependOnTheOrderOfLanes(t *testing.T) {
	const lanes = 5
	c := recorded(t, mixed("m"))
	instants := []float64{5, 20, 45, 61, 69}
	rng := rand.New(rand.NewPCG(1, 2))
	var want [lanes]payload.Marker
	orders := map[string]bool{}
	for n := range 100 {
		rng.Shuffle(lanes, func(a, b int) { instants[a], instants[b] = instants[b], instants[a] })
		o := warming(t, c, preset.Default, Warmup{Primers: true})
		o.Concurrency, o.Requests, o.Out = lanes, 40, ""
		r := virtualMarkers(t, o, instants)
		var order strings.Builder
		var got [lanes]payload.Marker
		for _, s := range r.sent {
			if s.ordinal >= lanes {
				continue // a lane's next tree
			}
			if got[s.lane] == "" {
				got[s.lane] = s.marker
			}
			require.Equal(t, got[s.lane], s.marker)
			if s.name == measure.ProfilingPhase {
				order.WriteByte(byte('0' + s.lane))
			}
		}
		if n == 0 {
			want = got
		}
		require.Equal(t, want, got)
		orders[order.String()] = true
	}
	require.Greater(t, len(orders), 30)
}

// virtualMarkers plays a run that writes no results.
func virtualMarkers(t *testing.T, o Options, instants []float64) *virtualRun {
	v := &virtualRun{t: t, script: second}
	v.run = newRun(o.WithDefaults())
	defer v.run.close()
	v.medium = v
	require.NoError(t, v.prepare(t.Context()))
	require.NoError(t, v.open(t.Context()))
	require.NoError(t, v.start())
	at(instants...)(v)
	_, err := v.play(t.Context())
	require.NoError(t, err)
	return v
}

// An interrupt in the ramp, in the pressure stage and in profiling ends the sending; what is in flight gets half a minute, or
// the grace of the phase, and no further phase begins.
func TestInterruptOfAWarmup(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 60, took: 1}, call{at: 61, took: 1}, call{at: 62, took: 1}),
		recording("b", call{at: 0, took: 1}, call{at: 60, took: 1}, call{at: 61, took: 1}, call{at: 62, took: 1}))
	for name, v := range map[string]struct {
		warmup    Warmup
		at, takes time.Duration
		ends      time.Duration
		phases    int
		sent      int
		cancelled int
		deaf      bool
	}{
		"in the ramp":                     {Warmup{Primers: true}, 3 * time.Second, time.Hour, 33 * time.Second, 1, 1, 1, false},
		"in the ramp, answered":           {Warmup{Primers: true}, 3 * time.Second, 5 * time.Second, 5 * time.Second, 1, 1, 0, false},
		"in the ramp, a grace":            {Warmup{Primers: true, Grace: 4 * time.Second}, 3 * time.Second, time.Hour, 7 * time.Second, 1, 1, 1, false},
		"in the ramp, deaf":               {Warmup{Primers: true, Grace: 4 * time.Second}, 3 * time.Second, time.Hour, 17 * time.Second, 1, 1, 1, true},
		"in the ramp, nothing in flight":  {Warmup{Primers: true}, 3 * time.Second, time.Second, 3 * time.Second, 1, 1, 0, false},
		"in the stage":                    {Warmup{Requests: 3}, 20 * time.Second, 9 * time.Second, 26 * time.Second, 2, 4, 0, false},
		"in the ramp, answered late":      {Warmup{Duration: time.Minute}, 20 * time.Second, 40 * time.Second, 48 * time.Second, 1, 2, 0, false},
		"in the stage of a duration":      {Warmup{Duration: time.Minute}, 10500 * time.Millisecond, time.Second, 11 * time.Second, 2, 6, 0, false},
		"after the duration of the stage": {Warmup{Duration: 2 * time.Second}, 13500 * time.Millisecond, 3 * time.Second, 14 * time.Second, 2, 4, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := warming(t, c, preset.Default, v.warmup)
			o.Concurrency, o.Duration, o.Grace = 2, time.Hour, time.Minute
			r, err := virtually(t, o, func(s sentTurn) answerTo { return answerTo{takes: v.takes, deaf: v.deaf} },
				at(9, 1), func(r *virtualRun) { r.interruptAt = v.at })
			require.NoError(t, err)
			require.Len(t, r.phases, v.phases)
			require.InDelta(t, v.ends.Seconds(), r.at.Seconds(), 1e-6)
			require.Len(t, r.sent, v.sent)
			require.Len(t, r.records, v.sent)
			require.Equal(t, v.cancelled, r.summary.Warmup.Errors[wire.Cancelled])
			require.Zero(t, r.summary.Requests)
		})
	}
}

// After an interrupt a primer that fails cancels nothing, and the run has no error.
func TestPrimerThatFailsAfterAnInterrupt(t *testing.T) {
	line := recording("a", call{at: 0, took: 1}, call{at: 60, took: 1})
	o := warming(t, recorded(t, line, recording("b", call{at: 0, took: 1}, call{at: 60, took: 1})), preset.Default, Warmup{Primers: true})
	o.Concurrency, o.Start.Burst = 2, true
	r, err := virtually(t, o, func(s sentTurn) answerTo {
		if s.lane == 0 {
			return answerTo{takes: 2 * time.Second, category: wire.HTTPStatus}
		}
		return answerTo{takes: 4 * time.Second}
	}, at(9, 9), func(r *virtualRun) { r.interruptAt = time.Second })
	require.NoError(t, err)
	require.Empty(t, r.cancels)
	require.Equal(t, 4*time.Second, r.at)
}

// An interrupt between two phases begins no other.
func TestInterruptBetweenPhases(t *testing.T) {
	c := recorded(t, mixed("m"))
	for before, warmup := range map[int]Warmup{2: {Primers: true}, 3: {Requests: 2}} {
		r, err := virtually(t, warming(t, c, preset.Default, warmup), second, at(45), func(r *virtualRun) { r.interruptBefore = before })
		require.NoError(t, err)
		require.Len(t, r.phases, before)
		require.Empty(t, r.of(measure.ProfilingPhase))
		require.Zero(t, r.summary.Requests)
		require.Equal(t, r.summary.Warmup.Requests, len(r.sent))
	}
}

// The instants of records count from the start of the warmup, over all its phases, and from that of profiling. The results
// say when these were.
func TestInstantsOfPhases(t *testing.T) {
	o := warming(t, recorded(t, mixed("m")), preset.Default, Warmup{Requests: 2})
	r, err := virtually(t, o, second, at(45))
	require.NoError(t, err)
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	require.Len(t, info.Phases, 2)
	warm, profiled := info.Phases[0], info.Phases[1]
	require.Equal(t, []string{measure.WarmupPhase, measure.ProfilingPhase}, []string{warm.Name, profiled.Name})
	require.Equal(t, warm.Offset+warm.Duration, profiled.Offset)
	require.InDelta(t, profiled.Offset, profiled.Start.Sub(warm.Start).Seconds(), 1e-9)
	require.EqualValues(t, warm.Duration, r.summary.Warmup.Duration)
	require.EqualValues(t, profiled.Duration, r.summary.PhaseDuration)
	for _, s := range r.sent {
		k := slices.IndexFunc(r.records, func(m measure.Record) bool {
			return m.Phase == s.name && m.Session == s.session && m.Turn == s.turn
		})
		require.GreaterOrEqual(t, k, 0)
		from := 0.0
		if s.name == measure.ProfilingPhase {
			from = profiled.Offset
		}
		require.InDelta(t, s.at.Seconds(), from+r.records[k].Sent.Seconds(), 1e-9)
		require.InDelta(t, s.at.Seconds(), from+r.records[k].Admitted.Seconds(), 1e-9)
		require.LessOrEqual(t, r.records[k].Due.Seconds(), r.records[k].Sent.Seconds())
		require.InDelta(t, r.records[k].Sent.Seconds()+1, r.records[k].End.Seconds(), 1e-9)
	}
}

// bodies keeps the body of every request by the id in its header. It holds the first requests until so many have come.
type bodies struct {
	http.Handler
	first sync.WaitGroup
	mu    sync.Mutex
	byID  map[string][]byte
	held  int
}

func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	b.byID[r.Header.Get("X-Request-ID")] = body
	hold := b.held > 0
	b.held--
	b.mu.Unlock()
	if hold {
		b.first.Done()
		b.first.Wait()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	b.Handler.ServeHTTP(w, r)
}

// Two lanes play one trace with a subagent at the same time: every body of a tree has the marker of the tree at its place, those of
// children too, and the files of the cache stay as they are.
//
// Covers T-35, M-3, M-7, INV-5.
func TestTreesOfOneTraceHaveMarkersOfTheirOwn(t *testing.T) {
	c := cachetest.Prepare(t, withSubagent(t), "code")
	before := digests(t, c.Root)
	for _, endpoint := range []payload.Endpoint{payload.ChatCompletions, payload.Completions} {
		tree, err := c.Render(0, endpoint.Encoding())
		require.NoError(t, err)
		for _, target := range []payload.MarkerTarget{payload.FirstTurnPrefix, payload.FirstTurnSuffix, payload.SystemPrefix, payload.SystemSuffix} {
			seen := &bodies{Handler: mock.New(mock.Config{}), byID: map[string][]byte{}, held: 2}
			seen.first.Add(2)
			url, _ := serve(t, seen)
			o := optionsFor(t, c, url)
			o.Endpoint, o.Marker, o.Concurrency, o.Trees = endpoint, target, 2, 3
			encoder, _, err := payload.NewEncoder(c, payload.Options{Endpoint: endpoint, Model: o.Model, Marker: target})
			require.NoError(t, err)
			markers, children := map[int]payload.Marker{}, map[int]bool{}
			for _, r := range play(t, context.Background(), o).records {
				m := payload.NewMarker("id-1", r.Pass, r.Lane, r.Trace)
				if other, ok := markers[r.Tree]; ok {
					require.Equal(t, other, m)
				}
				markers[r.Tree] = m
				children[r.Tree] = children[r.Tree] || r.Parent != ""
				body, err := encoder.Body(tree, row(tree, r.Session, r.Turn), m, int(r.MaxTokens))
				require.NoError(t, err)
				var want bytes.Buffer
				_, err = body.WriteTo(&want)
				require.NoError(t, err)
				body.Release()
				require.Equal(t, want.String(), string(seen.byID[r.RequestID]), "%s, session %s, turn %d", target, r.Session, r.Turn)
				if endpoint == payload.ChatCompletions {
					require.Equal(t, 1, strings.Count(want.String(), "[rid:"))
				}
			}
			require.Len(t, markers, 3)
			require.Equal(t, map[int]bool{0: true, 1: true, 2: true}, children)
			distinct := map[payload.Marker]bool{}
			for _, m := range markers {
				distinct[m] = true
			}
			require.Len(t, distinct, 3)
		}
	}
	require.Equal(t, before, digests(t, c.Root))
}

// withSubagent returns the first trace of the demo with a subagent.
func withSubagent(t *testing.T) string {
	for line := range strings.Lines(string(demo.JSONL())) {
		if strings.Contains(line, `"type":"subagent"`) {
			return line
		}
	}
	t.Fatal("the demo has no subagent")
	return ""
}

// row returns the turn of a session, counted within the trace.
func row(tree *mmapcache.RenderedTrace, session string, turn int) int {
	for _, s := range tree.Sessions {
		if s.ID == session {
			return int(s.FirstTurn) + turn
		}
	}
	return -1
}

// digests returns a digest of every file below a directory.
func digests(t *testing.T, dir string) map[string][sha256.Size]byte {
	list := map[string][sha256.Size]byte{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		list[path] = sha256.Sum256(data)
		return err
	}))
	return list
}
