package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// mooncakeRow returns a Mooncake row with some more fields.
func mooncakeRow(fields string) string {
	return `{"output_length":1,"hash_ids":[0],` + fields + `}`
}

// startsOf returns the recorded starts of a dataset, by trace; "-" where there is none.
func startsOf(c *mmapcache.Cache) map[string]string {
	starts := map[string]string{}
	for i := range c.Structure.Traces.Len() {
		id := c.Structure.Traces.At(i).ID
		starts[id] = "-"
		if ms, ok := c.Structure.RecordedStart(i); ok {
			starts[id] = fmt.Sprint(ms)
		}
	}
	return starts
}

// Every Mooncake trace has its own start, whatever the order of rows and files, their compression, and the number of workers.
// Weka traces beside them have none.
func TestRecordedStarts(t *testing.T) {
	rows := strings.Join([]string{mooncakeRow(`"timestamp":6000`), "", mooncakeRow(`"timestamp":0.25,"session_id":"s"`), mooncakeRow(`"timestamp":3000`),
		mooncakeRow(`"timestamp":1e6,"session_id":"s"`), mooncakeRow(`"timestamp":3000`)}, "\n")
	second := write(t, "second.jsonl.zst", zst(t, []byte("\n\n"+mooncakeRow(`"timestamp":1732312345678`))))
	want := map[string]string{"row-000001": "6000", "s": "0.25", "row-000003": "3000", "row-000005": "3000", "a": "-", "2/row-000001": "1.732312345678e+12"}
	var tablesBefore map[string]string
	for _, workers := range []int{1, 3} {
		o := options(t, write(t, "first.jsonl", []byte(rows)), lines(t, traceText("a")), second)
		o.Corpus, o.Workers = tinyCorpus(t, 3000), workers
		r := o.convert(t)
		requireSound(t, r)
		assert.Equal(t, want, startsOf(openResult(t, o, r)))
		assert.Equal(t, 5, r.Facts.Starts)
		if tablesBefore != nil {
			assert.Equal(t, tablesBefore, tables(t, o.Root))
		}
		tablesBefore = tables(t, o.Root)
	}
}

// structureOf returns the pre-image of the structure of an input.
func structureOf(t *testing.T, o Options) (image map[string]any) {
	info, err := cachestore.Describe(o.Root, o.convert(t).Key)
	require.NoError(t, err)
	require.Equal(t, mmapcache.StructureKind, info.Directories[1].Manifest.Kind)
	require.NoError(t, json.Unmarshal(info.Directories[1].Manifest.PreImage, &image))
	return image
}

// A structure without recorded starts has the key and the files that it had before the column. One with them has another
// format and a probe of its own, so that no cache from before the column is taken for it.
func TestKeysOfRecordedStarts(t *testing.T) {
	plain := options(t, lines(t, traceText("a")))
	image := structureOf(t, plain)
	assert.EqualValues(t, mmapcache.FormatNoStarts, image["format"])
	assert.NotContains(t, image, "probe_starts")
	assert.NotContains(t, tables(t, plain.Root)["traces.arrow"], "recorded_start_ms")
	assert.NotContains(t, string(preImage(t, plain, plain.convert(t))), "recorded_starts")

	row := write(t, "in.jsonl", []byte(mooncakeRow(`"timestamp":5`)))
	for _, inputs := range [][]string{{row}, {lines(t, traceText("a")), row}} {
		o := options(t, inputs...)
		o.Corpus = tinyCorpus(t, 3000)
		image := structureOf(t, o)
		assert.EqualValues(t, mmapcache.FormatStarts, image["format"])
		assert.Equal(t, ProbeStarts(rules.Default()), image["probe_starts"])
		assert.Contains(t, tables(t, o.Root)["traces.arrow"], "recorded_start_ms")
	}
}

// Inputs that differ in recorded starts alone have other keys and other tables.
func TestRecordedStartsTellCachesApart(t *testing.T) {
	made := func(second string) (*Result, map[string]string) {
		o := options(t, write(t, "in.jsonl", []byte(mooncakeRow(`"timestamp":0`)+"\n"+second)))
		o.Corpus = tinyCorpus(t, 3000)
		r := o.convert(t)
		return r, tables(t, o.Root)
	}
	a, tablesOfA := made(mooncakeRow(`"timestamp":3000`))
	b, tablesOfB := made(mooncakeRow(`"timestamp":3001`))
	assert.NotEqual(t, a.Key, b.Key)
	assert.NotEqual(t, tablesOfA["traces.arrow"], tablesOfB["traces.arrow"])
}

// A change of this probe changes the keys of structures with recorded starts. Say in the commit what is stored differently.
func TestProbeOfStartsIsPinned(t *testing.T) {
	assert.Equal(t, "b2ba00bd51f22503c56b4452e53865e69dd4d44b1a5a1633322f5a5498c06e0b", ProbeStarts(rules.Default()))
	assert.Equal(t, "b2ba00bd51f22503c56b4452e53865e69dd4d44b1a5a1633322f5a5498c06e0b", ProbeStarts(rules.AIPerf()))
	r := rules.Default()
	require.NoError(t, r.Set("start_offset", "1"))
	assert.NotEqual(t, ProbeStarts(rules.Default()), ProbeStarts(r), "a filter that moves a start")
}

