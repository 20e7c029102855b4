package trace

import "fmt"

// Oddity is valid input that is rarely intended.
type Oddity struct {
	Kind  string
	Count int
	First string // where the first is, and its value
}

// Oddities are the oddities of one trace, by kind.
type Oddities []Oddity

// Add counts an oddity. The text says where the first of its kind is, and its value.
func (o *Oddities) Add(kind, format string, args ...any) {
	for k := range *o {
		if (*o)[k].Kind == kind {
			(*o)[k].Count++
			return
		}
	}
	*o = append(*o, Oddity{Kind: kind, Count: 1, First: fmt.Sprintf(format, args...)})
}

// Kinds of oddities. The other kinds in oddityTexts begin with "negative_".
const (
	OddityShortIDs     = "short_hash_ids"
	OddityLongIDs      = "long_hash_ids"
	OddityBlockSize    = "block_size"
	OddityBackward     = "backward_t"
	OddityEpoch        = "t_since_1970"
	OddityGuessedBlock = "guessed_block_size"
	OddityFraction     = "fractional_timestamp"
	OddityNoRequests   = "no_requests"
	OddityEmptyAgent   = "empty_subagent"
	OddityDropped      = "dropped_subagent"

	OddityAnswers      = "answers_as_filler" // asked for, so --strict does not refuse it
	OddityMixedFormats = "mixed_forms"       // Weka traces and Mooncake rows in one input; convert notices it
)

// oddityTexts says what each kind means, and what happens to it.
var oddityTexts = map[string]string{
	OddityShortIDs:        "hash_ids cover fewer blocks than the prompt has: filler takes their place",
	OddityLongIDs:         "hash_ids name more blocks than the prompt has: the others are not sent",
	OddityBlockSize:       "block_size is not a power of two up to 4096",
	OddityBackward:        "a request starts before the one above it",
	OddityEpoch:           "t looks like milliseconds since 1970, and is taken for seconds",
	OddityGuessedBlock:    "no row says the block size: it follows from input_length and the number of hash_ids of all rows",
	OddityFraction:        "a timestamp has a fraction, as seconds have, and is taken for milliseconds",
	OddityNoRequests:      "the trace has no requests",
	OddityEmptyAgent:      "a subagent has no requests",
	OddityDropped:         "a subagent stands above every request of its trace: it is left out",
	OddityAnswers:         "rows have what is new, as session_rows=new says: before it stand the rows before, and filler for each answer",
	OddityMixedFormats:    "Weka traces and Mooncake rows become one dataset",
	"negative_t":          "t is negative",
	"negative_out":        "out is negative: 1 token is asked for",
	"negative_api_time":   "api_time is negative",
	"negative_think_time": "think_time is negative",
	"negative_duration":   "duration_ms is negative",
}

// OddityText says what a kind of oddity means. It returns an unknown kind, of a later program, unchanged.
func OddityText(kind string) string {
	if text := oddityTexts[kind]; text != "" {
		return text
	}
	return kind
}
