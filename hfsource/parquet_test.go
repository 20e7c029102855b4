package hfsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/column"
)

// packed writes n rows {n, list} as Parquet.
func packed(t testing.TB, n int, options ...parquet.WriterOption) []byte {
	type row struct {
		N    int64   `parquet:"n"`
		List []int64 `parquet:"list,list"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, append([]parquet.WriterOption{parquet.MaxRowsPerRowGroup(7), parquet.PageBufferSize(100)}, options...)...)
	for k := range n {
		_, err := w.Write([]row{{int64(k), make([]int64, k%5)}})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// numbers reads the column n of all rows; a row with an error gives -1.
func numbers(ctx context.Context, s *Snapshot) (list []int64, where []string, err error) {
	err = s.Rows(ctx, []string{"n", "list[]"}, nil, func(r Row) error {
		defer r.Free()
		where = append(where, r.Location())
		if r.Err != nil {
			list = append(list, -1)
			return nil
		}
		if r.Data != nil || len(r.Columns.Wanted[1].Ints) != int(r.Columns.Wanted[0].Ints[0])%5 {
			return fmt.Errorf("row %v", r)
		}
		list = append(list, r.Columns.Wanted[0].Ints[0])
		return nil
	})
	return list, where, err
}

func TestParquetRows(t *testing.T) {
	path := write(t, "in.parquet", packed(t, 20))
	s := resolve(t, Options{}, path, write(t, "more.parquet", packed(t, 1)))
	list, where, err := numbers(t.Context(), s)
	require.NoError(t, err)
	require.Len(t, list, 21)
	for k, n := range list[:20] {
		assert.EqualValues(t, k, n)
		assert.Equal(t, fmt.Sprintf("%s:%d", path, k+1), where[k])
	}
	assert.False(t, s.Files[0].LacksChecksums())
	n := 0
	require.NoError(t, s.Rows(t.Context(), nil, nil, func(r Row) error { // no columns are requested
		n++
		assert.Empty(t, r.Columns.Wanted)
		require.Len(t, r.Columns.Others, 2)
		assert.Equal(t, "n", r.Columns.Others[0].Path)
		assert.Equal(t, column.Value, r.Columns.Others[0].At(0))
		r.Free()
		r.Free() // once is enough
		return nil
	}))
	assert.Equal(t, 21, n)
}

// A damaged file gives the rows before the damage and one with an error; then the next file follows.
func TestDamagedParquetIsARow(t *testing.T) {
	good := packed(t, 20)
	flipped := bytes.Clone(good)
	flipped[len(good)/3] ^= 4
	for name, bad := range map[string][]byte{"cut": good[:len(good)/2], "empty": {}, "flipped": flipped, "not Parquet": []byte("{\"n\":1}\n{\"n\":2}\n")} {
		after := write(t, "after.parquet", packed(t, 1))
		list, _, err := numbers(t.Context(), resolve(t, Options{}, write(t, "in.parquet", bad), after))
		require.NoError(t, err, name)
		require.GreaterOrEqual(t, len(list), 2)
		assert.Equal(t, []int64{-1, 0}, list[len(list)-2:], name)
		for k, n := range list[:len(list)-2] {
			assert.EqualValues(t, k, n, name)
		}
	}
}

func TestChangedParquetEndsRows(t *testing.T) {
	good := packed(t, 20)
	other := bytes.Clone(good)
	other[7] ^= 1
	for name, now := range map[string][]byte{"other content": packed(t, 21), "damaged": other, "longer": append(bytes.Clone(good), '\n'), "cut": good[:len(good)-9], "emptied": {}} {
		path := write(t, "in.parquet", good)
		s := resolve(t, Options{}, path, write(t, "after.parquet", packed(t, 1)))
		require.NoError(t, os.WriteFile(path, now, 0o666))
		list, _, err := numbers(t.Context(), s)
		assert.ErrorIs(t, err, ErrChanged, name)
		assert.ErrorContains(t, err, path)
		assert.NotContains(t, list, int64(-1), name)
	}
	path := write(t, "in.parquet", good) // after the last row was read
	s := resolve(t, Options{}, path)
	n := 0
	err := s.Rows(t.Context(), nil, nil, func(r Row) error {
		r.Free()
		if n++; n == 20 {
			return os.WriteFile(path, other, 0o666)
		}
		return nil
	})
	assert.ErrorIs(t, err, ErrChanged)
}

func TestUnreadableParquetEndsRows(t *testing.T) {
	good := packed(t, 20)
	s := resolve(t, Options{}, write(t, "in.parquet", good))
	s.Files[0].open = func() (io.ReadCloser, error) { return brokenAt{bytes.NewReader(good), int64(len(good) / 2)}, nil }
	_, _, err := numbers(t.Context(), s)
	assert.ErrorIs(t, err, errBroken)
	s.Files[0].open = func() (io.ReadCloser, error) { return io.NopCloser(io.MultiReader(bytes.NewReader(good))), nil }
	_, _, err = numbers(t.Context(), s)
	assert.ErrorContains(t, err, "read out of order")
}

// brokenAt fails to read from some byte on, except the last bytes.
type brokenAt struct {
	*bytes.Reader
	from int64
}

func (b brokenAt) Close() error { return nil }

func (b brokenAt) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > b.from && at < b.Size()-1000 {
		return 0, errBroken
	}
	return b.Reader.ReadAt(p, at)
}

func TestParquetStopsWithCallerAndContext(t *testing.T) {
	s := resolve(t, Options{}, write(t, "in.parquet", packed(t, 20)))
	enough := errors.New("enough")
	err := s.Rows(t.Context(), nil, nil, func(r Row) error {
		r.Free()
		return enough
	})
	assert.Equal(t, enough, err)
	ctx, cancel := context.WithCancel(t.Context())
	err = s.Rows(ctx, nil, nil, func(r Row) error {
		r.Free()
		cancel()
		return nil
	})
	assert.ErrorIs(t, err, context.Canceled)
}

func TestProgressOfParquetAddsUp(t *testing.T) {
	s := resolve(t, Options{}, write(t, "in.parquet", packed(t, 100)))
	var done int64
	calls := 0
	require.NoError(t, s.Rows(t.Context(), nil, func(n int64) { done, calls = done+n, calls+1 }, func(r Row) error {
		r.Free()
		return nil
	}))
	assert.Equal(t, s.Bytes(), done)
	assert.Greater(t, calls, 10)
}
