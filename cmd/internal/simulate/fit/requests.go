// Package fit finds the simulated engine that answers as a measured one did: doc/spec/simulate.md 18.
//
//	requests, err := fit.Read(run, cache, options)
//	result, err := fit.Engine(ctx, requests, fit.Options{Base: engine.Default(), Switches: switches, Workers: 1})
//
// A [Request] is what a run measured of one. [Load] plays requests when they were sent, or each as long after the end of the one that it
// waited for. [Engine] tries structures; of each it plays the requests, and fits the constants of passes by least squares to the passes
// that each request took part in.
package fit

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
)

// Request is what a run measured of a request. Instants are nanoseconds since the first was sent.
type Request struct {
	Prompt, Output    int // tokens
	Chain             []engine.Run
	Tree, Lane        int
	Server            int // position of its URL
	Sent, First, Last int64
	Messages          []int64 // instants of the messages of its answer; nil: the run does not tell them
	Cached            int     // prompt tokens that the server found; -1: it does not tell

	after int // place of the request in the lane that ended last before this one was sent; -1: none
}

// mark is when a token of an answer came, counted from 0.
type mark struct {
	token int
	at    int64
}

// mostStretches is how many parts of an answer at most are durations of their own, each of leastTokens at least.
const (
	mostStretches = 4
	leastTokens   = 8
)

// marks returns the first and the last token of an answer and, where the run tells the instants of most tokens, some between; of an answer of
// one token, that.
func (r *Request) marks() []mark {
	list, gaps := []mark{{0, r.First}}, len(r.Messages)-1
	if r.Output < 2 {
		return list
	}
	if parts := min((r.Output-1)/leastTokens, mostStretches); 2*gaps >= r.Output {
		for k := 1; k < parts; k++ {
			m := k * gaps / parts
			list = append(list, mark{m * (r.Output - 1) / gaps, r.Messages[m]})
		}
	}
	return append(list, mark{r.Output - 1, r.Last})
}

// tokens returns how many tokens of an answer but the first came between two instants, and their mean length with all before them.
func (r *Request) tokens(from, to int64) (n, length float64) {
	whole := float64(r.Output - 1)
	begin, end := 1-overlap(r.First, r.Last, from, r.Last), overlap(r.First, r.Last, r.First, to)
	if gaps := len(r.Messages) - 1; 2*gaps >= r.Output {
		at := func(instant int64) float64 {
			k, _ := slices.BinarySearch(r.Messages, instant+1)
			return float64(max(k-1, 0)) / float64(gaps)
		}
		begin, end = at(from), at(to)
	}
	return max(end-begin, 0) * whole, float64(r.Prompt) + (begin+end)/2*whole
}

// Link orders requests by when they were sent, and finds what each waited for: of its lane the request that ended last before.
func Link(list []Request) {
	slices.SortStableFunc(list, func(a, b Request) int { return int(a.Sent - b.Sent) })
	lanes := map[int][]int{}
	for k := range list {
		r := &list[k]
		r.after = -1
		for _, other := range lanes[r.Lane] {
			if end := list[other].Last; end <= r.Sent && (r.after < 0 || end > list[r.after].Last) {
				r.after = other
			}
		}
		lanes[r.Lane] = append(lanes[r.Lane], k)
	}
}

// ReadOptions say how prompts become blocks.
type ReadOptions struct {
	BlockSize int
	IDWidth   preset.Choice
}

