package capture

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/mock"
)

// The sessions that a client joined last are remembered, the latest first, for so many clients.
func TestRecentSessionsOfClients(t *testing.T) {
	var r recent
	var trees []*chain.Tree
	for range maxRecent + 1 {
		trees = append(trees, new(chain.Tree))
		r.add(identity{session: "a"}, trees[len(trees)-1])
	}
	r.add(identity{session: "a"}, trees[2])
	r.add(identity{session: "a"}, nil)
	assert.Equal(t, []*chain.Tree{trees[2], trees[4], trees[3], trees[1]}, r.of(identity{session: "a"}))
	assert.Empty(t, r.of(identity{session: "b"}))
	for k := range maxClients + 1 {
		r.add(identity{session: fmt.Sprint(k)}, trees[0])
		require.LessOrEqual(t, len(r.clients), maxClients)
	}
	assert.Len(t, r.of(identity{session: fmt.Sprint(maxClients)}), 1)
}

// applied returns how many segments, each a message, the sessions have.
func (r *running) applied() (n int) {
	for _, rec := range r.alive() {
		n += rec.tree.Nodes() - 1
	}
	return n
}

// What a session has had of a body that alone names it is not read to find the session, and sessions of one client are told apart.
func TestBodiesThatNameTheirSession(t *testing.T) {
	r := start(t, mock.New(mock.Config{}), nil)
	body := func(session string, n int) string {
		message := `{"role":"user","content":"the ` + session + ` question"}`
		return `{"model":"m","prompt_cache_key":"` + session + `","messages":[` + strings.Repeat(message+",", n) + message + `]}`
	}
	sent := 0
	for n := range 3 {
		for _, session := range []string{"first", "other"} {
			status, reply := r.post("/v1/chat/completions", body(session, n))
			require.Equal(t, http.StatusOK, status, reply)
			sent++
			require.Eventually(t, func() bool { return r.applied() == sent }, 10*time.Second, time.Millisecond)
		}
	}
	require.Len(t, r.recent.clients, 1)
	for client := range r.recent.clients {
		known := r.recent.of(identity{session: client})
		require.Len(t, known, 2)
		for k, session := range []string{"other", "first"} {
			p := &prompt{pool: r.pool, share: &share{}, text: []byte(body(session, 3))}
			p.identify(canon.Chat, known)
			require.True(t, p.reading.Of(known[k]), session)
			require.True(t, p.reading.Found())
			require.Equal(t, session, p.options.CacheKey)
		}
	}
	summary, _ := r.end()
	require.Equal(t, 6, summary.Recorded)
	require.Equal(t, 2, summary.Traces)
}
