package mmapcache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
	"github.com/agentx/agentx/mmapcache/internal/cachedir/faultdisk"
)

// directory is one directory of a dataset.
type directory struct {
	Path     string
	Manifest *manifest.Manifest
}

// directoriesOf reads the manifests of a dataset and its parts, the dataset first.
func directoriesOf(t *testing.T, root, key string) (list []directory) {
	dataset, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	list = append(list, directory{DatasetPath(root, key), dataset})
	for _, kind := range PartKinds() {
		m, err := realDisk().readManifest(root, kind, dataset.Parts[kind].Key, "")
		require.NoError(t, err)
		list = append(list, directory{filepath.Join(root, kind, m.Key), m})
	}
	return list
}

// filesOf lists the manifests of a dataset and its parts and the files that they list.
func filesOf(t *testing.T, root, key string) (files []string) {
	for _, d := range directoriesOf(t, root, key) {
		files = append(files, filepath.Join(d.Path, manifest.FileName))
		for _, f := range d.Manifest.Files {
			files = append(files, filepath.Join(d.Path, f.Name))
		}
	}
	return files
}

// damaged reports whether the damages name a file.
func damaged(v *Verification, path string) bool {
	return slices.ContainsFunc(v.Damages, func(d Damage) bool { return d.File == path })
}

// checkDamage checks that Verify and Open find a damaged file. Open finds it unless spot lies in what it leaves to Verify.
func checkDamage(t *testing.T, root, key, path string, spot int) {
	t.Helper()
	v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	require.True(t, damaged(v, path), "%s, byte %d: %+v", path, spot, v.Damages)
	if spot%4 != 0 { // for speed
		return
	}
	c, err := Open(root, key)
	if err == nil {
		require.NoError(t, c.Close())
		promised := filepath.Base(path) == manifest.FileName || strings.HasSuffix(path, ".arrow") || spot < headerSize
		require.False(t, promised, "Open accepts %s with byte %d flipped", path, spot)
		return
	}
	require.ErrorIs(t, err, manifest.ErrDamaged, path)
	require.ErrorContains(t, err, path)
}

