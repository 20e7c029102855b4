package convert

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache/cachestore"
)

// A file that has several readings is refused as a whole, at the row that shows it; no flag skips rows of it.
func TestUnclearFilesOfMooncakeRows(t *testing.T) {
	for want, rows := range map[string][]string{
		":2: timestamp: 1753780607, the first of the file, looks like seconds since 1970": {"", mooncakeRow(`"timestamp":1753780607`), mooncakeRow(`"timestamp":5`)},
		":3: input_length 100 and 6 hash_ids do not fit blocks of 512 tokens, and no":     {mooncakeRow(`"timestamp":0,"input_length":500`), "", mooncakeRow(`"timestamp":5,"input_length":100,"hash_ids":[1,2,3,4,5,6]`)},
	} {
		o := options(t, write(t, "in.jsonl", []byte(strings.Join(rows, "\n"))))
		o.Corpus = tinyCorpus(t, 3000)
		for _, o.SkipInvalid = range []bool{false, true} {
			_, err := Convert(t.Context(), o)
			require.ErrorContains(t, err, o.Inputs[0]+want)
			requireClean(t, o.Root)
		}
	}
}

// A replay puts answers into Mooncake rows alone: no other trace may stand beside them then. The facts say that it does.
func TestLiveRowsStandAlone(t *testing.T) {
	rows := write(t, "in.jsonl", []byte(mooncakeRow(`"timestamp":0,"session_id":"s"`)+"\n"+mooncakeRow(`"timestamp":7,"session_id":"s"`)))
	o := options(t, rows)
	o.Corpus = tinyCorpus(t, 3000)
	require.NoError(t, o.Rules.Set("session_rows", "live"))
	assert.True(t, o.convert(t).Facts.Rules.LiveAnswers)
	weka := lines(t, `{"id":"g","models":["m"],"block_size":512,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":1024,"out":3,"hash_ids":[0,1]}]}`)
	o.Inputs = []string{weka, rows}
	_, err := Convert(t.Context(), o)
	require.ErrorContains(t, err, rows+":1: session_rows=live: a replay puts answers")
	o.Inputs = o.Inputs[:1]
	assert.False(t, o.convert(t).Facts.Rules.LiveAnswers, "other traces have no such rule")
}

// Invalid rows of a session leave out the session; the rows are listed, each with its line.
func TestSkippedSessionsOfMooncakeRows(t *testing.T) {
	rows := []string{mooncakeRow(`"timestamp":0,"session_id":"s"`), mooncakeRow(`"timestamp":7`), mooncakeRow(`"session_id":"s","input_length":1100`)}
	o := options(t, write(t, "in.jsonl", []byte(strings.Join(rows, "\n"))))
	o.Corpus, o.SkipInvalid, o.Rules.BlockSize = tinyCorpus(t, 3000), true, 512
	r := o.convert(t)
	require.Len(t, r.Facts.Skipped, 1)
	assert.Equal(t, o.Inputs[0]+":3", r.Facts.Skipped[0].Where)
	assert.Equal(t, map[string]string{"row-000002": "7"}, startsOf(openResult(t, o, r)))
}

// Each file of Mooncake rows has a namespace, and shards of one are one recording, unless --set namespace says otherwise. The key says it.
func TestNamespacesOfMooncakeFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, ids, more string) string {
		path := filepath.Join(dir, name)
		row := `{"timestamp":0,"input_length":1024,"output_length":4,"hash_ids":` + ids + more + "}\n"
		require.NoError(t, os.WriteFile(path, []byte(row), 0o666))
		return path
	}
	a, b := file("a.jsonl", "[0,1]", ""), file("b.jsonl", "[0,2]", "")
	first, second := file("c-00000-of-00002.jsonl", "[0,1]", `,"session_id":"s"`), file("c-00001-of-00002.jsonl", "[0,1]", `,"session_id":"s"`)
	global := lines(t, `{"id":"g","models":["m"],"block_size":512,"hash_id_scope":"global","requests":[{"t":0,"type":"n","model":"m","in":1024,"out":3,"hash_ids":[0,1]}]}`)
	keys := map[string]string{}
	for _, c := range []struct {
		namespace  string
		inputs     []string
		hits       float64
		shared     int
		traces     int
		recordings string
	}{
		{"auto", []string{a, b}, 0, 0, 2, "[1,2]"},
		{"file", []string{a, b}, 0, 0, 2, "[1,2]"},
		{"input", []string{a, b}, 0.25, 2, 2, "[1,2]"},
		{"auto", []string{first, second}, 0.5, 0, 1, "[1,1]"},
		{"auto", []string{first, a, second}, 2. / 6, 0, 2, "[1,2,1]"},
		{"file", []string{first, second}, 0, 0, 2, "[1,2]"},
		{"input", []string{first, second}, 0.5, 0, 1, "[1,1]"},
		{"auto", []string{global, a}, 0, 0, 2, "[0,1]"},
		{"input", []string{global, a}, 0.5, 2, 2, "[0,1]"},
	} {
		o := options(t, c.inputs...)
		o.Corpus = tinyCorpus(t, 3000)
		require.NoError(t, o.Rules.Set("namespace", c.namespace))
		r := o.convert(t)
		requireSound(t, r)
		cache := openResult(t, o, r)
		hits, _, err := cache.HitRates()
		require.NoError(t, err)
		name := fmt.Sprint(c)
		assert.InDelta(t, c.hits, hits, 1e-9, name)
		assert.Equal(t, c.shared, cache.SharedTraces(), name)
		assert.Equal(t, c.traces, cache.Traces(), name)
		sharing, err := cache.Sharing()
		require.NoError(t, err)
		assert.Equal(t, hits == 0, sharing.Blocks == 2*len(c.inputs), "distinct blocks: %s", name)
		assert.Contains(t, string(preImage(t, o, r)), `"recordings":`+c.recordings, name)
		assert.Empty(t, keys[r.Key], "%s has the key of %s", name, keys[r.Key])
		keys[r.Key] = name
		info, err := cachestore.Describe(o.Root, r.Key)
		require.NoError(t, err)
		again, err := o.forRebuild(o.Root, info)
		require.NoError(t, err)
		assert.Equal(t, c.recordings, strings.ReplaceAll(fmt.Sprint(again.recordings), " ", ","), "%s: sources of a data set of the hub are single files", name)
		require.NoError(t, VerifyRebuild(t.Context(), o.Root, r.Key, Options{Source: o.Source, disk: o.disk}), name)
	}
}
