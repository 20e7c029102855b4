package synth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// text returns what Write writes.
func text(t *testing.T, o Options) string {
	t.Helper()
	var b bytes.Buffer
	total, err := Write(context.Background(), &b, o)
	require.NoError(t, err)
	require.Equal(t, int64(b.Len()), total.Bytes)
	require.Equal(t, o.Traces, total.Traces)
	require.Equal(t, o.Traces, bytes.Count(b.Bytes(), []byte("\n")))
	return b.String()
}

// cacheOf converts lines of traces as far as tables.
func cacheOf(t *testing.T, lines string, rules rules.Rules) *mmapcache.Cache {
	t.Helper()
	s := mmapcache.NewStructure()
	for line := range strings.Lines(lines) {
		trace, err := weka.Scan([]byte(line), rules)
		require.NoError(t, err)
		plan, notes, err := reconstruct.MakePlan(trace, rules)
		require.NoError(t, err)
		require.Empty(t, notes.Unknown)
		require.Empty(t, notes.Oddities)
		require.Zero(t, notes.Dropped)
		require.Zero(t, notes.Ambiguous)
		require.Zero(t, notes.ChainBreaks)
		require.NoError(t, s.Append(plan))
	}
	return mmapcache.CacheOf(s, mmapcache.StructureFacts{})
}

// recordingOf makes a trace of what can be read.
func recordingOf(o *Options, number int) *weka.Recording {
	r, err := o.make(number)
	if err != nil {
		panic(err)
	}
	return r
}

// requireGood checks every line as captures are checked, and converts it in both profiles.
func requireGood(t *testing.T, lines string) *mmapcache.Cache {
	t.Helper()
	for line := range strings.Lines(lines) {
		c := weka.Check([]byte(line))
		require.Empty(t, c.Problems)
		require.Positive(t, c.Requests)
	}
	cacheOf(t, lines, rules.AIPerf())
	return cacheOf(t, lines, rules.Default())
}

// familiesOf lists numbers of traces with subagents.
func familiesOf(o Options, n int) (list []int) {
	for k := 0; len(list) < n; k++ {
		if recordingOf(&o, k).Totals().Count > 0 {
			list = append(list, k)
		}
	}
	return list
}

// firstInBackground returns the number of a trace with a subagent that outlives the beginning of the next request.
func firstInBackground(o Options) int {
	for k := 0; ; k++ {
		list := recordingOf(&o, k).Entries
		for i, e := range list[:len(list)-1] {
			if next := list[i+1]; e.Subagent != nil && next.Subagent == nil {
				last := e.Subagent.Requests[len(e.Subagent.Requests)-1]
				if next.T < last.T+last.APITime {
					return k
				}
			}
		}
	}
}

// Every trace is good, and conversion finds nothing odd about it in either profile. So is every trace that is drawn from the
// tables of those, and of those in turn.
func TestEveryTraceIsGood(t *testing.T) {
	o := Options{Traces: 25, Seed: 3}
	lines := text(t, o)
	inBackground := firstInBackground(o)
	for _, k := range append(familiesOf(o, 4), inBackground) {
		lines += text(t, Options{Traces: 1, First: k, Seed: o.Seed})
	}
	made := requireGood(t, lines)
	again := text(t, Options{Traces: 50, Seed: 4, From: made})
	require.True(t, strings.Contains(again, `"agent_id":"agent_002"`))
	requireGood(t, text(t, Options{Traces: 15, Seed: 5, From: requireGood(t, again)}))
	one := requireGood(t, text(t, Options{Traces: 1, First: inBackground, Seed: o.Seed}))
	again = text(t, Options{Traces: 3, Seed: 6, From: one})
	require.True(t, strings.Contains(again, `"status":"async_launched"`))
	requireGood(t, again)
}

// The shared single traces, too, become good traces.
func TestRealTracesBecomeGoodOnes(t *testing.T) {
	const folder = "../../../../shared/corpus/traces"
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Skipf("no shared traces: %v", err)
	}
	var lines strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(folder + "/" + f.Name())
		require.NoError(t, err)
		lines.Write(append(bytes.ReplaceAll(data, []byte("\n"), nil), '\n'))
	}
	s := mmapcache.NewStructure()
	for line := range strings.Lines(lines.String()) {
		trace, err := weka.Scan([]byte(line), rules.Default())
		require.NoError(t, err)
		plan, _, err := reconstruct.MakePlan(trace, rules.Default())
		require.NoError(t, err)
		require.NoError(t, s.Append(plan))
	}
	requireGood(t, text(t, Options{Traces: 100, Seed: 1, From: mmapcache.CacheOf(s, mmapcache.StructureFacts{})}))
}

// The bytes depend on the seed and on the numbers of traces: not on workers, and not on which parts are made together. They are
// pinned, so a change of them is seen.
func TestBytesDependOnSeedAndNumberAlone(t *testing.T) {
	o := Options{Traces: 21, Seed: 42, Workers: 1}
	all := text(t, o)
	o.Workers = 4
	require.True(t, all == text(t, o), "workers change bytes")
	parts := ""
	for first := 0; first < 21; first += 7 {
		parts += text(t, Options{Traces: 7, First: first, Seed: 42})
	}
	require.True(t, all == parts, "parts differ from the whole")
	require.False(t, all == text(t, Options{Traces: 21, Seed: 43}), "another seed gives the same")
	from := cacheOf(t, all, rules.Default())
	drawn := text(t, Options{Traces: 10, Seed: 42, From: from, Workers: 1})
	require.True(t, drawn == text(t, Options{Traces: 10, Seed: 42, From: from, Workers: 3}))
	for k, want := range []struct{ text, digest string }{{all, "46b3e19d85be15c7"}, {drawn, "180a1e1c6b1cffcb"}} {
		digest := sha256.Sum256([]byte(want.text))
		assert.Equal(t, want.digest, hex.EncodeToString(digest[:8]), k)
	}
}

// What is wrong with options is told at once, and nothing is written.
func TestOptionsAreChecked(t *testing.T) {
	var b bytes.Buffer
	_, err := Write(context.Background(), &b, Options{Traces: 0, First: -1, Workers: -1, From: mmapcache.CacheOf(mmapcache.NewStructure(), mmapcache.StructureFacts{})})
	for _, want := range []string{"traces 0: want 1 to", "first -1: want 0 to", "workers -1: want 0 to 1024", "the cache that traces are drawn from has no trace"} {
		assert.ErrorContains(t, err, want)
	}
	assert.Empty(t, b.String())
}

// brokenPipe takes some writes and then fails.
type brokenPipe int

var errBroken = errors.New("broken")

func (b *brokenPipe) Write(p []byte) (int, error) {
	if *b--; *b < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

// A writer that fails, and a context that ends, end everything: no goroutine stays.
func TestWriteEndsEarly(t *testing.T) {
	pipe := brokenPipe(3)
	total, err := Write(context.Background(), &pipe, Options{Traces: maxTraces, Workers: 3})
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 3, total.Traces)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_, err = Write(ctx, io.Discard, Options{Traces: maxTraces, Workers: 3})
	require.ErrorIs(t, err, context.Canceled)
}

// BenchmarkWrite measures traces per second and bytes per trace.
func BenchmarkWrite(b *testing.B) {
	total, err := Write(context.Background(), io.Discard, Options{Traces: max(b.N, 1), Workers: 1})
	require.NoError(b, err)
	b.SetBytes(total.Bytes / int64(b.N))
	b.ReportMetric(float64(total.Requests)/float64(b.N), "requests/op")
}
