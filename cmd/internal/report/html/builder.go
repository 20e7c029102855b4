package html

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/splitmix"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/slo"
)

// maxRequests bounds the requests of a page. Of a run with more requests it has one in Stride.
const maxRequests = 100_000

// maxTime bounds the instants of a page, in seconds of their phase: its columns have whole nanoseconds.
const maxTime float64 = 2e6

// errTwoRuns says that the records are not all of one run.
var errTwoRuns = errors.New("the file mixes records of two runs")

// Builder collects what the page of a run shows. It keeps the numbers of at most maxRequests requests, and of their trees and
// sessions. It is not safe for concurrent use.
type Builder struct {
	Servers scrape.Data // what the servers said of themselves until the last Mark, of a run that is played

	rules measure.Rules
	judge *measure.Judge

	requests []request
	limit    int // most requests
	stride   int // of stride requests one is kept: see keeps
	sent     int // requests of profiling that were added
	warmup   int // requests of the warmup that were added

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
	at    []int64  // by credit of profiling, 1 plus when it was sent, ns; 0: it has no record
	end   [2]int64 // of the warmup and of profiling, ns of the phase
}

// NewBuilder returns an empty builder. rules and service levels are those of the run.
func NewBuilder(rules measure.Rules, levels ...slo.Condition) *Builder {
	return &Builder{
		rules: rules, judge: measure.NewJudge(rules, levels), limit: maxRequests, stride: 1, trees: map[int]*tree{}, numbers: numbers{byName: map[sessionName]int32{}}, byError: map[failure]int32{}, bins: bins{width: firstBin},
	}
}

// Limit makes the page have at most so many requests, from 1 to maxRequests. It is called before the first record is added.
func (b *Builder) Limit(requests int) { b.limit = requests }

// Stride returns how many requests of the run one of the page stands for: 1, 2, 4 and so on.
func (b *Builder) Stride() int { return b.stride }

// Add adds one record, which it does not keep. An error says why the record cannot be of the same run as those before.
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

// count takes a request into everything that the page has of all requests, kept or not.
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
		b.place(x.credit, int64(x.Sent))
	}
	b.end[phase] = max(b.end[phase], int64(x.End))
}

// mostAhead bounds how many credits may have no record: those of a file that somebody has edited may have any number.
const mostAhead = 1 << 20

// place keeps when the request of a credit was sent.
func (b *Builder) place(credit int, sent int64) {
	if credit < 0 || credit >= b.sent+mostAhead {
		return
	}
	if more := credit + 1 - len(b.at); more > 0 {
		b.at = append(b.at, make([]int64, more)...)
	}
	b.at[credit] = 1 + max(0, sent)
}

// open returns, for each request without a record, about when it was sent, ns: credits are in the order of issue, so that it was after the
// known one before. Until the instant whole every request is known. Of a part of a load, and of several, neither is: whole is 0.
func (b *Builder) open(info *measure.RunInfo) (list []int64, whole int64) {
	if info.Part != nil || info.Parts != nil || b.sent == 0 {
		return nil, 0
	}
	last := b.first
	for _, at := range b.at {
		if at == 0 {
			list = append(list, last)
		} else {
			last = max(last, at-1)
		}
	}
	return list, max(1, slices.Min(append(list, last)))
}

// keeps reports whether a request is on the page. A hash of its credit decides, because lanes that take turns have every k-th credit. A request
// that a stride keeps is kept by half that stride, too.
func (b *Builder) keeps(x *request) bool {
	hash := splitmix.Rand(x.credit)
	return hash.Next()&uint64(b.stride-1) == 0
}

// thin doubles the stride, and drops the requests that are no longer kept, with the sessions and trees that have no request left.
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

// maxFailures bounds the different messages of a page; the further ones of a category count as one.
const maxFailures = 1000

// failureOf returns 1 plus the position of a record's failure in b.failures, which it adds if it is new; 0: the request ended well.
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

// tree is a tree of the run with a request on the page.
type tree struct {
	ordinal int
	lane    int
	pass    int
	trace   string // cut to maxName
	root    string // correlation id, which no two trees share
}

