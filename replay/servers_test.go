package replay

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/wire"
)

// Trees are dealt to the URLs in the order in which they open, and every session of a tree uses the tree's URL.
func TestURLsOfTreesAsInTheVectors(t *testing.T) {
	type start struct{ Session, Tree string }
	fixtures.EachCase(t, "url_assignment", fixtures.Counts{1, 1, 1}, func(t *testing.T, _ fixtures.Case, in struct {
		URLs   int
		Starts []start
	}, want struct{ URL []int }) {
		urls := make([]string, in.URLs)
		for k := range urls {
			urls[k] = unreachable
		}
		s, err := connect(urls, wire.Options{})
		require.NoError(t, err)
		opened := map[string]int{}
		for k, start := range in.Starts {
			if _, ok := opened[start.Tree]; !ok {
				opened[start.Tree] = len(opened)
			}
			tree := opened[start.Tree]
			require.Equal(t, want.URL[k], *s.indexOf(tree), start.Session)
			require.Same(t, s.clients[want.URL[k]], s.of(tree), start.Session)
		}
	})
}

// loggedMock starts a mock server that keeps the ids of its requests.
func loggedMock(t *testing.T) (url string, log *sync.Map) {
	server := mock.New(mock.Config{})
	log = &sync.Map{}
	url, _ = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		log.Store(r.Header.Get("X-Request-ID"), true)
		server.ServeHTTP(w, r)
	}))
	return url, log
}

// Of two servers, each gets whole trees, children included, and the trees alternate: the first ones by lane, and those that
// replace them. So it is in every phase.
//
// Covers T-57.
func TestATreeStaysOnItsServer(t *testing.T) {
	for name, warmup := range map[string]Warmup{"no warmup": {}, "primers and a stage": {Requests: 6}} {
		t.Run(name, func(t *testing.T) {
			first, firstLog := loggedMock(t)
			second, secondLog := loggedMock(t)
			o := optionsFor(t, cachetest.Demo(t), first)
			o.URLs, o.Warmup, o.Start.Sampled = append(o.URLs, second), warmup, warmup.asked()
			summary, err := Run(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, []string{first, second}, summary.Run.URLs)
			require.Equal(t, first, summary.Run.URL)
			require.Empty(t, summary.Errors)

			sessions, phases := map[int]map[string]bool{}, map[int]map[string]bool{} // by tree
			for _, r := range readRecords(t, o.Out) {
				require.NotNil(t, r.URL)
				require.Equal(t, r.Tree%2, *r.URL, "tree %d, session %s", r.Tree, r.Session)
				got, other := firstLog, secondLog
				if *r.URL == 1 {
					got, other = other, got
				}
				_, arrived := got.Load(r.RequestID)
				_, strayed := other.Load(r.RequestID)
				require.True(t, arrived && !strayed, "tree %d, session %s, turn %d", r.Tree, r.Session, r.Turn)
				if sessions[r.Tree] == nil {
					sessions[r.Tree], phases[r.Tree] = map[string]bool{}, map[string]bool{}
				}
				sessions[r.Tree][r.Session], phases[r.Tree][r.Phase] = true, true
			}
			require.Greater(t, len(sessions), 2*o.Concurrency, "lanes play several trees")
			children, both := [2]int{}, 0
			for tree, names := range sessions {
				children[tree%2] += len(names) - 1
				both += len(phases[tree]) - 1
			}
			require.Positive(t, children[0])
			require.Positive(t, children[1])
			require.Equal(t, warmup.asked(), both > 0, "trees go on in profiling")
		})
	}
}

// With one server records do not name it.
func TestOneServerHasNoNumber(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	for _, r := range p.records {
		require.Nil(t, r.URL)
	}
}

// With StickySessions a session keeps its connection, which no other session uses, to its last turn. With NoReuse every request has
// one of its own.
func TestConnectionReuse(t *testing.T) {
	for _, reuse := range []wire.Reuse{wire.StickySessions, wire.NoReuse} {
		var mu sync.Mutex
		users := map[string]map[string]bool{} // sessions of each connection, by the address of its client end
		server := mock.New(mock.Config{})
		front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if id := r.Header.Get("X-Correlation-ID"); id != "" {
				mu.Lock()
				if users[r.RemoteAddr] == nil {
					users[r.RemoteAddr] = map[string]bool{}
				}
				users[r.RemoteAddr][id] = true
				mu.Unlock()
			}
			server.ServeHTTP(w, r)
		}))
		open, most := 0, 0
		front.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			mu.Lock()
			defer mu.Unlock()
			switch state {
			case http.StateNew:
				open++
				most = max(most, open)
			case http.StateClosed:
				open--
			}
		}
		front.Start()
		t.Cleanup(front.Close)
		o := optionsFor(t, cachetest.Demo(t), front.URL)
		o.Reuse, o.Pace.ASAP, o.KeepAlive = reuse, true, time.Minute
		summary, err := Run(t.Context(), o)
		require.NoError(t, err)
		require.Empty(t, summary.Errors)
		sessions := map[string]bool{}
		records := readRecords(t, o.Out)
		for _, r := range records {
			require.Equal(t, reuse == wire.StickySessions && sessions[r.CorrelationID], r.Reused, "session %s, turn %d", r.Session, r.Turn)
			sessions[r.CorrelationID] = true
		}
		require.Less(t, len(sessions), len(records))
		if reuse == wire.NoReuse {
			require.Len(t, users, len(records))
			continue
		}
		require.Len(t, users, len(sessions))
		mu.Lock()
		require.Less(t, most, len(sessions), "the connection of a session that has ended is closed")
		mu.Unlock()
		for _, by := range users {
			require.Len(t, by, 1)
		}
	}
}

