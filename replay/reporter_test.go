package replay

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/payload"
)

// A callback that does not return delays nothing, and gets the latest progress then.
func TestReporterDoesNotWait(t *testing.T) {
	reads, shown, warned := make(chan struct{}), []time.Duration{}, []string{}
	r := newReporter(Options{
		Progress: func(p Progress) { <-reads; shown = append(shown, p.Elapsed) },
		Warn:     func(about string) { <-reads; warned = append(warned, about) },
	})
	for k := range 3000 {
		r.report(Progress{Elapsed: time.Duration(k)})
		r.warn(fmt.Sprint(k))
	}
	require.InDelta(t, 3000-reporterRoom, r.dropped.Load(), 1, "at most one is being said")
	close(reads)
	r.close()
	require.LessOrEqual(t, len(shown), 3)
	require.GreaterOrEqual(t, len(warned), reporterRoom)
	require.Equal(t, "0", warned[0])
	require.Equal(t, fmt.Sprintf("and %d more warnings, for which there was no room", r.dropped.Load()), warned[len(warned)-1])
}

// A run goes on while its callbacks do not return.
func TestRunDoesNotWaitForCallbacks(t *testing.T) {
	server, release := mock.New(mock.Config{}), make(chan struct{})
	var requests atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 300 {
			close(release)
		}
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Marker, o.Requests = 40, payload.FirstTurnPrefix, 300
	warned := 0
	o.Warn = func(string) { <-release; warned++ }
	p := play(t, t.Context(), o)
	require.Equal(t, 300, p.Completed)
	require.Equal(t, 2, warned, "one is of buffered answers: the mock sends each at once")
}
