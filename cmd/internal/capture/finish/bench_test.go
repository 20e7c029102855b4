package finish

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// BenchmarkFinish finishes a journal in a directory of no trace, and of 20,000: a capture that runs for weeks is not slower at its end.
func BenchmarkFinish(b *testing.B) {
	for _, traces := range []int{0, 20_000} {
		b.Run(fmt.Sprintf("among-%d", traces), func(b *testing.B) {
			script := newScript(b, journal.Export{})
			script.example()
			text := script.bytes()
			for k := range traces {
				for _, dir := range []string{journal.TracesDir, journal.NotesDir} {
					require.NoError(b, os.WriteFile(filepath.Join(script.folder.Dir(), dir, fmt.Sprintf("cap-%08x.json", k)), nil, 0o600))
				}
			}
			for b.Loop() {
				require.NoError(b, os.WriteFile(script.folder.Path(head.Trace), text, 0o600))
				_, err := Finish(b.Context(), script.folder, head.Trace)
				require.NoError(b, err)
			}
		})
	}
}
