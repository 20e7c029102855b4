package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

func TestErrorSamples(t *testing.T) {
	a := NewAggregate(Rules{})
	add := func(bucket Bucket, category wire.Category, message string) {
		a.Add(&Record{Bucket: bucket, Error: &Error{Category: category, Message: message}})
	}
	for range 3 {
		add(Profiling, "http_status", "503 busy")
	}
	add(Profiling, "http_status", "500 busy")
	for k := range 100 {
		add(Cooldown, "connection", fmt.Sprintf("port %d reset", k))
	}
	for k := range 100 {
		add(Profiling, "timeout", strings.Repeat("a", k))
	}
	add(Cooldown, "connection", "refused")
	add(ContextOverflow, "context_overflow", "too\x1b[31m long\n\u202enow")
	add(CancelledAtEnd, "cancelled", "by us")
	s := a.Summary(RunInfo{}).ErrorSamples
	require.Equal(t, ErrorSamples{
		"http_status":      {{"503 busy", 3}, {"500 busy", 1}},
		"connection":       {{"port 0 reset", 100}, {"refused", 1}},
		"timeout":          {{"a", 1}, {"aa", 1}, {"aaa", 1}},
		"context_overflow": {{"too [31m long now", 1}},
	}, s)
	add(Profiling, "http_status", "503 busy")
	require.Equal(t, 3, s["http_status"][0].N, "a summary does not change")
	require.Len(t, oneLine(strings.Repeat("é", 500)), maxMessage+3)
	require.Equal(t, strings.Repeat("é", 150)+"...", oneLine(strings.Repeat("é", 500)))
}

func TestMessagesThatDifferInNumbers(t *testing.T) {
	for _, yes := range [][2]string{{"", ""}, {"x1y", "x22y"}, {"500 a 1", "500 a 2"}, {"a9", "a10"}} {
		require.True(t, differInNumbers(yes[0], yes[1]), yes)
	}
	for _, no := range [][2]string{{"", "a"}, {"500 a", "503 a"}, {"a1", "a"}, {"a", "a1"}, {"a1b", "a1c"}, {"x1", "xx"}, {"1", "2"}, {"ab", "a"}} {
		require.False(t, differInNumbers(no[0], no[1]), no)
		require.False(t, differInNumbers(no[1], no[0]), no)
	}
}
