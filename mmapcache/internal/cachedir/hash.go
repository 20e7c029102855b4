package cachedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/agentx/agentx/manifest"
)

// HashFile returns the size of a file and its SHA-256 in hex.
func HashFile(ctx context.Context, path string) (int64, string, error) {
	f, _, err := manifest.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return new(Hasher).Hash(ctx, f)
}

// Hasher computes digests of many files with one buffer.
type Hasher struct {
	sum hash.Hash
	buf []byte
}

// Hash returns how many bytes a reader has, and their SHA-256 in hex.
func (h *Hasher) Hash(ctx context.Context, r io.Reader) (n int64, sum string, err error) {
	if h.buf == nil {
		h.sum, h.buf = sha256.New(), make([]byte, 32<<10)
	}
	h.sum.Reset()
	for {
		if err := ctx.Err(); err != nil {
			return n, "", err
		}
		k, err := r.Read(h.buf)
		_, _ = h.sum.Write(h.buf[:k]) // a hash never fails
		n += int64(k)
		if err == io.EOF {
			return n, hex.EncodeToString(h.sum.Sum(nil)), nil
		}
		if err != nil {
			return n, "", err
		}
	}
}

// ReaderFunc is a function as an io.Reader.
type ReaderFunc func([]byte) (int, error)

func (f ReaderFunc) Read(p []byte) (int, error) { return f(p) }
