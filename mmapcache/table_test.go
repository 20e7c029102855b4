package mmapcache

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/manifest"
)

// reread writes the tables of a structure and reads them back.
func reread(t require.TestingT, s *Structure) *Structure {
	again := NewStructure()
	for _, table := range []struct {
		write func(*bytes.Buffer) error
		read  func([]byte) error
	}{
		{func(b *bytes.Buffer) error { return s.Traces.writeTo(b) }, again.Traces.read},
		{func(b *bytes.Buffer) error { return s.Sessions.writeTo(b) }, again.Sessions.read},
		{func(b *bytes.Buffer) error { return s.Turns.writeTo(b) }, again.Turns.read},
		{func(b *bytes.Buffer) error { return s.Segments.writeTo(b) }, again.Segments.read},
		{func(b *bytes.Buffer) error { return s.Runs.writeTo(b) }, again.Runs.read},
	} {
		var file bytes.Buffer
		require.NoError(t, table.write(&file))
		require.NoError(t, table.read(file.Bytes()))
	}
	require.NoError(t, again.check())
	return again
}

// asAppended returns a plan as text, in which NaN equals itself, without what Append fills in.
func asAppended(p *Plan) string {
	q := *p
	q.Trace = Trace{ID: p.Trace.ID, Scope: p.Trace.Scope, BlockSize: p.Trace.BlockSize, Blocks: p.Trace.Blocks}
	return fmt.Sprintf("%+v", q)
}

func TestPlansSurviveTheTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawToy(t)
		s := NewStructure()
		blocks := 0
		for _, p := range y.plans {
			require.NoError(t, s.Append(p))
			blocks += int(p.Trace.Blocks)
		}
		again := reread(t, s)
		require.Equal(t, len(y.plans), again.Traces.Len())
		assert.Equal(t, blocks, again.Blocks())
		for i, p := range y.plans {
			require.Equal(t, asAppended(p), asAppended(s.Plan(i)))
			require.Equal(t, asAppended(p), asAppended(again.Plan(i)))
		}
	})
}

func TestEmptyTables(t *testing.T) {
	again := reread(t, NewStructure())
	assert.Zero(t, again.Traces.Len())
	assert.Zero(t, again.Blocks())
}

// The library finds the same columns in a file, with the same bytes.
func TestArrowFilesAsTheLibraryReadsThem(t *testing.T) {
	s := NewStructure()
	for _, p := range plainToy(40).plans {
		require.NoError(t, s.Append(p))
	}
	for _, write := range []func(io.Writer) error{s.Traces.writeTo, s.Sessions.writeTo, s.Turns.writeTo, s.Segments.writeTo, s.Runs.writeTo, s.Tools.writeTo} {
		var file bytes.Buffer
		require.NoError(t, write(&file))
		r, err := ipc.NewFileReader(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		defer r.Close()
		batch, err := r.RecordBatch(0)
		require.NoError(t, err)
		columns, err := readArrow(file.Bytes(), int(batch.NumCols()), 0)
		require.NoError(t, err)
		for k, c := range columns {
			field, data := r.Schema().Field(k), batch.Column(k).Data()
			assert.Equal(t, field.Name, c.name)
			assert.Equal(t, field.Type.ID(), c.kind, c.name)
			words, _ := field.Metadata.GetValue(wordsKey)
			assert.Equal(t, words, string(c.words), c.name)
			assert.EqualValues(t, data.NullN(), c.nulls, c.name)
			assert.Equal(t, int(batch.NumRows()), c.rows, c.name)
			for n, b := range c.buffers {
				if theirs := data.Buffers()[n+1]; theirs != nil {
					assert.Equal(t, string(theirs.Bytes()), string(b), c.name)
				}
			}
		}
	}
}

// Any bytes are columns or an error.
func FuzzArrow(f *testing.F) {
	s := NewStructure()
	require.NoError(f, s.Append(plainToy(20).plans[0]))
	var withoutStarts bytes.Buffer
	require.NoError(f, s.Traces.writeTo(&withoutStarts))
	f.Add(withoutStarts.Bytes())
	s.SetRecordedStart(0, 7)
	for _, write := range []func(io.Writer) error{s.Traces.writeTo, s.Turns.writeTo, s.Segments.writeTo} {
		var file bytes.Buffer
		require.NoError(f, write(&file))
		f.Add(file.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewStructure()
		for _, read := range []func([]byte) error{s.Traces.read, s.Turns.read, s.Segments.read} {
			if err := read(data); err != nil {
				require.ErrorIs(t, err, manifest.ErrDamaged)
			}
		}
	})
}

// Other readers see a missing time as null, not as NaN, and the same bytes whatever NaN it was.
func TestMissingTimesAreNull(t *testing.T) {
	write := func(nan float64) []byte {
		s := NewStructure()
		p := plainToy(20).plans[0]
		p.Turns[0].APITime, p.Turns[1].APITime = nan, 1.5
		require.NoError(t, s.Append(p))
		var file bytes.Buffer
		require.NoError(t, s.Turns.writeTo(&file))
		return file.Bytes()
	}
	file := write(math.NaN())
	assert.Equal(t, file, write(math.Float64frombits(0x7ff8dead00000001)))
	r, err := ipc.NewFileReader(bytes.NewReader(file))
	require.NoError(t, err)
	defer r.Close()
	batch, err := r.RecordBatch(0)
	require.NoError(t, err)
	column := batch.Column(1).(*array.Float64)
	assert.Equal(t, "api_time", r.Schema().Field(1).Name)
	assert.True(t, column.IsNull(0))
	assert.False(t, column.IsNull(1))
	assert.Equal(t, 1.5, column.Value(1))
}

func TestWordsAreStoredOnce(t *testing.T) {
	s := NewStructure()
	p := plainToy(20).plans[0]
	p.Turns[0].Model, p.Turns[1].Model = "b", "a"
	require.NoError(t, s.Append(p))
	require.NoError(t, s.Append(p))
	var file bytes.Buffer
	require.NoError(t, s.Turns.writeTo(&file))
	r, err := ipc.NewFileReader(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	defer r.Close()
	words, ok := r.Schema().Field(10).Metadata.GetValue(wordsKey)
	assert.True(t, ok)
	assert.Equal(t, `["b","a"]`, words)
}

// A table of another layout is refused with the column that differs.
func TestTableOfAnotherKindIsDamage(t *testing.T) {
	s := NewStructure()
	require.NoError(t, s.Append(plainToy(20).plans[0]))
	var file bytes.Buffer
	require.NoError(t, s.Segments.writeTo(&file))
	err := NewStructure().Runs.read(file.Bytes())
	assert.ErrorIs(t, err, manifest.ErrDamaged)
	for _, garbage := range [][]byte{nil, {}, []byte("ARROW1"), file.Bytes()[:len(file.Bytes())/2], bytes.Repeat([]byte{0xff}, 100)} {
		assert.ErrorIs(t, NewStructure().Segments.read(garbage), manifest.ErrDamaged)
	}
}
