package carry

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// stuck is an exchange whose owner does nothing with its chunks, for ever.
type stuck struct{ *note }

func (stuck) RequestChunk(*Chunk) bool { return true }
func (stuck) ReplyChunk(*Chunk) bool   { return true }

// The health answer takes no lock and reads no state: it comes while 64 replies of 1.3 MiB pass at once, no worker works off
// their copies, the budget of copies is used up, and what an observer locks is locked.
//
// Covers C-28.
func TestHealthAnswersWhateverIsStuck(t *testing.T) {
	const size = 1_363_149
	passing := make(chan struct{}, 64)
	finish := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(bytes.Repeat([]byte("r"), size/2))
		_ = http.NewResponseController(w).Flush()
		passing <- struct{}{}
		<-finish
		_, _ = w.Write(bytes.Repeat([]byte("r"), size-size/2))
	}))
	defer upstream.Close()
	up, err := ParseUpstream(upstream.URL)
	require.NoError(t, err)
	o := newNotes()
	p, err := New(Options{Upstreams: []Upstream{up}, Copies: 1 << 20, Observer: arrivals(func(a *Arrival) Course {
		c := o.Arrive(a)
		c.Exchange = stuck{c.Exchange.(*note)}
		return c
	})})
	require.NoError(t, err)
	front := httptest.NewUnstartedServer(nil)
	front.Config = p.Server()
	front.Start()
	defer front.Close()
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			reply, err := http.Post(front.URL+"/v1/messages", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return
			}
			defer reply.Body.Close()
			if n, err := io.Copy(io.Discard, reply.Body); n != size || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	for range 64 {
		<-passing
	}
	o.mu.Lock() // what any worker could hold
	health := httptest.NewRecorder()
	Health().ServeHTTP(health, httptest.NewRequest("GET", "/health", nil))
	o.mu.Unlock()
	require.Equal(t, 200, health.Code)
	require.Equal(t, "{\"status\":\"ok\"}\n", health.Body.String())
	close(finish)
	clients.Wait()
	for range 64 {
		require.Equal(t, Whole, o.one(t).ends[0].Outcome)
	}
	require.Positive(t, p.CopyBytes())
	p.Abort()
	http.DefaultClient.CloseIdleConnections()
}
