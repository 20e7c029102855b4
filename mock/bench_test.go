package mock

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// chatBody returns a chat request of about so many bytes, in messages of 4 KB of source code, which has many line ends and
// quotes.
func chatBody(size, maxTokens int) []byte {
	line := "\tfmt.Println(\"value\", name, fields[i+1]) // then the next one\n"
	content, _ := json.Marshal(strings.Repeat(line, 4096/len(line)))
	var b bytes.Buffer
	b.WriteString(`{"messages":[{"role":"system","content":"00000000 "}`)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, `,{"role":"%s","content":%s}`, []string{"user", "assistant"}[i%2], content)
	}
	fmt.Fprintf(&b, `],"model":"m","stream":true,"max_completion_tokens":%d,"ignore_eos":true,"stream_options":{"include_usage":true}}`, maxTokens)
	return b.Bytes()
}

// sink is a ResponseWriter that discards everything.
type sink struct {
	header        http.Header
	writes, bytes int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Flush()              {}
func (s *sink) Write(b []byte) (int, error) {
	s.writes++
	s.bytes += len(b)
	return len(b), nil
}

// bodyReader is a request body that can be rewound.
type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }

func benchmarkServe(b *testing.B, path string, body []byte, each func(i int)) {
	server := New(Config{CacheBlocks: 1 << 18})
	reader := &bodyReader{}
	request, err := http.NewRequest(http.MethodPost, path, reader)
	if err != nil {
		b.Fatal(err)
	}
	request.ContentLength = int64(len(body))
	w := &sink{header: http.Header{}}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		each(i)
		reader.Reset(body)
		server.ServeHTTP(w, request)
	}
	b.ReportMetric(float64(w.writes)/float64(i), "writes/op")
}

// BenchmarkChat serves a body of 400 KB: the same prompt every time (hit), or a new one (miss, with evictions).
func BenchmarkChat(b *testing.B) {
	body := chatBody(400_000, 1)
	place := body[bytes.Index(body, []byte("00000000")):][:8]
	b.Run("hit", func(b *testing.B) { benchmarkServe(b, "/v1/chat/completions", body, func(int) {}) })
	b.Run("miss", func(b *testing.B) {
		benchmarkServe(b, "/v1/chat/completions", body, func(i int) { copy(place, fmt.Sprintf("%08d", i)) })
	})
}

// BenchmarkIDs serves 70,000 token ids, about 400 KB.
func BenchmarkIDs(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"prompt":[7`)
	for i := range 70_000 {
		fmt.Fprintf(&body, ",%d", i*7919%200_000)
	}
	body.WriteString(`],"stream":true,"max_tokens":1}`)
	benchmarkServe(b, "/v1/completions", body.Bytes(), func(int) {})
}

// BenchmarkEvents answers a small request with 500 tokens.
func BenchmarkEvents(b *testing.B) {
	benchmarkServe(b, "/v1/chat/completions", chatBody(1000, 500), func(int) {})
}

// BenchmarkScan parses the 400 KB body, and nothing else.
func BenchmarkScan(b *testing.B) {
	body := chatBody(400_000, 1)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var q request
	for b.Loop() {
		q.clear()
		if err := q.parse(body, &chatEndpoint); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAdmit measures the prefix cache alone, with the 1,600 blocks of 400 KB.
func BenchmarkAdmit(b *testing.B) {
	cache := newPrefixCache(1 << 18)
	names := make([]uint64, 1600)
	var scratch []int32
	for _, fresh := range []bool{false, true} {
		b.Run(fmt.Sprintf("fresh=%v", fresh), func(b *testing.B) {
			stream := make([]byte, blockBytes*len(names))
			for i := uint64(0); b.Loop(); i++ {
				if fresh {
					binary.LittleEndian.PutUint64(stream, i)
				}
				names = appendBlockNames(names[:0], 0, stream)
				_, scratch = cache.admit(names, scratch)
			}
		})
	}
}

// BenchmarkConnection sends the 400 KB body over a loopback connection and reads the answer: the server, net/http, the kernel,
// and a minimal client.
func BenchmarkConnection(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- New(Config{}).Serve(ctx, l) }()
	defer func() {
		cancel()
		<-done
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := chatBody(400_000, 1)
	request := append(fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
	answer := make([]byte, 64<<10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(answer[:n], []byte("data: [DONE]\n\n")); {
			m, err := conn.Read(answer[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
	}
}
