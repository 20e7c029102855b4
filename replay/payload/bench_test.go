package payload

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
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

// BenchmarkWays sends the bodies of 64 sessions over loopback in three ways, in turn: assembled from the mapped windows, as Body does;
// kept, each in a buffer of its own, as a cache of assembled prompts would have it; and as a list of windows, which writev gathers.
// Metrics: the CPU time of a request assembled, and that of the other two over it; the sink is in this process and reads as much in
// each way. They say what keeping or gathering would bring: keeping takes a megabyte of memory for two sessions.
func BenchmarkWays(b *testing.B) {
	const sessions, window, arena = 64, 256, 12 // a prompt corpus is about 5 MB
	c := cachetest.Large(b)
	e := encoderOf(b, c, ChatCompletions, "m", NoMarker)
	tree, turn := largest(b, c, e)
	var body Body
	body.fill(e, tree, turn, "", 100)
	kept := make([][]byte, sessions)
	for k := range kept {
		var w bytes.Buffer
		if _, err := body.WriteTo(&w); err != nil {
			b.Fatal(err)
		}
		kept[k] = w.Bytes()
	}
	nc := discarding(b)
	random := rand.New(rand.NewPCG(1, 1))
	var list net.Buffers
	ways := []func(k int) error{
		func(int) error { _, err := body.WriteTo(nc); return err },
		func(k int) error { _, err := nc.Write(kept[k]); return err },
		func(int) error {
			list = list[:0]
			for left := len(kept[0]); left > 0; left -= window { // a block of 64 tokens is about 256 bytes, anywhere in the corpus
				from, at := kept[random.IntN(arena)], random.IntN(len(kept[0])-window)
				list = append(list, from[at:at+min(window, left)])
			}
			queue := list
			_, err := queue.WriteTo(nc)
			return err
		},
	}
	var used [3]float64
	for n := 0; n < b.N; n += sessions {
		for way, send := range ways {
			start := measure.ReadProcessUsage()
			for k := range sessions {
				if err := send(k); err != nil {
					b.Fatal(err)
				}
			}
			used[way] += measure.ReadProcessUsage().Since(start).CPU.Seconds()
		}
	}
	requests := float64((b.N + sessions - 1) / sessions * sessions)
	b.ReportMetric(float64(body.Size()), "bytes/body")
	b.ReportMetric(used[0]/requests*1e6, "cpu-us/req")
	b.ReportMetric(used[1]/used[0], "kept-ratio")
	b.ReportMetric(used[2]/used[0], "writev-ratio")
}

// discarding returns a connection whose other side reads and discards.
func discarding(b *testing.B) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, err := l.Accept()
		l.Close()
		if err == nil {
			_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
			c.Close()
		}
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		nc.Close()
		<-ended
	})
	return nc
}
