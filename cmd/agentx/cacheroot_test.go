package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An error about a cache root that the user may not write in comes with the hint --cache; other errors do not.
func TestHintRoot(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("LocalAppData", home) // Windows
	cmd := newVersion()
	root := filepath.Join(home, "agentx")
	denied := func(path string, why error) error {
		return fmt.Errorf("lease: %w", &fs.PathError{Op: "mkdir", Path: path, Err: why})
	}
	newRoot().AddCommand(cmd) // for --cache
	require.NoError(t, cmd.ParseFlags(nil))
	for name, c := range map[string]struct {
		err     error
		advised bool
	}{
		"the root":           {denied(root, fs.ErrPermission), true},
		"in the root":        {denied(filepath.Join(root, ".staging"), fs.ErrPermission), true},
		"above the root":     {denied(home, fs.ErrPermission), true},
		"a read-only disk":   {denied(root, syscall.EROFS), true},
		"no such parent":     {denied(root, fs.ErrNotExist), true},
		"beside the root":    {denied(root+"-old", fs.ErrPermission), false},
		"an input":           {denied(filepath.Join(home, "x.jsonl"), fs.ErrPermission), false},
		"another error":      {denied(root, fs.ErrExist), false},
		"advice of its own":  {hintError{denied(root, fs.ErrPermission), "sleep"}, false},
		"no path in it":      {fs.ErrPermission, false},
		"nothing went wrong": {nil, false},
	} {
		got := hintRoot(cmd, c.err)
		var try hintError
		if c.advised && assert.ErrorAs(t, got, &try, name) {
			assert.Equal(t, "--cache DIR or AGENTX_CACHE=DIR, a directory that you may write in", try.hint, name)
			at, _ := errors.AsType[*fs.PathError](c.err)
			assert.ErrorIs(t, got, at, name)
			assert.Equal(t, at.Path != filepath.Join(root, ".staging"), strings.HasPrefix(got.Error(), "cache root "+root+" cannot be made: mkdir "), name)
		} else {
			assert.Equal(t, c.err, got, name)
		}
	}
}
