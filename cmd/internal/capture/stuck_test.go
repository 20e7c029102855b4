package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/durable"
)

// blocking is a tokenizer that blocks on texts that say so, until it is released.
type blocking struct {
	inner interface {
		AppendIDs([]uint32, string) []uint32
	}
	released chan struct{}
	blocked  chan struct{} // gets one for each that blocks
}

func (b blocking) AppendIDs(ids []uint32, text string) []uint32 {
	if strings.Contains(text, "BLOCK") {
		b.blocked <- struct{}{}
		<-b.released
	}
	return b.inner.AppendIDs(ids, text)
}

// With every worker stuck for ever the traffic runs on, health and metrics answer, and the end comes. Nothing is uncounted.
//
// Covers C-26, C-28.
func TestStuckWorkers(t *testing.T) {
	for _, linear := range []bool{false, true} {
		b := blocking{released: make(chan struct{}), blocked: make(chan struct{}, 2)}
		r := start(t, newScripted(), func(o *Options) {
			b.inner = o.Tokenizer
			o.Tokenizer, o.Linear = b, linear
		})
		r.do("/s/before"+chatPath, "whole", chatBody("first"))
		require.Eventually(t, func() bool { return r.pool.progress() >= 2 && r.pool.used() == 0 }, 10*time.Second, time.Millisecond)
		for k := range 2 {
			r.do(fmt.Sprint("/s/stuck", k, chatPath), "whole", chatBody("BLOCK"))
			<-b.blocked
		}
		const n = 20
		for k := range n {
			for _, path := range []string{"/s/before", "/s/stuck0", fmt.Sprint("/s/other", k), ""} {
				status, text := r.do(path+chatPath, "whole", chatBody("more"))
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, delta+stopping+counts+done, text)
			}
		}
		for _, path := range []string{"/health", "/metrics", "/sessions"} {
			resp, err := http.Get(r.control + path)
			require.NoError(t, err)
			resp.Body.Close()
			require.Equal(t, http.StatusOK, resp.StatusCode)
		}
		r.patience = time.Second
		s, _ := r.end()
		requireCounted(t, s)
		require.Equal(t, 1, s.Recorded)
		require.Equal(t, map[journal.Reason]int{"aborted": 4*n + 2}, s.NotRecorded)
		close(b.released)
		requireNoGoroutines(t)
	}
}

// What finds no room is dropped whole, under its reason. The traffic runs on.
//
// Covers C-26.
func TestNoRoom(t *testing.T) {
	for reason, change := range map[journal.Reason]func(*Options){
		"queue":    func(o *Options) { o.Limits.Queue = 0 },
		"budget":   func(o *Options) { o.Limits.Copies = 0 },
		"oversize": func(o *Options) { o.Limits.RequestCopy = 10 },
	} {
		r := start(t, newScripted(), change)
		for range 5 {
			for _, path := range []string{"/s/a", ""} {
				status, text := r.do(path+chatPath, "whole", chatBody("some text"))
				require.Equal(t, http.StatusOK, status)
				require.Equal(t, delta+stopping+counts+done, text)
			}
		}
		s, traces := r.end()
		requireCounted(t, s)
		require.Equal(t, map[journal.Reason]int{reason: 10}, s.NotRecorded)
		require.Empty(t, traces)
		r.requireAtRest()
	}
}

// A reply that finds no room, or is too long, is lost under its reason, though its prompt is known.
//
// Covers C-24, C-26.
func TestLostReplies(t *testing.T) {
	r := start(t, newScripted(), func(o *Options) { o.Limits.Queue = 20_000; o.Limits.ReplyCopy = 60_000 })
	r.do("/s/a"+chatPath, "whole", chatBody("the first one is recorded"))
	status, text := r.do("/s/a"+chatPath, "long", chatBody("the first one is recorded"))
	require.Equal(t, http.StatusOK, status)
	require.Greater(t, len(text), 1<<16)
	r.do("/s/b"+chatPath, "coded", chatBody("the first one is recorded"))
	r.do("/s/c"+chatPath, "gzip", chatBody("the first one is recorded"), "Accept-Encoding", "gzip")
	s, _ := r.end()
	requireCounted(t, s)
	require.Equal(t, 1, s.Recorded)
	require.Equal(t, 1, s.NotRecorded["encoding"])
	require.Equal(t, 2, s.NotRecorded["queue"]+s.NotRecorded["oversize"], "%+v", s)
	r.requireAtRest()
}

