package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// maxHead bounds the head of a response, bytes, with the informational responses before it. It bounds its trailers too.
const maxHead = 256 << 10

// responseHead is what the client needs of a status line and a header.
type responseHead struct {
	status   int
	reason   string // of a status of 300 or more
	location string // of a redirect
	encoding string // Content-Encoding, unless it is identity

	retryAfter, date string // fields of a status 429 or 503

	length    int64 // Content-Length; -1: none
	chunked   bool
	keepAlive bool
	media     media
	mediaName string // of mediaOther
}

// unreadable returns why a 2xx answer can have no content, "" when it can.
func (h *responseHead) unreadable() string {
	switch {
	case h.status == 204 || h.status == 205:
		return fmt.Sprintf("status %d: an answer without a body", h.status)
	case h.encoding != "":
		return fmt.Sprintf("the answer is compressed (Content-Encoding %s), which was not asked for", h.encoding)
	}
	return ""
}

// media is the content type of a response, as far as it decides how the body is read.
type media int

const (
	mediaUnnamed media = iota // no Content-Type
	mediaEvents               // text/event-stream
	mediaOther
)

// readHead reads the head of a response. It passes over informational responses (1xx). keep, if it is not nil, gets every field.
func readHead(r *reader, keep func(name, value []byte)) (responseHead, error) {
	if err := speaksHTTP1(r); err != nil {
		return responseHead{}, err
	}
	for left := maxHead; ; {
		h, err := readOneHead(r, &left, keep)
		if err != nil || h.status >= 200 {
			return h, err
		}
		if h.status == 101 {
			return h, errors.New("server switched protocols")
		}
	}
}

// frameHead is the size of the head of an HTTP/2 frame, bytes.
const frameHead = 9

// speaksHTTP1 waits for the first bytes of an answer. Its error names another protocol, whose server may never end a line.
func speaksHTTP1(r *reader) error {
	for {
		b := r.buffered()
		switch {
		case len(b) > 0 && (b[0] >= ' ' || b[0] == '\r' || b[0] == '\n'): // text
			return nil
		case len(b) >= 3 && b[0] == 0x15 && b[1] == 3: // an alert
			return errors.New("the server speaks TLS: the URL should begin with https")
		case len(b) >= frameHead && (b[3] == 4 || b[3] == 7) && string(b[5:frameHead]) == "\x00\x00\x00\x00": // SETTINGS, GOAWAY
			return errHTTP2
		case len(b) >= frameHead:
			return fmt.Errorf("not an HTTP/1.1 response: %q", b[:frameHead])
		}
		if err := r.fill(); err != nil {
			return err
		}
	}
}

// readOneHead reads one status line and header. It ignores a line without a colon, and subtracts all bytes from left.
func readOneHead(r *reader, left *int, keep func(name, value []byte)) (responseHead, error) {
	h := responseHead{length: -1}
	line, err := r.line()
	if err != nil {
		return h, err
	}
	if err := h.statusLine(line); err != nil {
		return h, err
	}
	for {
		if *left -= len(line) + 1; *left < 0 {
			return h, errHeadTooLong
		}
		if line, err = r.line(); err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		value = trim(value)
		if keep != nil {
			keep(name, value)
		}
		if err := h.addField(name, value); err != nil {
			return h, err
		}
	}
}

// statusLine reads a line such as "HTTP/1.1 200 OK".
func (h *responseHead) statusLine(line []byte) error {
	minor, rest, ok := bytes.Cut(line, []byte(" "))
	if bytes.HasPrefix(line, []byte("HTTP/2")) || bytes.HasPrefix(line, []byte("PRI * HTTP/2")) {
		return errHTTP2
	}
	if !ok || len(minor) != len("HTTP/1.1") || !bytes.HasPrefix(minor, []byte("HTTP/1.")) || len(rest) < 3 {
		return fmt.Errorf("not an HTTP/1.1 response: %q", clip(string(line), 64))
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return fmt.Errorf("not an HTTP status: %q", clip(string(line), 64))
		}
		h.status = 10*h.status + int(c-'0')
	}
	if h.status < 100 || (len(rest) > 3 && rest[3] != ' ') {
		return fmt.Errorf("not an HTTP status: %q", clip(string(line), 64))
	}
	h.keepAlive = minor[7] != '0'
	if h.status >= 300 {
		h.reason = clip(string(trim(rest[3:])), 256)
	}
	return nil
}

