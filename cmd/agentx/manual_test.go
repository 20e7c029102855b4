package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed manual page, references and llms.txt are those of the tables: make docs writes them. llms.txt names documents that exist.
func TestManuals(t *testing.T) {
	for topic, file := range map[string]string{"manual": "doc/agentx.1", "llms.txt": "llms.txt", "settings.md": "doc/settings.md", "metrics.md": "doc/metrics.md"} {
		var out strings.Builder
		require.Zero(t, run([]string{"help", topic}, nil, &out, &out))
		committed, err := os.ReadFile(filepath.Join("../..", file))
		require.NoError(t, err)
		require.True(t, string(committed) == out.String(), "%s is not current: make docs", file)
	}
	for _, d := range documents {
		require.FileExists(t, filepath.Join("../..", d[0]))
	}
}
