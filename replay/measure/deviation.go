package measure

import "fmt"

// Deviation counts requests of one kind that ended well, but whose answer is not what the request asked for.
type Deviation struct {
	Requests int    `json:"requests"`
	Example  string `json:"example,omitempty"` // the first request, and how it deviates
	Typical  Number `json:"typical,omitempty"` // of a kind of distortions: how far they deviate on average

	sum int // of how far
}

// Tolerances: an answer within them is no deviation.
const (
	outputPercent = 1   // by which an answer may be shorter or longer
	promptPercent = 10  // by which the prompt count of a server may differ from the recorded one: another vocabulary
	promptTokens  = 128 // and on top: its chat template, the marker
	messageTokens = 16  // that one message of a stream may hold
)

// deviations are the kinds of deviation, in the order in which they are shown.
var deviations = []struct {
	kind     string // key in summary.json
	label    string // in the table and in warnings
	matches  func(r *Record) bool
	describe func(r *Record) string // how a request deviates
}{
	{"short_output", "answers shorter than asked for", func(r *Record) bool {
		n := r.OSL()
		return n != Unknown && (r.MaxTokens-n)*100 > outputPercent*r.MaxTokens
	}, outputText},
	{"long_output", "answers longer than asked for", func(r *Record) bool {
		n := r.OSL()
		return n != Unknown && r.MaxTokens > 0 && (n-r.MaxTokens)*100 > outputPercent*r.MaxTokens
	}, outputText},
	{"not_streamed", "answers not streamed, whose ttft and itl mean nothing", func(r *Record) bool {
		return r.SingleBody || r.Chunks == 1 && r.OSL() > messageTokens
	}, func(r *Record) string {
		if r.SingleBody {
			return "one body"
		}
		return fmt.Sprintf("one message of %d tokens", max(0, r.OSL()))
	}},
	{"buffered", "buffered answers, whose messages came in bursts", func(r *Record) bool {
		return r.Burst > 0
	}, func(r *Record) string {
		return fmt.Sprintf("%d messages at once", r.Burst)
	}},
	{"silent_tokens", "answers with tokens that no message shows", func(r *Record) bool {
		return r.Silent > 0
	}, func(r *Record) string {
		return fmt.Sprintf("%d %% of them", r.Silent)
	}},
	{"events_as", "streams of events under another content type, read as what they are", func(r *Record) bool {
		return r.EventsAs != ""
	}, func(r *Record) string { return "Content-Type " + r.EventsAs }},
	{"content_filter", "answers that a content filter ended", func(r *Record) bool {
		return r.FinishReason == contentFilter
	}, func(r *Record) string {
		return fmt.Sprintf("after %d tokens", max(0, r.OSL()))
	}},
	{"no_usage", "answers without token counts", func(r *Record) bool {
		return r.PromptTokens == 0 || r.OutputTokens == 0
	}, func(*Record) string { return "no usage" }},
	{"prompt_count", "prompts whose token count differs from the recorded one: another tokenizer, or a cut prompt", func(r *Record) bool {
		if r.PromptTokens == 0 {
			return false
		}
		off := max(r.PromptTokens.N()-r.RecordedISL, r.RecordedISL-r.PromptTokens.N())
		return off > promptTokens+r.RecordedISL*promptPercent/100
	}, func(r *Record) string {
		return fmt.Sprintf("%d tokens for %d recorded", r.PromptTokens.N(), r.RecordedISL)
	}},
	{"cached_count", "answers that report more cached tokens than the prompt has", func(r *Record) bool {
		return r.PromptTokens != 0 && r.CachedTokens != 0 && r.CachedTokens.N() > r.PromptTokens.N()
	}, func(r *Record) string {
		return fmt.Sprintf("%d cached of %d tokens", r.CachedTokens.N(), r.PromptTokens.N())
	}},
	{"first_tokens", "first messages with a token count that itl cannot use", func(r *Record) bool {
		return r.FirstChunkTokens != 0 && r.FirstChunk() == Unknown && r.OSL() >= 2 && r.Chunks > 1
	}, func(r *Record) string {
		return fmt.Sprintf("%d of %d tokens in the first of %d messages", r.FirstChunkTokens.N(), r.OSL(), r.Chunks)
	}},
	{"redirected", "requests sent twice because of a redirect", func(r *Record) bool {
		return r.Redirected
	}, func(*Record) string { return "redirected by the server" }},
}

// outputText describes an answer by its length and the length asked for.
func outputText(r *Record) string {
	return fmt.Sprintf("%d tokens for %d", max(0, r.OSL()), r.MaxTokens)
}

// deviationCounts are deviations by kind.
type deviationCounts map[string]Deviation

// newDeviations returns counts with all kinds, each 0.
func newDeviations() deviationCounts {
	c := deviationCounts{}
	for _, d := range deviations {
		c[d.kind] = Deviation{}
	}
	return c
}

// DeviationNotice reports the first request of a kind of deviation.
type DeviationNotice struct {
	Kind    string // of Summary.Deviations
	Message string // in one line
}

// add counts a request that ended well. It returns the kinds that the request is the first of.
func (c deviationCounts) add(r *Record) (notices []DeviationNotice) {
	for _, d := range deviations {
		if !d.matches(r) {
			continue
		}
		n := c[d.kind]
		n.Requests++
		if x, ok := distortions[d.kind]; ok {
			n.sum += x.by(r)
			n.Typical = Number(n.sum) / Number(n.Requests)
		}
		if n.Requests == 1 {
			n.Example = fmt.Sprintf("trace %q, session %q, turn %d: %s", r.Trace, r.Session, r.Turn, d.describe(r))
			notices = append(notices, DeviationNotice{d.kind, fmt.Sprintf("%s: %s", d.label, n.Example)})
		}
		c[d.kind] = n
	}
	return notices
}
