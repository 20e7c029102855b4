package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A phase has every credit once; two phases may share one.
func TestRecordsOfTwoRunsAreRefused(t *testing.T) {
	records := make([]*Record, 4)
	for k := range records {
		records[k] = good(0, 1, float64(k), 0.5, 2.5, 5)
	}
	records[0].Phase, records[0].Bucket = WarmupPhase, WarmupBucket
	records[2].Credit = 1000 // beyond the words of the set
	reader := openRecords(t, writeRecords(t, records...))
	for range 3 {
		_, err := reader.Next()
		require.NoError(t, err)
	}
	_, err := reader.Next()
	require.ErrorContains(t, err, "records.jsonl: line 4: credit: 0: an earlier line of the phase profiling has it: records of two runs stand in one file")
}
