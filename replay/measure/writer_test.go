package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/wire"
)

func TestWriterKeepsEveryRecord(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	var all sync.WaitGroup
	const writers, each = 4, 3000 // some MB, so that the buffers are swapped many times
	for lane := range writers {
		all.Go(func() {
			for turn := range each {
				r := example()
				r.Lane, r.Turn, r.Credit, r.Chunks, r.Contents = lane, turn, each*lane+turn, 1, wire.Contents{}
				r.Contents.Add(time.Duration(turn), int64(lane))
				if err := w.Write(&r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.NoError(t, w.Close())
	require.NoError(t, w.Close())
	require.ErrorIs(t, w.Write(&Record{}), ErrClosed)

	next, records := map[int]int{}, openRecords(t, dir)
	r, err := records.Next()
	for ; err == nil; r, err = records.Next() {
		require.Equal(t, next[r.Lane], r.Turn)
		for at, tokens := range r.Contents.All() {
			require.EqualValues(t, r.Turn, at)
			require.EqualValues(t, r.Lane, tokens)
			next[r.Lane]++
		}
	}
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, records.ContentsError())
	require.Equal(t, map[int]int{0: each, 1: each, 2: each, 3: each}, next)
}

func TestWriterCannotCreate(t *testing.T) {
	_, err := Create(filepath.Join(t.TempDir(), "no", "such", "folder"))
	require.ErrorContains(t, err, "record file: ")
	require.ErrorIs(t, err, os.ErrNotExist)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ContentsFile), nil, 0o600))
	_, err = Create(dir)
	require.ErrorIs(t, err, os.ErrExist)
	require.NoFileExists(t, filepath.Join(dir, RecordsFile))
}

// gate is a file that blocks every write until it is opened, and then fails it if err is set.
type gate struct {
	open chan struct{}
	err  error
	got  bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	if g.err != nil {
		return 0, g.err
	}
	return g.got.Write(b)
}

func (g *gate) Close() error { return nil }

// discard is a file that keeps nothing.
type discard struct{ io.Writer }

func (discard) Close() error { return nil }

func TestWriteDoesNotWaitForTheDisk(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	w := NewWriter(g, discard{io.Discard})
	r := example()
	const n = 5000 // several buffers full
	for range n {
		require.NoError(t, w.Write(&r))
	}
	close(g.open)
	require.NoError(t, w.Close())
	require.Equal(t, n, bytes.Count(g.got.Bytes(), []byte("\n")))
}

// Write waits for a disk that takes nothing once its limit is buffered, and goes on when the disk does.
func TestWriteIsBounded(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	w := NewWriter(g, discard{io.Discard})
	const limit, size, n = 1 << 20, 64 << 10, 100
	w.limit = limit
	r := example()
	r.Error.Message = string(bytes.Repeat([]byte("x"), size))
	var all sync.WaitGroup
	all.Go(func() {
		for range n {
			if err := w.Write(&r); err != nil {
				t.Error(err)
			}
		}
	})
	waiting := 0
	for waiting < limit { // the goroutine is blocked with the first buffer
		runtime.Gosched()
		w.mu.Lock()
		waiting = w.buf.len()
		w.mu.Unlock()
	}
	require.Less(t, waiting, limit+size+1<<10)
	close(g.open)
	all.Wait()
	require.NoError(t, w.Close())
	require.Equal(t, n, bytes.Count(g.got.Bytes(), []byte("\n")))
}

func TestWriterReportsTheFirstError(t *testing.T) {
	g := &gate{open: make(chan struct{}), err: io.ErrShortWrite}
	close(g.open)
	w := NewWriter(g, discard{io.Discard})
	r := example()
	var err error
	for err == nil { // until the goroutine has written
		err = w.Write(&r)
	}
	require.ErrorIs(t, err, io.ErrShortWrite)
	g.err = errors.New("later")
	require.ErrorIs(t, w.Close(), io.ErrShortWrite)
}

// Writing a record does not allocate, once the buffers are as long as they become.
func TestRecordsNeedNoMemory(t *testing.T) {
	w := &Writer{limit: 1 << 30, wake: make(chan struct{}, 1)}
	w.buf = buffers{make([]byte, 0, 1<<20), make([]byte, 0, 1<<20)}
	r := withContents(0, 20)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if err := w.Write(r); err != nil {
			t.Error(err)
		}
	}))
}

