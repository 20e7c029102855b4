package capture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mock"
)

// leave leaves journals in a directory as a crash does.
func leave(t *testing.T, dir string, traces ...string) {
	t.Helper()
	folder, err := journal.OpenFolder(t.Context(), dir, false)
	require.NoError(t, err)
	for _, trace := range traces {
		w, err := folder.Create(journal.Head{Trace: trace, BlockSize: 4, Canon: "canon-1", Tokenizer: "o200k_base", By: journal.ByURL})
		require.NoError(t, err)
		require.NoError(t, w.Close())
	}
	require.NoError(t, folder.Close())
}

// A capture that ends while it finishes journals that were left finishes all of them.
//
// Covers C-35.
func TestEndWhileJournalsAreFinished(t *testing.T) {
	ended := make(chan struct{})
	ctx := durable.WithOptions(t.Context(), durable.Options{Step: func(_, path string) error {
		if strings.Contains(path, journal.NotesDir) {
			<-ended
		}
		return nil
	}})
	var traces []string
	for k := range 50 {
		traces = append(traces, fmt.Sprintf("cap-%08x", k))
	}
	r := startIn(t, ctx, mock.New(mock.Config{}), func(o *Options) { leave(t, o.Dir, traces...) })
	r.stop()
	close(ended)
	require.NoError(t, <-r.done)
	left, err := r.folder.Unfinished()
	require.NoError(t, err)
	require.Empty(t, left)
	require.NotContains(t, r.logged.String(), "ERROR")
}

// together is a context under which n notes are begun before the first is written: who writes them one by one fails.
func together(t *testing.T, n int64) (ctx context.Context, noted *atomic.Int64) {
	noted = new(atomic.Int64)
	all := make(chan struct{})
	return durable.WithOptions(t.Context(), durable.Options{Step: func(step, path string) error {
		if step == "create" && strings.Contains(path, journal.NotesDir) {
			if noted.Add(1) == n {
				close(all)
			}
			select {
			case <-all:
			case <-time.After(10 * time.Second):
				return errors.New("alone")
			}
		}
		return nil
	}}), noted
}

// When no traffic is left, many sessions are finished at once: each waits for the disk.
func TestSessionsAreFinishedTogether(t *testing.T) {
	const n = 10
	ctx, noted := together(t, n)
	r := startIn(t, ctx, mock.New(mock.Config{}), func(o *Options) { o.Workers = 1 })
	for k := range n {
		r.post(fmt.Sprintf("/s/%d/v1/messages", k), `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Go on."}]}`)
	}
	require.Zero(t, noted.Load())
	s, _ := r.end()
	require.Equal(t, n, s.Traces, "%s", r.logged)
}

// So are journals that a crash left. Those of which one cannot be finished are named, the others come in their order.
func TestLeftJournalsAreFinishedTogether(t *testing.T) {
	dir := t.TempDir()
	var traces []string
	for k := range 10 {
		traces = append(traces, fmt.Sprintf("cap-%08x", k))
	}
	leave(t, dir, traces...)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, journal.NotesDir, traces[4]+".json", "full"), 0o700))
	folder, err := journal.OpenFolder(t.Context(), dir, false)
	require.NoError(t, err)
	ctx, _ := together(t, int64(len(traces)-1)) // where a directory is, no note is begun
	list, err := finish.Recover(ctx, folder)
	require.ErrorContains(t, err, folder.Path(traces[4])+": ")
	require.NotContains(t, err.Error(), "alone")
	var finished []string
	for _, r := range list {
		finished = append(finished, r.Trace)
	}
	require.Equal(t, slices.Delete(traces, 4, 5), finished)
	require.NoError(t, folder.Close())
}

// A trace never gets the id of another one in the directory, whatever is drawn.
//
// Covers C-21.
func TestTracesKeepTheirIDs(t *testing.T) {
	dir := t.TempDir()
	for k := range 3 {
		r := start(t, mock.New(mock.Config{}), func(o *Options) {
			o.Dir = dir
			o.Random = rand.NewChaCha8([32]byte{})
		})
		r.dir = dir
		status, _ := r.post("/s/x/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Go on."}]}`)
		require.Equal(t, http.StatusOK, status)
		s, traces := r.end()
		require.Equal(t, 1, s.Recorded, "%+v %s", s, r.logged)
		require.Len(t, traces, k+1)
	}
}

// A session whose trace cannot be written is an error at the end, and its journal stays.
//
// Covers C-27.
func TestSessionsThatCannotBeFinished(t *testing.T) {
	r := start(t, mock.New(mock.Config{}), nil)
	status, _ := r.post("/s/x/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Go on."}]}`)
	require.Equal(t, http.StatusOK, status)
	notes := filepath.Join(r.dir, journal.NotesDir)
	require.NoError(t, errors.Join(os.RemoveAll(notes), os.WriteFile(notes, nil, 0o600)))
	r.stop()
	require.ErrorContains(t, <-r.done, "1 of the journals could not be finished: agentx capture finish "+r.dir)
	require.Equal(t, 1, r.Summary().Incomplete)
	left, err := filepath.Glob(filepath.Join(r.dir, "journal", "*.jnl"))
	require.NoError(t, err)
	require.Len(t, left, 1)
}

// Journals that were left and cannot be finished do not keep requests from being carried and recorded. They stay until a capture can finish them.
//
// Covers C-27.
func TestLeftJournalsThatCannotBeFinished(t *testing.T) {
	const trace = "cap-00000001"
	obstacle := ""
	r := start(t, mock.New(mock.Config{}), func(o *Options) {
		leave(t, o.Dir, trace)
		obstacle = filepath.Join(o.Dir, journal.NotesDir, trace+".json") // where the note belongs
		require.NoError(t, os.MkdirAll(filepath.Join(obstacle, "full"), 0o700))
	})
	status, _ := r.post("/s/x/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Go on."}]}`)
	require.Equal(t, http.StatusOK, status)
	r.stop()
	require.ErrorContains(t, <-r.done, "1 of the journals could not be finished")
	summary := r.Summary()
	require.Equal(t, []int{1, 1}, []int{summary.Requests, summary.Recorded})
	require.Len(t, r.traces(), 1)
	require.Contains(t, r.logged.String(), "journals that were left could not be finished")

	require.NoError(t, os.RemoveAll(obstacle))
	folder, err := journal.OpenFolder(t.Context(), r.dir, false)
	require.NoError(t, err)
	left, err := finish.Recover(t.Context(), folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, trace, left[0].Trace)
	require.NoError(t, folder.Close())
}
