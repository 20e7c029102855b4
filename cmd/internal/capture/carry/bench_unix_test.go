//go:build unix

package carry

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ways are what a client may speak to: the upstream itself, a bare proxy of the standard library before it, ours.
var ways = []string{"direct", "bare", "ours"}

// course of a benchmark: three addresses, one process.
type benchmark struct {
	url   map[string]string
	epoch time.Time
	mu    sync.Mutex
	late  map[string][]time.Duration // from the client's send to the head at the upstream, by way
}

// sink takes every copy and releases it, as an observer with idle workers does.
type sink struct{ noted }

type noted struct{}

func (noted) RequestChunk(c *Chunk) bool   { c.Release(); return true }
func (noted) RequestEnd(error)             {}
func (noted) Dispatch(int64) *Refusal      { return nil }
func (noted) Head(int64, int, http.Header) {}
func (noted) ReplyChunk(c *Chunk) bool     { c.Release(); return true }
func (noted) End(End)                      {}
func (sink) Arrive(*Arrival) Course        { return Course{Exchange: noted{}, Copy: true} }
func (m *benchmark) now() time.Duration    { return time.Since(m.epoch) }
func (m *benchmark) stamp(p []byte) []byte { return strconv.AppendInt(p, int64(m.now()), 10) }
func (m *benchmark) since(at string) time.Duration {
	n, _ := strconv.ParseInt(at, 10, 64)
	return m.now() - time.Duration(n)
}

