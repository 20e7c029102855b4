package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deadPid is above every limit of pids.
const deadPid = 1 << 29

// as returns this machine's owner with something changed.
func as(change func(*owner)) owner {
	o := newOwner()
	change(&o)
	return o
}

func TestOwnersHaveNames(t *testing.T) {
	o := newOwner()
	got, ok := parseOwner(o.fileName())
	assert.True(t, ok)
	assert.Equal(t, o, got)
	for _, bad := range []string{"", "a_b_c_d", "a_b_c_x_e", "a_b_c_-1_e", "a_b_c_0_e", "a_b_c_1_e_f"} {
		_, ok := parseOwner(bad)
		assert.False(t, ok, bad)
	}
}

// Which owners are gone: the table of rules.
func TestOwnersThatAreGone(t *testing.T) {
	posix(t, "it knows no dead processes")
	const beat = time.Second
	dead := func(o *owner) { o.pid = deadPid }
	for _, c := range []struct {
		what   string
		who    owner
		silent time.Duration
		want   bool
	}{
		{"this process", newOwner(), time.Hour, false},
		{"a process of this number, long silent", newOwner(), time.Hour + 4*time.Second, true},
		{"a dead process of this machine", as(dead), 0, true},
		{"a dead process in another container of this machine", as(func(o *owner) { dead(o); o.pidNamespace = "4" }), time.Hour, false},
		{"the same, long silent", as(func(o *owner) { dead(o); o.pidNamespace = "4" }), time.Hour + 4*time.Second, true},
		{"this host before its last boot", as(func(o *owner) { o.boot = "b" }), 4 * time.Second, true},
		{"a machine that calls itself like this one, and beats", as(func(o *owner) { o.boot = "b" }), 2 * time.Second, false},
		{"another machine", as(func(o *owner) { o.host, o.boot = "h", "b" }), time.Hour, false},
		{"another machine, long silent", as(func(o *owner) { o.host, o.boot = "h", "b" }), time.Hour + 4*time.Second, true},
		{"a clock that goes back", as(func(o *owner) { o.host, o.boot = "h", "b" }), -time.Hour, false},
		{"nobody knows", owner{}, time.Hour, false},
	} {
		assert.Equal(t, c.want, c.who.leftBehind(c.silent, beat), c.what)
	}
}

func TestSweep(t *testing.T) {
	posix(t, "it knows no dead processes")
	root := t.TempDir()
	list, err := Sweep(filepath.Join(root, "nothing"), time.Now(), false)
	require.NoError(t, err)
	assert.Empty(t, list)

	now, err := FilesystemTime(root)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), now, time.Hour)
	assert.Empty(t, staging(t, root))
	old := now.Add(-2 * time.Hour)
	put := func(name, inside string, at time.Time) string {
		path := filepath.Join(root, StagingDir, name)
		require.NoError(t, os.MkdirAll(path, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(path, inside), []byte("12345"), 0o666))
		require.NoError(t, os.Chtimes(path, at, at))
		return name
	}
	claim := func(name string, who owner, at time.Time, others ...owner) string {
		put(filepath.Join(name, who.fileName()), "beat.000007", at)
		for _, o := range others {
			put(filepath.Join(name, o.fileName()), "beat.000007", at)
		}
		return name
	}
	dead, far := as(func(o *owner) { o.pid = deadPid }), far()
	mine := newOwner()
	var gone, stay []string
	gone = append(gone,
		put(dead.fileName(), "f", now),
		claim("thing.000001", dead, now),
		claim("thing.000002", far, old),
		claim("both.000001", dead, now, dead),
	)
	stay = append(stay,
		put(mine.fileName(), "f", now),
		claim("mine.000001", mine, now),
		claim("far.000001", far, now),
		claim("both.000002", dead, now, mine),
		put("backup.202601", "stray", old), // of a person who calls things so
		put("notes of a stranger", "f", old),
		put("notes.txt", "f", old),
	)
	require.NoError(t, os.WriteFile(filepath.Join(root, StagingDir, "file.000001"), nil, 0o666))
	stay = append(stay, "file.000001")

	elsewhere := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(elsewhere, dead.fileName()), 0o777))
	linked := t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(linked, StagingDir)))
	_, err = Sweep(linked, now, false)
	require.ErrorContains(t, err, "no link is followed")
	assert.DirExists(t, filepath.Join(elsewhere, dead.fileName()))

	found, err := Sweep(root, now, true)
	require.NoError(t, err)
	var names []string
	for _, l := range found {
		names = append(names, filepath.Base(l.Path))
		assert.Positive(t, l.Bytes)
		assert.NotEmpty(t, l.Owner)
	}
	assert.ElementsMatch(t, gone, names)
	assert.ElementsMatch(t, append(gone, stay...), staging(t, root), "a dry run removes nothing")
	again, err := Sweep(root, now, false)
	require.NoError(t, err)
	assert.Equal(t, found, again)
	assert.ElementsMatch(t, stay, staging(t, root))
}

