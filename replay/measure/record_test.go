package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// example is a record with every field set.
func example() Record {
	return Record{
		Phase: ProfilingPhase, Lane: 3, Credit: 41, Tree: 17, Pass: 1, Trace: "t-1", Session: "t-1::sa:a", Parent: "t-1", Turn: 4, Depth: 1,
		SourceOuter: 9, SourceInner: new(2), SourceKind: "weka_subagent",
		RequestID: "r", CorrelationID: "c", RootID: "c0", ParentID: "c0", Numbers: Numbers{Due: At(1.5), Admitted: At(1.50006), Sent: At(1.5001), End: At(2.6), CancelledAt: At(2.58),
			Acknowledged: At(1.7), FirstToken: At(1.75), SecondToken: At(1.8), FirstOutput: At(1.85), LastToken: At(2.5), LastMessage: At(2.55),
			WaitEnd: At(1.5001), ConnectStart: At(1.5002), ConnectEnd: At(1.5003), SendStart: At(1.5004), SendEnd: At(1.5005), FirstByte: At(1.69), LastByte: At(2.56),
			Status: 200, RecordedISL: 1000, RecordedBlocks: 16, RecordedHits: 15, MaxTokens: 11, FirstChunkTokens: Tokens(4),
			PromptTokens: Tokens(998), CachedTokens: Tokens(0), OutputTokens: Tokens(8), ReasoningTokens: Tokens(3),
			TotalTokens: Tokens(1009), CacheWriteTokens: Tokens(900), CacheMissTokens: Tokens(98)}, FinishReason: "length",
		Transfer: Transfer{Chunks: 5, BytesSent: 4000, BytesReceived: 900, BodySent: 3900, BodyReceived: 700, BodyReads: 6, Reused: true, Resent: true, Redirected: true, SingleBody: true}, Silent: 70, Burst: 24, EventsAs: "text/plain", Bucket: Cooldown,
		Error: &Error{Category: "http_status", Code: 500, Message: "500 \"é\" <b>\n"},
	}
}

func TestRecordGolden(t *testing.T) {
	r := example()
	require.Equal(t, `{"phase":"profiling","lane":3,"credit":41,"tree":17,"pass":1,"trace":"t-1","session":"t-1::sa:a","parent":"t-1","turn":4,"depth":1,`+
		`"source_outer":9,"source_inner":2,"source_kind":"weka_subagent","request_id":"r","correlation_id":"c","root_id":"c0","parent_id":"c0",`+
		`"due":1.5,"admitted":1.50006,"sent":1.5001,"acknowledged":1.7,"first_token":1.75,"second_token":1.8,"first_output":1.85,`+
		`"last_token":2.5,"last_message":2.55,"end":2.6,"cancelled_at":2.58,"wait_end":1.5001,"connect_start":1.5002,"connect_end":1.5003,`+
		`"send_start":1.5004,"send_end":1.5005,"first_byte":1.69,"last_byte":2.56,`+
		`"status":200,"recorded_in":1000,"recorded_blocks":16,"recorded_hits":15,"max_tokens":11,`+
		`"first_tokens":4,"prompt_tokens":998,"cached_tokens":0,"output_tokens":8,"reasoning_tokens":3,"total_tokens":1009,`+
		`"cache_write_tokens":900,"cache_miss_tokens":98,"finish_reason":"length","chunks":5,`+
		`"bytes_sent":4000,"bytes_received":900,"body_sent":3900,"body_received":700,"body_reads":6,"reused":true,"resent":true,"redirected":true,"whole":true,"silent":70,"burst":24,"events_as":"text/plain","bucket":"cooldown",`+
		`"error":{"category":"http_status","code":500,"message":"500 \"é\" \u003cb\u003e\n"}}`, string(r.AppendJSON(nil)))
	r = Record{}
	require.Equal(t, `{"phase":"","lane":0,"credit":0,"tree":0,"pass":0,"trace":"","session":"","turn":0,"source_outer":0,"source_kind":"",`+
		`"request_id":"","correlation_id":"","root_id":"","due":0,"admitted":0,"sent":0,"end":0,"status":0,"recorded_in":0,"recorded_blocks":0,"recorded_hits":0,"max_tokens":0,`+
		`"chunks":0,"bytes_sent":0,"bytes_received":0,"reused":false,"bucket":""}`, string(r.AppendJSON(nil)))
}

