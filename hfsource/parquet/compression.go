package parquet

import (
	"bytes"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// decompressor decompresses the pages of a file. It uses the codecs that parquet-go wraps, but not its wrappers: for a damaged
// or malicious page they allocate without limit.
type decompressor struct {
	zstd   *zstd.Decoder
	gzip   *gzip.Reader
	brotli *brotli.Reader
}

// canDecompress reports whether decompress knows a codec.
func canDecompress(codec format.CompressionCodec) bool {
	switch codec {
	case format.Uncompressed, format.Snappy, format.Gzip, format.Zstd, format.Brotli, format.Lz4Raw:
		return true
	}
	return false
}

// Largest ratios of decompressed to compressed bytes. A page that states more is damaged.
const (
	maxSnappyRatio = 64 // 64 bytes in 3, at best
	maxLZ4Ratio    = 255
)

// decompress returns the size bytes that a page was compressed from, with padding behind them. It uses the memory of
// buffer where that suffices. A page that holds more or fewer bytes is an error, found after at most one byte too many.
func (d *decompressor) decompress(codec format.CompressionCodec, page, buffer []byte, size int) ([]byte, error) {
	out, err := d.decode(codec, page, buffer, size)
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, errSize
	}
	if cap(out) < size+padding {
		out = append(make([]byte, 0, size+padding), out...)
	}
	return out, nil
}

// decode decompresses a page of size bytes into buffer, or into more memory where that is too small.
func (d *decompressor) decode(codec format.CompressionCodec, page, buffer []byte, size int) ([]byte, error) {
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(page)
		if err != nil || n != size || n > maxSnappyRatio*len(page) {
			return nil, errSize
		}
		return snappy.Decode(withRoom(buffer, size), page)
	case format.Lz4Raw:
		if size > maxLZ4Ratio*len(page) {
			return nil, errSize
		}
		out := withRoom(buffer, size)
		n, err := lz4.UncompressBlock(page, out)
		return out[:max(n, 0)], err
	case format.Zstd:
		return d.decodeZstd(page, withRoom(buffer, size))
	case format.Gzip:
		return d.decodeGzip(page, buffer, size)
	case format.Brotli:
		return d.decodeBrotli(page, buffer, size)
	}
	return nil, errSize
}

var zstdOptions = []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderMaxWindow(1 << 27)}

func (d *decompressor) decodeZstd(page, buffer []byte) (_ []byte, err error) {
	if d.zstd == nil {
		if d.zstd, err = zstd.NewReader(nil, zstdOptions...); err != nil {
			return nil, err
		}
	}
	return d.zstd.DecodeAll(page, buffer[:0])
}

func (d *decompressor) decodeGzip(page, buffer []byte, size int) (_ []byte, err error) {
	if d.gzip == nil {
		d.gzip, err = gzip.NewReader(bytes.NewReader(page))
	} else {
		err = d.gzip.Reset(bytes.NewReader(page))
	}
	if err != nil {
		return nil, err
	}
	return readUpTo(d.gzip, buffer, size)
}

func (d *decompressor) decodeBrotli(page, buffer []byte, size int) ([]byte, error) {
	if d.brotli == nil {
		d.brotli = new(brotli.Reader)
	}
	if err := d.brotli.Reset(bytes.NewReader(page)); err != nil {
		return nil, err
	}
	return readUpTo(d.brotli, buffer, size)
}

// readUpTo reads size bytes, and one more where there is one. Memory grows as bytes come.
func readUpTo(r io.Reader, buffer []byte, size int) ([]byte, error) {
	out := buffer[:0]
	for len(out) <= size {
		if len(out) == cap(out) {
			grown := make([]byte, len(out), min(max(2*len(out), 64<<10), size+padding+1))
			copy(grown, out)
			out = grown
		}
		n, err := r.Read(out[len(out):min(cap(out), size+1)])
		out = out[:len(out)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (d *decompressor) close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
	*d = decompressor{}
}

// withRoom returns a slice of n bytes with padding behind them: buffer if it is large enough.
func withRoom(buffer []byte, n int) []byte {
	if cap(buffer) >= n+padding {
		return buffer[:n]
	}
	return make([]byte, n, n+padding)
}
