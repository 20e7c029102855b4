// Package coding undoes the content codings of HTTP bodies: gzip, deflate, br and zstd.
package coding

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory that a body of zstd may ask for: the window that RFC 9659 allows on the web.
const maxWindow = 8 << 20

// ErrUnknown is about a coding that is none of ours, or several.
var ErrUnknown = errors.New("coding: unknown content coding, or several: want gzip, deflate, br or zstd")

// ErrTooLong is about a body that is longer than its limit.
var ErrTooLong = errors.New("coding: the decoded body is longer than its limit")

// decoders has what undoes each coding.
var decoders = map[string]func(io.Reader) (io.Reader, error){
	"gzip":    func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"x-gzip":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	"deflate": inflate,
	"br":      func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	"zstd": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	},
	"": identity, "identity": identity,
}

func identity(r io.Reader) (io.Reader, error) { return r, nil }

// plain returns the value of a Content-Encoding header in lower case without white space, as decoders has it.
func plain(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// Identity reports whether the value of a Content-Encoding header says that a body is not coded.
func Identity(name string) bool { return plain(name) == "" || plain(name) == "identity" }

// Known reports whether NewReader undoes a coding.
func Known(name string) bool { return decoders[plain(name)] != nil }

// NewReader returns a reader of the body that r has in a coding. It reads from r at once. The error is ErrUnknown, or says
// why the beginning of the body is damaged.
func NewReader(name string, r io.Reader) (io.Reader, error) {
	f := decoders[plain(name)]
	if f == nil {
		return nil, ErrUnknown
	}
	decoded, err := f(r)
	if err != nil {
		return nil, fmt.Errorf("coding: %w", err)
	}
	return decoded, nil
}

// Room returns about how many bytes of memory a reader of a coding keeps when it has decoded so many: tables, and the bytes to which
// the coding can refer.
func Room(name string, decoded int64) int64 {
	const tables, window = 64 << 10, 16 << 20
	switch plain(name) {
	case "", "identity":
		return 0
	case "br", "zstd":
		return tables + min(decoded, window)
	}
	return tables
}

// Decode returns a body that is at most limit bytes long once decoded. One that is not coded is returned as it is.
func Decode(name string, body []byte, limit int64) ([]byte, error) {
	if Identity(name) {
		return body, nil
	}
	r, err := NewReader(name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	decoded, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("coding: %w", err)
	case int64(len(decoded)) > limit:
		return nil, ErrTooLong
	}
	return decoded, nil
}

// inflate reads zlib's format, which the coding means, or raw deflate, which some servers send.
func inflate(r io.Reader) (io.Reader, error) {
	b := bufio.NewReader(r)
	head, err := b.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (uint(head[0])<<8|uint(head[1]))%31 == 0 {
		return zlib.NewReader(b)
	}
	return flate.NewReader(b), nil
}
