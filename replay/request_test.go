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
	var contents wire.Contents
	contents.Add(time.Second, 2)
	result := wire.Result{
		Sent: time.Second, FirstToken: 2 * time.Second, LastToken: 3 * time.Second, End: 4 * time.Second,
		Acknowledged: 5 * time.Second, SecondToken: 6 * time.Second, FirstOutput: 7 * time.Second, LastMessage: 8 * time.Second,
		Exchange: wire.Exchange{WaitEnd: 9 * time.Second, ConnectStart: 10 * time.Second, ConnectEnd: 11 * time.Second,
			SendStart: 12 * time.Second, SendEnd: 13 * time.Second, FirstByte: 14 * time.Second, LastByte: 15 * time.Second},
		Contents: contents, FinishReason: "stop",
		Status: 200, Chunks: 5, FirstChunkTokens: 6, BytesSent: 7, BytesReceived: 8,
		Usage:  wire.Usage{Prompt: 9, Completion: 21, Reasoning: 10, Cached: 12, CacheWrite: 13, CacheMiss: 14, Total: 30},
		Reused: true, Resent: true, Redirected: true, SingleBody: true,
		Err: &wire.Failure{Category: wire.Timeout, Code: 504, Message: "late"},
	}
	var got measure.Record
	fillRecord(&got, &result)
	require.Equal(t, measure.Record{
		Sent: 1, FirstToken: 2, LastToken: 3, End: 4,
		Acknowledged: 5, SecondToken: 6, FirstOutput: 7, LastMessage: 8,
		WaitEnd: 9, ConnectStart: 10, ConnectEnd: 11, SendStart: 12, SendEnd: 13, FirstByte: 14, LastByte: 15,
		Contents: contents, FinishReason: "stop", Status: 200, Chunks: 5, FirstChunkTokens: measure.Tokens(6), BytesSent: 7, BytesReceived: 8,
		PromptTokens: new(int64(9)), OutputTokens: new(int64(11)), ReasoningTokens: new(int64(10)), CachedTokens: new(int64(12)),
		CacheWriteTokens: new(int64(13)), CacheMissTokens: new(int64(14)), TotalTokens: new(int64(30)),
		Reused: true, Resent: true, Redirected: true, SingleBody: true,
		Error: &measure.Error{Category: wire.Timeout, Code: 504, Message: "late"},
	}, got)
	from, to := reflect.TypeFor[wire.Result](), reflect.ValueOf(got)
	for k := range from.NumField() { // a field that is added later to both
		if f := to.FieldByName(from.Field(k).Name); f.IsValid() {
			require.False(t, f.IsZero(), from.Field(k).Name)
		}
	}
}
