package canon

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/agentx/agentx/internal/jsonlex"
)

// How many tokens stand for media.
const (
	byReference    = 1000
	pixelsPerToken = 750
	maxImage       = 1600
	bytesPerToken  = 64
	maxDocument    = 1 << 16
)

// source is where media are: in the body as base64 text or as they are, or elsewhere.
type source struct {
	data     []byte
	inBase64 bool
	inBody   bool
}

// media writes a segment of media.
func (b *builder) media(kind uint32, s source, count int) {
	b.token(kind)
	b.mediaPart(s, count)
	b.token(End)
}

func (b *builder) mediaPart(s source, count int) {
	b.prompt.MediaTokens += count
	b.parts = append(b.parts, Part{Kind: MediaTokens, Data: s.data, Base64: s.inBase64, Count: count})
}

// image writes an image.
func (b *builder) image(i int32) {
	s := b.sourceOf(i)
	count := byReference
	if width, height, ok := s.size(); ok {
		count = min(max(ceil(uint64(width)*uint64(height), pixelsPerToken), 1), maxImage)
	}
	b.media(Image, s, count)
}

// bySize writes media that count by their bytes: a document, or speech and other sound.
func (b *builder) bySize(kind uint32, i int32) {
	s, count := b.sourceOf(i), byReference
	if s.inBody {
		count = min(max(ceil(uint64(s.length()), bytesPerToken), 1), maxDocument)
	}
	b.media(kind, s, count)
}

// redacted writes thinking that is only there encrypted.
func (b *builder) redacted(text []byte) {
	b.token(thinking)
	if len(text) > 0 {
		b.mediaPart(source{data: text}, ceil(3*uint64(len(text)), 16))
	}
	b.token(End)
}

// sourceOf returns where the media of a block are.
func (b *builder) sourceOf(i int32) source {
	for _, n := range [...]string{"source", "image_url", "file", "input_audio"} {
		switch v := b.member(i, n); b.kind(v) {
		case jsonlex.Object:
			return b.sourceIn(v)
		case jsonlex.String:
			return dataURL(b.bytes(v))
		}
	}
	return b.sourceIn(i)
}

// sourceIn returns where the media are that an object describes.
func (b *builder) sourceIn(i int32) source {
	if data := b.member(i, "data"); b.kind(data) == jsonlex.String {
		return source{data: b.bytes(data), inBase64: b.word(b.member(i, "type")) != "text", inBody: true}
	}
	if content := b.member(i, "content"); b.kind(content) == jsonlex.String {
		return source{data: b.bytes(content), inBody: true}
	} else if content != 0 {
		return source{data: b.compact(content), inBody: true}
	}
	if data := b.member(i, "file_data"); b.kind(data) == jsonlex.String {
		if s := dataURL(b.bytes(data)); s.inBody {
			return s
		}
		return source{data: b.bytes(data), inBase64: true, inBody: true}
	}
	for _, n := range [...]string{"url", "file_url"} {
		if url := b.member(i, n); b.kind(url) == jsonlex.String {
			return dataURL(b.bytes(url))
		}
	}
	if id := b.member(i, "file_id"); id != 0 {
		return source{data: b.bytes(id)}
	}
	return source{data: b.bytes(b.member(i, "id"))}
}

// dataURL returns where the media of a URL are: inside, if it is one such as data:image/png;base64,AAAA.
func dataURL(url []byte) source {
	head, data, found := bytes.Cut(url, []byte(","))
	if found && len(head) >= 5 && bytes.EqualFold(head[:5], []byte("data:")) && bytes.HasSuffix(head, []byte(";base64")) {
		return source{data: data, inBase64: true, inBody: true}
	}
	return source{data: url}
}

// ceil returns n/d, rounded up.
func ceil(n, d uint64) int { return int((n + d - 1) / d) }

// Bytes returns the bytes of media of which their tokens are a digest: what the base64 text means, or the text itself, if
// it is none.
func (p Part) Bytes() []byte {
	if !p.Base64 {
		return p.Data
	}
	decoded, err := decode(p.Data)
	if err != nil {
		return p.Data
	}
	return decoded
}

// decode returns what a base64 text means, in either alphabet, padded or not.
func decode(text []byte) ([]byte, error) {
	e := base64.RawStdEncoding
	if bytes.ContainsAny(text, "-_") {
		e = base64.RawURLEncoding
	}
	text = bytes.TrimRight(text, "=\r\n")
	decoded := make([]byte, e.DecodedLen(len(text)))
	n, err := e.Decode(decoded, text)
	return decoded[:n], err
}

// length returns how many bytes media have.
func (s source) length() int {
	if !s.inBase64 {
		return len(s.data)
	}
	text := bytes.TrimRight(s.data, "=\r\n")
	return (len(text) - bytes.Count(text, []byte("\n")) - bytes.Count(text, []byte("\r"))) * 3 / 4
}

// size returns the width and height that the header of a PNG, a JPEG or a GIF names.
func (s source) size() (width, height int, ok bool) {
	if !s.inBody {
		return 0, 0, false
	}
	const header = 4 << 10 // of base64 text, in which all but a JPEG with much before its size have it
	for _, length := range [...]int{min(header, len(s.data)), len(s.data)} {
		data := s.data[:length]
		if s.inBase64 {
			data, _ = decode(data[:length]) // a text that is cut off ends in the midst of bytes: those before are enough
		}
		if width, height, ok = pixels(data); ok {
			return width, height, true
		}
	}
	return 0, 0, false
}

// pixels returns the size that the header of an image names.
func pixels(data []byte) (width, height int, ok bool) {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")) && len(data) >= 24 && string(data[12:16]) == "IHDR":
		return int(binary.BigEndian.Uint32(data[16:])), int(binary.BigEndian.Uint32(data[20:])), true
	case (bytes.HasPrefix(data, []byte("GIF87a")) || bytes.HasPrefix(data, []byte("GIF89a"))) && len(data) >= 10:
		return int(binary.LittleEndian.Uint16(data[6:])), int(binary.LittleEndian.Uint16(data[8:])), true
	case bytes.HasPrefix(data, []byte("\xff\xd8")):
		return jpegPixels(data[2:])
	}
	return 0, 0, false
}

// jpegPixels returns the size in the frame header of a JPEG, whose segments follow each other from data on.
func jpegPixels(data []byte) (width, height int, ok bool) {
	for len(data) >= 4 && data[0] == 0xff {
		marker := data[1]
		switch {
		case marker == 0xff: // filled up
			data = data[1:]
			continue
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7: // without a length
			data = data[2:]
			continue
		case marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc: // a frame
			if len(data) < 9 {
				return 0, 0, false
			}
			return int(binary.BigEndian.Uint16(data[7:])), int(binary.BigEndian.Uint16(data[5:])), true
		case marker == 0xda || marker == 0xd9: // the picture, or its end
			return 0, 0, false
		}
		length := 2 + int(binary.BigEndian.Uint16(data[2:]))
		if length < 4 || length > len(data) {
			return 0, 0, false
		}
		data = data[length:]
	}
	return 0, 0, false
}
