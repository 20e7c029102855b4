package convert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
