package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// logOf returns the lines of the log of a run, which is the same twice.
func logOf(t *testing.T, r *simulate.Result) (list []logRecord) {
	var first, second bytes.Buffer
	require.NoError(t, WriteLog(&first, r))
	require.NoError(t, WriteLog(&second, r))
	require.True(t, bytes.Equal(first.Bytes(), second.Bytes()))
	z, err := gzip.NewReader(&first)
	require.NoError(t, err)
	for d := json.NewDecoder(z); ; {
		var one logRecord
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(t, err)
		list = append(list, one)
	}
}

// The log has a record for each tick, or sample, and every request once, with the record behind its arrival.
//
// Covers S-52.
func TestLog(t *testing.T) {
	for name, c := range configs() {
		r, _ := made(t, c)
		list := logOf(t, r)
		n, before := 0, int64(-1)
		for k, one := range list {
			require.GreaterOrEqual(t, one.At, before, name)
			for _, q := range one.Requests {
				require.True(t, q.Arrival > before && q.Arrival <= one.At, name)
				require.Equal(t, r.Requests[n].Session, q.Session)
				n++
			}
			before = one.At
			last := k == len(list)-1
			require.Equal(t, last, one.Lives != nil)
			switch {
			case last:
				require.Len(t, one.Lives[0], len(r.Workers[0]))
				require.Equal(t, r.Workers[0][0].Drained, one.Lives[0][0].Drained)
			case c.Planner != nil:
				require.Equal(t, tickJSON(t, r.Planned.Ticks[k]), tickJSON(t, one.Tick))
			default:
				require.Equal(t, r.Samples.List[k].Pools[0][0].Running, one.Pools[0][0].Running)
				require.Equal(t, r.Samples.List[k].Pools[0][0].KVBlocks, one.Pools[0][0].KVBlocks)
			}
		}
		require.Equal(t, len(r.Requests), n, name)
		if c.Planner != nil {
			require.Len(t, list, len(r.Planned.Ticks)+1)
			require.Equal(t, r.Planned.Rest.Requests, list[len(list)-1].Rest.Requests)
		} else {
			require.Len(t, list, len(r.Samples.List)+1)
		}
	}
}

func tickJSON(t *testing.T, tick *planner.Tick) string {
	text, err := json.Marshal(tick)
	require.NoError(t, err)
	return string(text)
}
