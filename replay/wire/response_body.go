package wire

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
)

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