// AppendJSON writes the bytes of encoding/json, and they read back as the same record.
func TestRecordEncodesAsJSON(t *testing.T) {
	number := rapid.Map(rapid.Int64Range(0, 1<<22*int64(time.Second)), // 48 days: later seconds in a float64 are too coarse for nanoseconds
		func(ns int64) Time { return Time(ns) })
	tokens := rapid.Map(rapid.Int64Range(Unknown, maxCount), Tokens)
	rapid.Check(t, func(t *rapid.T) {
		r := example()
		r.Lane, r.Turn = rapid.Int().Draw(t, "lane"), rapid.Int().Draw(t, "turn")
		r.SourceInner = rapid.Ptr(rapid.Int(), true).Draw(t, "inner")
		r.Trace, r.Parent = rapid.String().Draw(t, "trace"), rapid.String().Draw(t, "parent")
		r.Due, r.Sent = number.Draw(t, "due"), number.Draw(t, "sent")
		r.FirstToken, r.LastToken = number.Draw(t, "first"), number.Draw(t, "last")
		r.OutputByDeadline = rapid.Float64().Draw(t, "output by deadline")
		r.PromptTokens, r.OutputTokens = tokens.Draw(t, "prompt"), tokens.Draw(t, "output")
		if rapid.Bool().Draw(t, "good") {
			r.Error = nil
		}
		want, err := json.Marshal(r)
		require.NoError(t, err)
		got := r.AppendJSON([]byte("{"))[1:]
		require.Equal(t, string(want), string(got))
		var back Record
		require.NoError(t, json.Unmarshal(got, &back))
		require.Equal(t, r, back)
		back = Record{}
		require.NoError(t, parseRecord(got, &back))
		require.Equal(t, r, back)
	})
}

func TestRecordOddNumber(t *testing.T) {
	r := Record{Numbers: Numbers{OutputByDeadline: math.NaN()}}
	require.True(t, json.Valid(r.AppendJSON(nil)))
}

func TestConversions(t *testing.T) {
	require.Zero(t, Tokens(-1))
	require.EqualValues(t, Unknown, Tokens(-1).N())
	require.EqualValues(t, 0, Tokens(0).N())
	require.Zero(t, Since(-1))
	require.Equal(t, 1.25, Since(1250*time.Millisecond).Seconds())
}

// Covers T-39.
func TestVectorsRequestArithmetic(t *testing.T) {
	type in struct {
		TTFT    float64 `json:"ttft_ms"`
		Latency float64 `json:"request_latency_ms"`
		OSL     int64   `json:"output_sequence_length"`
	}
	// Package report tests the other metrics of these vectors.
	type want struct {
		ITL float64 `json:"inter_token_latency_ms"`
	}
	fixtures.EachCase(t, "request_arithmetic", fixtures.Counts{4, 4, 4}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		r := Record{Numbers: Numbers{Sent: At(1), FirstToken: At(1 + in.TTFT/1e3), LastToken: At(1 + in.Latency/1e3), OutputTokens: Tokens(in.OSL)}}
		itl, ok := Rules{}.ITL(&r.Numbers)
		require.True(t, ok)
		require.InDelta(t, want.ITL, itl*1e3, 1e-6)
		ttft, ok := r.TTFT()
		require.True(t, ok)
		require.InDelta(t, in.TTFT, ttft.Seconds()*1e3, 1e-9)
		latency, ok := r.Latency()
		require.True(t, ok)
		require.InDelta(t, in.Latency, latency.Seconds()*1e3, 1e-9)
	})
}