func TestVerifyFindsEveryDamage(t *testing.T) {
	y := plainToy(40)
	y.corpus = append(y.corpus, 12, 13, 30) // with a split character and no character
	root := t.TempDir()
	key := y.build(t, root, "")
	files := filesOf(t, root, key)
	v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	assert.Equal(t, &Verification{Files: len(files), Bytes: v.Bytes, Damages: []Damage{}, Notes: []string{}}, v)
	for _, path := range files {
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		stride := 1
		if strings.HasSuffix(path, ".arrow") {
			stride = 101
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		require.NoError(t, err)
		put := func(k int, b byte) {
			_, err := f.WriteAt([]byte{b}, int64(k))
			require.NoError(t, err)
		}
		for k := 0; k < len(good); k += stride {
			put(k, good[k]^1<<(k%8))
			checkDamage(t, root, key, path, k)
			put(k, good[k])
		}
		require.NoError(t, f.Close())
		for _, bad := range [][]byte{{}, good[:1], good[:len(good)/2], good[:len(good)-1], append(bytes.Clone(good), 0), append(bytes.Clone(good), '\n')} {
			require.NoError(t, os.WriteFile(path, bad, 0o666))
			checkDamage(t, root, key, path, 0)
		}
		require.NoError(t, os.Remove(path))
		v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
		require.NoError(t, err)
		require.True(t, damaged(v, path), path)
		c, err := Open(root, key)
		require.Nil(t, c)
		require.ErrorContains(t, err, filepath.Dir(path))
		require.NoError(t, os.WriteFile(path, good, 0o666))
	}
	v, err = hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
}

// A valid manifest that is not the one that the dataset names is damage: content under another name.
func TestVerifyFindsAnotherManifest(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	m, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	path := filepath.Join(root, ArenasKind, m.Parts[ArenasKind].Key, manifest.FileName)
	part, err := manifest.Read(filepath.Dir(path))
	require.NoError(t, err)
	part.Facts = []byte(`{"tokens":40}`)
	data, err := part.Encode()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	checkDamage(t, root, key, path, 0)
}

func TestVerifyNotesWhatIsHarmless(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	dir := DatasetPath(root, key)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stray"), nil, 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, manifest.ProvenanceName), []byte("{"), 0o666))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "stray directory", "x"), 0o777))
	require.NoError(t, mkfifo(t, filepath.Join(dir, "stray pipe")))
	require.NoError(t, os.Symlink("nothing", filepath.Join(dir, ".stray link")))
	v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
	require.Len(t, v.Notes, 5)
	assert.Contains(t, v.Notes[0], manifest.ProvenanceName)
	for k, name := range []string{".stray link", "stray", "stray directory", "stray pipe"} {
		assert.Equal(t, filepath.Join(dir, name)+": not in the manifest", v.Notes[k+1])
	}
}

// Anything but a regular file is damage, and Verify neither waits for it nor reads it for ever.
func TestVerifyOfOtherThanRegularFiles(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	pipe := filepath.Join(root, "pipe")
	require.NoError(t, mkfifo(t, pipe))
	link := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	for _, path := range filesOf(t, root, key) {
		aside := filepath.Join(root, "aside")
		require.NoError(t, os.Rename(path, aside))
		for what, put := range map[string]func(string) error{
			"a directory":       func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o777) },
			"a pipe":            func(path string) error { return mkfifo(t, path) },
			"a link to a pipe":  link(pipe),
			"a link to nothing": link("nothing"),
			"a link to itself":  link(path),
			"an endless device": link("/dev/zero"),
			"an empty device":   link("/dev/null"),
		} {
			require.NoError(t, put(path))
			v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
			require.NoError(t, err, what)
			require.True(t, damaged(v, path), "%s in the place of %s: %+v", what, path, v.Damages)
			c, err := Open(root, key)
			require.Nil(t, c)
			if what != "a link to nothing" {
				require.ErrorIs(t, err, manifest.ErrDamaged, "%s in the place of %s", what, path)
			}
			require.ErrorContains(t, err, filepath.Dir(path))
			require.NoError(t, os.RemoveAll(path))
		}
		require.NoError(t, os.Symlink(aside, path))
		v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
		require.NoError(t, err)
		require.Empty(t, v.Damages, "a link to the content has the content")
		require.NoError(t, open(t, root, key).Close())
		require.NoError(t, os.Rename(aside, path))
	}
	origin := filepath.Join(DatasetPath(root, key), manifest.ProvenanceName)
	require.NoError(t, os.Remove(origin))
	require.NoError(t, mkfifo(t, origin))
	v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
	require.NoError(t, err)
	assert.Empty(t, v.Damages)
	require.Len(t, v.Notes, 1)
	assert.Contains(t, v.Notes[0], origin)
}

func TestVerifyOfOtherThanDirectories(t *testing.T) {
	for _, kind := range PartKinds() {
		y, root := plainToy(40), t.TempDir()
		key := y.build(t, root, "")
		m, err := realDisk().readManifest(root, DatasetKind, key, "")
		require.NoError(t, err)
		for _, dir := range []string{filepath.Join(root, kind, m.Parts[kind].Key), filepath.Join(root, kind)} {
			require.NoError(t, os.RemoveAll(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o666))
			v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
			require.NoError(t, err)
			assert.True(t, damaged(v, filepath.Join(root, kind, m.Parts[kind].Key, manifest.FileName)), "%+v", v.Damages)
		}
	}
}

// A file that cannot be read is an error, not damage.
func TestVerifySaysWhatItCouldNotLookAt(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	for _, errno := range []syscall.Errno{syscall.EACCES, syscall.EIO} {
		for fail := 1; ; fail++ {
			s := &faultdisk.Stale{Fails: func(call int) error {
				if call == fail {
					return errno
				}
				return nil
			}}
			v, err := disk{s.Disk(true)}.verifyDirectory(t.Context(), root, DatasetKind, key)
			if s.Calls < fail {
				require.NoError(t, err)
				require.Greater(t, fail, 40)
				break
			}
			assert.Empty(t, v.Damages)
			if err == nil { // nor is the provenance, which is worth no more than a note
				require.Len(t, v.Notes, 1)
				assert.Contains(t, v.Notes[0], errno.Error())
				continue
			}
			assert.ErrorIs(t, err, errno)
			assert.ErrorContains(t, err, "could not check: reach ")
		}
	}
}

func TestVerifyStopsWithItsContext(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Verify(ctx, root, key)
	assert.ErrorIs(t, err, ctx.Err())
}

