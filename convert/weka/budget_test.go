package weka

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/trace"
)

// purse reserves memory up to a limit.
type purse struct{ taken, limit int64 }

var errEmpty = errors.New("the row takes too much")

func (p *purse) take(n int64) error {
	if p.taken += n; p.taken > p.limit {
		return errEmpty
	}
	return nil
}

// oneRequest is a trace of one request with some text between the brackets of its ids.
func oneRequest(ids string) string {
	return `{"id":"x","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":64,"out":5,"hash_ids":[` + ids + `]}]}`
}

// A few bytes of text can mean much memory: lists without runs, requests, names, blocks far apart. Each is refused at the
// place where it exceeds the budget, in the middle of the scan, as text and as columns.
func TestTracesBeyondTheMemoryBudgetAreRefused(t *testing.T) {
	const many = 200_000
	list := func(id func(k int) int) string {
		var b strings.Builder
		for k := range many {
			fmt.Fprintf(&b, ",%d", id(k))
		}
		return b.String()[1:]
	}
	far, same := list(func(k int) int { return k * 1000 }), list(func(int) int { return 7 })
	request := `{"t":0,"type":"n","model":"m","in":0,"out":0,"hash_ids":[]}`
	for name, c := range map[string]struct {
		text, where string
		limit       int64
		inPlan      bool
	}{
		"equal ids":       {oneRequest(same), "requests[0].hash_ids", 3 << 20, false},
		"spread out":      {oneRequest(" " + far), "requests[0].hash_ids", 3 << 20, false},
		"blocks":          {oneRequest(far), "", 20 << 20, true},
		"requests":        {strings.Replace(oneRequest(""), `"requests":[`, `"requests":[`+strings.Repeat(request+",", many/10), 1), "requests[", 3 << 20, false},
		"unknown keys":    {`{"id":"x",` + manyKeys(many) + `"models":[]}`, "", 3 << 20, false},
		"a list it reads": {oneRequest(list(func(k int) int { return k })), "", 20 << 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &purse{limit: c.limit}
			tr, err := ScanWithin([]byte(c.text), rules.Default(), p.take)
			if c.inPlan {
				require.NoError(t, err)
				_, _, err = reconstruct.MakePlan(tr, rules.Default())
			}
			if name == "a list it reads" {
				require.NoError(t, err)
				_, _, err = reconstruct.MakePlan(tr, rules.Default())
				require.NoError(t, err)
				return
			}
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, trace.TooLarge, e.Kind)
			require.Equal(t, errEmpty.Error(), e.Problem)
			require.Contains(t, e.Hint, "split the trace into several of fewer requests")
			require.Contains(t, e.Where, c.where)
			require.Less(t, p.taken, c.limit+4<<20, "it went on")
		})
	}

	row, err := rowOf(ColumnPaths(), []byte(oneRequest(same)))
	require.NoError(t, err)
	p := &purse{limit: 3 << 20}
	_, err = ScanColumnsWithin(row, rules.Default(), p.take)
	require.EqualError(t, err, `trace "x": requests[0].hash_ids: the row takes too much`)

	m := NewMooncake(0, rules.Default())
	p = &purse{limit: 3 << 20}
	m.Reserve = p.take
	require.NoError(t, m.Add([]byte(`{"timestamp":1,"input_length":3,"output_length":4,"hash_ids":[1]}`)))
	require.Positive(t, p.taken)
	require.EqualError(t, m.Add([]byte(`{"timestamp":1,"input_length":3,"output_length":4,"hash_ids":[`+same+`]}`)), "hash_ids: the row takes too much")
}

func manyKeys(n int) string {
	var b strings.Builder
	for k := range n {
		fmt.Fprintf(&b, `"%d":1,`, k)
	}
	return b.String()
}
