package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDeviations checks each kind of deviation within and beyond its tolerance.
func TestDeviations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *Record)
		kind   string
		what   string
	}{
		"as asked":             {func(*Record) {}, "", ""},
		"one percent short":    {func(r *Record) { r.OutputTokens = Tokens(198) }, "", ""},
		"more than that":       {func(r *Record) { r.OutputTokens = Tokens(197) }, "short_output", "197 tokens for 200"},
		"at the context's end": {func(r *Record) { r.MaxTokens, r.OutputTokens = 139, Tokens(131) }, "short_output", "131 tokens for 139"},
		"reasoning counts":     {func(r *Record) { r.OutputTokens, r.ReasoningTokens = Tokens(150), Tokens(50) }, "", ""},
		"one percent long":     {func(r *Record) { r.OutputTokens = Tokens(202) }, "", ""},
		"much longer":          {func(r *Record) { r.MaxTokens, r.OutputTokens = 48, Tokens(6144) }, "long_output", "6144 tokens for 48"},
		"one for none":         {func(r *Record) { r.MaxTokens = 0 }, "", ""},
		"one body":             {func(r *Record) { r.SingleBody, r.Chunks, r.MaxTokens, r.OutputTokens = true, 1, 5, Tokens(5) }, "not_streamed", "one body"},
		"one message":          {func(r *Record) { r.Chunks = 1 }, "not_streamed", "one message of 200 tokens"},
		"one message for few":  {func(r *Record) { r.Chunks, r.MaxTokens, r.OutputTokens = 1, 16, Tokens(16) }, "", ""},
		"in bursts":            {func(r *Record) { r.Burst = 24 }, "buffered", "24 messages at once"},
		"silent":               {func(r *Record) { r.Silent = 70 }, "silent_tokens", "70 % of them"},
		"events as JSON":       {func(r *Record) { r.EventsAs = "application/json" }, "events_as", "Content-Type application/json"},
		"filtered":             {func(r *Record) { r.FinishReason = "content_filter" }, "content_filter", "after 200 tokens"},
		"no usage":             {func(r *Record) { r.OutputTokens, r.PromptTokens = 0, 0 }, "no_usage", "no usage"},
		"half a usage":         {func(r *Record) { r.PromptTokens = 0 }, "no_usage", "no usage"},
		"a template's tokens":  {func(r *Record) { r.PromptTokens = Tokens(1000 + 100 + 128) }, "", ""},
		"other vocabulary":     {func(r *Record) { r.PromptTokens = Tokens(1000 + 100 + 129) }, "prompt_count", "1229 tokens for 1000 recorded"},
		"prompt cut":           {func(r *Record) { r.PromptTokens = Tokens(1000 - 100 - 129) }, "prompt_count", "771 tokens for 1000 recorded"},
		"all cached":           {func(r *Record) { r.CachedTokens = Tokens(1000) }, "", ""},
		"more than all":        {func(r *Record) { r.CachedTokens = Tokens(1001) }, "cached_count", "1001 cached of 1000 tokens"},
		"first tokens":         {func(r *Record) { r.FirstChunkTokens = Tokens(4) }, "", ""},
		"lagging first tokens": {func(r *Record) { r.FirstChunkTokens = Tokens(0) }, "first_tokens", "0 of 200 tokens in the first of 200 messages"},
		"all in the first":     {func(r *Record) { r.FirstChunkTokens = Tokens(200) }, "first_tokens", "200 of 200 tokens in the first of 200 messages"},
		"one message of all": {func(r *Record) {
			r.Chunks, r.MaxTokens, r.OutputTokens, r.FirstChunkTokens = 1, 16, Tokens(16), Tokens(16)
		}, "", ""},
		"redirected":            {func(r *Record) { r.Redirected = true }, "redirected", "redirected by the server"},
		"failed":                {func(r *Record) { r.Error, r.Redirected = &Error{Category: "timeout"}, true }, "", ""},
		"cancelled at the end":  {func(r *Record) { r.Bucket, r.OutputTokens = CancelledAtEnd, 0 }, "", ""},
		"in cooldown it counts": {func(r *Record) { r.Bucket, r.OutputTokens = Cooldown, Tokens(1) }, "short_output", "1 tokens for 200"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good(0, 0, 0, 1, 2, 200)
			r.Trace, r.Session, r.Turn, r.RecordedISL, r.PromptTokens = "t", "s", 3, 1000, Tokens(1000)
			c.change(r)
			a := NewAggregate(Rules{})
			first, again := a.Add(r), a.Add(r)
			require.Empty(t, again, "it is said once")
			got := a.Summary(RunInfo{}).Deviations
			require.Len(t, got, len(deviations))
			for kind, d := range got {
				if kind != c.kind {
					require.Equal(t, Deviation{}, d, kind)
				}
			}
			if c.kind == "" {
				require.Empty(t, first)
				return
			}
			example := `trace "t", session "s", turn 3: ` + c.what
			require.Equal(t, example, got[c.kind].Example)
			require.Equal(t, 2, got[c.kind].Requests)
			require.Len(t, first, 1)
			require.Equal(t, c.kind, first[0].Kind)
			require.Contains(t, first[0].Message, ": "+example)
		})
	}
}
