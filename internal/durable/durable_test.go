package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// world counts the steps that touch the disk and fails one of them.
type world struct {
	steps []string
	fail  int // step that fails, from 1; 0: none
}

var errFull = errors.New("no space left")

func (w *world) options() Options {
	return Options{Step: func(name, path string) error {
		w.steps = append(w.steps, name+" "+filepath.Base(path))
		if len(w.steps) == w.fail {
			return errFull
		}
		return nil
	}}
}

// files reads the files of a directory, nil where it does not exist.
func files(t *testing.T, dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		found[e.Name()] = string(data)
	}
	return found
}

// staging lists what stands in the staging directory.
func staging(t *testing.T, root string) (names []string) {
	entries, err := os.ReadDir(filepath.Join(root, StagingDir))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

var content = map[string]string{"a": "1", "b": ""}

// build writes the content into a new directory and ends it with finish. After an error it discards the directory.
func build(root string, opts Options, finish func(*Dir) error) error {
	d, err := NewDir(root, opts)
	if err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := d.Write(name, []byte(content[name])); err != nil {
			return errors.Join(err, d.Discard())
		}
	}
	return errors.Join(finish(d), d.Discard())
}

func publish(d *Dir) error {
	existed, err := d.Publish("kind/name")
	if existed {
		err = errors.Join(err, fs.ErrExist)
	}
	return err
}

func TestPublish(t *testing.T) {
	root := filepath.Join(t.TempDir(), "deep", "root")
	require.NoError(t, build(root, Options{}, publish))
	assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
	assert.Empty(t, staging(t, root))
}

// Everything is synced before the one rename, and the directories above after it.
func TestOrderOfTheSteps(t *testing.T) {
	w := &world{}
	root := filepath.Join(t.TempDir(), "root")
	above := filepath.Base(filepath.Dir(root))
	var stage string
	require.NoError(t, build(root, w.options(), func(d *Dir) error {
		stage = filepath.Base(d.Path(""))
		return publish(d)
	}))
	assert.Equal(t, []string{
		"mkdir " + StagingDir, "sync root", "sync " + above, "mkdir " + stage,
		"create a", "write a", "create b", "write b", "mkdir kind", "sync root",
		"sync a", "sync b", "sync " + stage, "rename name", "sync kind", "sync root",
	}, w.steps, "what is created is synced above")

	again := &world{}
	require.ErrorIs(t, build(root, again.options(), func(d *Dir) error {
		stage = filepath.Base(d.Path(""))
		return publish(d)
	}), fs.ErrExist)
	assert.Equal(t, []string{
		"mkdir " + StagingDir, "mkdir " + stage, "create a", "write a", "create b", "write b", "mkdir kind",
		"sync a", "sync b", "sync " + stage, "rename name", "sync kind", "sync root",
	}, again.steps, "what another published is synced too")
}

// Publish syncs the directories between name and root, also where the path of the root is not clean.
func TestRootsThatAreNotClean(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, root := range []string{".", "./././././r", "a//b/", "a/../c"} {
		w := &world{}
		require.NoError(t, build(root, w.options(), publish))
		n := len(w.steps)
		assert.Equal(t, []string{"sync kind", "sync " + filepath.Base(filepath.Clean(root))}, w.steps[n-2:], root)
	}
}

// Every step fails in turn: the final name is absent or whole, and nothing else is left.
func TestEveryFailingStepLeavesTheNameAbsentOrWhole(t *testing.T) {
	for _, finish := range []func(*Dir) error{publish, func(d *Dir) error { return d.Replace("kind/name") }} {
		for fail := 1; ; fail++ {
			w := &world{fail: fail}
			root := t.TempDir()
			err := build(root, w.options(), finish)
			got := files(t, filepath.Join(root, "kind", "name"))
			assert.Empty(t, staging(t, root))
			if len(w.steps) < fail {
				require.NoError(t, err)
				require.Greater(t, fail, 10)
				break
			}
			require.ErrorIs(t, err, errFull)
			name, path, _ := strings.Cut(w.steps[fail-1], " ")
			assert.ErrorContains(t, err, name+" ")
			assert.ErrorContains(t, err, path)
			if got != nil {
				assert.Equal(t, content, got)
			}
			require.NoError(t, build(root, Options{}, func(d *Dir) error { return d.Replace("kind/name") }))
			assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
		}
	}
}

func TestPublishKeepsAnExistingDirectory(t *testing.T) {
	root := t.TempDir()
	final := filepath.Join(root, "kind", "name")
	require.NoError(t, os.MkdirAll(final, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(final, "old"), nil, 0o666))
	require.ErrorIs(t, build(root, Options{}, publish), fs.ErrExist)
	assert.Equal(t, map[string]string{"old": ""}, files(t, final))
	assert.Empty(t, staging(t, root))
}

