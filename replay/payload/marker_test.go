package payload

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// Covers T-35, M-1, M-2.
func TestMarkers(t *testing.T) {
	type in struct {
		Benchmark    string `json:"benchmark_id"`
		Pass, Lane   int
		Trace        string `json:"trace_id"`
		Conversation string `json:"conversation_id"`
	}
	type want struct {
		Digest, Prefix, Suffix string
		Base                   string `json:"base_trace_id"`
	}
	fixtures.EachCase(t, "marker", fixtures.Counts{8, 8, 8}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		if in.Conversation != "" {
			require.Equal(t, NewMarker("b", 3, 5, want.Base), NewMarker("b", 3, 5, in.Conversation))
			require.NotEqual(t, NewMarker("b", 3, 5, want.Base+"x"), NewMarker("b", 3, 5, in.Conversation))
			return
		}
		m := NewMarker(in.Benchmark, in.Pass, in.Lane, in.Trace)
		require.Equal(t, Marker(want.Digest), m)
		var prefix, suffix string
		require.NoError(t, json.Unmarshal([]byte(`"`+string(m.appendText(nil, false, newlines))+`"`), &prefix))
		require.NoError(t, json.Unmarshal([]byte(`"`+string(m.appendText(nil, true, newlines))+`"`), &suffix))
		require.Equal(t, []string{want.Prefix, want.Suffix}, []string{prefix, suffix})
	})
}

// Covers T-35, M-10.
func TestMarkerIDsAreThoseOfItsPieces(t *testing.T) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	const digits = "0123456789abcdef"
	pieces := mmapcache.NewMarkerPieces(tok.Encode)
	for _, m := range []Marker{Marker(digits[:12]), Marker(digits[4:])} {
		var want []uint32
		want = append(want, tok.Encode("[rid:")...)
		for _, c := range m {
			want = append(want, tok.Encode(string(c))...)
		}
		want = append(want, tok.Encode("]")...)
		newlines := tok.Encode("\n\n")
		require.Equal(t, slices.Concat(want, newlines), numbers(t, m.appendIDs(nil, &pieces, false)))
		require.Equal(t, slices.Concat(newlines, want), numbers(t, m.appendIDs(nil, &pieces, true)))
	}
}

func TestMarkerHasSeventeenTokens(t *testing.T) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	pieces := mmapcache.NewMarkerPieces(tok.Encode)
	require.Equal(t, 17, MarkerTokens(pieces))
	for _, after := range []bool{false, true} {
		require.Len(t, numbers(t, someMarker.appendIDs(nil, &pieces, after)), 17)
	}
}

func TestNoMarkerIsNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		require.Empty(t, Marker("").appendText(nil, after, newlines))
		require.Empty(t, Marker("").appendIDs(nil, &mmapcache.MarkerPieces{Open: []uint32{1}}, after))
	}
}

// numbers reads decimal ids, each with a comma after it.
func numbers(t *testing.T, text []byte) (ids []uint32) {
	t.Helper()
	require.True(t, strings.HasSuffix(string(text), ","))
	for _, digits := range strings.Split(strings.TrimSuffix(string(text), ","), ",") {
		id, err := strconv.ParseUint(digits, 10, 32)
		require.NoError(t, err)
		ids = append(ids, uint32(id))
	}
	return ids
}

// message is one message of a request. Its content is a string, or a list of parts.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// textPart is a text in a list of parts.
func textPart(text string) any { return map[string]any{"type": "text", "text": text} }

// mark puts a marker at an edge of a content: the slow oracle.
func mark(content any, marker string, after bool) any {
	switch c := content.(type) {
	case string:
		if after && !strings.HasSuffix(c, marker) {
			return c + "\n\n" + marker
		} else if !after && !strings.HasPrefix(c, marker) {
			return marker + "\n\n" + c
		}
	case []any:
		if after && !reflect.DeepEqual(c[len(c)-1], textPart(marker)) {
			return append(slices.Clone(c), textPart(marker))
		} else if !after && !reflect.DeepEqual(c[0], textPart(marker)) {
			return append([]any{textPart(marker)}, c...)
		}
	}
	return content
}

// markBlocks puts a marker into a structured system prompt: into the first or the last text block of a list.
func markBlocks(system any, marker string, after bool) any {
	list, ok := system.([]any)
	if !ok {
		return mark(system, marker, after)
	}
	list = slices.Clone(list)
	at := 0
	if after {
		at = len(list) - 1
	}
	list[at] = textPart(mark(list[at].(map[string]any)["text"], marker, after).(string))
	return list
}

// inject puts a marker into messages by the rule of the targets: the slow oracle. Bodies are compared with it, and it with the
// vectors.
func inject(messages []message, marker string, target MarkerTarget) []message {
	_, out := injectAll(nil, messages, marker, target)
	return out
}

// injectAll is inject with a system prompt that stands apart from the messages, nil for none.
func injectAll(system any, messages []message, marker string, target MarkerTarget) (any, []message) {
	out := append([]message{}, messages...)
	if target == NoMarker || marker == "" {
		return system, out
	}
	first := func(role string) int {
		return slices.IndexFunc(out, func(m message) bool { return m.Role == role })
	}
	after := target == FirstTurnSuffix || target == SystemSuffix
	at := first("user")
	if target == SystemPrefix || target == SystemSuffix {
		if system != nil {
			return markBlocks(system, marker, after), out
		}
		if k := first("system"); k >= 0 {
			at = k
		}
	}
	if at >= 0 {
		out[at].Content = mark(out[at].Content, marker, after)
	}
	return system, out
}

// Covers T-35, T-40, M-9.
func TestInjection(t *testing.T) {
	type in struct {
		Marker, Target string
		System         any `json:"system_message"`
		Turns          []struct {
			Reset    bool
			Messages *[]message
		}
	}
	type want struct {
		System   any `json:"system_message"`
		Messages []message
	}
	fixtures.EachCase(t, "marker_inject", fixtures.Counts{16, 16, 16}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		target, err := ParseMarkerTarget(strings.Replace(in.Target, "none", "off", 1))
		require.NoError(t, err)
		var effective []message // from the last reset on that has a list
		for _, turn := range in.Turns {
			if turn.Messages == nil {
				continue
			}
			if turn.Reset {
				effective = nil
			}
			effective = append(effective, *turn.Messages...)
		}
		system, got := injectAll(in.System, effective, in.Marker, target)
		require.Equal(t, want.Messages, got)
		require.Equal(t, want.System, system)
		again, twice := injectAll(system, got, in.Marker, target)
		require.Equal(t, got, twice, "a second time it changes nothing")
		require.Equal(t, system, again)
	})
}

// A marker of the warmup alone is refused with the reason.
//
// Covers M-9.
func TestMarkerTargetNames(t *testing.T) {
	for k, name := range markerTargets {
		require.Equal(t, name, MarkerTarget(k).String())
		target, err := ParseMarkerTarget(name)
		require.Equal(t, name == "auto", err != nil)
		if err == nil {
			require.Equal(t, MarkerTarget(k), target)
		}
	}
	const want = "want off, first_turn_prefix, system_prefix, first_turn_suffix or system_suffix"
	_, err := ParseMarkerTarget("none")
	require.EqualError(t, err, want)
	for _, name := range []string{"warmup_isolation_system", "warmup_isolation_first_turn"} {
		_, err := ParseMarkerTarget(name)
		require.EqualError(t, err, "the requests of a warmup alone would carry it, so the measured phase would find nothing of what they left in the prefix cache: "+want)
	}
}
