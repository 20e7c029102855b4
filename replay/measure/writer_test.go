package measure

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