func TestVerifySaysWhatIsWrong(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	for _, path := range filesOf(t, root, key) {
		if filepath.Base(path) == manifest.FileName {
			continue
		}
		good, err := os.ReadFile(path)
		require.NoError(t, err)
		for why, bad := range map[string][]byte{
			"content does not match its digest":                                   append(bytes.Clone(good[1:]), ^good[0]),
			fmt.Sprintf("%d bytes, the manifest says %d", len(good)-1, len(good)): good[1:],
			fmt.Sprintf("%d bytes, the manifest says %d", len(good)+1, len(good)): append(bytes.Clone(good), 0),
		} {
			require.NoError(t, os.WriteFile(path, bad, 0o666))
			v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
			require.NoError(t, err)
			require.Equal(t, []Damage{{path, why}}, v.Damages)
		}
		require.NoError(t, os.WriteFile(path, good, 0o666))
	}
}

// Offsets that no window of this dataset touches are checked as well.
func TestVerifyChecksEveryOffset(t *testing.T) {
	for _, name := range []string{textOffsetsFile, idOffsetsFile} {
		y, root := plainToy(40), t.TempDir()
		y.starts = [][]uint32{{0, 4, 8, 0, 1}}
		list := directoriesOf(t, root, y.build(t, root, ""))
		files := map[string]string{}
		arenas := list[3]
		for path, data := range snapshotOf(t, arenas.Path) {
			if _, ok := arenas.Manifest.File(filepath.Base(path)); ok {
				files[filepath.Base(path)] = data
			}
		}
		at := headerSize + 4*30
		files[name] = files[name][:at] + "\x00" + files[name][at+1:]
		spoiled, err := NewBuilder(withoutSync(t), root, ArenasKind, "spoiled")
		require.NoError(t, err)
		for name, data := range files {
			require.NoError(t, spoiled.writeFile(name, func(w io.Writer) error { _, err := io.WriteString(w, data); return err }))
		}
		spoiled.manifest.Facts = arenas.Manifest.Facts
		m, err := spoiled.Publish(t.Context(), Provenance{})
		require.NoError(t, err)
		key := publish(t, root, DatasetKind, "spoiled", nil, list[1].Manifest, list[2].Manifest, m).Key
		require.NoError(t, walk(open(t, root, key)))
		v, err := hasty(realDisk()).verifyDirectory(t.Context(), root, DatasetKind, key)
		require.NoError(t, err)
		require.Len(t, v.Damages, 1)
		assert.Contains(t, v.Damages[0].Reason, filepath.Join(root, ArenasKind, m.Key, name)+": damaged: offset 30 is")
	}
}

// long is a file of a thousand pieces.
type long struct {
	fs.File
	reads *int
	read  func()
}

func (l long) Read(p []byte) (int, error) {
	if l.read(); *l.reads == 1000 {
		return 0, io.EOF
	}
	*l.reads++
	return len(p), nil
}

func TestVerifyStopsInTheMiddleOfAFile(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	ctx, cancel := context.WithCancel(t.Context())
	d, reads := realDisk(), 0
	open := func(path string) (fs.File, int64, error) {
		f, size, err := d.Open(path)
		if filepath.Base(path) == "text.json" {
			f = long{f, &reads, func() {
				if reads == 3 {
					cancel()
				}
			}}
		}
		return f, size, err
	}
	_, err := disk{cachedir.Disk{Open: open, Stat: d.Stat, ReadDir: d.ReadDir}}.verifyDirectory(ctx, root, DatasetKind, key)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 4, reads)
}

// hasty is a disk whose waits take no time.
func hasty(d disk) disk {
	d.Sleep = func(context.Context, time.Duration) error { return nil }
	return d
}

// patient is a disk that adds its waits up and takes no time for them.
func patient(waited *time.Duration) disk {
	d := realDisk()
	d.Sleep = func(_ context.Context, pause time.Duration) error { *waited += pause; return nil }
	return d
}

