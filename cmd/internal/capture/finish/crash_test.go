package finish

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/durable"
)

// killVariable is the environment variable that makes a process of this test binary capture into a directory, and kill itself
// before a step: STEP DIR.
const killVariable = "AGENTX_TEST_CAPTURE_KILL"

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(killVariable); ok {
		step, dir, _ := strings.Cut(text, " ")
		n, _ := strconv.Atoi(step)
		captureAndDie(n, dir)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// steps counts the steps that change the disk outside the lock, and calls at before each.
func steps(at func(n int64) error) context.Context {
	var count atomic.Int64
	return durable.WithOptions(context.Background(), durable.Options{Step: func(_, path string) error {
		if strings.Contains(path, string(filepath.Separator)+"lock"+string(filepath.Separator)) {
			return nil
		}
		return at(count.Add(1))
	}})
}

// lines are those of a small journal, in order.
var lines = []func(w *journal.Writer) error{
	func(w *journal.Writer) error { return w.Write(journal.Begin{}) },
	func(w *journal.Writer) error { return w.Write(journal.Model{Name: "m"}) },
	func(w *journal.Writer) error {
		return w.Write(journal.IDs{In: 22, Base: -1, New: 5, Input: journal.Text})
	},
	func(w *journal.Writer) error {
		return w.Write(journal.End{T: 2004, First: 612, X: journal.Complete, Status: 200, Out: 9, Output: journal.Text, Stop: journal.StopEndTurn})
	},
	func(w *journal.Writer) error { return w.Write(journal.Begin{Q: 1, T: 5107}) },
	func(w *journal.Writer) error {
		return w.Write(journal.IDs{Q: 1, In: 50, Keep: 5, New: 7, Input: journal.Text})
	},
	func(w *journal.Writer) error {
		return w.Write(journal.End{Q: 1, T: 8008, First: 5601, X: journal.Complete, Status: 200, Out: 31, Output: journal.Text, Stop: journal.StopEndTurn})
	},
	func(w *journal.Writer) error { return w.Write(journal.Final{Why: journal.WhyDelete}) },
}

// captureOnce captures one session into a directory, whole. wrote is called after each line.
func captureOnce(ctx context.Context, dir string, wrote func()) error {
	folder, err := journal.OpenFolder(ctx, dir, true)
	if err != nil {
		return err
	}
	w, err := folder.Create(head)
	if err != nil {
		return errors.Join(err, folder.Close())
	}
	wrote()
	for _, line := range lines {
		if err = line(w); err != nil {
			break
		}
		wrote()
	}
	if err = errors.Join(err, w.Close()); err == nil {
		_, err = Finish(ctx, folder, head.Trace)
	}
	return errors.Join(err, folder.Close())
}

// captureAndDie is captureOnce in a process that kills itself with -9 before a step. It prints a letter for each line written.
func captureAndDie(step int, dir string) {
	ctx := steps(func(n int64) error {
		if n == int64(step) {
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			select {}
		}
		return nil
	})
	if err := captureOnce(ctx, dir, func() { fmt.Print("w") }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// filesOf reads all files of a capture but its lock.
func filesOf(t *testing.T, dir string) map[string]string {
	found := map[string]string{}
	for _, name := range []string{"journal", "traces", "notes"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		require.NoError(t, err)
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(dir, name, e.Name()))
			require.NoError(t, err)
			found[name+"/"+e.Name()] = string(data)
		}
	}
	return found
}

// filesFrom returns what finishing a journal must leave, nothing where there is no journal with a whole line.
func filesFrom(t *testing.T, data []byte) map[string]string {
	if !bytes.Contains(data, []byte("\n")) {
		return map[string]string{}
	}
	f := build(mustRead(t, data))
	want := map[string]string{"notes/" + head.Trace + ".json": string(f.note)}
	if f.trace != nil {
		want["traces/"+head.Trace+".json"] = string(f.trace)
	}
	return want
}

// requireRecovered finishes what a dead process left in a directory: the same files as its journal gives, or where it is gone, those of
// the whole session; and at least the given number of lines.
func requireRecovered(t *testing.T, dir string, lines int, whole map[string]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "journal", head.Trace+".jnl"))
	want := whole
	if err == nil {
		require.GreaterOrEqual(t, bytes.Count(data, []byte("\n")), lines, "every line that was written is there")
		want = filesFrom(t, data)
	} else if lines == 0 {
		want = map[string]string{}
	}
	folder, err := journal.OpenFolder(t.Context(), dir, false)
	require.NoError(t, err)
	_, err = Recover(t.Context(), folder)
	require.NoError(t, err)
	require.NoError(t, folder.Close())
	require.Equal(t, want, filesOf(t, dir))
}

// wholeSession returns the files of the session that no process kills, and how many steps it takes.
func wholeSession(t *testing.T) (files map[string]string, count int64) {
	dir := filepath.Join(t.TempDir(), "capture")
	require.NoError(t, captureOnce(steps(func(n int64) error { count = n; return nil }), dir, func() {}))
	files = filesOf(t, dir)
	require.Len(t, files, 2)
	return files, count
}

// A process is killed with -9 before every step that changes the disk. Finishing what it left gives the bytes of the lines that were
// written.
//
// Covers C-35.
func TestKilledBeforeEveryStep(t *testing.T) {
	whole, count := wholeSession(t)
	require.Greater(t, count, int64(20))
	for step := range int(count) + 1 {
		dir := filepath.Join(t.TempDir(), "capture")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", killVariable, step+1, dir))
		wrote, err := cmd.Output()
		require.Equal(t, step == int(count), err == nil, "%v %s", err, wrote)
		requireRecovered(t, dir, len(wrote), whole)
	}
}

