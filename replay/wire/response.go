package wire

import (
	"bytes"
	"fmt"
	"io"
	"math"
)

// maxHead bounds the head of a response, informational ones before it and trailers after it included.
const maxHead = 256 << 10

var errLongHead = fmt.Errorf("response head is longer than %d bytes", maxHead)

// head is what matters of a response's status line and header.
type head struct {
	status    int
	reason    string // only of a status outside 200-299
	location  string // only of a redirect
	encoding  string // Content-Encoding, when the body is not as it was written
	length    int64  // Content-Length, -1 without one
	chunked   bool
	keepAlive bool
	media     media
}

// unreadable says why a 2xx answer can have no content, if so.
func (h *head) unreadable() string {
	switch {
	case h.status == 204 || h.status == 205:
		return fmt.Sprintf("status %d: an answer without a body", h.status)
	case h.encoding != "":
		return fmt.Sprintf("the answer is compressed (Content-Encoding %s), which was not asked for", h.encoding)
	}
	return ""
}

// media is the kind of body that the header announces.
type media int

const (
	mediaUnnamed media = iota
	mediaEvents        // text/event-stream
	mediaOther
)

// readHead reads heads until a final one: informational responses (1xx) say nothing.
func readHead(r *reader) (head, error) {
	if err := speaksHTTP1(r); err != nil {
		return head{}, err
	}
	for left := maxHead; ; {
		h, err := readOneHead(r, &left)
		if err != nil || h.status >= 200 {
			return h, err
		}
		if h.status == 101 {
			return h, fmt.Errorf("server switched protocols")
		}
	}
}

// frameHead is the size of what begins every frame of HTTP/2.
const frameHead = 9