func TestUse(t *testing.T) {
	posix(t, "it knows no dead processes")
	root := t.TempDir()
	dir := filepath.Join(root, "notes")
	u := NoteUse(root, dir, []string{"a", "b"})
	dead := as(func(o *owner) { o.pid = deadPid })
	require.NoError(t, os.WriteFile(filepath.Join(dir, dead.fileName()+useSuffix), []byte("c\n"), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stranger.use"), []byte("d\n"), 0o666))
	users, left := usersOf(t, dir, time.Now())
	assert.Equal(t, map[string]string{"a": thisProcess().describe(), "b": thisProcess().describe()}, users)
	require.Len(t, left, 1)
	assert.Equal(t, dead.describe(), left[0].Owner)
	u.Close()
	users, _ = usersOf(t, dir, time.Now())
	assert.Empty(t, users)
	users, left = usersOf(t, filepath.Join(root, "nowhere"), time.Now())
	assert.Empty(t, users)
	assert.Empty(t, left)

	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o666))
	none := NoteUse(root, filepath.Join(root, "file", "dir"), []string{"a"}) // as on a read-only file system
	none.Close()
}

// Notes follow no link and wait for no pipe, which other users of a shared root may leave.
func TestNotesFollowNoLinks(t *testing.T) {
	posix(t, "links are for few there, and Wine has its own")
	root, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.Chmod(root, 0o777))
	require.NoError(t, os.WriteFile(victim, []byte("secret"), 0o600))
	link := filepath.Join(root, "link")
	require.NoError(t, os.Symlink(victim, link))
	require.Error(t, WriteSmall(root, link, []byte("x"), 0))
	matchMode(root, link)
	info, err := os.Stat(victim)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	assert.Equal(t, map[string]string{"victim": "secret"}, files(t, filepath.Dir(victim)))
	dangling := filepath.Join(root, "dangling")
	require.NoError(t, os.Symlink(filepath.Join(filepath.Dir(victim), "new"), dangling))
	require.Error(t, WriteSmall(root, dangling, []byte("x"), 0))
	assert.Equal(t, map[string]string{"victim": "secret"}, files(t, filepath.Dir(victim)))

	far := as(func(o *owner) { o.host, o.boot = "h", "b" })
	pipe := filepath.Join(root, far.fileName()+useSuffix)
	require.NoError(t, mkfifo(t, pipe))
	require.Error(t, WriteSmall(root, pipe, []byte("x"), 0))
	users, left := usersOf(t, root, time.Now())
	assert.Empty(t, users)
	assert.Empty(t, left)
	require.NoError(t, os.Remove(pipe))
	require.NoError(t, os.WriteFile(pipe, nil, 0o666))
	require.NoError(t, os.Truncate(pipe, 20<<30)) // a hole
	users, _ = usersOf(t, root, time.Now())
	assert.Empty(t, users)
}

// A note is rewritten regularly, so that other machines see that its process is alive.
func TestNotesAreRefreshed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		u := NoteUse(root, root, []string{"a"})
		old := time.Now().Add(-time.Hour)
		require.NoError(t, os.Chtimes(u.path, old, old))
		time.Sleep(useBeat + 1)
		synctest.Wait()
		info, err := os.Stat(u.path)
		require.NoError(t, err)
		assert.NotEqual(t, old.Unix(), info.ModTime().Unix())
		users, _ := usersOf(t, root, info.ModTime())
		assert.Len(t, users, 1)
		u.Close()
	})
}

// Without a lease, a directory that comes into use while it is being removed is put back whole.
func TestRemovePutsBackWhatIsInUse(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, build(root, Options{}, publish))
	taken, asked := errors.New("in use"), 0
	err := Options{}.Remove(root, "kind/name", func() error {
		if asked++; asked == 1 {
			return nil
		}
		assert.Nil(t, files(t, filepath.Join(root, "kind", "name")), "nobody opens it half removed")
		return taken
	})
	require.ErrorIs(t, err, taken)
	assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
	assert.Empty(t, staging(t, root))
	require.NoError(t, Options{}.Remove(root, "kind/name", func() error { return nil }))
	assert.Nil(t, files(t, filepath.Join(root, "kind", "name")))
}

