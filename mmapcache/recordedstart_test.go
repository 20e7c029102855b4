package mmapcache

import (
	"bytes"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// structureOfTraces returns a structure of n traces.
func structureOfTraces(t require.TestingT, n int) *Structure {
	s := NewStructure()
	for range n {
		require.NoError(t, s.Append(plainToy(20).plans[0]))
	}
	return s
}

// Every start comes back bit for bit, and a trace without one has none.
func TestRecordedStartsSurviveTheTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[int]float64{}
		n := rapid.IntRange(0, 20).Draw(t, "traces")
		s := NewStructure()
		for i := range n {
			require.NoError(t, s.Append(plainToy(20).plans[0]))
			if rapid.Bool().Draw(t, "has") {
				want[i] = rapid.Float64Range(0, MaxRecordedStart).Draw(t, "ms")
				s.SetRecordedStart(i, want[i])
			}
		}
		for _, s := range []*Structure{s, reread(t, s)} {
			assert.Equal(t, len(want), s.RecordedStarts())
			for i := range n {
				ms, ok := s.RecordedStart(i)
				v, has := want[i]
				require.Equal(t, has, ok)
				if ok {
					require.Equal(t, math.Float64bits(v), math.Float64bits(ms))
				}
			}
		}
	})
}

// Other readers see a start that is missing as null. A file without starts lacks the column, as those from before it do.
func TestColumnOfRecordedStarts(t *testing.T) {
	schema := func(s *Structure) (names []string, last *array.Float64) {
		var file bytes.Buffer
		require.NoError(t, s.Traces.writeTo(&file))
		r, err := ipc.NewFileReader(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close() })
		for _, f := range r.Schema().Fields() {
			names = append(names, f.Name)
		}
		batch, err := r.RecordBatch(0)
		require.NoError(t, err)
		last, _ = batch.Column(int(batch.NumCols()) - 1).(*array.Float64)
		return names, last
	}
	s := structureOfTraces(t, 3)
	without, last := schema(s)
	assert.Len(t, without, 15)
	assert.Nil(t, last)
	s.SetRecordedStart(1, 3000.5)
	with, last := schema(s)
	assert.Equal(t, append(without, "recorded_start_ms"), with)
	assert.True(t, last.IsNull(0) && last.IsNull(2))
	assert.Equal(t, 3000.5, last.Value(1))
}

// A start beyond the bounds is damage, so that readers need not check it.
func TestRecordedStartsOutOfRangeAreDamage(t *testing.T) {
	for ms, bad := range map[float64]bool{0: false, MaxRecordedStart: false, -1: true, MaxRecordedStart + 1: true, math.Inf(1): true} {
		s := structureOfTraces(t, 2)
		s.SetRecordedStart(1, ms)
		err := s.check()
		if bad {
			assert.ErrorContains(t, err, "trace 1", ms)
			assert.ErrorContains(t, err, "recorded start")
		} else {
			assert.NoError(t, err, ms)
		}
	}
}

// Any start, in nanoseconds, fits into an int64.
func TestRecordedStartsFitNanoseconds(t *testing.T) {
	assert.Less(t, MaxRecordedStart*1e6, float64(math.MaxInt64))
}

// The facts count the starts: a table that lost its column, or has it where it should not, is damage.
func TestFactsCountRecordedStarts(t *testing.T) {
	for _, claimed := range []int{0, 1, 2} {
		root, s := t.TempDir(), structureOfTraces(t, 2)
		s.SetRecordedStart(1, 5)
		b, err := NewBuilder(withoutSync(t), root, StructureKind, map[string]int{"format": Format, "claimed": claimed})
		require.NoError(t, err)
		require.NoError(t, b.BuildStructure(s, StructureFacts{Traces: 2, Sessions: s.Sessions.Len(), Turns: s.Turns.Len(), Blocks: s.Blocks(), Starts: claimed}))
		m, err := b.Publish(t.Context(), Provenance{})
		require.NoError(t, err)
		c, err := OpenStructure(root, m.Key)
		if claimed != 1 {
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, "recorded starts")
			continue
		}
		require.NoError(t, err)
		ms, ok := c.Structure.RecordedStart(1)
		assert.True(t, ok)
		assert.Equal(t, 5.0, ms)
		require.NoError(t, c.Close())
	}
}