// speaksHTTP1 waits for the first bytes of an answer and names what else they are: a server of another protocol may never
// end a line.
func speaksHTTP1(r *reader) error {
	for {
		b := r.buffered()
		switch {
		case len(b) > 0 && (b[0] >= ' ' || b[0] == '\r' || b[0] == '\n'): // text
			return nil
		case len(b) >= 3 && b[0] == 0x15 && b[1] == 3: // an alert
			return fmt.Errorf("the server speaks TLS: the URL should begin with https")
		case len(b) >= frameHead && (b[3] == 4 || b[3] == 7) && string(b[5:frameHead]) == "\x00\x00\x00\x00": // SETTINGS, GOAWAY
			return errHTTP2
		case len(b) >= frameHead:
			return fmt.Errorf("no HTTP/1.1 response: %q", b[:frameHead])
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

var errHTTP2 = fmt.Errorf("the server speaks HTTP/2 alone: want one that speaks HTTP/1.1")

func readOneHead(r *reader, left *int) (head, error) {
	h := head{length: -1}
	line, err := r.line()
	if err != nil {
		return h, err
	}
	if err := h.statusLine(line); err != nil {
		return h, err
	}
	for {
		if *left -= len(line) + 1; *left < 0 {
			return h, errLongHead
		}
		if line, err = r.line(); err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		if err := h.field(line); err != nil {
			return h, err
		}
	}
}

// statusLine reads "HTTP/1.1 200 OK".
func (h *head) statusLine(line []byte) error {
	minor, rest, ok := bytes.Cut(line, []byte(" "))
	if bytes.HasPrefix(line, []byte("HTTP/2")) || bytes.HasPrefix(line, []byte("PRI * HTTP/2")) {
		return errHTTP2
	}
	if !ok || len(minor) != len("HTTP/1.1") || !bytes.HasPrefix(minor, []byte("HTTP/1.")) || len(rest) < 3 {
		return fmt.Errorf("no HTTP/1.1 response: %q", clip(string(line), 64))
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return fmt.Errorf("no HTTP status: %q", clip(string(line), 64))
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 || (len(rest) > 3 && rest[3] != ' ') {
		return fmt.Errorf("no HTTP status: %q", clip(string(line), 64))
	}
	h.keepAlive = minor[7] != '0'
	if h.status >= 300 {
		h.reason = clip(string(trim(rest[3:])), 256)
	}
	return nil
}

// field takes one line of the header. Lines that no one asked for, folded ones among them, are passed over.
func (h *head) field(line []byte) error {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return nil
	}
	value = trim(value)
	switch {
	case equalFold(name, "Content-Length"):
		n, err := parseLength(value)
		if err != nil {
			return err
		}
		if h.length >= 0 && h.length != n {
			return fmt.Errorf("response has two lengths, %d and %d", h.length, n)
		}
		h.length = n
	case equalFold(name, "Transfer-Encoding"):
		return h.transfer(value)
	case equalFold(name, "Content-Encoding"):
		if !equalFold(value, "identity") {
			h.encoding = clip(string(value), 64)
		}
	case equalFold(name, "Location"):
		if h.status >= 300 && h.status <= 399 {
			h.location = string(value)
		}
	case equalFold(name, "Connection"):
		for token := range bytes.SplitSeq(value, []byte(",")) {
			switch token = trim(token); {
			case equalFold(token, "close"):
				h.keepAlive = false
			case equalFold(token, "keep-alive"):
				h.keepAlive = true
			}
		}
	case equalFold(name, "Content-Type"):
		kind, _, _ := bytes.Cut(value, []byte(";"))
		h.media = mediaOther
		if equalFold(trim(kind), "text/event-stream") {
			h.media = mediaEvents
		}
	}
	return nil
}

// transfer takes the codings of a body. Identity is none.
func (h *head) transfer(codings []byte) error {
	for coding := range bytes.SplitSeq(codings, []byte(",")) {
		switch coding = trim(coding); {
		case equalFold(coding, "identity"):
		case equalFold(coding, "chunked") && !h.chunked:
			h.chunked = true
		default:
			return fmt.Errorf("response has transfer encoding %q: only chunked is read", clip(string(codings), 64))
		}
	}
	return nil
}

func parseLength(value []byte) (int64, error) {
	var n int64
	for _, c := range value {
		if c < '0' || c > '9' || n > math.MaxInt64/10-1 {
			return 0, fmt.Errorf("response has length %q", clip(string(value), 64))
		}
		n = 10*n + int64(c-'0')
	}
	if len(value) == 0 {
		return 0, fmt.Errorf("response has an empty length")
	}
	return n, nil
}

// body reads the body of a response in whatever framing the head names.
type body struct {
	r       *reader
	chunked bool
	open    bool  // ends with the connection
	left    int64 // of the chunk or of the whole
	begun   bool  // a chunk came before
	ended   bool
}

func (h *head) body(r *reader) body {
	switch {
	case h.status == 204 || h.status == 304:
		return body{r: r}
	case h.chunked:
		return body{r: r, chunked: true}
	case h.length >= 0:
		return body{r: r, left: h.length}
	}
	return body{r: r, open: true, left: math.MaxInt64}
}

// next returns the next piece of the body as it arrived, io.EOF at its clean end. The piece is valid until the
// next call.
func (b *body) next() ([]byte, error) {
	if b.chunked && b.left == 0 && !b.ended {
		if err := b.nextChunk(); err != nil {
			return nil, err
		}
	}
	if b.left == 0 {
		b.ended = true
		return nil, io.EOF
	}
	p, err := b.r.take(b.left)
	if err != nil {
		if b.open {
			return nil, err
		}
		return nil, cut(err)
	}
	if !b.open {
		b.left -= int64(len(p))
	}
	return p, nil
}

// nextChunk reads the line that announces a chunk; after the last one it reads the trailers.
func (b *body) nextChunk() error {
	if b.begun {
		if line, err := b.r.line(); err != nil || len(line) > 0 {
			return badChunk(line, err)
		}
	}
	b.begun = true
	line, err := b.r.line()
	if err != nil {
		return err
	}
	if b.left, err = parseChunkSize(line); err != nil || b.left > 0 {
		return err
	}
	b.ended = true
	for left := maxHead; ; left -= len(line) + 1 {
		if line, err = b.r.line(); err != nil || len(line) == 0 {
			return err
		}
		if left < 0 {
			return errLongHead
		}
	}
}

func badChunk(line []byte, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("response has a malformed chunk: %q", clip(string(line), 64))
}

// parseChunkSize reads a hexadecimal size; an extension after it is passed over.
func parseChunkSize(line []byte) (int64, error) {
	size, _, _ := bytes.Cut(line, []byte(";"))
	size = trim(size)
	var n int64
	for _, c := range size {
		switch {
		case c-'0' <= 9:
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, badChunk(line, nil)
		}
		if n > math.MaxInt64>>8 {
			return 0, badChunk(line, nil)
		}
		n = n<<4 | int64(c)
	}
	if len(size) == 0 {
		return 0, badChunk(line, nil)
	}
	return n, nil
}

// equalFold compares ASCII without regard to case.
func equalFold[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}
