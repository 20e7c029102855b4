package replay

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// The record of a request of a nested session says how deep it is, whose child, of which tree, and what was recorded of its turn.
func TestRecordOfANestedSession(t *testing.T) {
	plan := &mmapcache.Plan{
		Trace:    mmapcache.Trace{ID: "t"},
		Sessions: []mmapcache.Session{{ID: "a", Parent: mmapcache.None, Turns: 1}, {ID: "b", FirstTurn: 1, Turns: 1}, {ID: "c", Parent: 1, FirstTurn: 2, Turns: 2, Kind: mmapcache.Subagent}},
		Turns:    []mmapcache.Turn{{Inner: mmapcache.None}, {}, {}, {In: 50, Out: 7, HashIDs: 5, CacheHits: 3, Outer: 9, Inner: 4}},
	}
	ids := 0
	s := &requestSender{run: &run{}, phase: measure.ProfilingPhase, firstCredit: 10, recordsFrom: time.Minute, servers: servers{indexes: []int{0}}, newID: func() string {
		ids++
		return strconv.Itoa(ids)
	}}
	tree := &activeTree{loadedTrace: &loadedTrace{plan: plan}, ordinal: 3, pass: 2, correlationIDs: []string{"root", "parent", ""}}
	d := conductor.Dispatch{ID: 5, Lane: 1, Session: 2, Turn: 1, Due: time.Second, Issued: 2 * time.Second}
	require.Equal(t, measure.Record{
		Phase: measure.ProfilingPhase, Lane: 1, Credit: 15, Tree: 3, Pass: 2, Trace: "t", Session: "c", Parent: "b", Turn: 1, Depth: 2,
		SourceOuter: 9, SourceInner: new(4), SourceKind: mmapcache.Subagent.String(), RequestID: "1", CorrelationID: "2", RootID: "root", ParentID: "parent",
		Numbers: measure.Numbers{Due: measure.At(61), Admitted: measure.At(62), RecordedISL: 50, RecordedBlocks: 5, RecordedHits: 3, MaxTokens: 7}, PlanTurn: 3,
	}, s.newRecord(&request{dispatch: d, tree: tree}))
	s.oneToken, d.Session, d.Turn = true, 0, 0
	root := s.newRecord(&request{dispatch: d, tree: tree})
	require.Equal(t, "root", root.CorrelationID)
	require.Zero(t, root.Depth)
	require.Empty(t, root.Parent+root.ParentID)
	require.Nil(t, root.SourceInner)
	require.EqualValues(t, 1, root.MaxTokens)
}

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
		Status: 200, FirstChunkTokens: 6,
		Transfer: wire.Transfer{Chunks: 5, BytesSent: 7, BytesReceived: 8, BodySent: 31, BodyReceived: 32, BodyReads: 33, Reused: true, Resent: true, Redirected: true, SingleBody: true},
		Usage:    wire.Usage{Prompt: 9, Completion: 21, Reasoning: 10, Cached: 12, CacheWrite: 13, CacheMiss: 14, Total: 30},
		Address:  "10.0.0.1", Burst: 34, Silent: 35, EventsAs: "text/plain",
		Err: &wire.Failure{Category: wire.Timeout, Code: 504, Message: "late"},
	}
	var got measure.Record
	fillRecord(&got, &result)
	require.Equal(t, measure.Record{
		Contents: contents, FinishReason: "stop", Address: "10.0.0.1", Burst: 34, Silent: 35, EventsAs: "text/plain",
		Error: &measure.Error{Category: wire.Timeout, Code: 504, Message: "late"},
		Numbers: measure.Numbers{
			Sent: measure.At(1), FirstToken: measure.At(2), LastToken: measure.At(3), End: measure.At(4), Acknowledged: measure.At(5),
			SecondToken: measure.At(6), FirstOutput: measure.At(7), LastMessage: measure.At(8), WaitEnd: measure.At(9), ConnectStart: measure.At(10),
			ConnectEnd: measure.At(11), SendStart: measure.At(12), SendEnd: measure.At(13), FirstByte: measure.At(14), LastByte: measure.At(15), Status: 200,
			FirstChunkTokens: measure.Tokens(6), PromptTokens: measure.Tokens(9), OutputTokens: measure.Tokens(11), ReasoningTokens: measure.Tokens(10),
			CachedTokens: measure.Tokens(12), CacheWriteTokens: measure.Tokens(13), CacheMissTokens: measure.Tokens(14), TotalTokens: measure.Tokens(30),
		},
		Transfer: measure.Transfer{Chunks: 5, BytesSent: 7, BytesReceived: 8, BodySent: 31, BodyReceived: 32, BodyReads: 33, Reused: true, Resent: true, Redirected: true, SingleBody: true},
	}, got)
	from, to := reflect.TypeFor[wire.Result](), reflect.ValueOf(got)
	for k := range from.NumField() { // a field that is added later to both
		if f := to.FieldByName(from.Field(k).Name); f.IsValid() {
			require.False(t, f.IsZero(), from.Field(k).Name)
		}
	}
}
