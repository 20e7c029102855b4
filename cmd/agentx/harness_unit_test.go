package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/report"
)

// oneRequest is a request of a made-up run: of a turn, at a time in ms, that took 10.
func oneRequest(session string, number, at int) playedRequest {
	start := time.Duration(at) * time.Millisecond
	return playedRequest{key: requestKey{phase: "profiling", session: session, turn: number}, tree: traceOf(session), at: start, end: start + 10*time.Millisecond,
		sent: sentRequest{body: []byte(session)}}
}

// Requests that one run has alone, and instants that differ from the start of the phase and from the request before, make two runs
// differ; so do bodies. A tree is left out from a double jump on.
func TestHarnessDistance(t *testing.T) {
	p := &harnessPair{flags: "--benchmark-duration 20"}
	of := func(list ...playedRequest) *harnessRun { return &harnessRun{requests: list} }
	a := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("b", 0, 5000))
	for _, c := range []struct {
		name string
		b    *harnessRun
		want [4]int // alone, instants, bodies, left out
	}{
		{"the same", of(oneRequest("a", 0, 10), oneRequest("a", 1, 1030), oneRequest("b", 0, 4990)), [4]int{}},
		{"a late tree is late by what it began with", of(oneRequest("a", 0, 49), oneRequest("a", 1, 1090), oneRequest("b", 0, 5000)), [4]int{}},
		{"one is missing, another is there", of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("c", 0, 5000)), [4]int{2, 0, 0, 0}},
		{"another turn", of(oneRequest("a", 0, 0), oneRequest("a", 2, 1000), oneRequest("b", 0, 5000)), [4]int{2, 0, 0, 0}},
		{"another instant", of(oneRequest("a", 0, 0), oneRequest("a", 1, 1100), oneRequest("b", 0, 5000)), [4]int{0, 1, 0, 0}},
	} {
		d := distanceOf(a, c.b, p)
		assert.Equal(t, c.want, [4]int{len(d.alone), len(d.instants), len(d.bodies), d.leftOut}, c.name)
		assert.Equal(t, c.want[0]+c.want[1], d.size(), c.name)
	}
	other := oneRequest("b", 0, 5000)
	other.sent.body = []byte("B")
	d := distanceOf(a, of(a.requests[0], a.requests[1], other), p)
	assert.Len(t, d.bodies, 1)

	d = distanceOf(a, of(a.requests[0], a.requests[1], a.requests[2], oneRequest("c", 0, 19600)), p)
	assert.Equal(t, [2]int{0, 1}, [2]int{d.size(), d.edge})
	d = distanceOf(a, of(a.requests[0], a.requests[1], a.requests[2], oneRequest("c", 0, 19400)), p)
	assert.Equal(t, [2]int{1, 0}, [2]int{d.size(), d.edge})

	cancelled := of(a.requests...)
	cancelled.others = []string{"x"}
	d = distanceOf(a, cancelled, p)
	assert.Equal(t, 1, d.size())

	jumped := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("a::sa:x", 0, 1004), oneRequest("a", 2, 1500), oneRequest("b", 0, 3000))
	once := of(oneRequest("a", 0, 0), oneRequest("a", 1, 1000), oneRequest("a::sa:x", 0, 5840), oneRequest("a", 3, 9000), oneRequest("b", 0, 3000))
	d = distanceOf(jumped, once, p)
	assert.Equal(t, [3]int{0, 4, 2}, [3]int{d.size(), d.leftOut, d.pairs})
}

// Names, their order, kinds and values make two JSON values differ.
func TestHarnessJSON(t *testing.T) {
	theirs := readNode(t, []byte(`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":5}`))
	for text, want := range map[string]int{
		`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:             0,
		`{"a":1.0000000000001,"b":{"c":[1,2],"d":"x"},"t_ns":7}`: 0,
		`{"a":1.001,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:           1,
		`{"a":1,"b":{"c":[1,2],"d":"x"},"t_ns":7}`:               1,
		`{"b":{"c":[1,2],"d":"x"},"a":1.0,"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1,2],"d":"y"},"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1],"d":"x"},"t_ns":7}`:               1,
		`{"a":1.0,"b":{"c":[1,3],"d":"x"},"t_ns":7}`:             1,
		`{"a":1.0,"b":{"c":[1,2]},"t_ns":7}`:                     1,
		`{"a":1.0,"b":{"c":[1,2],"d":"x","e":0},"t_ns":7}`:       1,
		`{"a":1.0,"b":{"c":[1,2],"d":"x"},"t_ns":null}`:          1,
	} {
		d := differing{loose: func(path string) bool { return path == ".t_ns" }, found: map[string]string{}}
		ours := readNode(t, []byte(text))
		d.compare("", &theirs, &ours)
		assert.Len(t, d.found, want, text)
	}
}

// A figure that is off by more than the clock is told, as is one that is missing.
func TestHarnessBlocks(t *testing.T) {
	block := func(kind report.Kind, tag string, avg float64) *report.Block {
		return &report.Block{Tag: tag, Kind: kind, Stats: []report.Stat{{Name: "avg", Value: report.Float(avg)}}}
	}
	for _, c := range []struct {
		theirs, ours *report.Block
		told         bool
	}{
		{block(report.Curve, "effective_concurrency", 1), block(report.Curve, "effective_concurrency", 1.0000009), false},
		{block(report.Curve, "effective_concurrency", 1), block(report.Curve, "effective_concurrency", 1.000002), true},
		{block(report.Curve, "active_decode_throughput", 1000), block(report.Curve, "active_decode_throughput", 1000.5), false},
		{block(report.Curve, "active_decode_throughput", 1000), block(report.Curve, "active_decode_throughput", 1010), true},
		{block(report.Scalar, "request_count", 10), block(report.Scalar, "request_count", 11), true},
		{block(report.Scalar, "request_count", 10), nil, true},
		{block(report.Scalar, "request_count", 10), &report.Block{}, true},
	} {
		_, text := compareBlock(c.theirs, c.ours)
		assert.Equal(t, c.told, text != "", "%s %s", c.theirs.Tag, text)
	}
}

// Lines that one file has alone are told, or else where two files are in another order.
func TestHarnessTexts(t *testing.T) {
	assert.Empty(t, compareTexts([]string{"a", "b"}, []string{"a", "b"}))
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"a", "c"}), 2)
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"b", "a"}), 1)
	assert.Len(t, compareTexts([]string{"a", "b"}, []string{"a", "b", "a"}), 1)
}
