package replay

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
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
// replace them.
//
// Covers T-57.
func TestATreeStaysOnItsServer(t *testing.T) {
	first, firstLog := loggedMock(t)
	second, secondLog := loggedMock(t)
	o := optionsFor(t, cachetest.Demo(t), first)
	o.URLs = append(o.URLs, second)
	p := play(t, context.Background(), o)
	require.Equal(t, []string{first, second}, p.Run.URLs)
	require.Equal(t, first, p.Run.URL)
	require.Zero(t, len(p.Errors))

	sessions := map[int]map[string]bool{} // by tree
	for _, r := range p.records {
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
			sessions[r.Tree] = map[string]bool{}
		}
		sessions[r.Tree][r.Session] = true
	}
	require.Greater(t, len(sessions), 2*o.Concurrency, "lanes play several trees")
	children := [2]int{}
	for tree, names := range sessions {
		children[tree%2] += len(names) - 1
	}
	require.Positive(t, children[0])
	require.Positive(t, children[1])
}

// The warmup and the measured phase of a lane's first tree use the same server.
//
// Covers T-57.
func TestATreeStaysOnItsServerInEveryPhase(t *testing.T) {
	first, firstLog := loggedMock(t)
	second, secondLog := loggedMock(t)
	o := optionsFor(t, cachetest.Demo(t), first)
	o.URLs = append(o.URLs, second)
	o.Start.Sampled, o.Warmup.Primers, o.Concurrency = true, true, 7
	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	phases, urls := map[int]map[string]bool{}, map[int]int{} // by tree
	for _, r := range readRecords(t, o.Out) {
		require.Equal(t, r.Tree%2, *r.URL)
		log := []*sync.Map{firstLog, secondLog}[*r.URL]
		_, arrived := log.Load(r.RequestID)
		require.True(t, arrived, "%s, tree %d", r.Phase, r.Tree)
		if phases[r.Tree] == nil {
			phases[r.Tree] = map[string]bool{}
		}
		phases[r.Tree][r.Phase] = true
		urls[r.Tree] = *r.URL
	}
	both := [2]int{}
	for tree, of := range phases {
		if len(of) == 2 {
			both[urls[tree]]++
		}
	}
	require.Positive(t, both[0])
	require.Positive(t, both[1])
	require.Greater(t, len(phases), o.Concurrency, "trees that replace the first ones have one phase")
}

// With one server records do not name it.
func TestOneServerHasNoNumber(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	for _, r := range p.records {
		require.Nil(t, r.URL)
	}
}
