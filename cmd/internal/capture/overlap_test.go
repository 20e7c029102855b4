package capture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/guard"
)

// inOrder is an upstream that answers requests in an order of their header X-Do.
type inOrder struct {
	arrived chan struct{}
	turns   map[string]chan struct{}
}

func (u *inOrder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.arrived <- struct{}{}
	if turn := u.turns[r.Header.Get("X-Do")]; turn != nil {
		<-turn
	}
	(&scripted{}).ServeHTTP(w, r)
}

// Requests of a session that overlap are all carried and all recorded. Their ids follow from the order in which they arrived, not from
// that in which they end, or from how many workers read them.
//
// Covers C-19.
func TestOverlap(t *testing.T) {
	const n = 8
	var want string
	for k, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {3, 7, 1, 0, 5, 2, 6, 4}} {
		for _, workers := range []int{1, 2, 8} {
			for _, by := range []string{"header", "body"} {
				got := overlap(t, n, order, workers, by)
				if k == 0 && workers == 1 && want == "" {
					want = got
				}
				require.Equal(t, want, got, "%v with %d workers, by %s", order, workers, by)
			}
		}
	}
	require.Equal(t, n, strings.Count(want, "\n"))
}

func overlap(t *testing.T, n int, order []int, workers int, by string) string {
	up := &inOrder{arrived: make(chan struct{}), turns: map[string]chan struct{}{}}
	for k := range n {
		up.turns[fmt.Sprint(k)] = make(chan struct{})
	}
	r := start(t, up, func(o *Options) { o.Workers = workers })
	ended := make([]chan struct{}, n)
	for k := range n {
		ended[k] = make(chan struct{})
		go func() {
			defer close(ended[k])
			list := `{"role":"user","content":"the first of them all, which has some more words"}`
			for j := range k % 4 {
				list += fmt.Sprintf(`,{"role":"user","content":"message %d of branch %d, which has some more words"}`, j, k/4)
			}
			body := `{"model":"m","stream":true,"prompt_cache_key":"one","messages":[` + list + `]}`
			header := []string{"X-Session-Affinity", "one"}
			if by == "body" {
				header = nil
			}
			status, text := r.do(chatPath, fmt.Sprint(k), body, header...)
			if status != http.StatusOK || text != delta+stopping+counts+done {
				t.Errorf("request %d: %d %q", k, status, text)
			}
		}()
		<-up.arrived // it has its number before the next one is sent
		if by == "body" {
			require.Eventually(t, func() bool { return r.joined() == k+1 }, 10*time.Second, time.Millisecond)
		}
	}
	for _, k := range order {
		close(up.turns[fmt.Sprint(k)])
		<-ended[k]
	}
	s, traces := r.end()
	requireCounted(t, s)
	require.Equal(t, n, s.Recorded, "%+v", s)
	require.Len(t, traces, 1)
	r.requireAtRest()
	text := ""
	for _, trace := range traces {
		for _, q := range trace["requests"].([]any) {
			q := q.(map[string]any)
			text += fmt.Sprint(q["in"], q["hash_ids"], q["out"], "\n")
		}
	}
	return text
}

// joined returns how many requests have joined sessions.
func (r *running) joined() (n int) {
	for _, s := range r.sessions.list() {
		n += s.Requests
	}
	return n
}

// A thousand sessions at once, in which requests overlap, are as many traces, with nothing lost and nothing left.
//
// Covers C-20.
func TestThousandSessions(t *testing.T) {
	sessions, clients := 1000, 16
	if testing.Short() {
		sessions = 200
	}
	up := newScripted()
	r := start(t, up, func(o *Options) { o.Workers = 4 })
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for k := c; k < 3*sessions; k += clients {
				name := fmt.Sprint("session-", k%sessions)
				body := chatBody(name + strings.Repeat(" again", k/sessions))
				switch k % 3 {
				case 0:
					r.do("/s/"+name+chatPath, "whole", body)
				case 1:
					r.do(chatPath, "json", body, "X-Session-Affinity", name)
				default:
					r.do(chatPath, "whole", strings.Replace(body, "{", `{"prompt_cache_key":"`+name+`",`, 1))
				}
			}
		})
	}
	all.Wait()
	s, traces := r.end()
	requireCounted(t, s)
	require.Equal(t, 3*sessions, s.Recorded, "%+v", s)
	require.Equal(t, 3*sessions, s.Requests)
	require.Equal(t, len(traces), s.Sessions)
	r.requireAtRest()
}

// A session ends by the final header of its main agent, by DELETE, and by the number of its requests; what comes then begins another. Requests in
// flight at a DELETE are recorded.
//
// Covers C-21.
func TestEndsOfSessions(t *testing.T) {
	up := newScripted()
	r := start(t, up, func(o *Options) { o.Export.Grid = time.Hour }) // a child and its parent arrive at one instant
	r.do(chatPath, "whole", chatBody("a"), "X-Session-Affinity", "final")
	r.do(chatPath, "whole", chatBody("b"), "X-Session-Affinity", "final", "X-Dynamo-Session-Final", "true")
	r.do(chatPath, "whole", chatBody("c"), "X-Session-Affinity", "final")

	for _, final := range []string{"true", "false"} {
		r.do(chatPath, "whole", chatBody("child"), "X-Dynamo-Session-Id", "child", "X-Dynamo-Parent-Session-Id", "root", "X-Dynamo-Session-Final", final)
		r.do(chatPath, "whole", chatBody("parent"), "X-Dynamo-Session-Id", "root", "X-Dynamo-Session-Final", final)
	}

	resp, err := http.Post(r.control+"/sessions", "application/json", nil)
	require.NoError(t, err)
	var made struct {
		ID  string `json:"session_id"`
		URL string `json:"url"`
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&made))
	resp.Body.Close()
	done := make(chan string)
	go func() {
		_, text := r.do(made.URL+chatPath, "hold", chatBody("in flight"))
		done <- text
	}()
	<-up.arrived
	remove := func() int {
		req, err := http.NewRequest(http.MethodDelete, r.control+"/sessions/"+made.ID, nil)
		require.NoError(t, err)
		req.Header.Set(guard.Header, "1")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		return resp.StatusCode
	}
	require.Equal(t, http.StatusAccepted, remove())
	require.Equal(t, http.StatusNotFound, remove())
	r.do(made.URL+chatPath, "whole", chatBody("a successor"))
	close(up.held)
	require.Contains(t, <-done, "some words")

	s, traces := r.end()
	requireCounted(t, s)
	require.Equal(t, 9, s.Recorded, "%v", s.NotRecorded)
	require.Len(t, traces, 6)
	var why []string
	for name := range traces {
		text, err := os.ReadFile(filepath.Join(r.dir, journal.NotesDir, name))
		require.NoError(t, err)
		var note struct{ Why string }
		require.NoError(t, json.Unmarshal(text, &note))
		why = append(why, note.Why)
	}
	slices.Sort(why)
	require.Equal(t, []string{"delete", "final", "final", "shutdown", "shutdown", "shutdown"}, why)
	r.requireAtRest()
}
