package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
)

// A stream that fails after status 200 has the same category, text and code at every split of its bytes: strictly under the preset
// default; under those of AIPerf any content makes some of them a success.
//
// Covers T-40.
func TestFailuresSplitAnywhere(t *testing.T) {
	died := `{"error":{"message":"died"}}`
	long := `{"error":{"message":"prompt is too long"}}`
	leaked := "data: {\"choices\":[{\"delta\":{\"content\":\"x\ny\"}}]}\n\n"
	for name, c := range map[string]struct {
		stream  string
		want    Category
		text    string
		lenient Category // with LenientStreams; "": a success
	}{
		"error event":             {event1("a") + ": gone\nevent: error\ndata: {}\n\n", StreamEvent, "gone\n{}", StreamEvent},
		"error event, CRLF":       {event1("a") + "event: error\r\n: gone\r\n\r\n", StreamEvent, "gone", StreamEvent},
		"error event, unfinished": {event1("a") + "event: error\ndata: gone", StreamEvent, "gone", StreamEvent},
		"error payload":           {event1("a") + "data: " + died + "\n\n" + doneEvent, StreamPayload, died, ""},
		"error payload first":     {"data: " + died + "\n\n" + event1("a") + doneEvent, StreamPayload, died, ""},
		"error payload alone":     {"data: " + died + "\n\n" + doneEvent, StreamPayload, died, StreamPayload},
		"overflow in the stream":  {event1("a") + "data: " + long + "\r\n\r\n", ContextOverflow, long, ""},
		"overflow in an event":    {"event: error\ndata: " + long + "\n\n", ContextOverflow, long, ContextOverflow},
		"cut off":                 {event1("a") + usageEvent, StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"cut off in a message":    {event1("a") + event1("b")[:20], StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"cut off, leaked newline": {leaked, StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"no content":              {finishEvent + usageEvent + doneEvent, NoContent, "the stream had no content", NoContent},
	} {
		t.Run(name, func(t *testing.T) {
			response := sized(eventHead, c.stream)
			for _, name := range preset.Names {
				switches, _ := preset.Named(name)
				want := &Failure{Category: c.want, Message: c.text, Code: 200}
				if c.want == StreamEvent || strings.HasPrefix(c.stream, "event: error") {
					want.Code = 502
				}
				if switches.LenientStreams {
					if want.Category = c.lenient; c.lenient == "" {
						want = nil
					}
				}
				o := Options{LenientStreams: switches.LenientStreams}
				for i := range len(response) {
					res, _ := exchange(t, o, response[:i], response[i:])
					require.Equal(t, want, res.Err, "split at %d", i)
				}
				res, _ := exchange(t, o, strings.Split(response, "")...)
				require.Equal(t, want, res.Err, "byte by byte")
			}
		})
	}
}