// A directory that is in use and cannot be put back is left where it lies. One whose rename may not be on disk is put back.
func TestRemoveKeepsWhatItCannotCheck(t *testing.T) {
	lies := func(root string) string {
		found, err := filepath.Glob(filepath.Join(root, StagingDir, "*", "a"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		return filepath.Dir(found[0])
	}
	root := t.TempDir()
	require.NoError(t, build(root, Options{}, publish))
	taken, asked := errors.New("in use"), 0
	err := Options{}.Remove(root, "kind/name", func() error {
		if asked++; asked == 1 {
			return nil
		}
		return errors.Join(taken, os.RemoveAll(filepath.Join(root, "kind")))
	})
	require.ErrorIs(t, err, taken)
	require.ErrorContains(t, err, lies(root))
	assert.Equal(t, content, files(t, lies(root)))

	root = t.TempDir()
	require.NoError(t, build(root, Options{}, publish))
	err = Options{Step: func(name, path string) error {
		if name == "sync" && filepath.Base(path) == "kind" {
			return errFull
		}
		return nil
	}}.Remove(root, "kind/name", nil)
	require.ErrorIs(t, err, errFull)
	assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
}

// What is made below a root is as open as the root, under any umask, and no more. Nothing is writable for everybody but the directories
// in which all users have entries, and these are sticky.
//
// Covers F19, F29.
func TestSharedRootsUnderAnyUmask(t *testing.T) {
	const bits = os.ModePerm | os.ModeSetgid | os.ModeSticky
	for _, c := range []struct{ root, umask, shared, dir, file os.FileMode }{
		{0o775 | os.ModeSetgid, 0o077, 0o775 | os.ModeSetgid, 0o775 | os.ModeSetgid, 0o664},
		{0o770, 0o077, 0o770, 0o770, 0o660},
		{0o700, 0o000, 0o700, 0o700, 0o600},
		{0o755, 0o002, 0o755, 0o755, 0o644},
		{0o750, 0o022, 0o750, 0o750, 0o640},
		{0o777 | os.ModeSticky, 0o000, 0o777 | os.ModeSticky, 0o755, 0o644},
		{0o777 | os.ModeSticky, 0o077, 0o777 | os.ModeSticky, 0o755, 0o644},
		{0o777, 0o022, 0o777 | os.ModeSticky, 0o755, 0o644},
		{0o770 | os.ModeSticky, 0o022, 0o770 | os.ModeSticky, 0o750, 0o640},
	} {
		root := filepath.Join(t.TempDir(), "root")
		require.NoError(t, os.Mkdir(root, 0o777))
		require.NoError(t, os.Chmod(root, c.root))
		require.NoError(t, umasked(t, c.umask, func() error {
			l, err := Acquire(t.Context(), root, "thing", never, Waiting{})
			if err != nil {
				return err
			}
			info, err := os.Stat(l.path)
			require.NoError(t, err)
			assert.Equal(t, c.dir, info.Mode()&bits)
			NoteUse(root, filepath.Join(root, ".use"), nil).Close()
			return errors.Join(build(root, Options{Lease: l}, publish), l.Release())
		}))
		for name, want := range map[string]os.FileMode{
			"kind": c.shared, "kind/name": c.dir, "kind/name/a": c.file, StagingDir: c.shared, ".use": c.shared,
		} {
			info, err := os.Stat(filepath.Join(root, name))
			require.NoError(t, err)
			assert.Equal(t, want, info.Mode()&bits, "%s below %v with umask %v", name, c.root, c.umask)
		}
	}
	old := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(old, "kind"), 0o777))
	for _, path := range []string{old, filepath.Join(old, "kind")} {
		require.NoError(t, os.Chmod(path, 0o777))
	}
	require.NoError(t, build(old, Options{}, publish))
	info, err := os.Stat(filepath.Join(old, "kind"))
	require.NoError(t, err)
	assert.Equal(t, 0o777|os.ModeSticky, info.Mode()&bits, "of an older root")
	for _, c := range []struct{ above, umask, root os.FileMode }{
		{0o777, 0o077, 0o700},
		{0o777, 0o000, 0o777},
		{0o777 | os.ModeSticky, 0o002, 0o755},
		{0o777 | os.ModeSticky, 0o000, 0o755},
	} {
		above := t.TempDir()
		require.NoError(t, os.Chmod(above, c.above))
		root := filepath.Join(above, "root")
		require.NoError(t, umasked(t, c.umask, func() error { return build(root, Options{}, publish) }))
		info, err := os.Stat(root)
		require.NoError(t, err)
		assert.Equal(t, c.root, info.Mode().Perm(), "a root that is made keeps to the umask; in a sticky directory it is its owner's")
	}
}

// A root that is created by its first note is on disk with the directories above it.
func TestRootsThatNotesMakeAreSynced(t *testing.T) {
	posix(t, "directories are not synced there")
	above := t.TempDir()
	var synced []string
	o := Options{Sync: func(f *os.File) error { synced = append(synced, f.Name()); return nil }}
	root := filepath.Join(above, "a", "root")
	require.NoError(t, o.writeSmall(root, filepath.Join(root, ".use", "x"), nil, 0))
	assert.ElementsMatch(t, []string{above, filepath.Join(above, "a"), root}, synced)
	require.NoError(t, o.writeSmall(root, filepath.Join(root, ".use", "x"), nil, 0))
	assert.Len(t, synced, 3, "once")
}
