package html

import (
	"errors"
	"fmt"

	"github.com/agentx/agentx/internal/splitmix"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// maxRequests is the most requests that a page has. Of a run with more it has one in Stride.
const maxRequests = 100_000

// maxTime bounds the instants of a page, in seconds of their phase: its columns have whole nanoseconds.
const maxTime float64 = 2e6

// errTwoRuns is why a record is refused.
var errTwoRuns = errors.New("the file mixes records of two runs")

// Builder collects what the page of a run shows. It keeps the numbers of at most maxRequests requests, and of their trees and
// sessions. It is not safe for concurrent use.
type Builder struct {
	rules measure.Rules
	judge *measure.Judge

	requests []request
	limit    int // of requests: maxRequests
	stride   int // one request in so many is kept: see keeps
	sent     int // requests of profiling that were added
	warmup   int // of the warmup

	trees    map[int]*tree // by ordinal
	sessions []session
	numbers  numbers
	failures []failure
	byError  map[failure]int32
	bins     bins

	marks  [maxMarks]mark // the latest ones
	marked int            // how many there were
	values []int64        // scratch of valuesOf

	first int64    // earliest sent of profiling, ns; valid if sent > 0
	end   [2]int64 // of the warmup and of profiling, ns of the phase
}

// NewBuilder returns an empty builder. rules and service levels are those of the run.
func NewBuilder(rules measure.Rules, levels ...slo.Condition) *Builder {
	return &Builder{
		rules: rules, judge: measure.NewJudge(rules, levels), limit: maxRequests, stride: 1, trees: map[int]*tree{}, numbers: numbers{byName: map[sessionName]int32{}}, byError: map[failure]int32{}, bins: newBins(),
	}
}

// Limit makes the page have at most so many requests, from 1 to maxRequests. It is called before the first record is added.
func (b *Builder) Limit(requests int) { b.limit = requests }

// Stride returns how many requests of the run one of the page stands for: 1, 2, 4 and so on.
func (b *Builder) Stride() int { return b.stride }

// Add adds one record, which it does not keep. An error says why it cannot be of the same run as those before.
func (b *Builder) Add(r *measure.Record) error {
	if at := max(r.Due.Seconds(), r.End.Seconds(), r.Queued.Seconds()); at > maxTime {
		return fmt.Errorf("an instant lies %.0f s into its phase: a page shows at most %.0f s, which are 23 days", at, maxTime)
	}
	x := newRequest(r)
	x.failure, x.good = b.failureOf(r), b.judge.Good(r)
	b.count(&x)
	if !b.keeps(&x) {
		return nil
	}
	if _, err := b.treeOf(r); err != nil {
		return err
	}
	x.session = b.sessionOf(r)
	if b.requests = append(b.requests, x); len(b.requests) > b.limit {
		b.thin()
	}
	return nil
}

// count counts what the page knows of every request.
func (b *Builder) count(x *request) {
	phase := 0
	if x.warmup() {
		b.warmup++
	} else {
		phase = 1
		if b.sent == 0 || int64(x.Sent) < b.first {
			b.first = int64(x.Sent)
		}
		b.sent++
		b.bins.add(x)
	}
	b.end[phase] = max(b.end[phase], int64(x.End))
}

// keeps reports whether a request is on the page: a hash of its credit decides, because lanes that take turns have every k-th credit. What
// a stride keeps, half of it has kept too.
func (b *Builder) keeps(x *request) bool {
	hash := splitmix.Rand(x.credit)
	return hash.Next()&uint64(b.stride-1) == 0
}

// thin doubles the stride. It drops the requests that this leaves out, and the sessions and trees that then have none.
func (b *Builder) thin() {
	b.stride *= 2
	kept, sessions, trees := b.requests[:0], b.sessions, b.trees
	b.sessions, b.trees = nil, map[int]*tree{}
	clear(b.numbers.byName)
	b.numbers.position = b.numbers.position[:0]
	for _, x := range b.requests {
		if !b.keeps(&x) {
			continue
		}
		s := sessions[x.session]
		number := b.numbers.of(s.id)
		if x.session = b.numbers.position[number]; x.session < 0 {
			x.session = b.addSession(s)
			b.trees[s.id.tree] = trees[s.id.tree]
		}
		kept = append(kept, x)
	}
	b.requests = kept
}

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
