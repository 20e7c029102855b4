package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The export of an installed AIPerf, or of its fork, without network and with the vocabulary of the binary, is the known corpus.
func TestCorpusOfAIPerf(t *testing.T) {
	python := os.Getenv("BODIES_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-bodies")
	}
	file := filepath.Join(t.TempDir(), "coding.u32le")
	require.Zero(t, run([]string{"corpus", "aiperf", "--python", python, file}, nil, new(strings.Builder), os.Stderr))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	want, err := os.ReadFile(sharedCorpus + "aiperf-coding-42-o200k_base.u32le")
	if err != nil {
		t.Skip(err) // export has compared the digest
	}
	assert.True(t, bytes.Equal(want, got))
}