// A missing file of an unchanged dataset is damage if it stays missing for a second, and on a network file system, whose
// clients may remember a removed file that long, for a minute.
func TestVerifyLooksAgain(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	key := y.build(t, root, "")
	for _, c := range []struct {
		network        bool
		missing, waits time.Duration
		damaged        bool
	}{
		{false, 10 * time.Millisecond, 10 * time.Millisecond, false},
		{false, cachedir.WaitReplaced, 1270 * time.Millisecond, false},
		{false, cachedir.WaitReplaced + time.Second, 1270 * time.Millisecond, true},
		{true, 50 * time.Second, 51 * time.Second, false},
		{true, cachedir.WaitRemember + 2*time.Second, cachedir.WaitRemember + time.Second, true},
	} {
		waited := time.Duration(0)
		d := patient(&waited)
		d.IsNetwork = func(string) bool { return c.network }
		list := d.ReadDir
		d.ReadDir = func(dir string) ([]fs.DirEntry, error) {
			if filepath.Base(filepath.Dir(dir)) == ArenasKind && waited < c.missing {
				return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOENT}
			}
			return list(dir)
		}
		v, err := d.verifyDirectory(t.Context(), root, DatasetKind, key)
		require.NoError(t, err)
		if c.damaged {
			require.Len(t, v.Damages, 1)
			assert.Contains(t, v.Damages[0].Reason, "no such file")
		} else {
			assert.Empty(t, v.Damages, "missing for %s", c.missing)
		}
		assert.InDelta(t, c.waits.Seconds(), waited.Seconds(), 1.1, "missing for %s", c.missing)
	}
}

// A dataset that another process removes, and perhaps makes again, during Verify is not damaged: it is whole, or gone, or
// changing.
func TestWhatIsRemovedMeanwhileIsNotDamaged(t *testing.T) {
	const again = 3
	for name, read := range map[string]func(d disk, root, key string) error{
		"verify": func(d disk, root, key string) error {
			v, err := d.verifyDirectory(t.Context(), root, DatasetKind, key)
			if err == nil && len(v.Damages) > 0 {
				return fmt.Errorf("damaged: %+v", v.Damages)
			}
			return err
		},
	} {
		for outcome, made := range map[string]int{"gone": 0, "whole": again, "comes and goes": math.MaxInt} {
			t.Run(name+" "+outcome, func(t *testing.T) {
				root := t.TempDir()
				key := plainToy(40).build(t, root, "")
				part := filepath.Join(root, PlacementKind, directoriesOf(t, root, key)[2].Manifest.Key)
				waited, times := time.Duration(0), 0
				d := patient(&waited)
				d.Open = func(path string) (fs.File, int64, error) {
					if path == filepath.Join(part, placementFile) && times < max(made, 1) {
						times++
						dataset := DatasetPath(root, key)
						if made == 0 {
							require.NoError(t, os.RemoveAll(dataset))
							require.NoError(t, os.RemoveAll(part))
						} else { // another one of that name
							require.NoError(t, os.Chtimes(dataset, time.Time{}, time.Now().Add(time.Duration(times)*time.Second)))
							return nil, 0, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
						}
					}
					return manifest.Open(path)
				}
				err := read(d, root, key)
				switch outcome {
				case "gone":
					assert.ErrorIs(t, err, ErrNoCache)
				case "whole":
					assert.NoError(t, err)
				default:
					assert.ErrorContains(t, err, outcome)
				}
				if err != nil {
					assert.NotContains(t, err.Error(), "damaged")
				}
			})
		}
	}
}

func TestVerifyOfMissingDataset(t *testing.T) {
	_, err := Verify(t.Context(), t.TempDir(), "0123456789")
	require.ErrorIs(t, err, ErrNoCache)
}

// BenchmarkVerify verifies a cache of about 25 KB. The tests that flip each of its bits need this to be fast.
func BenchmarkVerify(b *testing.B) {
	y, root := plainToy(400), b.TempDir()
	key := y.build(b, root, "")
	run := func(name string, damages int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, err := Verify(b.Context(), root, key)
				require.NoError(b, err)
				require.Len(b, v.Damages, damages)
			}
		})
	}
	run("whole", 0)
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, open(b, root, key).Close())
		}
	})
	m, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(b, err)
	path := filepath.Join(root, ArenasKind, m.Parts[ArenasKind].Key, "text.json")
	data, err := os.ReadFile(path)
	require.NoError(b, err)
	data[len(data)/2] ^= 1
	require.NoError(b, os.WriteFile(path, data, 0o666))
	run("damaged", 1)
}

// The reason of a damage does not say again which file it is about.
func TestReasonsOfDamageHaveNoPath(t *testing.T) {
	file := filepath.Join("root", "starts", "key", manifest.FileName)
	for text, err := range map[string]error{
		"no digest at the end":            fmt.Errorf("%s: %w: no digest at the end", file, manifest.ErrDamaged),
		"there is no such starts: ENOENT": fmt.Errorf("%s: there is no such starts: ENOENT", filepath.Dir(file)),
		"other/file: damaged: cut off":    fmt.Errorf("other/file: %w: cut off", manifest.ErrDamaged),
	} {
		assert.Equal(t, text, reasonOf(file, err))
	}
}
