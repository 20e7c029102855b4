package replay

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
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
	v.run = newRun(o.withDefaults())
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
