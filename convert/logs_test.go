package convert

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/tokenizer"
)

// Every sample of logs becomes what its answer says, by an independent reading of doc/spec/text.md.
func TestLogSamples(t *testing.T) {
	root := shared(t, "text-samples")
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	for _, format := range LogFormats() {
		cases, err := os.ReadDir(filepath.Join(root, format))
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(format+"/"+c.Name(), func(t *testing.T) {
				dir := filepath.Join(root, format, c.Name())
				want, err := os.ReadFile(filepath.Join(dir, "ANSWER.json"))
				require.NoError(t, err)
				var refused struct{ Refused string }
				require.NoError(t, json.Unmarshal(want, &refused))
				got, err := answerOf(t, dir, tok)
				if refused.Refused != "" {
					require.Error(t, err)
					t.Logf("%s: %v", refused.Refused, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, indented(t, want), indented(t, got))
			})
		}
	}
}

func answerOf(t *testing.T, dir string, tok *tokenizer.Tokenizer) ([]byte, error) {
	ctx := context.Background()
	files, formats, err := LogFiles([]string{dir})
	require.NoError(t, err)
	if len(formats) == 0 {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		files = nil
		for _, e := range entries {
			if e.Name() != "ANSWER.json" {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	s, err := hfsource.Resolve(ctx, files, hfsource.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	d := text.NewDataset(text.NewStore(t.TempDir()))
	defer d.Store.Close()
	if err := readLogs(ctx, s, d, Options{Logs: LogOptions{Formats: formats}}.withDefaults()); err != nil {
		return nil, err
	}
	sizes := text.NewSizes(d, tok)
	if err := sizes.Complete(); err != nil {
		return nil, err
	}
	a, err := sizes.Answer(64, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

func indented(t *testing.T, data []byte) string {
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}
