package mock

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// visit is a request of the tests, in whole ticks.
type visit struct {
	arrive, prefill, tokens int
	leave                   int // instant at which its client goes; 0: it stays
}

// played returns the instants at which each visit got its tokens, as a capacity says.
func played(c capacity, visits []visit) [][]int {
	got := make([][]int, len(visits))
	jobs := make([]*job, len(visits))
	for at := 0; at < lastTick; at++ {
		now := time.Duration(at)
		c.advance(now)
		for k, v := range visits {
			if v.arrive == at {
				jobs[k] = &job{prefill: time.Duration(v.prefill), tokens: v.tokens, more: make(chan struct{}, 1)}
				c.arrive(jobs[k], now)
			}
			if v.leave == at && at > 0 && jobs[k] != nil {
				c.leave(jobs[k], now)
			}
		}
		for k, j := range jobs {
			for j != nil && len(got[k]) < j.out {
				got[k] = append(got[k], at)
			}
		}
	}
	return got
}

const lastTick = 400

// stepped is the same, tick by tick: what each request is doing stands in a list, and every tick looks at all of it.
func stepped(c capacity, visits []visit) [][]int {
	got := make([][]int, len(visits))
	type state struct {
		place string // "", waiting, reading, queued, batch, gone
		left  int    // ticks of its prefill
	}
	states := make([]state, len(visits))
	var order, joined []int // for a prefill slot, for the batch: first come first
	step := 0               // ticks left
	in := func(place string) (n int) {
		for _, s := range states {
			if s.place == place {
				n++
			}
		}
		return n
	}
	for at := 0; at < lastTick; at++ {
		if at > 0 { // a tick has passed
			for k := range states {
				states[k].left--
			}
			step--
		}
		settle := func() {
			for again := true; again; {
				again = false
				for _, k := range order {
					if states[k].place == "reading" && states[k].left == 0 {
						got[k] = append(got[k], at)
						states[k].place = "gone"
						if visits[k].tokens > 1 {
							states[k].place = "queued"
							joined = append(joined, k)
						}
						again = true
					}
				}
				if n := in("batch"); n > 0 && step == 0 {
					for k := range states {
						if states[k].place == "batch" {
							if got[k] = append(got[k], at); len(got[k]) == visits[k].tokens {
								states[k].place = "gone"
							}
						}
					}
					step = -1
					again = true
				}
				for _, k := range order {
					if states[k].place == "waiting" && (c.prefillSlots == 0 || in("reading") < c.prefillSlots) {
						states[k] = state{"reading", visits[k].prefill}
						again = again || visits[k].prefill == 0
					}
				}
				if in("batch") == 0 || step < 0 {
					for _, k := range joined {
						if states[k].place == "queued" && (c.decodeSlots == 0 || in("batch") < c.decodeSlots) {
							states[k].place = "batch"
						}
					}
					if n := in("batch"); n > 0 {
						step = int(c.itl) + int(c.growth)*(n-1)
					}
				}
			}
		}
		settle()
		for k, v := range visits {
			if v.arrive == at {
				states[k].place = "waiting"
				order = append(order, k)
				settle()
			}
			if v.leave == at && at > 0 && states[k].place != "" {
				states[k].place = "gone"
				settle()
			}
		}
	}
	return got
}

// A capacity gives every request its tokens at the same instants as a plain walk over all ticks.
func TestCapacityAgainstAWalkOverTicks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(name string, least, most int) int { return rapid.IntRange(least, most).Draw(t, name) }
		c := capacity{
			prefillSlots: number("prefill slots", 0, 3), decodeSlots: number("decode slots", 0, 3),
			itl: time.Duration(number("itl", 1, 4)), growth: time.Duration(number("growth", 0, 2)),
		}
		var visits []visit
		for range number("visits", 1, 8) {
			visits = append(visits, visit{number("arrive", 0, 20), number("prefill", 0, 7), number("tokens", 1, 6), number("leave", 0, 40)})
		}
		require.Equal(t, stepped(c, visits), played(c, visits), "%+v", visits)
	})
}

