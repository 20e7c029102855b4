package carry

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// answers is an upstream that answers a request with a body of a size, and closes.
func answers(size int) func(net.Conn, *bufio.Reader) {
	return says("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + strings.Repeat("r", size))
}

// carried sends a request with a body of a size and requires that all bytes passed.
func (w *world) carried(t *testing.T, request, reply int) *note {
	t.Helper()
	got, err := http.Post(w.front.URL+"/v1/messages", "application/json", strings.NewReader(strings.Repeat("q", request)))
	require.NoError(t, err)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	got.Body.Close()
	require.Len(t, body, reply)
	http.DefaultClient.CloseIdleConnections()
	n := w.notes.one(t)
	require.Equal(t, [2]int64{int64(request), int64(reply)}, [2]int64{n.ends[0].RequestBytes, n.ends[0].ReplyBytes})
	return n
}

// Beyond the limit of its copy a body is carried and its copy stops, with the reason.
func TestCopiesStopAtTheirLimit(t *testing.T) {
	for _, c := range []struct {
		request, reply int
		upload, lost   error
	}{{1000, 2000, nil, nil}, {1001, 2000, ErrOversize, nil}, {1000, 2001, nil, ErrOversize}, {1 << 20, 1 << 20, ErrOversize, ErrOversize}} {
		w := newWorld(t, raw(t, answers(c.reply)), func(o *Options) { o.RequestCopy, o.ReplyCopy = 1000, 2000 })
		n := w.carried(t, c.request, c.reply)
		require.Equal(t, []error{c.upload}, n.upload)
		require.Equal(t, c.lost, n.ends[0].ReplyLost)
		require.LessOrEqual(t, len(n.request), 1000)
		require.LessOrEqual(t, len(n.reply), 2000)
	}
}

// hoarder never releases a chunk.
type hoarder struct {
	*note
	mu     *sync.Mutex
	chunks *[]*Chunk
}

func (h hoarder) RequestChunk(c *Chunk) bool {
	h.mu.Lock()
	*h.chunks = append(*h.chunks, c)
	h.mu.Unlock()
	return true
}

// Copies of the whole proxy stay within their budget. Above nine tenths of it exchanges begin without; and whatever is
// copied, all bytes pass.
func TestCopiesStayWithinTheBudget(t *testing.T) {
	const limit = 10 * 32 << 10
	w := newWorld(t, raw(t, answers(5)), func(o *Options) { o.Copies = limit })
	var mu sync.Mutex
	var chunks []*Chunk
	w.proxy.o.Observer = arrivals(func(a *Arrival) Course {
		c := w.notes.Arrive(a)
		c.Exchange = hoarder{c.Exchange.(*note), &mu, &chunks}
		return c
	})
	for _, c := range []struct {
		size, used int
		err        error
	}{{200 << 10, 256 << 10, nil}, {1 << 20, 256 << 10, ErrBudget}, {20 << 10, 288 << 10, nil}, {20 << 10, 320 << 10, nil}} {
		n := w.carried(t, c.size, 5)
		require.Equal(t, []error{c.err}, n.upload)
		require.True(t, n.arrival.room)
		require.Equal(t, int64(c.used), w.proxy.CopyBytes())
	}
	n := w.carried(t, 10, 5)
	require.Equal(t, []error{ErrBudget}, n.upload)
	require.Equal(t, ErrBudget, n.ends[0].ReplyLost)
	require.False(t, n.arrival.room)
	require.Equal(t, []string{"request end", "dispatch", "head", "end"}, n.calls)
	for _, c := range chunks {
		c.Release()
	}
	require.Zero(t, w.proxy.CopyBytes())
	chunks = nil
	n = w.carried(t, 10, 5)
	require.Equal(t, []error{nil}, n.upload)
	require.NoError(t, n.ends[0].ReplyLost)
	require.True(t, n.arrival.room)
	for _, c := range chunks {
		c.Release()
	}
}

// arrivals is an observer made of its one function.
type arrivals func(*Arrival) Course

func (f arrivals) Arrive(a *Arrival) Course { return f(a) }

// weary takes one chunk of a request.
type weary struct{ *note }

func (e weary) RequestChunk(c *Chunk) bool { e.note.RequestChunk(c); return false }

// An exchange that wants no more copies gets none, of the request or of the reply; one that wants none at all gets the
// other calls; and without an observer traffic passes.
func TestObserversMayWantNoCopies(t *testing.T) {
	w := newWorld(t, raw(t, answers(5)), nil)
	w.proxy.o.Observer = arrivals(func(a *Arrival) Course {
		c := w.notes.Arrive(a)
		c.Exchange = weary{c.Exchange.(*note)}
		return c
	})
	n := w.carried(t, 1<<20, 5)
	require.Equal(t, 1, n.chunks)
	require.Empty(t, n.reply)
	require.Equal(t, []error{nil}, n.upload)

	w.proxy.o.Observer = w.notes
	w.notes.course.Copy = false
	n = w.carried(t, 1<<20, 5)
	require.Equal(t, []string{"dispatch", "request end", "head", "end"}, n.calls)

	for _, o := range []Observer{nil, arrivals(func(*Arrival) Course { return Course{} })} {
		w.proxy.o.Observer = o
		reply, err := http.Get(w.front.URL + "/")
		require.NoError(t, err)
		body, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		require.Equal(t, "rrrrr", string(body))
	}
	http.DefaultClient.CloseIdleConnections()
}

// copy returns a chunk with the first bytes of p.
func (b *budget) copy(p []byte, at int64) *Chunk {
	c := b.take(int64(min(len(p), longest)), at)
	if c != nil {
		c.n = copy(c.buffer, p)
	}
	return c
}

// A chunk holds what was copied until its release, and the budget counts the buffers that are out, in any order.
func TestChunksAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 1 << 17
		b := &budget{limit: limit}
		type lent struct {
			*Chunk
			text string
		}
		var out []lent
		used := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(out) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				if out[i].text != string(out[i].Bytes()) {
					t.Fatalf("a chunk changed")
				}
				used -= int64(out[i].Size())
				out[i].Release()
				out = append(out[:i], out[i+1:]...)
			} else {
				text := strings.Repeat(rapid.StringMatching("[a-z]").Draw(t, "letter"), rapid.SampledFrom([]int{1, 511, 512, 513, 1025, 2049, 4096, 4097, 9000, 17000, 32768, 40000}).Draw(t, "length"))
				c := b.copy([]byte(text), 0)
				if c == nil {
					if used+32<<10 <= limit {
						t.Fatalf("no chunk, with %d of %d in use", used, limit)
					}
					continue
				}
				if len(c.Bytes()) < 512 && c.Size() > 512 || len(c.Bytes()) > 512 && c.Size() >= 2*len(c.Bytes()) {
					t.Fatalf("%d bytes take %d", len(c.Bytes()), c.Size())
				}
				used += int64(c.Size())
				out = append(out, lent{c, text[:len(c.Bytes())]})
			}
			if b.used.Load() != used {
				t.Fatalf("%d used, want %d", b.used.Load(), used)
			}
		}
	})
}

