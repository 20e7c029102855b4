package cachestore

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The README of a root is written once: a person may have edited it. What a process that was killed has left of it is completed.
func TestReadme(t *testing.T) {
	root := t.TempDir()
	plainToy(40).build(t, root, "")
	path := filepath.Join(root, readmeName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, readme, string(data))
	require.NoError(t, os.WriteFile(path, []byte("ours"), 0o666))
	plainToy(40).build(t, root, "other")
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "ours", string(data))
	for _, size := range []int{0, 1, len(readme) - 1} {
		require.NoError(t, os.WriteFile(path, []byte(readme[:size]), 0o666))
		plainToy(40).build(t, root, fmt.Sprint(size))
		data, err = os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, readme, string(data), size)
	}
}
