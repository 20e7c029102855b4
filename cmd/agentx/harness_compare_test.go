package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// distance says how far two runs of a pair are apart: requests that one of them has alone, and instants that differ.
type distance struct {
	alone    []string
	instants []string
	bodies   []string // that differ, of requests that both have: there must be none
	pairs    int      // requests that both have
	planned  int      // of these, those whose instants are compared
	leftOut  int      // requests of trees after a double jump
	edge     int      // requests that one has alone because its last ones were later, or earlier, than the end of the sending
	farthest time.Duration
	allowed  time.Duration
}

func (d *distance) size() int { return len(d.alone) + len(d.instants) }

func (d *distance) String() string {
	return fmt.Sprintf("distance %d: %d requests of one alone, %d of %d instants more than %v apart (farthest %v); %d pairs, %d bodies differ, %d left out, %d at the edge",
		d.size(), len(d.alone), len(d.instants), d.planned, d.allowed.Round(time.Millisecond), d.farthest.Round(time.Millisecond), d.pairs, len(d.bodies), d.leftOut, d.edge)
}

// tell reports the bodies that differ, and with same all other differences.
func (d *distance) tell(t *testing.T, same bool) {
	assert.Empty(t, d.bodies[:min(len(d.bodies), 3)], "%d of %d bodies", len(d.bodies), d.pairs)
	assert.Greater(t, d.pairs, 8, "too few to say anything")
	if same {
		assert.Empty(t, d.alone)
		assert.Empty(t, d.instants)
	}
	for _, text := range slices.Concat(d.alone, d.instants) {
		t.Log(text)
	}
}

// latenessBeyond is added to what the requests of the harness itself were late by.
const latenessBeyond = 50 * time.Millisecond

// edgeOfSending is how long before the end of the sending a request of one run may have no equal in another.
const edgeOfSending = 500 * time.Millisecond

// distanceOf compares the requests of two runs, the first of which is one of the harness. What a tree sends after a double jump of one
// of them is left out.
func distanceOf(theirs, other *harnessRun, p *harnessPair) (d distance) {
	left := doubleJumps(theirs, other)
	edge := p.duration() - edgeOfSending
	alone := func(which string, q *playedRequest) {
		if q.key.phase == "profiling" && q.at > edge {
			d.edge++
		} else {
			d.alone = append(d.alone, which+" alone: "+q.String())
		}
	}
	for _, r := range theirs.requests {
		d.allowed = max(d.allowed, r.late+latenessBeyond)
	}
	of := other.index()
	for k := range theirs.requests {
		x := &theirs.requests[k]
		y := of[x.key]
		delete(of, x.key)
		switch {
		case left.has(x) || y != nil && left.has(y):
			d.leftOut++
		case y == nil:
			alone("first", x)
		default:
			d.add(x, y, theirs, other, p.primers)
		}
	}
	for _, y := range of {
		if left.has(y) {
			d.leftOut++
		} else {
			alone("second", y)
		}
	}
	for _, pair := range [][2]*harnessRun{{theirs, other}, {other, theirs}} {
		rest := slices.Clone(pair[1].others)
		for _, body := range pair[0].others {
			if k := slices.Index(rest, body); k >= 0 {
				rest = slices.Delete(rest, k, k+1)
			} else {
				d.alone = append(d.alone, fmt.Sprintf("one alone, without a row: %.200s", body))
			}
		}
	}
	slices.Sort(d.alone)
	return d
}

func (q *playedRequest) String() string {
	return fmt.Sprintf("%s at %.3f s", q.key, q.at.Seconds())
}

// add compares a request of both. Its instant is that from the start of the phase, or from the end of a request of its tree, whichever
// agrees best: an answer that comes later delays all that follow it, and is told once.
func (d *distance) add(x, y *playedRequest, theirs, other *harnessRun, primers bool) {
	d.pairs++
	if !bytes.Equal(x.sent.body, y.sent.body) {
		d.bodies = append(d.bodies, x.key.String()+": "+difference(string(x.sent.body), string(y.sent.body)))
	}
	if x.key.phase == "warmup" && !primers {
		return // the pressure stage sends at the pace of answers
	}
	d.planned++
	apart := (x.at - y.at).Abs()
	of := theirs.index()
	for k := range other.requests {
		before := &other.requests[k]
		if b := of[before.key]; b != nil && before.key.phase == y.key.phase && before.end <= y.at && (before.tree == y.tree || y.key.turn == 0) {
			apart = min(apart, ((x.at - b.end) - (y.at - before.end)).Abs())
		}
	}
	d.farthest = max(d.farthest, apart)
	if apart > d.allowed {
		d.instants = append(d.instants, fmt.Sprintf("%s and %.3f s", x, y.at.Seconds()))
	}
}

// traceOf returns the trace of a session.
func traceOf(session string) string {
	trace, _, _ := strings.Cut(session, "::")
	return trace
}

// leftTrees says from when on the requests of a trace are not compared.
type leftTrees map[string]time.Duration

func (l leftTrees) has(q *playedRequest) bool {
	from, ok := l[traceOf(q.key.session)]
	return ok && q.key.phase == "profiling" && q.at >= from
}

// Turns of one tree that one run sends within jumpWithin, and the other jumpApart from each other, are a double jump.
const (
	jumpWithin = 20 * time.Millisecond
	jumpApart  = time.Second
)

// doubleJumps finds idle intervals in which one of two runs, a harness, advanced a second timer before the turn that the first had
// released was on the wire.
func doubleJumps(a, b *harnessRun) leftTrees {
	left := leftTrees{}
	for _, pair := range [][2]*harnessRun{{a, b}, {b, a}} {
		of := pair[1].index()
		list := pair[0].requests
		for k := range list {
			for j := k + 1; j < len(list); j++ {
				x, y := &list[k], &list[j]
				if x.key.phase != "profiling" || y.key.phase != "profiling" || x.key.session == y.key.session || y.at-x.at > jumpWithin {
					continue
				}
				ox, oy := of[x.key], of[y.key]
				if ox == nil || oy == nil || (oy.at-ox.at).Abs() < jumpApart {
					continue
				}
				for _, q := range []*playedRequest{x, y} {
					from, ok := left[traceOf(q.key.session)]
					if !ok || x.at < from {
						left[traceOf(q.key.session)] = x.at
					}
				}
			}
		}
	}
	return left
}

// toldAtMost bounds what is said of one file.
const toldAtMost = 20

// tell reports differences, in order. All of them stand below HARNESS_KEEP.
func tell(t *testing.T, what string, found map[string]string) {
	list := []string{}
	for _, text := range found {
		list = append(list, text)
	}
	slices.Sort(list)
	if dir := os.Getenv("HARNESS_KEEP"); dir != "" {
		dir = filepath.Join(dir, t.Name())
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, what+".differences"), []byte(strings.Join(list, "\n")), 0o600))
	}
	if len(list) > 0 {
		t.Errorf("%s: %d differences:\n\t%s", what, len(list), strings.Join(list[:min(len(list), toldAtMost)], "\n\t"))
	}
}
