package weka

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/trace"
)

// drawIDs draws a list that has runs.
func drawIDs(t *rapid.T) (list []int64) {
	for range rapid.IntRange(0, 4).Draw(t, "runs") {
		first := rapid.Int64Range(-3, 12).Draw(t, "first")
		for k := range rapid.Int64Range(1, 5).Draw(t, "n") {
			list = append(list, first+k)
		}
	}
	return list
}

func TestRunsKeepTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawIDs(t)
		ids := idsOf(list)
		assert.Equal(t, len(list), ids.Len)
		assert.Equal(t, list, expandIDs(ids))
		for k := 1; k < len(ids.Runs); k++ { // maximal, so that equal lists have equal runs
			assert.NotEqual(t, ids.Runs[k-1].First+int64(ids.Runs[k-1].N), ids.Runs[k].First)
		}
	})
}

func TestCommonPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawIDs(t)
		b := slices.Clone(a[:rapid.IntRange(0, len(a)).Draw(t, "cut")])
		b = append(b, drawIDs(t)...)
		n := 0
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		assert.Equal(t, n, trace.CommonPrefix(idsOf(a), idsOf(b)))
		assert.Equal(t, n, trace.CommonPrefix(idsOf(b), idsOf(a)))
		assert.Equal(t, len(a), trace.CommonPrefix(idsOf(a), idsOf(a)))
	})
}

// The length of a run's text, around every power of ten.
func TestTextLengthOfRuns(t *testing.T) {
	limit := int64(1)
	for range 19 {
		for first := max(0, limit-3); first <= limit+1; first++ {
			for n := 1; n <= 6; n++ {
				r := trace.Run{First: first, N: n}
				text, ends := "", []int{0}
				for k := range n {
					text += strconv.FormatInt(first+int64(k), 10) + ","
					ends = append(ends, len(text))
				}
				require.Equal(t, len(text), textLen(r), "%+v", r)
				for cut := range len(text) + 3 {
					whole := 0
					for whole < n && ends[whole+1] <= cut {
						whole++
					}
					require.Equal(t, whole, idsWithin(r, cut), "%+v, %d bytes", r, cut)
				}
			}
		}
		limit *= 10
	}
}

func TestSameBytes(t *testing.T) {
	for n := range 40 {
		a := fmt.Appendf(nil, "%0*d", n+1, 7)[:n]
		for k := range n {
			b := slices.Clone(a)
			b[k]++
			assert.Equal(t, k, sameBytes(a, b))
			assert.Equal(t, k, sameBytes(a, a[:k]))
		}
		assert.Equal(t, n, sameBytes(a, append(slices.Clone(a), 'x')))
	}
}

// An id that readers of results would cut is refused, unless AIPerf decides what is refused.
func TestTraceIDWithASeparator(t *testing.T) {
	for id, refused := range map[string]bool{"a::b": true, "::": true, "a:b": false, "a:": false} {
		for _, rules := range []rules.Rules{rules.Default(), rules.AIPerf()} {
			tr, err := Scan(fmt.Appendf(nil, `{"id":%q,"models":["m"],"block_size":4,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":4,"out":1,"hash_ids":[1]}]}`, id), rules)
			require.NoError(t, err)
			_, _, err = reconstruct.MakePlan(tr, rules)
			if !refused || rules.Refusals == "error" {
				require.NoError(t, err, id)
				continue
			}
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, trace.BadTraceID, e.Kind)
			require.EqualError(t, err, fmt.Sprintf(`trace %q: id: it has "::", which separates a trace from its subagents in the names of sessions`, id))
		}
	}
}

func idsOf(list []int64) (ids trace.IDs) {
	for _, id := range list {
		ids.Append(id)
	}
	return ids
}
