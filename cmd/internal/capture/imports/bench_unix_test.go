//go:build unix

package imports

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/internal/tokenizer"
)

// cpuTime returns the CPU time of the process: an import waits for the disk.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkImport compares an import with one tokenizing of its distinct texts. Of 348 MB of real logs of Claude Code it is 3.5 times as long:
// texts are encoded once, reading takes 0.5 times as long as that, digests of blocks 0.4, and journals, traces, their checks and files 0.9.
func BenchmarkImport(b *testing.B) {
	dir, r := b.TempDir(), rand.New(rand.NewSource(39))
	size := 0
	for s := range 10 {
		var log strings.Builder
		said := func(n int) string {
			var t strings.Builder
			for t.Len() < n {
				fmt.Fprintf(&t, "\t%c%d, err := read(\"%x\") // line of it\n", 'a'+r.Intn(26), r.Intn(1e6), r.Uint64())
			}
			return t.String()
		}
		fmt.Fprintf(&log, `{"id":"%d","messages":[{"role":"system","content":%q}`, s, said(20000))
		for range 100 {
			fmt.Fprintf(&log, `,{"role":"user","content":%q},{"role":"assistant","content":%q}`, said(3000), said(300))
		}
		log.WriteString("]}\n")
		size += log.Len()
		require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.jsonl", s)), []byte(log.String()), 0o600))
	}
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(b, err)
	b.SetBytes(int64(size))
	whole, once := time.Duration(1<<62), time.Duration(1<<62)
	for b.Loop() {
		begin := cpuTime(b)
		d, sizes, err := convert.ReadLogs(b.Context(), convert.Options{Inputs: []string{dir}}, tok)
		require.NoError(b, err)
		_, err = Write(b.Context(), d, sizes, Options{Dir: b.TempDir(), Tokenizer: tok, Name: "o200k_base", BlockSize: 64, Random: r})
		require.NoError(b, err)
		whole = min(whole, cpuTime(b)-begin)
		begin = cpuTime(b)
		for t := range d.Store.Count() {
			tok.Encode(d.Store.String(text.Text(t)))
		}
		once = min(once, cpuTime(b)-begin)
		require.NoError(b, d.Store.Close())
	}
	ratio := float64(whole) / float64(once)
	b.ReportMetric(ratio, "x-tokenizing")
	if ratio > 4 {
		b.Errorf("an import takes %.1f times as long as tokenizing its texts once, at most 4 times is wanted", ratio)
	}
}
