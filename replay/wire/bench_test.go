//go:build unix

package wire

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The benchmarks talk to a server in a process of its own, so that getrusage sees the client alone.

const sinkEnv = "AGENTX_WIRE_SINK"

// events returns a stream like those of servers, with n content messages.
func events(n int) string {
	const chunk = `data: {"id":"chatcmpl-3f2a9c41d7","object":"chat.completion.chunk","created":1754000000,"model":"some/model","choices":[{"index":0,"delta":{"content":" token%d"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, chunk, i)
	}
	return b.String() + finishEvent + usageEvent + doneEvent
}

var sinkAnswers = map[string]string{
	"small":     sized(eventHead, goodStream),
	"sized":     sized(eventHead, events(500)),
	"chunked":   chunked(eventHead, events(500), 1<<14),
	"per-event": chunked(eventHead, events(500), len(events(1))-len(events(0))+1),
}

// runSink is the server: it reads and discards requests and gives the answer that the environment names.
func runSink() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	go func() { // ends with its parent
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for {
		nc, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go serveGood(nc, sinkAnswers[os.Getenv(sinkEnv)])
	}
}

// sink starts a server process and returns its address.
func sink(b *testing.B, answer string) string {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), sinkEnv+"="+answer)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stdin.Close()
		cmd.Wait() //nolint:errcheck // it ends as it ends
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// flat is a body in memory that is written in pieces of 256 KiB.
type flat []byte

func (f flat) Size() int64 { return int64(len(f)) }
func (f flat) WriteTo(w io.Writer) (n int64, err error) {
	for p := []byte(f); len(p) > 0 && err == nil; {
		var k int
		k, err = w.Write(p[:min(len(p), 256<<10)])
		n += int64(k)
		p = p[k:]
	}
	return n, err
}

// bare is the minimum: it writes the same bytes in the same pieces and reads until the answer is complete.
type bare struct {
	nc     net.Conn
	head   []byte
	buf    []byte
	pair   [2][]byte
	queue  net.Buffers
	answer int
}

func (x *bare) send(b flat) error {
	first := min(len(b), 256<<10)
	x.pair = [2][]byte{x.head, b[:first]}
	x.queue = x.pair[:]
	if _, err := x.queue.WriteTo(x.nc); err != nil {
		return err
	}
	if _, err := b[first:].WriteTo(x.nc); err != nil {
		return err
	}
	for n := 0; n < x.answer; {
		k, err := x.nc.Read(x.buf)
		if err != nil {
			return err
		}
		n += k
	}
	return nil
}

// BenchmarkSend reports the CPU time of the client per request and its ratio to that of the bare loop, measured in alternate
// blocks of one run. The target is a ratio of at most 1.25.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{40 << 10, 400 << 10, 2800 << 10} {
		b.Run(fmt.Sprintf("%dKB", size>>10), func(b *testing.B) {
			addr := sink(b, "small")
			c, err := New("http://"+addr, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			body := flat(make([]byte, size))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			r := &Request{
				Path: "/v1/chat/completions", Stream: true, Body: body,
				Header: []HeaderField{{"X-Request-ID", "0190a6f2-7b1c-4d8e-9f00-000000000000"}, {"X-Correlation-ID", "0190a6f2-7b1c-4d8e-9f00-000000000001"}},
			}
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			x := bare{nc: nc, head: (&call{Client: c, request: r}).appendHead(nil), buf: make([]byte, 4<<10), answer: len(sinkAnswers["small"])}
			var ours, theirs time.Duration
			const block = 16
			b.SetBytes(int64(size))
			for n := 0; n < b.N; n += block {
				start := cpu()
				for range block {
					if err := x.send(body); err != nil {
						b.Fatal(err)
					}
				}
				middle := cpu()
				for range block {
					if res := c.Do(ctx, r); res.Err != nil {
						b.Fatal(res.Err)
					}
				}
				theirs += middle - start
				ours += cpu() - middle
			}
			requests := float64((b.N + block - 1) / block * block)
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "cpu-ratio")
			b.ReportMetric(ours.Seconds()/requests/float64(size)*1e9, "cpu-s/GB")
			b.ReportMetric(ours.Seconds()/requests*1e6, "cpu-us/req")
			b.ReportMetric(theirs.Seconds()/requests*1e6, "bare-us/req")
		})
	}
}

// BenchmarkReceive reads answers of 500 content events, and reports the ratio of its CPU time to that of the bare loop, which reads
// the same bytes and looks at none. The target is five million events per second of CPU time when they arrive coalesced.
func BenchmarkReceive(b *testing.B) {
	for _, answer := range []string{"sized", "chunked", "per-event"} {
		b.Run(answer, func(b *testing.B) {
			addr := sink(b, answer)
			c, err := New("http://"+addr, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			r := &Request{Path: "/v1/chat/completions", Stream: true, Body: flat("{}")}
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				b.Fatal(err)
			}
			defer nc.Close()
			x := bare{nc: nc, head: (&call{Client: c, request: r}).appendHead(nil), buf: make([]byte, maxBuffer), answer: len(sinkAnswers[answer])}
			var ours, theirs time.Duration
			const block = 16
			b.ReportAllocs()
			for n := 0; n < b.N; n += block {
				start := cpu()
				for range block {
					if err := x.send(flat("{}")); err != nil {
						b.Fatal(err)
					}
				}
				middle := cpu()
				for range block {
					if res := c.Do(context.Background(), r); res.Err != nil || res.Chunks != 500 {
						b.Fatal(res.Err)
					}
				}
				theirs += middle - start
				ours += cpu() - middle
			}
			answers := float64((b.N + block - 1) / block * block)
			b.ReportMetric(500*answers/ours.Seconds(), "events/cpu-s")
			b.ReportMetric(ours.Seconds()/theirs.Seconds(), "cpu-ratio")
		})
	}
}

// BenchmarkDecode measures the part of receiving that is not in the kernel: splitting and skimming in memory.
func BenchmarkDecode(b *testing.B) {
	for name, stream := range map[string]string{
		"content": events(500),
		"usage in every chunk": strings.ReplaceAll(events(500), `"finish_reason":null}]`,
			`"finish_reason":null}],"usage":{"prompt_tokens":1000,"completion_tokens":4,"total_tokens":1004}`),
	} {
		b.Run(name, func(b *testing.B) {
			data := []byte(stream)
			var d decoder
			var res Result
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				res = newResult(0)
				d.reset(responseState{res: &res, events: true})
				for p := data; len(p) > 0; p = p[min(len(p), maxBuffer):] {
					if err := d.feed(p[:min(len(p), maxBuffer)], 1); err != nil {
						b.Fatal(err)
					}
				}
				if category, _ := d.finish(); category != "" || res.Chunks != 500 {
					b.Fatal(category, res.Chunks)
				}
			}
			b.ReportMetric(500*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
