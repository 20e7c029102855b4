package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The summary counts the finish reasons of requests that ended well, and the table says when a filter ended all of them.
//
// Covers T-112.
func TestFinishReasons(t *testing.T) {
	a := NewAggregate(Rules{})
	add := func(reason string, failed bool) {
		r := good(0, 0, 0, 1, 2, 200)
		r.FinishReason = reason
		if failed {
			r.Error = &Error{Category: "stream_error_payload"}
		}
		a.Add(r)
	}
	table := func() string {
		var b strings.Builder
		s := a.Summary(RunInfo{})
		require.NoError(t, s.WriteTable(&b, 0))
		return b.String()
	}
	require.NotContains(t, table(), "finished ")
	add("content_filter", false)
	add("abort", true)
	require.Contains(t, table(), "content_filter: a content filter of the server ended every answer")
	add("stop", false)
	add("stop", false)
	add("", false)
	require.Equal(t, FinishReasons{"stop": 2, "none": 1, "content_filter": 1}, a.Summary(RunInfo{}).FinishReasons)
	require.Contains(t, table(), "finished    2 stop, 1 content_filter, 1 none\n")
	require.NotContains(t, table(), "ended every answer")
	for k := range 2 * maxReasons {
		add(fmt.Sprintf("%d%s", k, strings.Repeat("é", 100)), false)
	}
	got := a.Summary(RunInfo{}).FinishReasons
	require.Len(t, got, maxReasons+1)
	require.Equal(t, maxReasons+3, got["other"])
	for reason := range got {
		require.LessOrEqual(t, len(reason), maxReason)
	}
}

// The table says where certificates were not looked at.
//
// Covers T-141.
func TestInsecureIsSaid(t *testing.T) {
	for value, said := range map[string]bool{"true": true, "false": false} {
		s := NewAggregate(Rules{}).Summary(RunInfo{Run: Run{Options: []Option{{Name: "insecure", Value: []byte(value)}}}})
		var b strings.Builder
		require.NoError(t, s.WriteTable(&b, 0))
		require.Equal(t, said, strings.Contains(b.String(), "insecure: the certificates of the servers were not looked at"), value)
	}
}
