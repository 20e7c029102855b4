package html

import "slices"

// bins are sums over slices of the profiling phase, all as long as one another: what a page shows of the requests that it leaves
// out. They grow in length as the run does, so that there are never more than maxBins.
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

func newBins() bins { return bins{width: firstBin} }

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

func (b *bins) at(instant int64) *bin { return &b.list[instant/b.width] }

// reach makes room for an instant.
func (b *bins) reach(instant int64) {
	for instant/b.width >= maxBins {
		b.double()
	}
	for n := int(instant / b.width); n >= len(b.list); {
		b.list, b.flow = append(b.list, bin{}), append(b.flow, 0)
	}
}

// spread adds tokens that came evenly from one instant to another.
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

// integrate adds what flows through whole bins to their sums.
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
