package canon

import (
	"bytes"

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

// document writes a document.
func (b *builder) document(i int32) { b.bySize(Document, b.sourceOf(i)) }

// audio writes speech or other sound.
func (b *builder) audio(i int32) { b.bySize(Audio, b.sourceOf(i)) }

// bySize writes media that count by their bytes.
func (b *builder) bySize(kind uint32, s source) {
	count := byReference
	if s.inBody {
		count = min(max(ceil(uint64(s.length()), bytesPerToken), 1), maxDocument)
	}
	b.media(kind, s, count)
}

// redacted writes thinking that is only there encrypted.
func (b *builder) redacted(data int32) { b.redactedText(b.bytes(data)) }

func (b *builder) redactedText(text []byte) {
	b.token(Thinking)
	if len(text) > 0 {
		b.mediaPart(source{data: text}, ceil(3*uint64(len(text)), 16))
	}
	b.token(End)
}

// sourceOf returns where the media of a block are.
func (b *builder) sourceOf(i int32) source {
	for _, n := range [...]name{nSource, nImageURL, nFile, nInputAudio} {
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
	if data := b.member(i, nData); b.kind(data) == jsonlex.String {
		return source{data: b.bytes(data), inBase64: b.word(b.member(i, nType)) != "text", inBody: true}
	}
	if content := b.member(i, nContent); b.kind(content) == jsonlex.String {
		return source{data: b.bytes(content), inBody: true}
	} else if content != 0 {
		return source{data: b.compact(content), inBody: true}
	}
	if data := b.member(i, nFileData); b.kind(data) == jsonlex.String {
		if s := dataURL(b.bytes(data)); s.inBody {
			return s
		}
		return source{data: b.bytes(data), inBase64: true, inBody: true}
	}
	for _, n := range [...]name{nURL, nFileURL} {
		if url := b.member(i, n); b.kind(url) == jsonlex.String {
			return dataURL(b.bytes(url))
		}
	}
	if id := b.member(i, nFileID); id != 0 {
		return source{data: b.bytes(id)}
	}
	return source{data: b.bytes(b.member(i, nID))}
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