// The figures that the help of the mock states: prompts wait for slots in order, and a step of n answers takes ITL + (n-1)
// growth.
func TestCapacityByHand(t *testing.T) {
	three := []visit{{arrive: 0, prefill: 10, tokens: 3}, {arrive: 0, prefill: 10, tokens: 3}, {arrive: 1, prefill: 5, tokens: 2}}
	require.Equal(t, [][]int{{10, 15, 20}, {20, 25, 33}, {25, 33}},
		played(capacity{prefillSlots: 1, itl: 5, growth: 3}, three))
	require.Equal(t, [][]int{{10, 15, 20}, {20, 25, 30}, {25, 35}}, // the third answer waits for the slot of the second
		played(capacity{prefillSlots: 1, decodeSlots: 1, itl: 5, growth: 3}, three))
	require.Equal(t, [][]int{{10, 19, 27}, {10, 19, 27}, {6, 11}}, // three slots are enough: the first two find the batch empty at 11
		played(capacity{prefillSlots: 3, itl: 5, growth: 3}, three))
}

func TestLimitedServer(t *testing.T) {
	const stream = `,"stream":true,"max_tokens":3}`
	for _, c := range []struct {
		name   string
		config Config
		parts  [][]string // when, and how many chunks, of requests that arrive together
	}{
		{"prefill slots", Config{TTFT: time.Second, PrefillSlots: 1}, [][]string{{"1s: 4"}, {"2s: 4"}, {"3s: 4"}}},
		{"prefill rate", Config{PrefillSlots: 1, PrefillRate: 20, CacheBlocks: -1}, [][]string{{"50ms: 4"}, {"100ms: 4"}, {"150ms: 4"}}},
		{"a batch", Config{ITL: 10 * time.Millisecond, ITLGrowth: 5 * time.Millisecond, TTFT: time.Second},
			[][]string{{"1s: 1", "1.02s: 1", "1.04s: 2"}, {"1s: 1", "1.02s: 1", "1.04s: 2"}, {"1s: 1", "1.02s: 1", "1.04s: 2"}}},
		{"decode slots", Config{ITL: time.Second, DecodeSlots: 1}, [][]string{{"0s: 1", "1s: 1", "2s: 2"}, {"0s: 1", "3s: 1", "4s: 2"}, {"0s: 1", "5s: 1", "6s: 2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(c.config)
				var got [][]string
				done := make(chan []string)
				for range 3 {
					w := newTimedWriter()
					go func() {
						s.ServeHTTP(w, post("/v1/completions", `{"prompt":[7]`+stream))
						done <- w.parts
					}()
					synctest.Wait() // so that they arrive in order
				}
				for range 3 {
					got = append(got, <-done)
				}
				require.ElementsMatch(t, c.parts, got)
				synctest.Wait()
				require.False(t, s.engine.driven, "the engine sleeps on, without requests")
			})
		})
	}
}

// A client that goes away gives its slot to the next.
func TestSlotsOfClientsThatWentAway(t *testing.T) {
	c := capacity{prefillSlots: 1, decodeSlots: 1, itl: 5}
	require.Equal(t, [][]int{nil, {13, 18}, {23, 28}},
		played(c, []visit{{0, 10, 2, 3}, {1, 10, 2, 0}, {2, 10, 2, 0}}))
	require.Equal(t, [][]int{{10}, {20, 25}}, // the one in the batch
		played(c, []visit{{0, 10, 9, 12}, {0, 10, 2, 0}}))
	require.Equal(t, [][]int{nil, {1}}, // to a prompt that takes no time
		played(c, []visit{{0, 2, 1, 1}, {0, 0, 1, 0}}))
}

// A request that waits for a slot counts as waiting on the page of metrics.
func TestMetricsOfALimitedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{TTFT: time.Second, PrefillSlots: 2})
		for range 5 {
			go serve(s, post("/v1/completions", `{"prompt":"x"}`))
		}
		synctest.Wait()
		page := serve(s, httptest.NewRequest(http.MethodGet, "/metrics", nil)).Body.String()
		require.Contains(t, page, "\nvllm:num_requests_running 2\n")
		require.Contains(t, page, "\nvllm:num_requests_waiting 3\n")
		time.Sleep(4 * time.Second) // of the bubble
	})
}
