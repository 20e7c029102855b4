package capture

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/finish"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/mock"
)

// Journals that were left and cannot be finished do not keep requests from being carried and recorded. They stay until a capture can finish them.
//
// Covers C-27.
func TestLeftJournalsThatCannotBeFinished(t *testing.T) {
	const trace = "cap-00000001"
	obstacle := ""
	r := start(t, mock.New(mock.Config{}), func(o *Options) {
		folder, err := journal.OpenFolder(t.Context(), o.Dir, journal.Options{})
		require.NoError(t, err)
		w, err := folder.Create(journal.Head{Trace: trace, BlockSize: 4, Canon: "canon-1", Tokenizer: "o200k_base", By: journal.ByURL})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, folder.Close())
		obstacle = filepath.Join(o.Dir, journal.NotesDir, trace+".json") // where the note belongs
		require.NoError(t, os.MkdirAll(filepath.Join(obstacle, "full"), 0o700))
	})
	status, _ := r.post("/s/x/v1/messages", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"Go on."}]}`)
	require.Equal(t, http.StatusOK, status)
	summary, traces := r.end()
	require.Equal(t, []int{1, 1}, []int{summary.Requests, summary.Recorded})
	require.Len(t, traces, 1)
	require.Contains(t, r.logged.String(), "journals that were left could not be finished")

	require.NoError(t, os.RemoveAll(obstacle))
	folder, err := journal.OpenFolder(t.Context(), r.dir, journal.Options{})
	require.NoError(t, err)
	left, err := finish.Recover(t.Context(), folder)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Equal(t, trace, left[0].Trace)
	require.NoError(t, folder.Close())
}