// Released bytes are overwritten; a chunk of an owner that panicked is not lent again.
func TestReleasedChunksAreOverwritten(t *testing.T) {
	b := &budget{limit: 1 << 20}
	c := b.copy([]byte("secret"), 0)
	buffer := c.buffer
	c.Release()
	require.Equal(t, make([]byte, 6), buffer[:6])
	c = b.copy([]byte("secret"), 0)
	c.abandon()
	require.Zero(t, b.used.Load())
	c.Release()
	require.Zero(t, b.used.Load())
	require.Equal(t, "secret", string(c.Bytes()))
}

// Bytes of a reply's read that are longer than its longest buffer come as several chunks.
func TestLongReadsComeInSeveralChunks(t *testing.T) {
	o := newNotes()
	w := watch{budget: &budget{limit: 1 << 20}, limits: &Options{ReplyCopy: 1 << 20}}
	w.begin(o.Arrive(&Arrival{}), true)
	text := strings.Repeat("0123456789", 10_000)
	w.replied([]byte(text), 0)
	w.end(End{})
	n := o.one(t)
	require.Equal(t, text, string(n.reply))
	require.Len(t, n.replyAt, 4)
	require.Zero(t, w.budget.used.Load())
}

// The body of a request comes as one chunk, or as several of 8 MiB, however it is read. Its buffer is at most eight times what has come, and
// as long as declared, whatever is declared; without that at most twice as long.
func TestUploadsComeInOneChunk(t *testing.T) {
	body := []byte(strings.Repeat("0123456789", 2<<20))
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(1, 5000), rapid.IntRange(1, 1<<20), rapid.SampledFrom([]int{8 << 20, 8<<20 + 1, 20 << 20})).Draw(t, "size")
		read := rapid.SampledFrom([]int{1000, 32 << 10, 33 << 10, 1 << 20}).Draw(t, "read")
		o := newNotes()
		w := watch{budget: &budget{limit: 1 << 30}, limits: &Options{RequestCopy: 1 << 30}}
		w.upload.declared = int64(rapid.SampledFrom([]int{-1, size, size, size - 1, 1 << 29}).Draw(t, "declared"))
		w.begin(o.Arrive(&Arrival{}), true)
		for at := 0; at < size; at += read {
			to := min(size, at+read)
			w.uploaded(body[at:to], 0, nil)
			if used := w.budget.used.Load(); used > max(512, 16*int64(to)) || w.upload.declared < 0 && used > max(512, 4*int64(to)) {
				t.Fatalf("%d bytes take %d", to, used)
			}
		}
		whole := rapid.Bool().Draw(t, "whole")
		w.uploaded(nil, 0, map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[whole])
		w.end(End{})
		n := <-o.ended
		if whole && (string(n.request) != string(body[:size]) || n.chunks != (size+8<<20-1)>>23) {
			t.Fatalf("%d bytes in %d chunks, want %d", len(n.request), n.chunks, size)
		}
		if used := w.budget.used.Load(); used != 0 {
			t.Fatalf("%d used", used)
		}
	})
}