// Prompts that wait for an upload that does not end take room, and nothing waits for them: other sessions have room, too. When the
// session ends without it they are recorded.
//
// Covers C-26.
func TestSlowUpload(t *testing.T) {
	up := newScripted()
	r := start(t, up, func(o *Options) {
		o.Drain = 50 * time.Millisecond
		o.Limits.Queue = 40_000
		o.Export.Holes = journal.HolesKeep
	})
	defer r.dial(half("/s/a" + chatPath)).Close()
	require.Eventually(t, func() bool { return r.joined() == 1 }, 10*time.Second, time.Millisecond)
	const n = 200
	for k := range n {
		status, _ := r.do("/s/a"+chatPath, "whole", chatBody(fmt.Sprint("number ", k, strings.Repeat(" more", 100))))
		require.Equal(t, http.StatusOK, status)
		require.LessOrEqual(t, r.pool.used(), int64(30_000))
	}
	require.Greater(t, r.pool.used(), int64(25_000))
	for k := range 5 {
		r.do("/s/b"+chatPath, "whole", chatBody(fmt.Sprint("another session ", k)))
		require.Eventually(t, func() bool { return r.pool.used() <= 30_000 }, 10*time.Second, time.Millisecond)
	}
	s, traces := r.end()
	requireCounted(t, s)
	require.Equal(t, n+1+5, s.Requests)
	complete := 0
	for _, trace := range traces {
		if len(trace["requests"].([]any)) == 5 {
			complete++
		}
	}
	require.Equal(t, 1, complete)
	require.Equal(t, 1, s.NotRecorded["aborted"])
	require.Positive(t, s.NotRecorded["queue"])
	require.Positive(t, s.Recorded)
	r.requireAtRest()
}

// The queue bounds memory: that of the buffers that wait in it, whatever stands in them.
//
// Covers C-26.
func TestQueueCountsMemory(t *testing.T) {
	const limit = 1 << 20
	b := blocking{released: make(chan struct{}), blocked: make(chan struct{}, 2)}
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, size := range []int{600, 1100, 5000, 600, 600} {
			_, _ = io.WriteString(w, ": "+strings.Repeat("x", size)+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, delta+stopping+counts+done)
	})
	r := start(t, upstream, func(o *Options) {
		b.inner = o.Tokenizer
		o.Tokenizer, o.Limits.Queue = b, limit
	})
	for k := range 2 {
		r.do(fmt.Sprint("/s/stuck", k, chatPath), "", chatBody("BLOCK"))
		<-b.blocked
	}
	most := int64(0)
	for k := range 150 {
		body := chatBody(strings.Repeat("more and ", 60*k))
		status, _ := r.do(fmt.Sprint("/s/other", k, chatPath), "", body)
		require.Equal(t, http.StatusOK, status)
		require.Eventually(t, func() bool { return r.proxy.CopyBytes() <= r.pool.used() && r.carrying() == 0 }, 10*time.Second, time.Millisecond)
		most = max(most, r.pool.used())
	}
	require.LessOrEqual(t, most, int64(limit))
	require.Greater(t, most, int64(limit*9/10))
	r.patience = time.Second
	s, _ := r.end()
	requireCounted(t, s)
	require.Positive(t, s.NotRecorded["queue"])
	close(b.released)
	requireNoGoroutines(t)
}

