//go:build unix

package mmapcache

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkOpenShards measures the time from a path to the first bytes of the first request, by the number of shards of 1,024 traces.
// cpu-ms/op is that of all cores.
func BenchmarkOpenShards(b *testing.B) {
	for _, shards := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			root := b.TempDir()
			key := buildManyShards(b, manyToys(1024), root, shards)
			var p Prompt
			var body []byte
			before := cpuTime(b)
			for b.Loop() {
				c, err := Open(root, key)
				require.NoError(b, err)
				tree, err := c.Render(c.Traces()/2, Text)
				require.NoError(b, err)
				tree.Prompt(0, &p)
				body = p.AppendContent(body[:0], 0)
				require.NoError(b, c.Close())
			}
			b.ReportMetric(1e3*(cpuTime(b)-before).Seconds()/float64(b.N), "cpu-ms/op")
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
