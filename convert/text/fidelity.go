package text

import (
	"math"
	"slices"
)

// Stretch says how well the sizes of prompts fit those that were recorded, over the turns of a session between two compactions: the
// recorded size is Prefix + Ratio times the counted one, where the rules of the reader are right. See doc/spec/text.md 4.8.
type Stretch struct {
	Trace, Session int
	Turns          int
	Lacks          int32   // F: by the first request
	Prefix         float64 // by all of them
	Ratio          float64
	P50, P99       float64 // of the difference, as a share of the recorded size
	Shrunk         bool    // a recorded size fell though the prompt grew

	// Reuse and Cached are means over the turns whose cached tokens are recorded: the share of a prompt in blocks that earlier prompts of
	// the trace begin with, and the share that the server read from its cache. Apart is the median of their difference.
	Reuse, Cached, Apart float64
}

// sized is a turn of a stretch.
type sized struct{ in, counted, reuse, cached float64 }

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
		counted, kept := head, 0
		for at, node := range path {
			counted += s.Message(t.Nodes[node].Message)
			if met[node] && (at == 0 || kept > 0) {
				kept = counted
			}
			met[node] = true
		}
		x := sized{in: float64(turn.In), counted: float64(counted), cached: math.NaN()}
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

// fit finds the line on which the sizes of a stretch lie, and how far they are from it.
func (st *Stretch) fit(turns []sized) {
	var n, sumC, sumIn, sumCC, sumCIn float64
	for _, x := range turns {
		n, sumC, sumIn, sumCC, sumCIn = n+1, sumC+x.counted, sumIn+x.in, sumCC+x.counted*x.counted, sumCIn+x.counted*x.in
	}
	st.Turns, st.Ratio = len(turns), 1
	if d := n*sumCC - sumC*sumC; d > 0 {
		st.Ratio = (n*sumCIn - sumC*sumIn) / d
	}
	st.Prefix = (sumIn - st.Ratio*sumC) / n
	var apart, residuals []float64
	for _, x := range turns {
		residuals = append(residuals, math.Abs(x.in-st.Prefix-st.Ratio*x.counted)/x.in)
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
