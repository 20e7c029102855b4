package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSamples(t *testing.T) {
	a := NewAggregate()
	add := func(bucket Bucket, category, message string) {
		a.Add(&Record{Bucket: bucket, Error: &Error{category, message}})
	}
	for range 3 {
		add(Profiling, "http_status", "503 busy")
	}
	for k := range 100 {
		add(Cooldown, "connection", fmt.Sprintf("port %d", k))
	}
	add(ContextOverflow, "context_overflow", "too\x1b[31m long\n\u202enow")
	add(CancelledAtEnd, "cancelled", "by us")
	s := a.Summary(RunInfo{}).Samples
	require.Equal(t, Samples{
		"http_status":      {{"503 busy", 3}},
		"connection":       {{"port 0", 1}, {"port 1", 1}, {"port 2", 1}},
		"context_overflow": {{"too [31m long now", 1}},
	}, s)
	add(Profiling, "http_status", "503 busy")
	require.Equal(t, 3, s["http_status"][0].N, "a summary does not change")
	require.Len(t, oneLine(strings.Repeat("é", 500)), maxMessage+3)
	require.Equal(t, strings.Repeat("é", 150)+"...", oneLine(strings.Repeat("é", 500)))
}