// Covers T-54.
func TestITLDivisor(t *testing.T) {
	for _, c := range []struct {
		output, reasoning, first int64
		itl, allButOne           float64
		ok                       bool
		known, unusable          int
	}{
		{11, -1, -1, 0.02, 0.02, true, 0, 0},
		{11, -1, 0, 0.02, 0.02, true, 0, 1}, // the usage lags
		{11, -1, 4, 0.2 / 7, 0.02, true, 1, 0},
		{11, -1, 11, 0.02, 0.02, true, 0, 1}, // not below the length
		{8, 3, 4, 0.2 / 7, 0.02, true, 1, 0},
		{1, -1, -1, 0, 0, false, 0, 0},
		{1, -1, 1, 0, 0, false, 0, 0}, // no divisor, hence no number that it could use
		{1, 1, -1, 0.2, 0.2, true, 0, 0},
		{-1, -1, -1, 0, 0, false, 0, 0},
	} {
		r := Record{Numbers: Numbers{Sent: At(1), FirstToken: At(1.1), LastToken: At(1.3), FirstChunkTokens: Tokens(c.first), OutputTokens: Tokens(c.output), ReasoningTokens: Tokens(c.reasoning)}}
		r.Bucket = Profiling
		for rules, want := range map[Rules]float64{{}: c.itl, {AllButOne: true}: c.allButOne} {
			itl, ok := rules.ITL(&r.Numbers)
			require.Equal(t, c.ok, ok, "%+v", c)
			require.InDelta(t, want, itl, 1e-12, "%+v", c)
			a := NewAggregate(rules)
			a.Add(&r)
			s := a.Summary(RunInfo{})
			require.Equal(t, ITLDivisor{map[bool]string{false: "first-chunk", true: "osl-1"}[rules.AllButOne], c.known, c.unusable}, s.ITLDivisor)
			if c.ok {
				require.InDelta(t, want, float64(s.ITL.Mean), 1e-12, "%+v", c)
			}
		}
	}
	_, ok := Rules{}.ITL(&Numbers{OutputTokens: Tokens(5)})
	require.False(t, ok, "no token came")
}

// The inter-token latency of each preset, from the instants that the vectors of the wire give.
//
// Covers T-39, T-54.
func TestVectorsITL(t *testing.T) {
	type want struct {
		Metrics struct {
			TTFT    *float64 `json:"time_to_first_token_ns"`
			Latency float64  `json:"request_latency_ns"`
			OSL     Count    `json:"output_sequence_length"`
			First   Count    `json:"first_chunk_tokens"`
			ITL     *float64 `json:"inter_token_latency_ns"`
		}
	}
	seen := 0
	fixtures.EachCase(t, "request", fixtures.Counts{28, 27, 27}, func(t *testing.T, c fixtures.Case, _ struct{}, want want) {
		m := want.Metrics
		if m.TTFT == nil {
			return // no success
		}
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		r := Record{Numbers: Numbers{Sent: At(1), FirstToken: At(1 + *m.TTFT/1e9), LastToken: At(1 + m.Latency/1e9), OutputTokens: m.OSL, FirstChunkTokens: m.First}}
		itl, ok := Rules{AllButOne: switches.ITLOverAllButOne}.ITL(&r.Numbers)
		require.Equal(t, m.ITL != nil, ok)
		if ok {
			require.InDelta(t, *m.ITL, itl*1e9, 1e-6*max(1, *m.ITL))
			seen++
		}
	})
	require.Equal(t, 3*13+3, seen)
}

// Covers T-39.
func TestVectorsBucket(t *testing.T) {
	type in struct {
		Deadline  int64 `json:"deadline_ns"`
		End       int64 `json:"end_ns"`
		Cancelled bool
		Overflow  bool `json:"context_overflow"`
		Grace     bool `json:"include_grace"`
	}
	type want struct {
		Bucket   Bucket
		Headline bool
	}
	fixtures.EachCase(t, "bucket", fixtures.Counts{8, 8, 8}, func(t *testing.T, c fixtures.Case, in in, want want) {
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		require.Equal(t, in.Grace, switches.CountGrace)
		var category wire.Category
		switch {
		case in.Cancelled:
			category = wire.Cancelled
		case in.Overflow:
			category = wire.ContextOverflow
		}
		got := Cutoff{time.Duration(in.Deadline), in.Grace}.Bucket(time.Duration(in.End), category)
		require.Equal(t, want.Bucket, got)
		require.Equal(t, want.Headline, got == Profiling, "the headline is the bucket profiling")
	})
	require.Equal(t, Profiling, Cutoff{}.Bucket(1<<60, wire.Timeout), "no deadline, no cooldown")
}

