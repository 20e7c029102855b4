package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

// Records of the warmup change no number of a summary but those of its block. Of a run that was killed the block has what
// records say.
func TestSummaryLeavesTheWarmupOut(t *testing.T) {
	var records []*Record
	with, without := NewAggregate(Rules{}), NewAggregate(Rules{})
	for k, bucket := range []Bucket{WarmupBucket, Profiling, WarmupBucket, ContextOverflow, Cooldown} {
		r := good(k, 1, float64(k), 0.5, 2.5, 5)
		if bucket == WarmupBucket {
			r.Phase = WarmupPhase
		}
		if k == 2 || k == 3 {
			r.Error = &Error{Category: wire.ContextOverflow, Message: "too long"}
		}
		r.Bucket, r.Credit = bucket, k
		records = append(records, r)
		with.Add(r)
		if bucket != WarmupBucket {
			without.Add(r)
		}
	}
	info := RunInfo{Lanes: 5, Facts: &Facts{Warmup: &WarmupFacts{Duration: 2.5, Primers: 2, PrimersFailed: 1, ReplacedLanes: 1}}}
	s := with.Summary(info)
	require.Equal(t, &Warmup{Requests: 2, Errors: map[wire.Category]int{wire.ContextOverflow: 1}, WarmupFacts: *info.Facts.Warmup}, s.Warmup)
	rebuilt := NewAggregate(Rules{})
	require.NoError(t, rebuilt.Rebuild(openRecords(t, writeRecords(t, records...))))
	requireSame(t, s, rebuilt.Summary(info))

	var table strings.Builder
	require.NoError(t, s.WriteTable(&table, 0))
	require.Contains(t, table.String(), "\nwarmup      2 requests in 2.50 s before the measured phase: 2 primers, 1 of them failed, 1 lane took another trace\n")

	info.Facts.Warmup = nil
	alone := without.Summary(info)
	require.Nil(t, alone.Warmup)
	s.Warmup = nil
	requireSame(t, alone, s)

	killed := with.Summary(RunInfo{}).Warmup
	require.Equal(t, 2, killed.Requests)
	require.True(t, killed.Primers.IsMissing())
}

// requireSame compares what is written of two summaries.
func requireSame(t *testing.T, want, got Summary) {
	t.Helper()
	var w, g strings.Builder
	require.NoError(t, want.WriteJSON(&w))
	require.NoError(t, got.WriteJSON(&g))
	require.JSONEq(t, w.String(), g.String())
}