// addField reads one field of the header. It ignores one that the client does not need.
func (h *responseHead) addField(name, value []byte) error {
	switch {
	case equalFold(name, "Content-Length"):
		return h.addLength(value)
	case equalFold(name, "Transfer-Encoding"):
		return h.addTransferEncoding(value)
	case equalFold(name, "Content-Encoding"):
		if !equalFold(value, "identity") {
			h.encoding = clip(string(value), 64)
		}
	case equalFold(name, "Location"):
		if h.status >= 300 && h.status <= 399 {
			h.location = string(value)
		}
	case equalFold(name, "Connection"):
		h.addConnection(value)
	case equalFold(name, "Content-Type"):
		kind, _, _ := bytes.Cut(value, []byte(";"))
		h.media = mediaEvents
		if kind = trim(kind); !equalFold(kind, "text/event-stream") {
			h.media, h.mediaName = mediaOther, clip(string(kind), 64)
		}
	case h.status != 429 && h.status != 503:
	case equalFold(name, "Retry-After"):
		h.retryAfter = clip(string(value), 64)
	case equalFold(name, "Date"):
		h.date = clip(string(value), 64)
	}
	return nil
}

// addLength reads a Content-Length. Two that differ are an error: the body would end in two places.
func (h *responseHead) addLength(value []byte) error {
	n, err := strconv.ParseUint(string(value), 10, 63)
	switch {
	case len(value) == 0:
		return errors.New("response has an empty Content-Length")
	case err != nil:
		return fmt.Errorf("response has Content-Length %q: want a whole number", clip(string(value), 64))
	case h.length >= 0 && h.length != int64(n):
		return fmt.Errorf("response has two values of Content-Length, %d and %d", h.length, n)
	}
	h.length = int64(n)
	return nil
}

// addTransferEncoding reads the transfer codings of the body. Identity is none; of the others only chunked is supported.
func (h *responseHead) addTransferEncoding(codings []byte) error {
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

// addConnection reads the options of a Connection field.
func (h *responseHead) addConnection(options []byte) {
	for option := range bytes.SplitSeq(options, []byte(",")) {
		switch option = trim(option); {
		case equalFold(option, "close"):
			h.keepAlive = false
		case equalFold(option, "keep-alive"):
			h.keepAlive = true
		}
	}
}

// responseBody reads the body of a response in the framing of its head: a length, chunks, or until the connection closes.
type responseBody struct {
	r          *reader
	chunked    bool
	untilClose bool  // the body ends with the connection
	left       int64 // bytes of the chunk, or of the body without chunks, that are not read yet
	begun      bool  // a chunk has been read
	ended      bool  // next has returned io.EOF

	size  int64 // bytes that next has returned
	reads int   // reads of the connection that brought some of them
	last  int   // number of the latest of these
}

// body returns the reader of the body that follows the head.
func (h *responseHead) body(r *reader) responseBody {
	switch {
	case h.status == 204 || h.status == 304:
		return responseBody{r: r}
	case h.chunked:
		return responseBody{r: r, chunked: true}
	case h.length >= 0:
		return responseBody{r: r, left: h.length}
	}
	return responseBody{r: r, untilClose: true, left: math.MaxInt64}
}

// next returns the next piece of the body as it arrived, io.EOF at the end of a complete body. The piece is valid until the
// next call.
func (b *responseBody) next() ([]byte, error) {
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
		if b.untilClose {
			return nil, err
		}
		return nil, unexpectedEOF(err)
	}
	if !b.untilClose {
		b.left -= int64(len(p))
	}
	b.size += int64(len(p))
	if b.r.reads != b.last {
		b.reads, b.last = b.reads+1, b.r.reads
	}
	return p, nil
}

// nextChunk reads the line with the size of a chunk, and after the last chunk the trailers.
func (b *responseBody) nextChunk() error {
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
			return errHeadTooLong
		}
	}
}

// badChunk returns the error of a line that should end or begin a chunk; err is that of reading it.
func badChunk(line []byte, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("response has a malformed chunk: %q", clip(string(line), 64))
}

// parseChunkSize reads a hexadecimal size. It ignores an extension after it.
func parseChunkSize(line []byte) (int64, error) {
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(trim(size)), 16, 59)
	if err != nil {
		return 0, badChunk(line, nil)
	}
	return int64(n), nil
}