// The header says which agentx it is.
func TestUserAgentHasTheVersion(t *testing.T) {
	agents := map[string]bool{}
	var mu sync.Mutex
	server := mock.New(mock.Config{})
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		agents[r.Header.Get("User-Agent")] = true
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Pace.ASAP, o.Requests, o.SkipPreflight, o.Provenance.Version = true, 3, false, "v1.2.3"
	o.CacheReset.Enabled = true
	_, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"agentx/v1.2.3": true}, agents)
}

// Trees take the addresses of their own URL in turn: of two URLs the first tree of each has its first address.
func TestRoutesOfTrees(t *testing.T) {
	s, err := connect([]string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, wire.Options{})
	require.NoError(t, err)
	defer s.close()
	for tree, number := range []int{0, 0, 1, 1, 2} {
		require.Equal(t, wire.NewRoute(number), s.route(tree))
	}
}

// A dataset of shards is played as the dataset of one shard with the same traces.
func TestShardsPlayAsOne(t *testing.T) {
	demo, timed := cachetest.Demo(t), mooncake(t, 0, 1500, 1500, 4000, 90000)
	shards, timedShards := cachetest.Shards(t, demo, 0, 3, 3, 10, 16), cachetest.Shards(t, timed, 2, 5)
	for name, set := range map[string]func(*Options){
		"in order":        func(*Options) {},
		"shuffled":        func(o *Options) { o.Order = Shuffle },
		"trees":           func(o *Options) { o.Trees = 40; o.Order = Random; o.AllowWrap = true },
		"sampled":         func(o *Options) { o.Start = Start{Sampled: true} },
		"a small context": func(o *Options) { o.MaxContext = 20000 },
		"none fits":       func(o *Options) { o.MaxContext = 1 },
		"rate": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Poisson}
			o.Concurrency = 0
		},
		"rate of requests": func(o *Options) { o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 0.2, PerRequest: true} },
		"no start":         func(o *Options) { o.Arrivals = Arrivals{Mode: RecordedArrivals} },
		"recorded": func(o *Options) {
			o.Arrivals = Arrivals{Mode: RecordedArrivals}
			if o.Cache == demo {
				o.Cache = timed
			} else {
				o.Cache = timedShards
			}
		},
	} {
		said := func(c *mmapcache.Cache) (text string) {
			o := optionsFor(t, c, unreachable)
			o.Out, o.Preset, o.Switches, o.SkipPreflight, o.Pace = "", "", nil, false, Pace{}
			set(&o)
			estimate, err := EstimateDuration(o)
			text = fmt.Sprintln(estimate, err, o.CheckArrivals(), o.HasRecordedStarts())
			p, err := NewPlayer(Options{
				Cache: o.Cache, Concurrency: o.Concurrency, MaxContext: o.MaxContext, Order: o.Order, AllowWrap: o.AllowWrap, Start: o.Start,
				Arrivals: o.Arrivals, Trees: o.Trees,
			})
			if err != nil {
				return text + err.Error()
			}
			turns, at := playedOn(t, p, aSecond)
			return text + fmt.Sprintln(turns, at, p.Err())
		}
		require.Equal(t, said(demo), said(shards), name)
	}
}

// A run sends of a dataset of shards what it sends of one shard, and finds the same in common between the prompts.
func TestShardsAreSentAsOne(t *testing.T) {
	demo := cachetest.Demo(t)
	said := func(c *mmapcache.Cache) string {
		v, err := virtually(t, optionsFor(t, c, unreachable), second)
		require.NoError(t, err)
		require.Positive(t, v.results.info.Facts.Prompts.Reused)
		return fmt.Sprint(v.sent, *v.results.info.Facts.Prompts)
	}
	require.Equal(t, said(demo), said(cachetest.Shards(t, demo, 0, 3, 3, 10, 16)))
}

// Damage of a shard ends what needs it, with an error that names the file. It is no error of a run that plays other traces.
//
// Covers D-12.
func TestDamagedShardEndsTheRun(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	shards := cachetest.Shards(t, cachetest.Demo(t), 0, 3, 10, 16)
	file := cachetest.DamageShard(t, shards, 3)
	o := optionsFor(t, shards, url)
	o.Traces = 10
	s, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 10, s.Trees)

	for name, set := range map[string]func(*Options){
		"on the way":       func(o *Options) { o.Concurrency = 2 },
		"at the beginning": func(o *Options) { o.Concurrency = 16 },
		"arrivals": func(o *Options) {
			o.Arrivals, o.Pace = Arrivals{Mode: RateArrivals, Rate: 1000}, Pace{Speed: 1e6}
			o.Trees = 16
		},
		"arrivals at once": func(o *Options) {
			o.Arrivals, o.Pace = Arrivals{Mode: RateArrivals, Rate: 1000}, Pace{Speed: 1e6}
			o.Order, o.Trees = Shuffle, 16
		},
		"context": func(o *Options) { o.MaxContext = math.MaxInt32 },
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, cachetest.Open(t, shards.Root, shards.Manifest.Key), url)
			set(&o)
			_, err := Run(context.Background(), o)
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			require.ErrorContains(t, err, file)
			if name == "at the beginning" || name == "context" {
				require.NoDirExists(t, o.Out)
			}
			_, err = EstimateDuration(o)
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			p, err := NewPlayer(Options{Cache: o.Cache, Concurrency: o.Concurrency, MaxContext: o.MaxContext})
			if err == nil {
				for now := time.Duration(0); !p.Done(); now += time.Second {
					for u, ok := p.Take(now); ok; u, ok = p.Take(now) {
						require.NoError(t, p.Returned(u.ID, now, conductor.OK))
					}
				}
				err = p.Err()
			}
			require.ErrorIs(t, err, mmapcache.ErrDamaged)
			require.ErrorContains(t, err, file)
		})
	}
}
