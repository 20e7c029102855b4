package payload

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// Covers T-35, M-1, M-2.
func TestMarkers(t *testing.T) {
	type vector struct {
		Name, Profile string
		In            struct {
			Benchmark    string `json:"benchmark_id"`
			Pass, Lane   int
			Trace        string `json:"trace_id"`
			Conversation string `json:"conversation_id"`
		}
		Want struct {
			Digest, Prefix string
			Base           string `json:"base_trace_id"`
		}
	}
	for _, v := range vectors(t, "marker", func(v vector) string { return v.Profile }) {
		t.Run(v.Name, func(t *testing.T) {
			if v.In.Conversation != "" {
				require.Equal(t, NewMarker("b", 3, 5, v.Want.Base), NewMarker("b", 3, 5, v.In.Conversation))
				require.NotEqual(t, NewMarker("b", 3, 5, v.Want.Base+"x"), NewMarker("b", 3, 5, v.In.Conversation))
				return
			}
			m := NewMarker(v.In.Benchmark, v.In.Pass, v.In.Lane, v.In.Trace)
			require.Equal(t, Marker(v.Want.Digest), m)
			var text string
			require.NoError(t, json.Unmarshal([]byte(`"`+string(m.appendText(nil))+`"`), &text))
			require.Equal(t, v.Want.Prefix, text)
		})
	}
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
		want = append(append(want, tok.Encode("]")...), tok.Encode("\n\n")...)
		require.Equal(t, want, numbers(t, m.appendIDs(nil, &pieces)))
	}
}

func TestMarkerHasSeventeenTokens(t *testing.T) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	pieces := mmapcache.NewMarkerPieces(tok.Encode)
	require.Equal(t, 17, MarkerTokens(pieces))
	require.Len(t, numbers(t, someMarker.appendIDs(nil, &pieces)), 17)
}

func TestNoMarkerIsNothing(t *testing.T) {
	require.Empty(t, Marker("").appendText(nil))
	require.Empty(t, Marker("").appendIDs(nil, &mmapcache.MarkerPieces{Open: []uint32{1}}))
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

// message is one message of a chat request.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// inject puts a marker into messages by the rule of the targets. Bodies are compared with it, and it with the vectors.
func inject(messages []message, marker string, target MarkerTarget) []message {
	out := append([]message{}, messages...)
	if target == NoMarker {
		return out
	}
	role := "user"
	for _, m := range out {
		if target == SystemPrefix && m.Role == "system" {
			role = "system"
		}
	}
	for k := range out {
		if out[k].Role == role {
			if marker != "" && !strings.HasPrefix(out[k].Content, marker) {
				out[k].Content = marker + "\n\n" + out[k].Content
			}
			break
		}
	}
	return out
}

// Covers T-35, M-9.
func TestInjection(t *testing.T) {
	type vector struct {
		Name, Profile string
		In            struct {
			Marker, Target string
			System         *string `json:"system_message"`
			Turns          []struct {
				Reset    bool
				Messages json.RawMessage
			}
		}
		Want struct{ Messages json.RawMessage }
	}
	played := 0
	for _, v := range vectors(t, "marker_inject", func(v vector) string { return v.Profile }) {
		var flat, want []message
		target, err := ParseMarkerTarget(strings.Replace(v.In.Target, "none", "off", 1))
		usable := err == nil && v.In.System == nil
		for _, turn := range v.In.Turns {
			var list []message // parts of content are no strings: caches hold none
			usable = usable && !turn.Reset && json.Unmarshal(turn.Messages, &list) == nil
			flat = append(flat, list...)
		}
		if !usable {
			continue
		}
		played++
		t.Run(v.Name, func(t *testing.T) {
			require.NoError(t, json.Unmarshal(v.Want.Messages, &want))
			require.Equal(t, want, inject(flat, v.In.Marker, target))
		})
	}
	require.Equal(t, 7, played)
}
