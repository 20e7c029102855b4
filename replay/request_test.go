package replay

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Every field of a result that a record has too arrives there.
func TestFillRecord(t *testing.T) {
	result := wire.Result{
		Sent: time.Second, FirstToken: 2 * time.Second, LastToken: 3 * time.Second, End: 4 * time.Second,
		Status: 200, Chunks: 5, FirstChunkTokens: 6, BytesSent: 7, BytesReceived: 8,
		Usage:  wire.Usage{Prompt: 9, Completion: 21, Reasoning: 10, Cached: 12},
		Reused: true, Resent: true, Redirected: true, SingleBody: true,
		Err: &wire.Failure{Category: wire.Timeout, Message: "late"},
	}
	var got measure.Record
	fillRecord(&got, &result)
	require.Equal(t, measure.Record{
		Sent: 1, FirstToken: 2, LastToken: 3, End: 4, Status: 200, Chunks: 5, FirstChunkTokens: measure.Tokens(6), BytesSent: 7, BytesReceived: 8,
		PromptTokens: new(int64(9)), OutputTokens: new(int64(11)), ReasoningTokens: new(int64(10)), CachedTokens: new(int64(12)),
		Reused: true, Resent: true, Redirected: true, SingleBody: true,
		Error: &measure.Error{Category: wire.Timeout, Message: "late"},
	}, got)
	from, to := reflect.TypeFor[wire.Result](), reflect.ValueOf(got)
	for k := range from.NumField() { // a field that is added later to both
		if f := to.FieldByName(from.Field(k).Name); f.IsValid() {
			require.False(t, f.IsZero(), from.Field(k).Name)
		}
	}
}
