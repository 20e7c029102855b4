package replay

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// largeCache holds one trace whose prompts grow to 118,000 tokens: bodies of 400 KB and more as text.
func largeCache(b *testing.B) *mmapcache.Cache {
	var prompts []int
	for k := range 16 {
		prompts = append(prompts, 103_000+1000*k+k)
	}
	return prepare(b, cacheRoot(), traceLine("large", prompts...), "code")
}

// largest returns the last turn of the cache's only trace.
func largest(b *testing.B, c *mmapcache.Cache, form mmapcache.Encoding) (*mmapcache.RenderedTrace, int) {
	tree, err := c.Render(0, form)
	if err != nil {
		b.Fatal(err)
	}
	return tree, len(tree.Turns) - 1
}

var formNames = map[mmapcache.Encoding]string{mmapcache.Text: "chat", mmapcache.IDs: "ids"}

// BenchmarkFill is what it takes to know all about a body before it is written.
func BenchmarkFill(b *testing.B) {
	c := largeCache(b)
	for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
		b.Run(formNames[form], func(b *testing.B) {
			tree, turn := largest(b, c, form)
			var body body
			tail := tailOf(b, form, "m")
			b.ReportAllocs()
			for b.Loop() {
				body.fill(tree, turn, form, "mark,", tail, 100)
			}
		})
	}
}

// copyTo is where bodies and copies go: memory larger than the processor's caches, used round and round.
type copyTo struct {
	memory []byte
	at     int
}

func (c *copyTo) Write(p []byte) (int, error) {
	if c.at+len(p) > len(c.memory) {
		c.at = 0
	}
	c.at += copy(c.memory[c.at:], p)
	return len(p), nil
}

// beyondCaches is larger than the caches of a processor, bytes.
const beyondCaches = 256 << 20

// BenchmarkAssemble writes a body to memory, and a plain copy of as many bytes from memory that is in no cache, in
// alternate blocks of one run. copy-ratio is the speed of the first over that of the second; at least a half is wanted.
func BenchmarkAssemble(b *testing.B) {
	c := largeCache(b)
	from, to := make([]byte, beyondCaches), &copyTo{memory: make([]byte, beyondCaches)}
	for k := range from {
		from[k] = byte(k)
	}
	for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
		b.Run(formNames[form], func(b *testing.B) {
			tree, turn := largest(b, c, form)
			var body body
			tail := tailOf(b, form, "m")
			var ours, theirs float64
			at := 0
			const block = 64
			b.ReportAllocs()
			for n := 0; n < b.N; n += block {
				start := measure.ReadProcessUsage()
				for range block {
					body.fill(tree, turn, form, "mark,", tail, 100)
					if _, err := body.WriteTo(to); err != nil {
						b.Fatal(err)
					}
				}
				middle := measure.ReadProcessUsage()
				size := int(body.Size())
				for range block {
					if at+size > len(from) {
						at = 0
					}
					for left := from[at : at+size]; len(left) > 0; left = left[min(len(left), chunk):] {
						if _, err := to.Write(left[:min(len(left), chunk)]); err != nil {
							b.Fatal(err)
						}
					}
					at += size
				}
				ours += middle.Since(start).CPU.Seconds()
				theirs += measure.ReadProcessUsage().Since(middle).CPU.Seconds()
			}
			requests := float64((b.N + block - 1) / block * block)
			b.ReportMetric(theirs/ours, "copy-ratio")
			b.ReportMetric(requests*float64(body.Size())/ours/1e9, "GB/s")
			b.ReportMetric(float64(body.Size()), "bytes/body")
		})
	}
}

// BenchmarkReplay plays 400 KB bodies on 16 lanes as fast as they go against the mock in this process: the figures are
// those of both. BenchmarkReplay/sink is the same against a handler that reads and answers, no more.
func BenchmarkReplay(b *testing.B) {
	c := largeCache(b)
	const answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	for name, server := range map[string]http.Handler{
		"mock": mock.New(mock.Config{}),
		"sink": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, answer)
			}
		}),
	} {
		b.Run(name, func(b *testing.B) {
			url, _ := serve(b, server)
			o := optionsFor(b, c, url)
			o.Form, o.Concurrency, o.Requests, o.Out = mmapcache.Text, 16, max(b.N, 1), b.TempDir()
			before := measure.ReadProcessUsage()
			s, err := Run(context.Background(), o)
			if err != nil || s.Completed != o.Requests {
				b.Fatal(s, err)
			}
			used := measure.ReadProcessUsage().Since(before)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(used.CPU.Seconds()/float64(b.N)*1e6, "cpu-us/req")
			b.ReportMetric(float64(s.Client.BytesSent)/float64(b.N), "bytes/req")
			b.ReportMetric(float64(s.Lateness.P99)*1e6, "late-p99-us")
		})
	}
}
