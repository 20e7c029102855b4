package synth

import (
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// sample is values of one kind.
type sample []float64

func (s *sample) add(v float64) { *s = append(*s, v) }

func (s sample) quantile(share float64) float64 {
	sort.Float64s(s)
	return s[min(int(share*float64(len(s))), len(s)-1)]
}

func (s sample) mean() (m float64) {
	for _, v := range s {
		m += v / float64(len(s))
	}
	return m
}

// shape is what the table of the public corpus says of traces. Requests are those of main agents.
type shape struct {
	requests, in, firstIn, out, ids, unique, fresh, runs, gap, think, api, ttft, duration sample

	changes                         [repeated + 1]int
	hits, total                     int // blocks, against the prompt before on the lane
	streamed, all, tools, noStop    int
	subagents, withSubagents, inner int
}

func shapeOf(o *Options) *shape {
	s := &shape{}
	for k := range o.Traces {
		s.trace(recordingOf(o, k))
	}
	return s
}

func (s *shape) trace(r *weka.Recording) {
	var list []*weka.RecordedRequest
	seen, before := 0, s.subagents
	for k := range r.Entries {
		e := &r.Entries[k]
		own := []*weka.RecordedRequest{&e.RecordedRequest}
		if e.Subagent != nil {
			s.subagents++
			s.inner += len(e.Subagent.Requests)
			own = nil
			for k := range e.Subagent.Requests {
				own = append(own, &e.Subagent.Requests[k])
			}
		} else {
			list = append(list, own[0])
		}
		for _, q := range own {
			had := seen
			for _, run := range q.IDs.Runs {
				seen = max(seen, int(run.First)+run.N)
			}
			if e.Subagent == nil && len(list) > 1 {
				s.fresh.add(float64(seen - had))
			}
		}
	}
	if s.subagents > before {
		s.withSubagents++
	}
	s.requests.add(float64(len(list)))
	s.firstIn.add(float64(list[0].In))
	s.unique.add(float64(seen))
	s.duration.add(float64(list[len(list)-1].T-list[0].T) / 1000)
	for k, q := range list {
		s.request(q)
		if k > 0 {
			s.step(list[k-1], q)
		}
	}
}

func (s *shape) request(q *weka.RecordedRequest) {
	s.all++
	s.in.add(float64(q.In))
	s.out.add(float64(q.Out))
	s.ids.add(float64(q.IDs.Len))
	s.runs.add(float64(len(q.IDs.Runs)))
	s.api.add(float64(q.APITime) / 1000)
	if q.ThinkTime != weka.Unknown {
		s.think.add(float64(q.ThinkTime) / 1000)
	}
	if q.Streamed {
		s.streamed++
		s.ttft.add(float64(q.TTFT) / 1000)
	}
	switch q.Stop {
	case "tool_use":
		s.tools++
	case "":
		s.noStop++
	}
}

// step looks at two requests of a lane, one after the other.
func (s *shape) step(a, b *weka.RecordedRequest) {
	s.gap.add(float64(b.T-a.T) / 1000)
	shared := sharedBlocks(a.IDs, b.IDs)
	s.hits += shared
	s.total += b.IDs.Len
	how := tailEdited
	switch {
	case shared == a.IDs.Len && shared == b.IDs.Len:
		how = repeated
	case shared == a.IDs.Len:
		how = appended
	case shared == 0:
		how = begunAnew
	case shared == a.IDs.Len-1:
		how = lastChanged
	case float64(shared) < 0.9*float64(a.IDs.Len):
		how = pulledBack
	}
	s.changes[how]++
}

// sharedBlocks returns how many blocks two lists begin with in common. A chain has one place for an id, so where runs differ in length the shorter list ends or leaves.
func sharedBlocks(a, b trace.IDs) int {
	n := 0
	for k := range min(len(a.Runs), len(b.Runs)) {
		x, y := a.Runs[k], b.Runs[k]
		if x.First == y.First {
			n += min(x.N, y.N)
		}
		if x != y {
			break
		}
	}
	return n
}

// near is a figure of the public corpus and by which share ours may differ.
type near struct{ want, slack float64 }

func (n near) holds(have float64) bool {
	return have >= n.want*(1-n.slack) && have <= n.want*(1+n.slack)
}

// Traces have the distributions of the public corpus: p10, p50, p90, p99 and mean of each row of its table. Three rows are of
// its 600 shared traces, read as this test reads ours: new blocks without first requests, and think times that the gap bounds.
// Durations, sums of a few long gaps, are further away.
func TestMadeUpTracesHaveTheShapeOfThePublicCorpus(t *testing.T) {
	s := shapeOf(&Options{Traces: 2000, Seed: 7})
	for _, row := range []struct {
		name string
		have sample
		want [5]float64
		more float64 // slack
	}{
		{"requests", s.requests, [5]float64{7, 46, 157, 342, 69.5}, 0},
		{"in", s.in, [5]float64{42_419, 103_662, 233_633, 498_617, 122_379}, 0},
		{"in of the first", s.firstIn, [5]float64{15_459, 24_522, 258_855, 716_145, 91_238}, 0},
		{"out", s.out, [5]float64{105, 216, 898, 3687, 440}, 0},
		{"ids", s.ids, [5]float64{662, 1619, 3650, 7790, 1912}, 0},
		{"unique blocks", s.unique, [5]float64{1112, 3280, 11_695, 21_425, 4861}, 0.1},
		{"new blocks", s.fresh, [5]float64{3, 11, 63, 937, 49.8}, 0},
		{"runs", s.runs, [5]float64{1, 3, 6, 13, 3.35}, 0},
		{"gap", s.gap, [5]float64{8, 18, 130, 2192, 152}, 0},
		{"think", s.think, [5]float64{4, 10, 116, 2178, 144.5}, 0},
		{"api", s.api, [5]float64{3.37, 6.08, 18.35, 60.7, 9.75}, 0},
		{"ttft", s.ttft, [5]float64{1.61, 2.51, 6.59, 19.56, 3.61}, 0},
		{"duration", s.duration, [5]float64{393, 3591, 23_946, 94_890, 10_234}, 0.25},
	} {
		have := [5]float64{row.have.quantile(0.1), row.have.quantile(0.5), row.have.quantile(0.9), row.have.quantile(0.99), row.have.mean()}
		for k, slack := range [5]float64{0.3, 0.12, 0.25, 0.35, 0.2} {
			n := near{row.want[k], slack + row.more}
			assert.True(t, n.holds(have[k]), "%s, %s: %.4g: want %.4g, give or take %.0f %%", row.name, [5]string{"p10", "p50", "p90", "p99", "mean"}[k], have[k], n.want, 100*n.slack)
		}
		t.Logf("%-16s %8.5g want %8.5g", row.name, have, row.want)
	}
	s.checkShares(t)
}

// checkShares compares what has no distribution: how prompts follow from those before, what is in a prefix cache, words, and
// subagents.
func (s *shape) checkShares(t *testing.T) {
	steps, most := float64(len(s.gap)), float64(len(s.requests))
	for _, row := range []struct {
		name string
		have float64
		near
	}{
		{"appended", float64(s.changes[appended]) / steps, near{45_230.0 / 48_561, 0.02}},
		{"last block changed", float64(s.changes[lastChanged]) / steps, near{1971.0 / 48_561, 0.1}},
		{"tail edited", float64(s.changes[tailEdited]) / steps, near{448.0 / 48_561, 0.15}},
		{"pulled back", float64(s.changes[pulledBack]) / steps, near{819.0 / 48_561, 0.2}},
		{"begun anew", float64(s.changes[begunAnew]) / steps, near{83.0 / 48_561, 0.3}},
		{"hits against the prompt before", float64(s.hits) / float64(s.total), near{0.9628, 0.015}},
		{"streamed", float64(s.streamed) / float64(s.all), near{0.17, 0.15}},
		{"tool calls", float64(s.tools) / float64(s.all), near{0.855, 0.03}},
		{"no stop", float64(s.noStop) / float64(s.all), near{0.088, 0.15}},
		{"traces with subagents", float64(s.withSubagents) / most, near{17.0 / 710, 0.3}},
		{"subagents of these", float64(s.subagents) / float64(s.withSubagents), near{63.0 / 17, 0.25}},
		{"requests of a subagent", float64(s.inner) / float64(s.subagents), near{676.0 / 63, 0.15}},
	} {
		assert.True(t, row.holds(row.have), "%s: %.4g: want %.4g, give or take %.0f %%", row.name, row.have, row.want, 100*row.slack)
		t.Logf("%-30s %.4g want %.4g", row.name, row.have, row.want)
	}
}
