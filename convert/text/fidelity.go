package text

import (
	"math"
	"slices"
)

// Stretch says how well the sizes of prompts fit those that were recorded, over the turns of a session between two compactions: the
// recorded size is Prefix + Ratio times the counted one + Call times the calls of tools, where the rules of the reader are right. See
// doc/spec/text.md 4.8.
type Stretch struct {
	Trace, Session int
	Turns          int
	Lacks          int32   // F: by the first request
	Prefix         float64 // by all of them
	Ratio          float64
	Call           float64 // tokens that the server puts around a call and its result, beyond those that are counted
	P50, P99       float64 // of the difference, as a share of the recorded size
	Shrunk         bool    // a recorded size fell though the prompt grew

	// Reuse and Cached are means over the turns whose cached tokens are recorded: the share of a prompt in blocks that earlier prompts of
	// the trace begin with, and the share that the server read from its cache. Apart is the median of their difference.
	Reuse, Cached, Apart float64
}

// sized is a turn of a stretch.
type sized struct{ in, counted, calls, reuse, cached float64 }

// Stretches compares the sizes of all prompts with those that were recorded, in blocks of a size in tokens. It encodes all texts.
func (s *Sizes) Stretches(blockSize int) (list []Stretch, err error) {
	for n, t := range s.data.Traces {
		met := make([]bool, len(t.Nodes))
		for k := range t.Sessions {
			list = append(list, s.stretchesOf(n, k, blockSize, met)...)
		}
	}
	return list, s.err
}

// stretchesOf compares the sizes of a session. met has the nodes of the prompts before.
func (s *Sizes) stretchesOf(n, k, blockSize int, met []bool) (list []Stretch) {
	t := s.data.Traces[n]
	session := &t.Sessions[k]
	head, root := s.Head(session), int32(None)
	var turns []sized
	var path []int32
	end := func() {
		if len(turns) > 0 {
			list[len(list)-1].fit(turns)
		}
		turns = turns[:0]
	}
	for i := range session.Turns {
		turn := &session.Turns[i]
		if turn.In == None || turn.Last == None || turn.NoContent {
			continue
		}
		path = t.Path(path[:0], turn.Last)
		if len(turns) == 0 || path[0] != root {
			end()
			root = path[0]
			list = append(list, Stretch{Trace: n, Session: k, Lacks: max(session.Lacks, 0)})
		}
		stretch := &list[len(list)-1]
		counted, kept, calls := head, 0, 0
		for at, node := range path {
			counted += s.Message(t.Nodes[node].Message)
			calls += callsOf(&s.data.Messages[t.Nodes[node].Message])
			if met[node] && (at == 0 || kept > 0) {
				kept = counted
			}
			met[node] = true
		}
		x := sized{in: float64(turn.In), counted: float64(counted), calls: float64(calls), cached: math.NaN()}
		if turn.Cached != None {
			f := float64(stretch.Lacks)
			x.reuse, x.cached = (f+float64(kept/blockSize*blockSize))/(f+x.counted), float64(turn.Cached)/x.in
		}
		if before := len(turns) - 1; before >= 0 && turns[before].in-x.in > 1000 && x.counted > turns[before].counted {
			stretch.Shrunk = true
		}
		turns = append(turns, x)
	}
	end()
	return list
}

// callsOf returns how many calls of tools a message has.
func callsOf(m *Message) (n int) {
	for k := range m.Parts {
		if m.Parts[k].Kind == Call {
			n++
		}
	}
	return n
}

// fit finds the plane on which the sizes of a stretch lie, by least squares, and how far they are from it.
func (st *Stretch) fit(turns []sized) {
	n := float64(len(turns))
	var in, counted, calls float64 // means
	for _, x := range turns {
		in, counted, calls = in+x.in/n, counted+x.counted/n, calls+x.calls/n
	}
	var cc, ck, kk, ci, ki float64 // sums of products of the distances from them
	for _, x := range turns {
		c, k, i := x.counted-counted, x.calls-calls, x.in-in
		cc, ck, kk, ci, ki = cc+c*c, ck+c*k, kk+k*k, ci+c*i, ki+k*i
	}
	st.Turns, st.Ratio = len(turns), 1
	if d := cc*kk - ck*ck; len(turns) >= leastFit && d > 1e-6*cc*kk {
		st.Ratio, st.Call = (ci*kk-ki*ck)/d, (ki*cc-ci*ck)/d
	} else if cc > 0 {
		st.Ratio = ci / cc
	}
	st.Prefix = in - st.Ratio*counted - st.Call*calls
	var apart, residuals []float64
	for _, x := range turns {
		residuals = append(residuals, math.Abs(x.in-st.Prefix-st.Ratio*x.counted-st.Call*x.calls)/x.in)
		if !math.IsNaN(x.cached) {
			apart = append(apart, math.Abs(x.reuse-x.cached))
			st.Reuse, st.Cached = st.Reuse+x.reuse, st.Cached+x.cached
		}
	}
	st.P50, st.P99 = Percentile(residuals, 0.5), Percentile(residuals, 0.99)
	if n := float64(len(apart)); n > 0 {
		st.Reuse, st.Cached, st.Apart = st.Reuse/n, st.Cached/n, Percentile(apart, 0.5)
	}
}

// Percentile returns the value below or at which a share of values is, 0 of none. It sorts them.
func Percentile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(int(math.Ceil(share*float64(len(values)))), 1)-1]
}