// Explain names the format where a cache from before the column is the nearest, and no probe that follows from the input.
func TestExplainOfRecordedStarts(t *testing.T) {
	row := write(t, "in.jsonl", []byte(mooncakeRow(`"timestamp":5`)))
	for _, c := range [][2]string{{lines(t, traceText("a")), row}, {row, lines(t, traceText("a"))}} {
		o := options(t, c[0])
		o.Corpus = tinyCorpus(t, 3000)
		o.convert(t)
		o.Inputs = []string{c[1]}
		e, err := Explain(t.Context(), o)
		require.NoError(t, err)
		require.NotEmpty(t, e.Parts[0].Nearest)
		var fields []string
		for _, d := range e.Parts[0].Nearest[0].Differences {
			fields = append(fields, d.Field)
		}
		assert.Equal(t, []string{"format", "inputs[0].sha256"}, fields)
	}
}

// A row whose arrival is missing or absurd is an error that names file, line and value, or with --skip-invalid a counted
// skip. The rows around it keep their starts.
func TestInvalidRecordedStarts(t *testing.T) {
	for fields, want := range map[string]string{
		`"timestamp":-1`:                `timestamp: -1 ms: want 0 or more`,
		`"timestamp":-0.001`:            `timestamp: -0.001 ms: want 0 or more`,
		`"timestamp":1e300`:             `timestamp: 1e300 milliseconds: beyond 1e+15`,
		`"timestamp":1e999`:             `timestamp: 1e999 is not a finite number`,
		`"timestamp":9.3e12`:            `timestamp: 9.3e+12 ms: beyond 9.2e+12 ms, which are 292 years`,
		`"timestamp":1732312345678000`:  `timestamp: 1732312345678000 looks like microseconds since 1970: want milliseconds`,
		`"timestamp":NaN`:               `not JSON`,
		`"timestamp":"5"`:               `timestamp: `,
		`"timestamp":null`:              `trace "row-000002": required field "timestamp" is missing: only later turns of a session may leave it out`,
		`"session_id":"s"`:              `trace "s": required field "timestamp" is missing: only later turns of a session may leave it out`,
		`"session_id":"s","delay":1`:    `trace "s": delay: 1 ms: want none or 0 for the first turn of a session, which follows no turn`,
		`"created_time":-7,"delay":0`:   `created_time: -7 ms: want 0 or more`,
		`"timestamp":5,"timestamp":-5`:  `timestamp: -5 ms: want 0 or more`,
		`"timestamp":18446744073709551`: `timestamp: 18446744073709551 milliseconds: beyond 1e+15`,
	} {
		t.Run(fields, func(t *testing.T) {
			in := write(t, "in.jsonl", []byte(strings.Join([]string{mooncakeRow(`"timestamp":7000`), mooncakeRow(fields), mooncakeRow(`"timestamp":3000`)}, "\n")))
			o := options(t, in)
			o.Corpus = tinyCorpus(t, 3000)
			_, err := Convert(t.Context(), o)
			require.ErrorContains(t, err, in+":2: ")
			require.ErrorContains(t, err, want)
			o.SkipInvalid = true
			r := o.convert(t)
			require.Equal(t, 1, r.Facts.AllSkipped())
			assert.Contains(t, r.Facts.Skipped[0].Reason, want)
			assert.Equal(t, in+":2", r.Facts.Skipped[0].Where)
			assert.Equal(t, map[string]string{"row-000001": "7000", "row-000003": "3000"}, startsOf(openResult(t, o, r)))
		})
	}
}

// A first row that is no Mooncake row makes its file a file of traces, in which Mooncake rows are invalid. Parquet has no Mooncake rows.
func TestFirstRowDecidesTheFormat(t *testing.T) {
	row := mooncakeRow(`"timestamp":5`)
	for name, in := range map[string]string{
		"after a trace":       lines(t, traceText("a"), row),
		"after another value": lines(t, `{"timestamp":5}`, row),
		"columns":             write(t, "in.parquet", libraryParquet(t, [][]byte{[]byte(row)})),
	} {
		o := options(t, in)
		_, err := Convert(t.Context(), o)
		require.Error(t, err, name)
		requireClean(t, o.Root)
	}
	o := options(t, write(t, "in.jsonl", bytes.Repeat([]byte("\n"), 3)))
	_, err := Convert(t.Context(), o)
	assert.ErrorContains(t, err, "no line of it holds one")
	o = options(t, write(t, "in.json", []byte(row))) // a file of one row
	o.Corpus = tinyCorpus(t, 3000)
	assert.Equal(t, map[string]string{"row-000001": "5"}, startsOf(openResult(t, o, o.convert(t))))
}
