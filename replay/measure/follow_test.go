package measure

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
