package synth

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

func distribution(t *testing.T, text, column string) Distribution {
	d, err := ParseDistribution(text, column)
	require.NoError(t, err)
	return d
}

// loadOf returns the traces of a load, as a reader of Weka's format reads them.
func loadOf(t *testing.T, o Options) (list []*trace.Trace) {
	var out bytes.Buffer
	_, err := Write(t.Context(), &out, o)
	require.NoError(t, err)
	for line := range bytes.Lines(out.Bytes()) {
		tr, err := weka.Scan(line, rules.Default())
		require.NoError(t, err)
		require.NoError(t, tr.Check())
		list = append(list, tr)
	}
	return list
}

// Each prompt is the one before, its answer and a share of the first; traces of one group share its prefix, and no others do.
func TestLengths(t *testing.T) {
	o := Options{Seed: 1, Lengths: Lengths{ISL: distribution(t, "1000", ""), OSL: distribution(t, "30", ""), Requests: 14, SharedPrefix: 300, Groups: 2, Turns: 4, Gap: 1500 * time.Millisecond}}
	list := loadOf(t, o)
	require.Len(t, list, 4)
	requests := 0
	for n, tr := range list {
		assert.Equal(t, fmt.Sprintf("row-%06d", n+1), tr.ID)
		assert.Equal(t, trace.ScopeGlobal, tr.Scope)
		for k, e := range tr.Entries {
			requests++
			assert.EqualValues(t, 1000+k*(30+250), e.In)
			assert.EqualValues(t, 30, e.Out)
			assert.Equal(t, int(e.In)/64, e.IDs.Len)
			assert.InDelta(t, 1.5*float64(k), e.T, 1e-9)
			if k > 0 {
				assert.Equal(t, tr.Entries[k-1].IDs.Len, trace.CommonPrefix(tr.Entries[k-1].IDs, e.IDs))
			}
		}
		for m := range n {
			want := 0
			if m%2 == n%2 {
				want = 300 / 64
			}
			assert.Equal(t, want, trace.CommonPrefix(list[m].Entries[0].IDs, tr.Entries[0].IDs), "traces %d and %d", m, n)
		}
	}
	assert.Equal(t, 14, requests)
	assert.Len(t, list[3].Entries, 2)

	o.Lengths.Requests, o.Traces, o.First, o.Workers = 0, 2, 2, 3
	assert.Equal(t, list[2], loadOf(t, o)[0], "a part made apart")
}

// Means and deviations are those asked for; two columns of one file stay together.
func TestDistributions(t *testing.T) {
	for text, want := range map[string][2]float64{"normal:4000,500": {4000, 500}, "lognormal:4000,2000": {4000, 2000}, "uniform:100-299": {199.5, 57.73}, "7": {7, 0}} {
		d := distribution(t, text, "")
		sum, squares, n := 0.0, 0.0, 20000.0
		for k := range int(n) {
			v := float64(d.draw(newDraws(1, uint64(k)), nil))
			sum, squares = sum+v, squares+v*v
		}
		mean := sum / n
		assert.InDelta(t, want[0], mean, 4*want[1]/math.Sqrt(n)+1e-9, text)
		assert.InDelta(t, want[1], math.Sqrt(squares/n-mean*mean), want[1]/20+1e-3, text)
	}
	path := filepath.Join(t.TempDir(), "lengths.csv")
	require.NoError(t, os.WriteFile(path, []byte("\ufeffosl,isl\n1,100\n2,200\n3,300\n"), 0o600))
	seen := map[int64]bool{}
	for _, tr := range loadOf(t, Options{Traces: 40, Lengths: Lengths{ISL: distribution(t, path, "isl"), OSL: distribution(t, path, "osl")}}) {
		q := tr.Entries[0].Request
		assert.Equal(t, 100*q.Out, q.In)
		seen[q.Out] = true
		assert.Equal(t, trace.ScopeLocal, tr.Scope, "nothing is shared")
	}
	assert.Len(t, seen, 3)
	_, err := ParseDistribution(path, "tokens")
	assert.EqualError(t, err, path+": its header has no column tokens: 2 others")
	for _, wrong := range []string{"", "0", "-1", "1.5", "normal:1", "normal:a,b", "uniform:5-1", "uniform:5", "gamma:1,2", "99999999999", "normal:NaN,1", "no-such.csv"} {
		_, err := ParseDistribution(wrong, "isl")
		assert.Error(t, err, wrong)
	}
}