// Every step that changes the disk fails. The error is told, and finishing what is left gives the bytes of the lines that were written.
//
// Covers C-35.
func TestEveryStepFails(t *testing.T) {
	whole, count := wholeSession(t)
	failure := errors.New("no")
	for step := range count {
		dir, wrote := filepath.Join(t.TempDir(), "capture"), 0
		err := captureOnce(steps(func(n int64) error {
			if n == step+1 {
				return failure
			}
			return nil
		}), dir, func() { wrote++ })
		require.ErrorIs(t, err, failure)
		requireRecovered(t, dir, wrote, whole)
	}
}

// A journal that is cut anywhere, or in which a byte is changed, gives what the whole lines before that give.
//
// Covers C-36.
func TestDamagedJournals(t *testing.T) {
	s := newScript(t, journal.Export{})
	s.example()
	data := s.bytes()
	ends := []int{0}
	for k, b := range data {
		if b == '\n' {
			ends = append(ends, k+1)
		}
	}
	before := func(at int) int { // the end of the last line that ends at or before a byte
		k, found := slices.BinarySearch(ends, at)
		if !found {
			k--
		}
		return ends[k]
	}
	check := func(what string, at int, damaged []byte) {
		session, err := journal.Read(damaged)
		end := before(at)
		if end == 0 {
			require.ErrorIs(t, err, journal.ErrNoHead, "%s %d", what, at)
			return
		}
		require.NoError(t, err)
		if len(damaged) > end {
			require.NotNil(t, session.Torn, "%s %d", what, at)
			require.Equal(t, slices.Index(ends, end)+1, session.Torn.Line)
			require.True(t, build(session).Incomplete)
		}
		session.Torn = nil
		got, want := build(session), build(mustRead(t, data[:end]))
		require.Equal(t, string(want.trace), string(got.trace), "%s %d", what, at)
		require.Equal(t, string(want.note), string(got.note), "%s %d", what, at)
		require.Empty(t, got.Problems)
	}
	for at := range len(data) + 1 {
		check("cut", at, data[:at])
	}
	for at := range data {
		for _, flip := range []byte{1, 0x20, 0x80, 0xff} {
			damaged := bytes.Clone(data)
			damaged[at] ^= flip
			check("changed", at, damaged)
		}
	}
}

// Only one process at a time has a directory. A journal of which nothing can be told is set aside; one that is of another trace, too.
//
// Covers C-37.
func TestSecondProcessIsRefused(t *testing.T) {
	folder := openFolder(t)
	_, err := journal.OpenFolder(t.Context(), folder.Dir(), false)
	require.ErrorIs(t, err, journal.ErrBusy)
	assert.ErrorContains(t, err, folder.Dir())

	second := exec.Command(os.Args[0])
	second.Env = append(os.Environ(), killVariable+"=0 "+folder.Dir())
	text, err := second.CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(text), journal.ErrBusy.Error())
	assert.Empty(t, filesOf(t, folder.Dir()))
}

// Journals of which nothing can be told are set aside; one that ends within its first line is removed.
func TestJournalsOfNothing(t *testing.T) {
	folder := openFolder(t)
	whole := newScript(t, journal.Export{})
	whole.example()
	for name, text := range map[string]string{"cap-00000001": "", "cap-00000002": "8365bff2 {\"k\":", "cap-00000003": "8365bff2 {}\n", "cap-00000004": string(whole.bytes())} {
		require.NoError(t, os.WriteFile(folder.Path(name), []byte(text), 0o600))
	}
	list, err := Recover(t.Context(), folder)
	require.NoError(t, err)
	total := NewTotal()
	for _, r := range list {
		total.Add(r)
	}
	assert.Equal(t, 4, total.Incomplete)
	assert.Equal(t, 2, total.Bad)
	assert.Contains(t, list[3].Problems[0], `its first line names trace "cap-3f9a1c20", its file another one`)
	got := filesOf(t, folder.Dir())
	assert.Len(t, got, 2)
	assert.Contains(t, got, "journal/cap-00000003.jnl.bad")
	assert.Contains(t, got, "journal/cap-00000004.jnl.bad")
}

// Lines of any JSON, with the right CRC, never crash a reader, and never make a trace that fails its check.
func FuzzBuild(f *testing.F) {
	s := newScript(f, journal.Export{Masks: journal.MaskTails, MaxGap: 1e9})
	s.example()
	var texts []string
	for line := range strings.Lines(string(s.bytes())) {
		texts = append(texts, line[9:])
	}
	f.Add(strings.Join(texts, ""))
	f.Add(strings.Join(texts[:8], ""))
	f.Fuzz(func(t *testing.T, text string) {
		var data []byte
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			data = fmt.Appendf(data, "%08x %s\n", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)), line)
		}
		session, err := journal.Read(data)
		if err != nil || session.Blocks() > 1<<16 {
			return
		}
		made := build(session)
		require.Empty(t, made.Problems, "%s", made.trace)
		reasons := 0
		for _, n := range made.NotRecorded {
			reasons += n
		}
		require.Equal(t, made.Requests, made.Recorded+reasons)
	})
}
