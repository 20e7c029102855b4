package measure

import (
	"fmt"
	"maps"
)

// Deviation counts requests that ended well and were answered otherwise than they were asked.
type Deviation struct {
	Requests int    `json:"requests"`
	Example  string `json:"example,omitempty"` // of the first
}

// Limits of what is taken for an answer as it was asked for.
const (
	outputPercent = 1   // that an answer may be shorter or longer
	promptPercent = 10  // that a server may count otherwise than recorded: another vocabulary
	promptTokens  = 128 // and beside: its chat template, the marker
	messageTokens = 16  // that a message of a stream may hold
)

// deviations are the kinds, in the order in which they are shown: whether a request is of a kind, and what it has of it.
var deviations = []struct {
	kind, says string
	is         func(r *Record) bool
	what       func(r *Record) string
}{
	{"short_output", "answers shorter than asked for", func(r *Record) bool {
		n, ok := r.OSL()
		return ok && (r.MaxTokens-n)*100 > outputPercent*r.MaxTokens
	}, outputText},
	{"long_output", "answers longer than asked for", func(r *Record) bool {
		n, ok := r.OSL()
		return ok && r.MaxTokens > 0 && (n-r.MaxTokens)*100 > outputPercent*r.MaxTokens
	}, outputText},
	{"not_streamed", "answers not streamed, whose ttft and itl mean nothing", func(r *Record) bool {
		n, _ := r.OSL()
		return r.SingleBody || r.Chunks == 1 && n > messageTokens
	}, func(r *Record) string {
		if r.SingleBody {
			return "one body"
		}
		n, _ := r.OSL()
		return fmt.Sprintf("one message of %d tokens", n)
	}},
	{"no_usage", "answers without token counts", func(r *Record) bool {
		return r.PromptTokens == nil || r.OutputTokens == nil
	}, func(*Record) string { return "no usage" }},
	{"prompt_count", "prompts that the server counts otherwise than recorded", func(r *Record) bool {
		if r.PromptTokens == nil {
			return false
		}
		off := max(*r.PromptTokens-r.RecordedISL, r.RecordedISL-*r.PromptTokens)
		return off > promptTokens+r.RecordedISL*promptPercent/100
	}, func(r *Record) string {
		return fmt.Sprintf("%d tokens for %d recorded", *r.PromptTokens, r.RecordedISL)
	}},
	{"redirected", "requests that went out twice, for a redirect", func(r *Record) bool {
		return r.Redirected
	}, func(*Record) string { return "the server sent it on" }},
}

func outputText(r *Record) string {
	n, _ := r.OSL()
	return fmt.Sprintf("%d tokens for %d", n, r.MaxTokens)
}

// deviationCounts are the deviations by kind.
type deviationCounts map[string]Deviation

func newDeviations() deviationCounts {
	c := deviationCounts{}
	for _, d := range deviations {
		c[d.kind] = Deviation{}
	}
	return c
}

// DeviationNotice is the first request of a kind of deviation.
type DeviationNotice struct{ Kind, Message string }

// add takes a request that ended well and returns the kinds that it is the first of.
func (c deviationCounts) add(r *Record) (news []DeviationNotice) {
	for _, d := range deviations {
		if !d.is(r) {
			continue
		}
		n := c[d.kind]
		if n.Requests++; n.Requests == 1 {
			n.Example = fmt.Sprintf("trace %q, session %q, turn %d: %s", r.Trace, r.Session, r.Turn, d.what(r))
			news = append(news, DeviationNotice{d.kind, fmt.Sprintf("%s: %s", d.says, n.Example)})
		}
		c[d.kind] = n
	}
	return news
}

func (c deviationCounts) clone() map[string]Deviation { return maps.Clone(c) }
