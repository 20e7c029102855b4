//go:build unix

package capture

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of BenchmarkSessions.
const (
	benchTurns = 50
	benchTurn  = 9300 // bytes, of code
)

// benchTurnsOf returns the bodies of a session of Anthropic's Messages, and what is new in all of them.
func benchTurnsOf(b *testing.B, code string, session int) (bodies [][]byte, text []string) {
	random := rand.New(rand.NewPCG(uint64(session), 1))
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	for range benchTurns {
		from := random.IntN(len(code) - benchTurn)
		said := fmt.Sprint(random.Uint64(), code[from:from+benchTurn])
		text = append(text, said)
		messages = append(messages, message{"user", said})
		body, err := json.Marshal(map[string]any{"model": "m", "max_tokens": 5, "messages": messages})
		require.NoError(b, err)
		bodies = append(bodies, body)
		messages = append(messages, message{"assistant", "Done."})
		text = append(text, "Done.")
	}
	return bodies, text
}

// BenchmarkSessions records sessions of 150,000 tokens in 50 turns, of which each has all turns before. Metrics: what observing takes
// of CPU time over tokenizing alone what is new (the same traffic without recording is taken off), and megabytes of live memory
// for 1,000 sessions that are open.
//
// Covers C-43.
func BenchmarkSessions(b *testing.B) {
	const sessions = 8
	reply := []byte(`{"type":"message","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}`)
	upstream := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	})
	r := start(b, upstream, func(o *Options) { o.BlockSize = 64 })
	tok, err := tokens()
	require.NoError(b, err)
	files, err := filepath.Glob("*/*.go")
	require.NoError(b, err)
	code := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(b, err)
		code += string(text)
	}
	var bodies [sessions][][]byte
	var texts [sessions][]string
	for k := range sessions {
		bodies[k], texts[k] = benchTurnsOf(b, code, k)
	}
	var used [3]time.Duration // without recording, with it, tokenizing
	counted, played := 0, 0
	play := func(header string) {
		var group sync.WaitGroup
		for k := range sessions {
			group.Go(func() {
				for _, body := range bodies[k] {
					r.post(fmt.Sprintf("/s/b%d-%d/v1/messages", played, k), string(body), "X-Agentx-Capture", header)
				}
			})
		}
		group.Wait()
		for r.pool.used() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	play("on") // opens connections, fills pools
	before := liveBytes()
	for b.Loop() {
		played++
		for way, run := range []func(){func() { play("off") }, func() { play("on") }, func() {
			var ids []uint32
			for _, list := range texts {
				for _, text := range list {
					ids = tok.AppendIDs(ids[:0], text)
					counted += len(ids)
				}
			}
		}} {
			begin := cpuTime()
			run()
			used[way] += cpuTime() - begin
		}
	}
	http.DefaultClient.CloseIdleConnections()
	b.ReportMetric(float64(liveBytes()-before)/float64(played*sessions)*1000/1e6, "MB/1000-sessions")
	runtime.KeepAlive([]any{bodies, texts})
	b.ReportMetric(float64(counted)/float64(played*sessions), "tokens/session")
	b.ReportMetric(float64(used[1]-used[0])/float64(used[2]), "cpu-observing/tokenizing")
	b.ReportMetric(0, "ns/op")
	summary, _ := r.end()
	require.Equal(b, sessions*benchTurns*(played+1), summary.Recorded)
}

func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // frees what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