// treeOf returns the tree of a record, which it adds if it is new. An error says that another tree has the same number.
func (b *Builder) treeOf(r *measure.Record) (*tree, error) {
	t := b.trees[r.Tree]
	if t == nil {
		t = &tree{ordinal: r.Tree, lane: r.Lane, pass: r.Pass, trace: cut(r.Trace), root: strings.Clone(r.RootID)}
		b.trees[r.Tree] = t
		return t, nil
	}
	if t.root != r.RootID || t.lane != r.Lane {
		return nil, fmt.Errorf("tree: %d: it is trace %q on lane %d, and in an earlier line trace %q on lane %d: %w", r.Tree, cut(r.Trace), r.Lane, t.trace, t.lane, errTwoRuns)
	}
	return t, nil
}

// session is a session with a request on the page.
type session struct {
	id     sessionName
	label  string // the name without that of the trace in front, cut to maxName
	whole  bool   // the name does not begin with that of the trace: label is all of it
	parent string // name; "": a root
	depth  int32
	number int32 // in numbers
	above  int32 // number of the parent; -1: a root
}

// sessionName identifies a session of the run.
type sessionName struct {
	tree int // ordinal
	name string
}

// sessionOf returns the position of the session of a record, which it adds if it is new.
func (b *Builder) sessionOf(r *measure.Record) int32 {
	number := b.numbers.of(sessionName{r.Tree, r.Session})
	if k := b.numbers.position[number]; k >= 0 {
		return k
	}
	label, own := strings.CutPrefix(r.Session, r.Trace)
	return b.addSession(session{
		id: sessionName{r.Tree, strings.Clone(r.Session)}, label: cut(label), whole: !own, parent: strings.Clone(r.Parent), depth: clip(r.Depth),
	})
}

// addSession adds a new session, and returns its position.
func (b *Builder) addSession(s session) int32 {
	k := int32(len(b.sessions))
	s.number, s.above = b.numbers.of(s.id), -1
	if s.parent != "" {
		s.above = b.numbers.of(sessionName{s.id.tree, s.parent})
	}
	b.numbers.position[s.number] = k
	b.sessions = append(b.sessions, s)
	return k
}

// numbers gives a number to each session, also to parents that have no request on the page yet.
type numbers struct {
	byName   map[sessionName]int32
	position []int32 // in Builder.sessions, by number; -1: it is not there
}

// of returns the number of a session. A new session gets the next number.
func (n *numbers) of(s sessionName) int32 {
	k, ok := n.byName[s]
	if !ok {
		k = int32(len(n.position))
		s.name = strings.Clone(s.name)
		n.byName[s] = k
		n.position = append(n.position, -1)
	}
	return k
}

// maxName bounds the characters of a name or a message on the page.
const maxName = 300

// cut returns at most maxName characters of a text, with … for the rest.
func cut(text string) string {
	if len(text) <= maxName {
		return strings.Clone(text)
	}
	runes := 0
	for k := range text {
		if runes++; runes > maxName {
			return text[:k] + "…"
		}
	}
	return strings.Clone(text)
}

// request is what the page knows of one record. Instants and times are nanoseconds.
type request struct {
	credit  int
	session int32 // position in Builder.sessions
	turn    int32
	outer   int32 // place in the recording
	inner   int32 // -1: none
	server  int32 // position in the URLs of the run

	bucket  uint8 // position in buckets
	failure int32 // position in Builder.failures plus 1; 0: it ended well
	good    bool  // it meets the service levels

	measure.Numbers
}

// buckets are the values of the column bucket.
var buckets = []measure.Bucket{measure.Profiling, measure.Cooldown, measure.CancelledAtEnd, measure.ContextOverflow, measure.WarmupBucket}

// newRequest returns the numbers of a record. The caller sets session and failure.
func newRequest(r *measure.Record) request {
	x := request{credit: r.Credit, turn: clip(r.Turn), outer: clip(r.SourceOuter), inner: -1, Numbers: r.Numbers}
	for k, b := range buckets {
		if b == r.Bucket {
			x.bucket = uint8(k)
		}
	}
	if r.SourceInner != nil {
		x.inner = clip(*r.SourceInner)
	}
	if r.URL != nil {
		x.server = clip(*r.URL)
	}
	return x
}

// judged reports whether the headline counts the request, as measured or failed.
func (x *request) judged() bool { return buckets[x.bucket] == measure.Profiling }

// measured reports whether the latencies of the headline count the request.
func (x *request) measured() bool { return x.judged() && x.failure == 0 }

// ended reports whether the error rate counts the request.
func (x *request) ended() bool { return x.judged() || buckets[x.bucket] == measure.Cooldown }