// A description makes what the flags make.
func TestDescribed(t *testing.T) {
	var want bytes.Buffer
	_, err := Write(t.Context(), &want, Options{Seed: 7, Lengths: Lengths{ISL: distribution(t, "normal:1000,50", ""), OSL: distribution(t, "uniform:5-9", ""), Requests: 9, SharedPrefix: 128, Groups: 2, Turns: 3, Gap: 1500 * time.Millisecond}})
	require.NoError(t, err)
	got, err := Described("synth:isl=normal:1000,50,osl=uniform:5-9,requests=9,shared-prefix=128,groups=2,turns=3,gap=1.5,seed=7")
	require.NoError(t, err)
	assert.Equal(t, want.String(), string(got))
	none, err := Described("demo")
	assert.Empty(t, none)
	assert.NoError(t, err)
	for text, want := range map[string]string{
		"synth:":                             `"": want key=value`,
		"synth:osl=5":                        "isl is missing: want synth:isl=N,osl=N,requests=N",
		"synth:isl=5,osl=5,requests=300000":  "300000 requests: want at most 200000: agentx synth --output FILE makes more",
		"synth:isl=5,osl=5,request=3":        `"request": want isl, osl, requests or traces, shared-prefix, groups, turns, gap, seed`,
		"synth:isl=5,osl=5,requests=a":       "requests=a: want a whole number",
		"synth:isl=0,osl=5,requests=1":       "isl=0: 0: want N, normal:MEAN,SD, lognormal:MEAN,SD, uniform:A-B or a FILE.csv, of 1 to 16777216 tokens",
		"synth:isl=5,osl=5,requests=1,isl=6": "isl stands twice: leave one out",
	} {
		_, err := Described(text)
		assert.EqualError(t, err, want, text)
	}
	_, err = described("synth:isl=5000,osl=5,requests=9", 1000)
	assert.EqualError(t, err, "more than 1000 bytes of traces: want fewer or shorter requests: agentx synth --output FILE makes more")
}

func TestLengthsRefuse(t *testing.T) {
	isl, osl := distribution(t, "100", ""), distribution(t, "10", "")
	for want, o := range map[string]Options{
		"isl and osl belong together: want both":                                                                          {Traces: 1, Lengths: Lengths{ISL: isl}},
		"isl is missing: requests, shared-prefix, groups, turns and gap are of loads that have it":                        {Traces: 1, Lengths: Lengths{Turns: 2}},
		"traces and requests: each says how many there are: leave one out":                                                {Traces: 1, Lengths: Lengths{ISL: isl, OSL: osl, Requests: 1}},
		"shared-prefix 100: want less than isl, 100, of which it is a part":                                               {Traces: 1, Lengths: Lengths{ISL: isl, OSL: osl, SharedPrefix: 100}},
		"turns -1: want 0 to 10000":                                                                                       {Traces: 1, Lengths: Lengths{ISL: isl, OSL: osl, Turns: -1}},
		"gap -1s: want 0s to 1000h":                                                                                       {Traces: 1, Lengths: Lengths{ISL: isl, OSL: osl, Gap: -time.Second}},
		"trace row-000001: the prompt of turn 1679 has 16777932 tokens: more than 16777216: fewer turns, or shorter ones": {Traces: 1, Lengths: Lengths{ISL: distribution(t, "8000", ""), OSL: distribution(t, "9990", ""), Turns: 2000}},
	} {
		_, err := Write(t.Context(), &bytes.Buffer{}, o)
		assert.EqualError(t, err, want)
	}
}
