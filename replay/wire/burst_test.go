package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An answer is one of bursts when more than half of its messages came eight or more within a millisecond.
//
// Covers T-202.
func TestBurst(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		groups []int         // messages that come together, 50 ms apart
		within time.Duration // from the first message of a group to its last
		want   int
	}{
		"none":                       {nil, 0, 0},
		"one by one":                 {[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0},
		"all in one read":            {[]int{100}, 0, 100},
		"4 KiB at a time":            {[]int{23, 23, 23, 23, 8}, 0, 20},
		"eight within a millisecond": {[]int{8, 1}, ms, 8},
		"eight in more than one":     {[]int{8, 1}, ms + 7, 0},
		"seven":                      {[]int{7, 7, 7}, 0, 0},
		"half of them":               {[]int{8, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 0},
		"one more than half":         {[]int{9, 1, 1, 1, 1, 1, 1, 1, 1}, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var b bursts
			for k, n := range c.groups {
				for i := range n {
					at := time.Duration(k+1) * 50 * ms
					if n > 1 {
						at += c.within * time.Duration(i) / time.Duration(n-1)
					}
					b.add(at)
				}
			}
			require.Equal(t, c.want, b.typical())
		})
	}
}

// The burst of a stream is in its result.
//
// Covers T-202.
func TestBurstOfStream(t *testing.T) {
	res, stream := newResult(0), ""
	for range 100 {
		stream += event1("x")
	}
	var d decoder
	d.reset(responseState{res: &res, events: true})
	require.NoError(t, d.feed([]byte(stream+doneEvent), time.Second))
	d.finish()
	require.Equal(t, 100, res.Burst)
}
