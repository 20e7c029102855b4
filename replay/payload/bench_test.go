package payload

import (
	"testing"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// largest returns the last turn of the cache's only trace.
func largest(b *testing.B, c *mmapcache.Cache, e *Encoder) (*mmapcache.RenderedTrace, int) {
	tree, err := c.Render(0, e.form.endpoint.Encoding())
	if err != nil {
		b.Fatal(err)
	}
	return tree, len(tree.Turns) - 1
}

// endpoints are all endpoints by name.
var endpoints = map[string]Endpoint{"chat": ChatCompletions, "ids": Completions, "anthropic": Messages, "text": TextCompletions}

// encoderOf returns an encoder for the prompts of a cache.
func encoderOf(t testing.TB, c *mmapcache.Cache, endpoint Endpoint, model string, target MarkerTarget) *Encoder {
	t.Helper()
	e, conflicts, err := NewEncoder(c, Options{Endpoint: endpoint, Model: model, Marker: target})
	if err != nil || len(conflicts) > 0 {
		t.Fatal(conflicts, err)
	}
	return e
}

// BenchmarkFill makes a body without writing it.
func BenchmarkFill(b *testing.B) {
	c := cachetest.Large(b)
	for name, endpoint := range endpoints {
		b.Run(name, func(b *testing.B) {
			e := encoderOf(b, c, endpoint, "m", FirstTurnPrefix)
			tree, turn := largest(b, c, e)
			var body Body
			b.ReportAllocs()
			for b.Loop() {
				body.fill(e, tree, turn, someMarker, 100)
			}
		})
	}
}

// copyTo is memory that is written from end to end, again and again. It is larger than the processor's caches.
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

// BenchmarkAssemble writes a body to memory and, in alternate blocks, copies as many bytes from memory that is in no cache.
// copy-ratio is the speed of the body over that of the copy; the goal is at least 0.5.
func BenchmarkAssemble(b *testing.B) {
	c := cachetest.Large(b)
	from, to := make([]byte, beyondCaches), &copyTo{memory: make([]byte, beyondCaches)}
	for k := range from {
		from[k] = byte(k)
	}
	for name, endpoint := range endpoints {
		b.Run(name, func(b *testing.B) {
			e := encoderOf(b, c, endpoint, "m", FirstTurnPrefix)
			tree, turn := largest(b, c, e)
			var body Body
			var ours, theirs float64
			at := 0
			const block = 64
			b.ReportAllocs()
			for n := 0; n < b.N; n += block {
				start := measure.ReadProcessUsage()
				for range block {
					body.fill(e, tree, turn, someMarker, 100)
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
