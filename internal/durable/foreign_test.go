//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// asNobody runs a test of this package again, in a process of another user, with a root in the environment. It reports whether this is
// that process.
func asNobody(t *testing.T, root string) (there bool) {
	if os.Getenv("AGENTX_TEST_ROOT") != "" {
		return true
	}
	at := t.TempDir()
	program := filepath.Join(at, "test")
	for dir := at; dir != filepath.Dir(os.TempDir()) && strings.HasPrefix(dir, os.TempDir()); dir = filepath.Dir(dir) {
		if dir != os.TempDir() {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
	}
	data, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, data, 0o755))
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "AGENTX_TEST_ROOT="+root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NotContains(t, string(out), "SKIP")
	return false
}

// Users of a sticky root take and remove nothing of each other, and errors name the owner. The claim of another user's process that has
// ended for good stops nobody.
//
// Covers F29.
func TestUsersOfAStickyRoot(t *testing.T) {
	root := os.Getenv("AGENTX_TEST_ROOT")
	if root == "" {
		root = t.TempDir()
		if os.Geteuid() != 0 {
			t.Skip("only root can start a process of another user")
		}
		require.NoError(t, os.Chmod(root, 0o777|fs.ModeSticky))
		require.NoError(t, build(root, Options{}, publish))
		ended := as(func(o *owner) { o.pid = 1 << 22 }) // beyond the numbers of processes
		hold(t, root, 1, ended)
		require.NoError(t, os.MkdirAll(filepath.Join(root, StagingDir, ended.fileName(), "in it"), 0o755))
		require.NoError(t, os.Chown(filepath.Join(root, StagingDir), 65534, 65534)) // its owner may rename what is in it
	}
	if !asNobody(t, root) {
		assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
		return
	}
	l, err := Acquire(t.Context(), root, "thing", never, Waiting{})
	require.NoError(t, err)
	for _, err := range []error{
		CheckReplaceable(filepath.Join(root, "kind", "name")),
		Options{Lease: l}.Remove(root, "kind/name", nil),
		build(root, Options{Lease: l}, func(d *Dir) error { return d.Replace("kind/name") }),
	} {
		var foreign *ForeignError
		require.ErrorAs(t, err, &foreign)
		assert.EqualError(t, foreign, filepath.Join(root, "kind", "name")+" belongs to user root, who alone may replace or remove it")
	}
	require.NoError(t, build(root, Options{Lease: l}, func(d *Dir) error {
		_, err := d.Publish("kind/other")
		return err
	}))
	require.NoError(t, CheckReplaceable(filepath.Join(root, "kind", "other")))
	require.NoError(t, l.Release())
	now, err := FilesystemTime(root)
	require.NoError(t, err)
	list, err := Sweep(root, now.Add(10*foreignSilence), false)
	require.NoError(t, err, "what is another user's stays, without an error")
	assert.Empty(t, list)
	require.NoError(t, CheckReplaceable(filepath.Join(root, "nowhere")))
}

// Only an error about permission is one about owners.
func TestForeignErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine")
	require.NoError(t, os.Mkdir(path, 0o777))
	for _, err := range []error{nil, errFull, &fs.PathError{Op: "rename", Path: path, Err: syscall.EPERM}} {
		assert.Equal(t, err, asForeign(path, err), "it is this user's")
	}
	err := errors.New("why")
	assert.Equal(t, err, (&ForeignError{Err: err}).Unwrap())
}