// A disk that fails at any step changes nothing for the traffic, and what is not on it is counted.
//
// Covers C-24, C-27.
func TestFailingDisk(t *testing.T) {
	errFull := errors.New("no space left on device")
	for from := range 400 {
		var steps, armed atomic.Int64
		step := func(string, string) error {
			if armed.Load() != 0 && steps.Add(1) > int64(from) {
				return errFull
			}
			return nil
		}
		ctx := durable.WithOptions(t.Context(), durable.Options{Step: step})
		r := startIn(t, ctx, newScripted(), nil)
		armed.Store(1)
		for _, name := range []string{"a", "a", "b", "b"} {
			status, text := r.do("/s/"+name+chatPath, "whole", chatBody(name))
			require.Equal(t, http.StatusOK, status)
			require.Equal(t, delta+stopping+counts+done, text)
		}
		r.stop()
		<-r.done
		s := r.Summary()
		requireCounted(t, s)
		if s.Recorded < 4 {
			require.Positive(t, s.Incomplete)
			require.Contains(t, r.logged.String(), errFull.Error())
		}
		traces := r.traces()
		require.GreaterOrEqual(t, len(traces), s.Traces, "a journal that could not be removed is finished again later")
		for _, trace := range traces {
			require.True(t, s.Incomplete > 0 || len(trace["requests"].([]any)) == 2)
		}
		if steps.Load() <= int64(from) {
			require.Equal(t, 4, s.Recorded)
			return
		}
	}
	t.Error("more steps than expected")
}

// A disk that fails once leaves a journal that ends between two lines, and is finished. What it lacks makes the session incomplete.
//
// Covers C-24, C-27.
func TestDiskThatFailsOnce(t *testing.T) {
	errFull, lost := errors.New("no space left on device"), 0
	for at := range int64(400) {
		var steps, armed atomic.Int64
		step := func(string, string) error {
			if armed.Load() != 0 && steps.Add(1) == at+1 {
				return errFull
			}
			return nil
		}
		r := startIn(t, durable.WithOptions(t.Context(), durable.Options{Step: step}), newScripted(), nil)
		armed.Store(1)
		for range 3 {
			status, _ := r.do("/s/a"+chatPath, "whole", chatBody("a"))
			require.Equal(t, http.StatusOK, status)
		}
		r.stop()
		<-r.done
		s := r.Summary()
		requireCounted(t, s)
		if s.Recorded < 3 {
			require.Equal(t, 1, s.Incomplete, "%d of 3 requests", s.Recorded)
			lost++
		}
		if steps.Load() <= at {
			require.Positive(t, lost)
			return
		}
	}
	t.Error("more steps than expected")
}

// A folder that goes away, and a disk without space, leave sessions unrecorded.
//
// Covers C-27.
func TestFolderGone(t *testing.T) {
	r := start(t, newScripted(), nil)
	r.do("/s/a"+chatPath, "whole", chatBody("a"))
	require.NoError(t, os.RemoveAll(r.dir))
	for _, name := range []string{"a", "b"} {
		status, _ := r.do("/s/"+name+chatPath, "whole", chatBody(name))
		require.Equal(t, http.StatusOK, status)
	}
	r.stop()
	<-r.done
	s := r.Summary()
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{"journal": 3}, s.NotRecorded)

	full := start(t, newScripted(), func(o *Options) { o.Free = func() (int64, bool) { return 1000, true } })
	for range 3 {
		full.do("/s/a"+chatPath, "whole", chatBody("a"))
		full.do("/s/b"+chatPath, "status", chatBody("b"))
	}
	s, _ = full.end()
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{"journal": 6}, s.NotRecorded)
	require.Equal(t, 1, strings.Count(full.logged.String(), "a session is not recorded"), "once a minute")
	list, err := os.ReadDir(filepath.Join(full.dir, "journal"))
	require.NoError(t, err)
	require.Empty(t, list)
	full.requireAtRest()
}

// A directory that another process has taken ends recording, and no traffic.
//
// Covers C-27.
func TestDirectoryTaken(t *testing.T) {
	ctx := durable.WithOptions(context.WithoutCancel(t.Context()), durable.Options{Heartbeat: time.Millisecond})
	r := startIn(t, ctx, newScripted(), nil)
	locks, err := filepath.Glob(filepath.Join(r.dir, "lock", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, locks)
	for _, path := range locks {
		require.NoError(t, os.RemoveAll(path))
	}
	<-r.folder.Context().Done()
	status, _ := r.do("/s/a"+chatPath, "whole", chatBody("a"))
	require.Equal(t, http.StatusOK, status)
	r.stop()
	<-r.done
	s := r.Summary()
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{"journal": 1}, s.NotRecorded)
	require.Contains(t, r.logged.String(), "another process has taken the directory")
}
