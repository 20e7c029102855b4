package convert

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/trace"
)

// lengths are traces of a made-up format: `{"lengths":[ID,IN,IN,...]}`.
var lengths = format{
	name: "lengths", what: "a list of lengths", sample: `{"lengths":["p",5,9,14]}`,
	is: func(first []byte) bool { return strings.HasPrefix(string(first), `{"lengths":`) },
	scan: func(row []byte, _ rules.Rules, reserve trace.Reserve) (*trace.Trace, error) {
		t := &trace.Trace{BlockSize: 4, Scope: trace.ScopeLocal, Models: []string{"m"}, Format: "lengths", Budget: trace.NewBudget(reserve)}
		words := strings.Split(strings.Trim(string(row), "{}\":[]lengths\n"), ",")
		t.ID = strings.Trim(words[0], `"`)
		for k, word := range words[1:] {
			r := trace.Request{T: float64(k)}
			if _, err := fmt.Sscan(word, &r.In); err != nil {
				return nil, &trace.Error{Kind: trace.WrongType, Trace: t.ID, Problem: err.Error()}
			}
			for id := range r.In / 4 {
				r.IDs.Append(id)
			}
			t.Entries = append(t.Entries, trace.Entry{Request: r})
		}
		return t, nil
	},
}

// A format is a row of the table: its files are recognized, its traces converted, beside those of others; its sample is in the keys of
// its own inputs alone.
func TestNextFormat(t *testing.T) {
	before := formats
	t.Cleanup(func() { formats = before })
	use := func(sample string) {
		f := lengths
		f.sample = sample
		formats = append([]format{f}, before...)
	}
	structure := func(inputs ...string) *Result {
		r, err := Structure(context.Background(), options(t, inputs...))
		require.NoError(t, err)
		return r
	}
	rows := `{"timestamp":0,"input_length":100,"output_length":1,"hash_ids":[0]}`
	other, alone := lines(t, traceText("a")), lines(t, `{"lengths":["x",5,9]}`, `{"lengths":["y",17]}`)
	weka, mooncake := structure(other), structure(lines(t, rows))
	_, err := Structure(context.Background(), options(t, alone))
	require.ErrorContains(t, err, `required field "id" is missing`)

	use(lengths.sample)
	assert.Equal(t, weka.Key, structure(other).Key)
	assert.Equal(t, mooncake.Key, structure(lines(t, rows)).Key)
	first := structure(alone)
	assert.Equal(t, 2, first.Facts.Traces)
	assert.Equal(t, int64(31), first.Facts.PromptTokens)
	assert.Equal(t, map[string]int{"lengths": 2}, first.Facts.Generations)
	both := structure(other, alone)
	assert.Equal(t, 3, both.Facts.Traces)
	require.Len(t, both.Facts.Oddities, 1)
	assert.Equal(t, "a list of lengths: line 1 of file 2 of the input", both.Facts.Oddities[0].First)
	requireSound(t, options(t, alone).convert(t))
	o := options(t, alone)
	o.shardRows = 1
	requireSound(t, o.convert(t))

	_, err = Structure(context.Background(), options(t, lines(t, `{"lengths":["z",5]}`, `{"lengths":["z",16777217]}`)))
	require.ErrorContains(t, err, `:2: trace "z": requests[0]: in = 16777217, out = 0: larger than 16777216 tokens`)

	use(`{"lengths":["p",5,9]}`)
	assert.NotEqual(t, first.Key, structure(alone).Key)
	assert.NotEqual(t, both.Key, structure(other, alone).Key)
	assert.Equal(t, weka.Key, structure(other).Key)
}

// A file that begins with a trace is not opened again for its format, which every hit would pay for. Other files are.
func TestTracesAreKnownByTheirFirstBytes(t *testing.T) {
	long := strings.Replace(traceText("a"), `"id"`, `"totals":{"note":"`+strings.Repeat("x", 9000)+`"},"id"`, 1)
	for name, c := range map[string]struct {
		text   string
		opened bool
	}{
		"in.jsonl":  {traceText("a") + "\n" + traceText("b") + "\n", false},
		"in.json":   {traceText("a"), false},
		"long.json": {long, true},
		"rows":      {`{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[0]}` + "\n" + traceText("b") + "\n", true},
	} {
		path := write(t, name, []byte(c.text))
		s, err := hfsource.Resolve(t.Context(), []string{path}, hfsource.Options{Texts: textFormats(), Rows: rowsOf})
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		conversion := newConversion(Options{})
		conversion.snapshot = s
		logs, err := conversion.findLogs(t.Context())
		if err == nil {
			_, err = recordingsOf(t.Context(), s, "")
		}
		if c.opened {
			require.ErrorIs(t, err, os.ErrNotExist, name)
			continue
		}
		require.NoError(t, err, name)
		require.False(t, logs)
	}
}
