package convert

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/tokenizer"
)

// TestOwnLogs says how well the sizes of prompts in anyone's own logs fit those that were recorded: make test-claude-logs DIR=DIR. It prints
// numbers alone.
func TestOwnLogs(t *testing.T) {
	dir := os.Getenv("AGENTX_LOGS")
	if dir == "" {
		t.Skip("AGENTX_LOGS names no directory of logs")
	}
	ctx := context.Background()
	files, formats, err := LogFiles([]string{dir})
	require.NoError(t, err)
	s, err := hfsource.Resolve(ctx, files, hfsource.Options{})
	require.NoError(t, err)
	defer s.Close()
	d := text.NewDataset(text.NewStore(t.TempDir()))
	defer d.Store.Close()
	require.NoError(t, readLogs(ctx, s, d, Options{Logs: LogOptions{Formats: formats}}.withDefaults()))
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	sizes := text.NewSizes(d, tok)
	require.NoError(t, sizes.Complete())
	list, err := sizes.Stretches(64)
	require.NoError(t, err)
	turns := 0
	for _, trace := range d.Traces {
		for k := range trace.Sessions {
			turns += len(trace.Sessions[k].Turns)
		}
	}
	t.Logf("%d files of %d MB: %d sessions, %d turns; counted %v", len(files), s.Bytes()>>20, len(d.Traces), turns, d.Warnings)
	for _, group := range []struct {
		name string
		has  func(text.Stretch) bool
	}{
		{"sessions, 8 and more turns, none shrunk", func(s text.Stretch) bool { return s.Session == 0 && s.Turns >= 8 && !s.Shrunk }},
		{"sessions, 8 and more turns, shrunk", func(s text.Stretch) bool { return s.Session == 0 && s.Turns >= 8 && s.Shrunk }},
		{"agents, 6 and more turns", func(s text.Stretch) bool { return s.Session > 0 && s.Turns >= 6 }},
	} {
		var values [8][]float64
		for _, s := range list {
			if group.has(s) {
				for k, v := range [...]float64{100 * s.P50, 100 * s.P99, s.Ratio, s.Call, float64(s.Lacks), s.Prefix, 100 * (s.Reuse - s.Cached), 100 * s.Apart} {
					values[k] = append(values[k], v)
				}
			}
		}
		above := 0
		for _, v := range values[1] {
			if v > 100*text.WorstResidual {
				above++
			}
		}
		t.Logf("%s: %d stretches, %d with a residual above %.0f %% at p99; p10, p50, p90 of them:", group.name, len(values[0]), above, 100*text.WorstResidual)
		for k, name := range [...]string{"median distance, %", "p99 of distances, %", "ratio", "tokens a call", "F, tokens", "P, tokens", "reuse above cached, %", "apart, median, %"} {
			t.Logf("  %-22s %10.2f %10.2f %10.2f", name, text.Percentile(values[k], 0.1), text.Percentile(values[k], 0.5), text.Percentile(values[k], 0.9))
		}
	}
}