func BenchmarkWrite(b *testing.B) {
	w := NewWriter(discard{io.Discard}, discard{io.Discard})
	r := example()
	r.Error, r.Chunks = nil, 200
	for k := range r.Chunks {
		r.Contents.Add(time.Duration(k)*20*time.Millisecond, wire.Unknown)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(&r); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAdd(b *testing.B) {
	a := NewAggregate(Rules{})
	r := good(1, 1, 0, 1, 2, 3)
	b.ReportAllocs()
	for b.Loop() {
		a.Add(r)
	}
}

// writeRecords writes records to a new directory.
func writeRecords(t testing.TB, records ...*Record) (dir string) {
	dir = t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	for _, r := range records {
		require.NoError(t, w.Write(r))
	}
	require.NoError(t, w.Close())
	return dir
}

func openRecords(t testing.TB, dir string) *RecordReader {
	r, err := OpenRecords(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// withContents returns a record with n content messages, the k-th of which brought k tokens.
func withContents(credit, n int) *Record {
	r := good(0, 1, 0, 0.5, 2, int64(n))
	r.Credit, r.Chunks = credit, n
	for k := range n {
		r.Contents.Add(time.Duration(k+1)*time.Millisecond, int64(k))
	}
	return r
}

// requireRecords reads a directory whose records begin as those that were written, with the contents of each, and returns how
// many they are.
func requireRecords(t testing.TB, dir string) (n int) {
	records := openRecords(t, dir)
	r, err := records.Next()
	for ; err == nil; r, err = records.Next() {
		require.Equal(t, n, r.Credit)
		require.Equal(t, r.Chunks, r.Contents.Len())
		k := 0
		for at, tokens := range r.Contents.All() {
			require.Equal(t, time.Duration(k+1)*time.Millisecond, at)
			require.EqualValues(t, k, tokens)
			k++
		}
		n++
	}
	require.Equal(t, io.EOF, err)
	require.NoError(t, records.ContentsError())
	return n
}

// journal notes what is written to two files, in its order.
type journal []write

type write struct {
	file string
	data []byte
}

// page is a file of a journal.
type page struct {
	*journal
	name string
}

func (p page) Write(b []byte) (int, error) {
	*p.journal = append(*p.journal, write{p.name, append([]byte(nil), b...)})
	return len(b), nil
}

func (p page) Close() error { return nil }

// A process that is killed between any two bytes that it writes leaves whole lines that can be read, each with its contents,
// and at most one that is cut.
func TestKilledWriter(t *testing.T) {
	var log journal
	w := NewWriter(page{&log, RecordsFile}, page{&log, ContentsFile})
	const n = 12
	for k := range n {
		require.NoError(t, w.flush(encoded(withContents(k, k%4)))) // none in flight: the goroutine has nothing to write
	}
	require.NoError(t, w.Close())
	require.Len(t, log, 2*n-n/4, "records without content have no entry")

	dir := t.TempDir()
	whole := 0
	for _, name := range []string{RecordsFile, ContentsFile} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.Zero(t, requireRecords(t, dir))
	for _, step := range log {
		f, err := os.OpenFile(filepath.Join(dir, step.file), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		for k := range step.data {
			_, err := f.Write(step.data[k : k+1])
			require.NoError(t, err)
			if step.data[k] == '\n' && step.file == RecordsFile {
				whole++
			}
			require.Equal(t, whole, requireRecords(t, dir))
		}
		require.NoError(t, f.Close())
	}
	require.Equal(t, n, whole)
}

// encoded returns the buffers of a writer of one record.
func encoded(r *Record) buffers {
	w := &Writer{limit: 1 << 20}
	_ = w.Write(r)
	return w.buf
}

// A writer whose contents cannot be written writes no line that needs them.
func TestNoLineWithoutContents(t *testing.T) {
	var log journal
	full := &gate{open: make(chan struct{}), err: io.ErrShortWrite}
	close(full.open)
	w := NewWriter(page{&log, RecordsFile}, full)
	require.NoError(t, w.Write(withContents(0, 1)))
	require.ErrorIs(t, w.Close(), io.ErrShortWrite)
	require.Empty(t, log)
}

// Records without readable contents are still read, and the reason is told.
func TestContentsThatCannotBeRead(t *testing.T) {
	records := []*Record{withContents(0, 2), withContents(1, 0), withContents(2, 3), withContents(3, 1)}
	for _, c := range []struct {
		name  string
		spoil func(path string, data []byte) error
		whole int // records before the damage
		want  string
	}{
		{"none", func(path string, _ []byte) error { return os.Remove(path) }, 0, ": there is no such file"},
		{"empty", func(path string, _ []byte) error { return os.Truncate(path, 0) }, 0, ": byte 0: the file ends before the entry of a record"},
		{"cut", func(path string, data []byte) error { return os.Truncate(path, int64(len(data)-1)) }, 3, "an entry of 4 bytes, where 3 are left: the file is cut off or damaged"},
		{"huge", func(path string, data []byte) error {
			return os.WriteFile(path, append([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, data...), 0o600)
		}, 0, ": byte 0: an entry of 9223372036854775807 bytes, where"},
		{"too long", func(path string, data []byte) error {
			return os.WriteFile(path, append([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), data...), 0o600)
		}, 0, ": byte 0: binary: varint overflows a 64-bit integer"},
		{"another", func(path string, data []byte) error { return os.WriteFile(path, data[9:], 0o600) }, 0, "an entry of 3 content messages, where the record has 2"},
		{"damaged", func(path string, data []byte) error {
			data[8] = 0x80
			return os.WriteFile(path, data, 0o600)
		}, 0, ": byte 0: packed contents are damaged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := writeRecords(t, records...)
			path := filepath.Join(dir, ContentsFile)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NoError(t, c.spoil(path, data))
			in := openRecords(t, dir)
			for k := range records {
				r, err := in.Next()
				require.NoError(t, err)
				require.Equal(t, k, r.Credit)
				if k < c.whole {
					require.Equal(t, r.Chunks, r.Contents.Len())
				} else {
					require.Zero(t, r.Contents.Len())
				}
			}
			require.ErrorContains(t, in.ContentsError(), path)
			require.ErrorContains(t, in.ContentsError(), c.want)
		})
	}
}

// Contents that no record needs are not missed: those of a run without an answer, killed before the file was there.
func TestContentsThatAreNotNeeded(t *testing.T) {
	dir := writeRecords(t, withContents(0, 0))
	require.NoError(t, os.Remove(filepath.Join(dir, ContentsFile)))
	require.Equal(t, 1, requireRecords(t, dir))
}

// An error names the file and the line. A line that is cut ends the records, and is told.
func TestLinesThatCannotBeRead(t *testing.T) {
	dir := writeRecords(t, withContents(0, 1), withContents(1, 1), withContents(2, 1))
	path := filepath.Join(dir, RecordsFile)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	read := func(text string) (*RecordReader, int, error) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		in := openRecords(t, dir)
		for n := 0; ; n++ {
			if _, err := in.Next(); err != nil {
				return in, n, err
			}
		}
	}
	in, n, err := read(lines[0] + lines[1] + lines[2][:40])
	require.Equal(t, io.EOF, err)
	require.Equal(t, 2, n)
	require.True(t, in.Torn())
	_, n, err = read(lines[0] + "{\n" + lines[2])
	require.ErrorContains(t, err, path+": line 2: ")
	require.Equal(t, 1, n)
	_, n, err = read(lines[0] + strings.Repeat("x", maxLine) + "\n")
	require.ErrorContains(t, err, path+": line 2: longer than 16777216 bytes: not a record")
	require.Equal(t, 1, n)
	in, n, err = read(string(data))
	require.Equal(t, io.EOF, err)
	require.Equal(t, 3, n)
	require.False(t, in.Torn())
	_, err = OpenRecords(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A record does not keep what the one before it had.
func TestNextStartsAfresh(t *testing.T) {
	full := example()
	for range full.Chunks {
		full.Contents.Add(1, wire.Unknown)
	}
	least := Record{Phase: WarmupPhase, Bucket: WarmupBucket}
	in := openRecords(t, writeRecords(t, &full, &least))
	r, err := in.Next()
	require.NoError(t, err)
	require.Equal(t, full.Error, r.Error)
	r, err = in.Next()
	require.NoError(t, err)
	require.Equal(t, &least, r)
}

// Nanos gives back every instant that a record can have, through JSON.
func TestNanos(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.Int64Range(0, int64(20*24*time.Hour)).Draw(t, "ns")
		text, err := json.Marshal(Time(ns))
		require.NoError(t, err)
		var back float64
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, ns, Nanos(back))
	})
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		ns := random.Int64N(int64(20 * 24 * time.Hour))
		if got := Nanos(Time(ns).Seconds()); got != ns {
			t.Fatalf("%d ns: %d", ns, got)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	r := example()
	r.Error, r.Chunks = nil, 200
	for k := range r.Chunks {
		r.Contents.Add(time.Duration(k)*20*time.Millisecond, wire.Unknown)
	}
	records := make([]*Record, 1000)
	for k := range records {
		records[k] = &r
	}
	dir := writeRecords(b, records...)
	b.ReportAllocs()
	for b.Loop() {
		in, err := OpenRecords(dir)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for ; err == nil; n++ {
			_, err = in.Next()
		}
		if err != io.EOF || n != 1001 || in.ContentsError() != nil {
			b.Fatal(n, err, in.ContentsError())
		}
		_ = in.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}

// lines returns records as a Writer writes them.
func lines(records ...*Record) (text []byte) {
	for _, r := range records {
		text = append(r.AppendJSON(text), '\n')
	}
	return text
}

// numbered returns n records whose credits count from 0.
func numbered(n int) (list []*Record) {
	for k := range n {
		r := good(0, 1, 0, 0.5, 2, 5)
		r.Credit, r.Chunks = k, 3
		list = append(list, r)
	}
	return list
}

// growing is a RecordsFile that a test writes.
type growing struct {
	t    *testing.T
	dir  string
	file *os.File
}

func newGrowing(t *testing.T) *growing {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, RecordsFile))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	return &growing{t, dir, file}
}

func (g *growing) write(text []byte) {
	_, err := g.file.Write(text)
	require.NoError(g.t, err)
}

// However a file grows, also by parts of a line, every record comes once, in order, and at the first look after its line is whole.
func TestFollow(t *testing.T) {
	g, random := newGrowing(t), rand.New(rand.NewPCG(1, 2))
	const n = 40
	text := lines(numbered(n)...)
	tick := make(chan time.Time, 1)
	written, whole, got, looks := 0, 0, 0, 0
	for r, err := range Follow(t.Context(), g.dir, tick) {
		require.NoError(t, err)
		if r != nil {
			require.Equal(t, got, r.Credit)
			require.Zero(t, r.Contents.Len())
			got++
			continue
		}
		looks++
		require.Equal(t, whole, got)
		if written == len(text) {
			break
		}
		more := text[written:min(written+random.IntN(900), len(text))]
		g.write(more)
		written += len(more)
		for _, b := range more {
			if b == '\n' {
				whole++
			}
		}
		tick <- time.Time{}
	}
	require.Equal(t, n, got)
	require.Greater(t, looks, n)
}

// What is written before the end is read after it, and a part of a line is left out.
func TestFollowReadsTheRest(t *testing.T) {
	g := newGrowing(t)
	text := lines(numbered(3)...)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	got, looks := 0, 0
	for r, err := range Follow(ctx, g.dir, nil) {
		require.NoError(t, err)
		if r != nil {
			got++
		} else if looks++; looks == 1 {
			require.Zero(t, got)
			g.write(text[:len(text)-1])
			end()
		}
	}
	require.Equal(t, 2, looks)
	require.Equal(t, 2, got)
	for r, err := range Follow(ctx, g.dir, nil) { // it has ended before
		require.NoError(t, err)
		if r != nil {
			got++
		}
	}
	require.Equal(t, 4, got)
}

// A line that no run writes is told with its number, after the records before it; a missing file is told, too.
func TestFollowTellsErrors(t *testing.T) {
	g := newGrowing(t)
	g.write(append(lines(numbered(2)...), "{}\n"...))
	got := 0
	var last error
	for r, err := range Follow(t.Context(), g.dir, nil) {
		require.NotEqual(t, r == nil, err == nil)
		if last = err; err == nil {
			got++
		}
	}
	require.ErrorContains(t, last, filepath.Join(g.dir, RecordsFile)+": line 3: phase: ")
	require.Equal(t, 2, got)
	for _, err := range Follow(t.Context(), t.TempDir(), nil) {
		last = err
	}
	require.ErrorIs(t, last, os.ErrNotExist)
}

// A reader follows a Writer that many goroutines write to.
func TestFollowAWriter(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir)
	require.NoError(t, err)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	tick := make(chan time.Time)
	go func() {
		defer end()
		for _, r := range numbered(2000) {
			_ = w.Write(r) // Close returns the error
			select {
			case tick <- time.Time{}:
			default:
			}
		}
		_ = w.Close()
	}()
	got := 0
	for r, err := range Follow(ctx, dir, tick) {
		require.NoError(t, err)
		if r != nil {
			require.Equal(t, got, r.Credit)
			got++
		}
	}
	require.NoError(t, w.Close())
	require.Equal(t, 2000, got)
}

// BenchmarkFollow is the time of one record: what it costs to follow a run is this times its requests per second.
func BenchmarkFollow(b *testing.B) {
	dir := b.TempDir()
	text := lines(numbered(1000)...)
	file, err := os.Create(filepath.Join(dir, RecordsFile))
	require.NoError(b, err)
	for range b.N/1000 + 1 {
		_, err := file.Write(text)
		require.NoError(b, err)
	}
	require.NoError(b, file.Close())
	ended, end := context.WithCancel(b.Context())
	end()
	b.SetBytes(int64(len(text)) / 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for _, err := range Follow(ended, dir, nil) {
		if err != nil {
			b.Fatal(err)
		}
	}
}