// event is the rest of an event beside its time stamp.
const event = " " + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}` + "\n\n"

// ServeHTTP is the upstream: it notes when the head of a request came, and sends events with the time of their sending.
func (m *benchmark) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := m.since(r.Header.Get("X-Sent"))
	m.mu.Lock()
	m.late[r.Header.Get("X-Way")] = append(m.late[r.Header.Get("X-Way")], d)
	m.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	n, _ := strconv.Atoi(r.Header.Get("X-Events"))
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	buffer := make([]byte, 0, 200)
	for range n {
		time.Sleep(5 * time.Millisecond)
		buffer = m.stamp(append(buffer[:0], "data: "...))
		_, _ = w.Write(append(buffer, event...))
		_ = flusher.Flush()
	}
}

func newBenchmark(b *testing.B) *benchmark {
	m := &benchmark{url: map[string]string{}, epoch: time.Now(), late: map[string][]time.Duration{}}
	upstream := httptest.NewServer(m)
	b.Cleanup(upstream.Close)
	m.url["direct"] = upstream.URL
	target, _ := url.Parse(upstream.URL)
	transport := &http.Transport{MaxIdleConnsPerHost: 1 << 16, DisableCompression: true}
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	})
	b.Cleanup(func() { bare.Close(); transport.CloseIdleConnections() })
	m.url["bare"] = bare.URL
	up, err := ParseUpstream(upstream.URL)
	if err != nil {
		b.Fatal(err)
	}
	p, err := New(Options{Upstreams: []Upstream{up}, Observer: sink{}})
	if err != nil {
		b.Fatal(err)
	}
	ours := httptest.NewUnstartedServer(nil)
	ours.Config = p.Server()
	ours.Start()
	b.Cleanup(func() { ours.Close(); p.Abort() })
	m.url["ours"] = ours.URL
	return m
}

// ask sends one request and returns how late each event came.
func (m *benchmark) ask(client *http.Client, way string, body []byte, n int) (late []time.Duration, err error) {
	r, err := http.NewRequest("POST", m.url[way]+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Way", way)
	r.Header.Set("X-Events", strconv.Itoa(n))
	r.Header.Set("X-Sent", string(m.stamp(nil)))
	reply, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	lines := bufio.NewReader(reply.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			at, _, _ := strings.Cut(text, " ")
			late = append(late, m.since(at))
		}
	}
	if len(late) != n {
		return nil, fmt.Errorf("%d events of %d", len(late), n)
	}
	return late, nil
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func quantile(list []time.Duration, q float64) time.Duration {
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// seen is what clients saw by one way.
type seen struct {
	chunks, dispatch []time.Duration
	broken           int // replies
	cpu              time.Duration
}

// round asks by one way, with so many clients at once.
func (m *benchmark) round(client *http.Client, way string, streams int) (s seen) {
	body := bytes.Repeat([]byte("x"), 100<<10)
	begin := cpu()
	var mu sync.Mutex
	var group sync.WaitGroup
	for range streams {
		group.Go(func() {
			for range 20 {
				late, err := m.ask(client, way, body, 10)
				mu.Lock()
				s.chunks = append(s.chunks, late...)
				if err != nil {
					s.broken++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	s.cpu = cpu() - begin
	m.mu.Lock()
	defer m.mu.Unlock()
	s.dispatch, m.late[way] = m.late[way], nil
	return s
}

// BenchmarkCarry compares what a client sees directly, through a bare proxy and through ours, with 200 events a second in
// each stream and a request of 100 KiB before each stream. The ways take turns, so that the machine's noise meets all of them. Metrics
// are milliseconds; ours-bare and ours-direct are medians over the turns of what one p99 is above the other; cpu is what ours takes beside
// the direct way over what the bare proxy takes beside it. A bare proxy breaks replies now and then: where a reply begins before net/http
// has seen the end of a request's body, it closes that.
//
// Covers C-43.
func BenchmarkCarry(b *testing.B) {
	for _, streams := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) { benchmarkCarry(b, streams) })
	}
}

func benchmarkCarry(b *testing.B, streams int) {
	m := newBenchmark(b)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10}}
	b.Cleanup(client.CloseIdleConnections)
	for _, way := range ways { // opens connections
		m.round(client, way, streams)
	}
	all, above := map[string]seen{}, map[string][]time.Duration{}
	for b.Loop() {
		turn := map[string]seen{}
		for _, way := range ways {
			s := m.round(client, way, streams)
			turn[way] = s
			a := all[way]
			all[way] = seen{append(a.chunks, s.chunks...), append(a.dispatch, s.dispatch...), a.broken + s.broken, a.cpu + s.cpu}
		}
		for _, way := range []string{"bare", "direct"} {
			above["chunk-p99-ours-"+way] = append(above["chunk-p99-ours-"+way], quantile(turn["ours"].chunks, 0.99)-quantile(turn[way].chunks, 0.99))
			above["dispatch-p99-ours-"+way] = append(above["dispatch-p99-ours-"+way], quantile(turn["ours"].dispatch, 0.99)-quantile(turn[way].dispatch, 0.99))
		}
	}
	for _, way := range ways {
		b.ReportMetric(millis(quantile(all[way].chunks, 0.5)), way+"-chunk-p50")
		b.ReportMetric(millis(quantile(all[way].chunks, 0.99)), way+"-chunk-p99")
		b.ReportMetric(millis(quantile(all[way].dispatch, 0.99)), way+"-dispatch-p99")
	}
	for name, list := range above {
		b.ReportMetric(millis(quantile(list, 0.5)), name)
	}
	b.ReportMetric(float64(all["bare"].broken), "bare-broken")
	if all["ours"].broken+all["direct"].broken > 0 {
		b.Errorf("broken replies: %d of ours, %d direct", all["ours"].broken, all["direct"].broken)
	}
	b.ReportMetric(float64(all["ours"].cpu-all["direct"].cpu)/float64(all["bare"].cpu-all["direct"].cpu), "cpu-ours/bare")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkChunk carries chunks of a stream one by one: what each costs with an observer that takes copies. Client and
// upstream allocate nothing.
func BenchmarkChunk(b *testing.B) {
	for _, size := range []int{120, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkChunks(b, size) })
	}
}

func benchmarkChunks(b *testing.B, size int) {
	piece := []byte(chunk(strings.Repeat("x", size)))
	next := make(chan bool)
	url, stop := bareUpstream(b, func(conn net.Conn) {
		_, _ = io.WriteString(conn, events)
		for range next {
			_, _ = conn.Write(piece)
		}
	})
	defer stop()
	up, _ := ParseUpstream(url)
	p, err := New(Options{Upstreams: []Upstream{up}, Observer: sink{}})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewUnstartedServer(nil)
	front.Config = p.Server()
	front.Start()
	defer front.Close()
	conn, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.WriteString(conn, post)
	in := bufio.NewReader(conn)
	readHead(in)
	got := make([]byte, len(piece))
	one := func() {
		next <- true
		if _, err := io.ReadFull(in, got); err != nil {
			b.Fatal(err)
		}
	}
	for range 1000 {
		one()
	}
	b.ReportAllocs()
	for b.Loop() {
		one()
	}
	close(next)
	conn.Close()
	p.Abort()
}

// bareUpstream serves every connection by a function once its request came.
func bareUpstream(b *testing.B, serve func(net.Conn)) (url string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				in := bufio.NewReaderSize(conn, 512)
				readHead(in)
				_, _ = in.Discard(2)
				serve(conn)
			})
		}
	})
	return "http://" + l.Addr().String(), func() { l.Close(); running.Wait() }
}

// BenchmarkStreamMemory holds a thousand streams open. The metric counts client and upstream in, which are a goroutine and
// half a kilobyte each.
func BenchmarkStreamMemory(b *testing.B) {
	const streams = 1000
	done := make(chan bool)
	url, stop := bareUpstream(b, func(conn net.Conn) {
		_, _ = io.WriteString(conn, events+chunk("data: 1\n\n"))
		<-done
	})
	defer stop()
	up, _ := ParseUpstream(url)
	p, err := New(Options{Upstreams: []Upstream{up}, Observer: sink{}})
	if err != nil {
		b.Fatal(err)
	}
	front := httptest.NewUnstartedServer(nil)
	front.Config = p.Server()
	front.Start()
	defer front.Close()
	conns := make([]net.Conn, streams)
	most := 0.0
	for b.Loop() {
		before := inUse()
		got := make([]byte, len(events)+20)
		for i := range conns {
			conns[i], err = net.Dial("tcp", front.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.WriteString(conns[i], post)
			if _, err := conns[i].Read(got); err != nil {
				b.Fatal(err)
			}
		}
		most = max(most, float64(inUse())-float64(before)) // later rounds begin with what earlier ones left
		for _, c := range conns {
			c.Close()
		}
	}
	b.ReportMetric(most/streams/1024, "KiB/stream")
	b.ReportMetric(0, "ns/op")
	close(done)
	p.Abort()
}

func inUse() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc + s.StackInuse
}