// Publish keeps a file that has the name, as it keeps a directory, and Replace replaces it.
func TestPublishWhereAFileIs(t *testing.T) {
	root := t.TempDir()
	final := filepath.Join(root, "kind", "name")
	require.NoError(t, os.MkdirAll(filepath.Dir(final), 0o777))
	require.NoError(t, os.WriteFile(final, []byte("a file"), 0o666))
	require.ErrorIs(t, build(root, Options{}, publish), fs.ErrExist)
	require.FileExists(t, final)
	require.NoError(t, build(root, Options{}, func(d *Dir) error { return d.Replace("kind/name") }))
	assert.Equal(t, content, files(t, final))
	assert.Empty(t, staging(t, root))
}

// A rename that fails for another reason than a taken name is an error, also where the name is taken.
func TestPublishTakesNoOtherErrorForATakenName(t *testing.T) {
	root := t.TempDir()
	final := filepath.Join(root, "kind", "name")
	require.NoError(t, build(root, Options{}, publish))
	gone := Options{Step: func(name, path string) error {
		if name != "rename" {
			return nil
		}
		return os.RemoveAll(filepath.Join(root, StagingDir))
	}}
	err := build(root, gone, publish)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NotErrorIs(t, err, fs.ErrExist)
	assert.Equal(t, content, files(t, final))
}

// A process that has a file of a replaced directory open can go on reading it.
func TestReplace(t *testing.T) {
	posix(t, "a file that is open keeps its directory there")
	root := t.TempDir()
	final := filepath.Join(root, "kind", "name")
	replace := func(d *Dir) error { return d.Replace("kind/name") }
	require.NoError(t, build(root, Options{}, replace), "where nothing is yet")
	require.NoError(t, os.WriteFile(filepath.Join(final, "a"), []byte("damaged"), 0o666))
	f, err := os.Open(filepath.Join(final, "a"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, build(root, Options{}, replace))
	assert.Equal(t, content, files(t, final))
	assert.Empty(t, staging(t, root))
	buf := make([]byte, 10)
	n, _ := f.Read(buf)
	assert.Equal(t, "damaged", string(buf[:n]))
}

func TestDiscardLeavesNothing(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, build(root, Options{}, func(*Dir) error { return nil }))
	assert.Empty(t, staging(t, root))
	assert.Nil(t, files(t, filepath.Join(root, "kind")))

	d, err := NewDir(root, Options{})
	require.NoError(t, err)
	require.NoError(t, publish(d))
	require.NoError(t, d.Discard(), "after Publish it does nothing")
	assert.DirExists(t, filepath.Join(root, "kind", "name"))
}

func TestNoTwoBuildersShareAName(t *testing.T) {
	root := t.TempDir()
	seen := map[string]bool{}
	for range 20 {
		d, err := NewDir(root, Options{})
		require.NoError(t, err)
		assert.Equal(t, root, d.Root())
		seen[d.Path("")] = true
	}
	assert.Len(t, seen, 20)
	for _, name := range staging(t, root) {
		parts := strings.Split(name, "_")
		require.Len(t, parts, 5, "host, boot, namespace, process, chance")
		assert.Equal(t, fmt.Sprint(os.Getpid()), parts[3])
	}
}

func TestFilesAreNotOverwritten(t *testing.T) {
	d, err := NewDir(t.TempDir(), Options{})
	require.NoError(t, err)
	require.NoError(t, d.Write("a", []byte("1")))
	assert.ErrorIs(t, d.Write("a", []byte("2")), fs.ErrExist)
	assert.Equal(t, map[string]string{"a": "1"}, files(t, d.Path("")))
}

func TestRemove(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, build(root, Options{}, publish))
	require.NoError(t, Options{}.Remove(root, "kind/name", nil))
	assert.Nil(t, files(t, filepath.Join(root, "kind", "name")))
	assert.DirExists(t, filepath.Join(root, "kind"))
	assert.Empty(t, staging(t, root))
	assert.ErrorIs(t, Options{}.Remove(root, "kind/name", nil), fs.ErrNotExist)
	assert.Empty(t, staging(t, root))
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"first", "", "second"} {
		require.NoError(t, WriteFile(path, []byte(text)))
		assert.Equal(t, map[string]string{"f": text}, files(t, dir))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		assert.Equal(t, fs.FileMode(0o644), info.Mode())
	}

	assert.ErrorIs(t, WriteFile(filepath.Join(dir, "nowhere", "f"), nil), fs.ErrNotExist)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "taken"), 0o777))
	assert.Error(t, WriteFile(filepath.Join(dir, "taken"), []byte("x")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 2, "nothing else is left")
}

func TestStepsOfWriteFile(t *testing.T) {
	for fail := 0; ; fail++ {
		w := &world{fail: fail}
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o666))
		err := w.options().WriteFile(path, []byte("new"))
		got := files(t, dir)
		require.Len(t, got, 1, "nothing else is left")
		if fail == 0 {
			require.NoError(t, err)
			require.Len(t, w.steps, 4)
			assert.Equal(t, []string{"rename f", "sync " + filepath.Base(dir)}, w.steps[2:], "the rename is synced")
		}
		if fail > 0 && fail > len(w.steps) {
			break
		}
		if fail > 0 {
			require.ErrorIs(t, err, errFull)
			assert.Equal(t, fail == 4, got["f"] == "new", "%d: %v", fail, w.steps)
		}
	}
}
