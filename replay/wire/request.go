package wire

import (
	"fmt"
	"io"
	"time"
)

// Body is a request body of known size that writes itself. It may be asked to write itself a second time, on a
// fresh connection, so WriteTo must start from the beginning at every call.
//
// Each Write of WriteTo becomes one system call: pieces of 32 KiB and more are cheap, pieces of a few hundred bytes
// are not. A memory fault inside WriteTo (a mapped file that was cut) is caught and reported as [Internal].
type Body interface {
	// Size is the number of bytes that WriteTo will write; it is announced as Content-Length.
	Size() int64
	io.WriterTo
}

// HeaderField is one header field.
type HeaderField struct{ Name, Value string }

// Request is one POST. Its fields are read only while Do runs.
type Request struct {
	Path   string        // starts with a slash; appended to the path of the target
	Header []HeaderField // beside, and before, those of Options.Header; usually the request and correlation ids
	Accept string        // empty: text/event-stream when Stream is set, else application/json
	Body   Body
	Stream bool // a stream of events was asked for: how to read a 200 that names no content type

	// PerChunkUsage says that usage was asked for in every message, so that the first one tells its tokens.
	PerChunkUsage bool

	// OnFirstToken, when set, is called once, from Do, at the first message with content (time since the epoch).
	OnFirstToken func(at time.Duration)
}

// Validate reports the first thing about the request that cannot be put on the wire.
func (r *Request) Validate() error {
	if r.Body == nil {
		return fmt.Errorf("request has no body")
	}
	if r.Body.Size() < 0 {
		return fmt.Errorf("request body has size %d", r.Body.Size())
	}
	if len(r.Path) == 0 || r.Path[0] != '/' {
		return fmt.Errorf("request path %q does not start with a slash", r.Path)
	}
	if i := badPathByte(r.Path); i >= 0 {
		return fmt.Errorf("request path %q has byte %#x in it", r.Path, r.Path[i])
	}
	if i := badValueByte(r.Accept); i >= 0 {
		return fmt.Errorf("accept value has byte %#x in it", r.Accept[i])
	}
	for i := range r.Header {
		if err := r.Header[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate refuses names that are no HTTP token, names that the client writes itself (Content-Length, ...) and values
// with control characters. The error names the field but never its value, which may be a secret.
func (f *HeaderField) Validate() error {
	if f.Name == "" {
		return fmt.Errorf("header field without a name")
	}
	for i := range len(f.Name) {
		if !isToken[f.Name[i]] {
			return fmt.Errorf("header name %q has byte %#x in it", f.Name, f.Name[i])
		}
	}
	for _, own := range ownFields {
		if equalFold(f.Name, own) {
			return fmt.Errorf("header %s is set by the client itself", own)
		}
	}
	if i := badValueByte(f.Value); i >= 0 {
		return fmt.Errorf("value of header %s has byte %#x in it", f.Name, f.Value[i])
	}
	return nil
}

// ownFields are written by the client or left out by it: a caller that set the ones about framing could make two
// requests of one, and a compressed answer could not be read.
var ownFields = [...]string{
	"Host", "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection",
	"Expect", "Trailer", "Upgrade",
}

var isToken = func() (t [256]bool) {
	const tokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(tokens) {
		t[tokens[i]] = true
	}
	return t
}()

// badPathByte is the position of the first byte that cannot be in a path, or -1.
func badPathByte(p string) int {
	for i := range len(p) {
		if p[i] <= ' ' || p[i] >= 0x7f {
			return i
		}
	}
	return -1
}

// badValueByte is the position of the first control character other than a tab, or -1.
func badValueByte(v string) int {
	for i := range len(v) {
		if (v[i] < ' ' && v[i] != '\t') || v[i] == 0x7f {
			return i
		}
	}
	return -1
}