// uncached returns the prompt tokens that the server did not find in its cache, as far as it tells.
func (x *request) uncached() int64 {
	if x.PromptTokens == 0 {
		return measure.Unknown
	}
	return max(0, x.PromptTokens.N()-max(0, x.CachedTokens.N()))
}

// tail returns the time from the last token to the end; without a token, from Sent on.
func (x *request) tail() int64 { return int64(x.End - max(x.Sent, x.LastToken)) }

// warmup reports whether the request is of the warmup.
func (x *request) warmup() bool { return buckets[x.bucket] == measure.WarmupBucket }

// clip returns a number of a record as 32 bits, bounded.
func clip(n int) int32 { return int32(min(n, 1<<31-1)) }

// bins are sums over equal slices of the profiling phase: what a page shows of the requests that it leaves out. When a run gets longer, slices
// are joined in pairs, so that there are never more than maxBins.
type bins struct {
	width int64 // ns
	list  []bin
	flow  []float64 // change of the output tokens per ns at the start of a bin; integrated when it is needed

	touched int // the first bin that has changed since the last Mark
}

// bin has the sums of one slice.
type bin struct {
	sent, ended  int64 // requests
	cached, miss int64 // prompt tokens of the requests whose first token came: those that the server found in its cache, and the others
	output       float64
	failed       map[int32]int64 // requests that ended so, by the position of their failure
}

const (
	maxBins  = 4096
	firstBin = 100_000_000 // ns
)

// add adds a request of profiling.
func (b *bins) add(x *request) {
	sent, last := int64(x.Sent), int64(x.End)
	b.reach(last)
	b.touched = min(b.touched, int(sent/b.width))
	b.at(sent).sent++
	end := b.at(last)
	end.ended++
	if x.failure > 0 {
		if end.failed == nil {
			end.failed = map[int32]int64{}
		}
		end.failed[x.failure]++
	}
	if x.FirstToken == 0 {
		return
	}
	if n := x.PromptTokens.N(); n > 0 {
		first, cached := b.at(int64(x.FirstToken)), max(0, x.CachedTokens.N())
		first.cached += cached
		first.miss += n - cached
	}
	if n := x.tokens(); n > 0 {
		b.spread(float64(n), int64(x.FirstToken), int64(x.LastToken))
	}
}

// tokens returns the output tokens of a request, reasoning included.
func (x *request) tokens() int64 { return max(0, x.OutputTokens.N()) + max(0, x.ReasoningTokens.N()) }

// at returns the bin of an instant, which reach has made.
func (b *bins) at(instant int64) *bin { return &b.list[instant/b.width] }

// reach makes bins up to an instant.
func (b *bins) reach(instant int64) {
	for instant/b.width >= maxBins {
		b.double()
	}
	for n := int(instant / b.width); n >= len(b.list); {
		b.list, b.flow = append(b.list, bin{}), append(b.flow, 0)
	}
}

// spread adds tokens that came evenly between two instants: to the sums of the first and the last bin, and to flow for the bins between.
func (b *bins) spread(tokens float64, from, to int64) {
	i, j := from/b.width, to/b.width
	if i == j {
		b.list[i].output += tokens
		return
	}
	rate := tokens / float64(to-from)
	b.list[i].output += rate * float64((i+1)*b.width-from)
	b.list[j].output += rate * float64(to-j*b.width)
	b.flow[i+1] += rate
	b.flow[j] -= rate
}

// integrate adds the tokens that flow has for whole bins to their sums, and clears flow.
func (b *bins) integrate() {
	rate := 0.0
	for k := range b.list {
		rate += b.flow[k]
		b.list[k].output += rate * float64(b.width)
		b.flow[k] = 0
	}
}

// double makes every bin twice as long.
func (b *bins) double() {
	b.integrate()
	for k := 0; k < len(b.list); k += 2 {
		one := b.list[k]
		if k+1 < len(b.list) {
			one.add(&b.list[k+1])
		}
		b.list[k/2] = one
	}
	n := (len(b.list) + 1) / 2
	b.touched = 0
	b.list, b.flow, b.width = slices.Clip(b.list[:n]), b.flow[:n], 2*b.width
}

// add adds the sums of another bin.
func (b *bin) add(other *bin) {
	b.sent += other.sent
	b.ended += other.ended
	b.cached += other.cached
	b.miss += other.miss
	b.output += other.output
	for k, n := range other.failed {
		if b.failed == nil {
			b.failed = map[int32]int64{}
		}
		b.failed[k] += n
	}
}
