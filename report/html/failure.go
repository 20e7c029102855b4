package html

import (
	"github.com/agentx/agentx/replay/measure"
)

// failure is why requests failed.
type failure struct {
	category string
	code     int // HTTP status; 0: no answer came
	message  string
}

// maxFailures bounds the messages that a page tells apart; the others of a category are one.
const maxFailures = 1000

// failureOf returns the position of the failure of a record plus 1; 0: it ended well.
func (b *Builder) failureOf(r *measure.Record) int32 {
	if r.Error == nil {
		return 0
	}
	f := failure{cut(string(r.Error.Category)), r.Error.Code, cut(r.Error.Message)}
	if _, ok := b.byError[f]; !ok && len(b.failures) >= maxFailures {
		f.code, f.message = 0, "(one of many messages: records.jsonl has them all)"
	}
	k, ok := b.byError[f]
	if !ok {
		k = int32(len(b.failures)) + 1
		b.byError[f] = k
		b.failures = append(b.failures, f)
	}
	return k
}