// Read returns the requests of a run that ended well, in the order in which they were sent, and how many others there are. The cache is
// the one that was played. With a marker, trees share no block.
func Read(run *merge.Run, cache *mmapcache.Cache, o ReadOptions) (list []Request, left int, err error) {
	records, err := run.Records()
	if err != nil {
		return nil, 0, err
	}
	defer records.Close()
	prompts, err := workload.NewPrompts(cache, o.BlockSize, o.IDWidth, Marked(run))
	if err != nil {
		return nil, 0, err
	}
	offsets := map[string]int64{}
	for _, p := range run.Info.Phases {
		offsets[p.Name] = int64(p.Offset * 1e9)
	}
	for r, err := range measure.All(records) {
		if err != nil {
			return nil, 0, err
		}
		if r.Error != nil || r.FirstToken == 0 || r.LastToken == 0 || r.OSL() < 1 {
			left++
			continue
		}
		prompt, chain, err := prompts.Of(r.Tree, r.Trace, r.SourceOuter, r.SourceInner)
		if err != nil {
			return nil, 0, err
		}
		at := offsets[r.Phase]
		one := Request{
			Prompt: prompt, Output: int(r.OSL()), Chain: chain, Tree: r.Tree, Lane: r.Lane, Cached: int(r.CachedTokens.N()),
			Sent: at + int64(r.Sent), First: at + int64(r.FirstToken), Last: at + int64(r.LastToken),
		}
		for message := range r.Contents.All() {
			one.Messages = append(one.Messages, one.Sent+int64(message))
		}
		if n := int(r.PromptTokens.N()); n > 0 {
			one.Prompt = n
		}
		if r.URL != nil {
			one.Server = *r.URL
		}
		list = append(list, one)
	}
	Link(list)
	for k := len(list) - 1; k >= 0; k-- {
		list[k].move(-list[0].Sent)
	}
	return list, left, nil
}

// move moves the instants of a request.
func (r *Request) move(by int64) {
	r.Sent, r.First, r.Last = r.Sent+by, r.First+by, r.Last+by
	for k := range r.Messages {
		r.Messages[k] += by
	}
}

// Marked reports whether the prompts of a run began with a marker, so that trees shared no block.
func Marked(run *merge.Run) bool {
	for _, o := range run.Info.Options {
		if o.Name == "marker" {
			return string(o.Value) != `"off"`
		}
	}
	return false
}

// load plays requests again.
type load struct {
	list      []Request
	followers [][]int // by place
	due       []due   // a heap
	left      int
}

// due is a request and when it leaves.
type due struct {
	at int64
	k  int
}

func (a due) before(b due) bool { return a.at < b.at || a.at == b.at && a.k < b.k }

// Load returns the load of requests that were linked. In a closed loop each leaves as long after the end of what it waited for as it did;
// else all leave when they were sent.
func Load(list []Request, closed bool) workload.Load {
	l := &load{list: list, followers: make([][]int, len(list)), left: len(list)}
	for k := range list {
		if after := list[k].after; closed && after >= 0 {
			l.followers[after] = append(l.followers[after], k)
			continue
		}
		heap.Push(&l.due, due{list[k].Sent, k}, due.before)
	}
	return l
}

// Next returns when the next request leaves that waits for none.
func (l *load) Next() (int64, bool) {
	if len(l.due) == 0 {
		return 0, false
	}
	return l.due[0].at, true
}

// Release takes the next request, if its time has come.
func (l *load) Release(now int64) (t workload.Turn, ok bool) {
	if at, ok := l.Next(); !ok || at > now {
		return t, false
	}
	l.left--
	k := heap.Pop(&l.due, due.before).k
	r := &l.list[k]
	return workload.Turn{ID: k, Session: r.Tree, Number: k, Prompt: r.Prompt, Output: r.Output, Chain: r.Chain}, true
}

// Completed lets the requests leave that waited for one.
func (l *load) Completed(id int, now int64) {
	for _, k := range l.followers[id] {
		heap.Push(&l.due, due{now + l.list[k].Sent - l.list[id].Last, k}, due.before)
	}
}

func (l *load) Left() int { return l.left }

// Blocks returns how many blocks a pool has that never evicts one.
func Blocks(list []Request, blockSize int) (n int) {
	shared := uint32(0)
	for k := range list {
		r := &list[k]
		known := 0
		for _, run := range r.Chain {
			shared = max(shared, run.First+run.Count)
			known += int(run.Count)
		}
		n += (r.Prompt+r.Output)/blockSize + 1 - min(known, r.Prompt/blockSize)
	}
	return n + int(shared)
}

// check returns an error unless requests can be fitted.
func check(list []Request) error {
	trees := map[int]bool{}
	for k := range list {
		trees[list[k].Tree] = true
	}
	if len(list) < leastRequests || len(trees) < 2 {
		return fmt.Errorf("%d requests of %d trees that ended well: want at least %d of 2: play for longer", len(list), len(trees), leastRequests)
	}
	return nil
}

// leastRequests is the fewest requests to which an engine is fitted.
const leastRequests = 20