// A record with every field set reads back unchanged: AppendJSON drops none.
func TestRecordKeepsEveryField(t *testing.T) {
	var r, back Record
	fill(t, reflect.ValueOf(&r).Elem())
	require.NoError(t, json.Unmarshal(r.AppendJSON(nil), &back))
	require.Equal(t, r, back)
}

// fill sets a value to one that is not zero, and every field of a struct.
func fill(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for k := range v.NumField() {
			if v.Type().Field(k).Tag.Get("json") != "-" {
				fill(t, v.Field(k))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x")
	default:
		t.Fatalf("no value for a field of type %s", v.Type())
	}
}

// otherCase finds characters that a key of another letter case has.
var otherCase = regexp.MustCompile(`[A-ZſK]|\\u`)

// parseRecord reads what encoding/json reads.
func FuzzParseRecord(f *testing.F) {
	for _, r := range []Record{example(), {}, *good(1, 2, 0, 1, 2, 3), *bad(CancelledAtEnd, "cancelled")} {
		f.Add(r.AppendJSON(nil))
	}
	for _, text := range []string{
		`{}`, ``, `null`, `[]`, `{"lane":1`, `{"lane":1}x`, ` { "lane" : 1 , "unknown" : [ { "lane" : 2 } ] } `, `{"lane":1.5}`, `{"lane":1e2}`,
		`{"lane":99999999999999999999}`, `{"due":1e400}`, `{"due":"1"}`, `{"trace":5}`, `{"reused":1}`, `{"lane":null,"error":null,"trace":null}`,
		`{"error":{}}`, `{"error":{"message":"\u00e9\ud800","code":500}}`, `{"error":5}`, `{"lane":1,"lane":2}`, `{"source_inner":0}`,
		`{"error":{"code":1},"error":{"message":"m"}}`, `{"error":{"code":1},"error":null}`, `{"source_inner":1,"source_inner":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var got, want Record
		err, wantErr := parseRecord(line, &got), json.Unmarshal(line, &want)
		if strings.TrimSpace(string(line)) == "null" || otherCase.Match(line) {
			return // which encoding/json takes for an empty record, or for the key of a field
		}
		require.Equal(t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}

// Every instant of a record is moved by whole nanoseconds, and nothing else; what did not happen stays so.
func TestMoveMovesEveryInstant(t *testing.T) {
	lengths := []string{"Queued", "BackOff", "Waited"}
	var r Record
	v := reflect.ValueOf(&r).Elem()
	fields := reflect.VisibleFields(v.Type())
	for _, f := range fields {
		if f.Type == reflect.TypeFor[Time]() {
			v.FieldByIndex(f.Index).SetInt(7_000_000_001)
		}
	}
	r.Lane, r.MaxTokens = 3, 9
	before := r
	r.Move(0)
	require.Equal(t, before, r)
	r.Move(-1_000_000_001)
	for _, f := range fields {
		is := v.FieldByIndex(f.Index)
		switch {
		case f.Anonymous:
		case f.Type != reflect.TypeFor[Time]() || slices.Contains(lengths, f.Name):
			require.Equal(t, reflect.ValueOf(before).FieldByIndex(f.Index).Interface(), is.Interface(), f.Name)
		default:
			require.EqualValues(t, 6e9, is.Int(), f.Name)
		}
	}
	none := Record{}
	none.Move(5e8)
	require.Equal(t, Record{Numbers: Numbers{Due: At(0.5), Admitted: At(0.5), Sent: At(0.5), End: At(0.5)}}, none)
}

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
