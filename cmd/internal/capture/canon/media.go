package canon

import (
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/internal/media"
)

// media writes a segment of media.
func (b *builder) media(kind uint32, s media.Source, count int) {
	b.token(kind)
	b.mediaPart(s, count)
	b.token(End)
}

func (b *builder) mediaPart(s media.Source, count int) {
	b.prompt.MediaTokens += count
	b.parts = append(b.parts, Part{Kind: MediaTokens, Data: s.Data, Base64: s.Base64, Count: count})
}

// image writes an image.
func (b *builder) image(i int32) {
	s := b.sourceOf(i)
	b.media(Image, s, s.ImageTokens())
}

// bySize writes media that count by their bytes: a document, or speech and other sound.
func (b *builder) bySize(kind uint32, i int32) {
	s := b.sourceOf(i)
	b.media(kind, s, s.SizeTokens())
}

// redacted writes thinking that is only there encrypted.
func (b *builder) redacted(text []byte) {
	b.token(thinking)
	if len(text) > 0 {
		b.mediaPart(media.Source{Data: text}, media.RedactedTokens(len(text)))
	}
	b.token(End)
}

// sourceOf returns where the media of a block are.
func (b *builder) sourceOf(i int32) media.Source {
	for _, n := range [...]string{"source", "image_url", "file", "input_audio"} {
		switch v := b.member(i, n); b.kind(v) {
		case jsonlex.Object:
			return b.sourceIn(v)
		case jsonlex.String:
			return media.DataURL(b.bytes(v))
		}
	}
	return b.sourceIn(i)
}

// sourceIn returns where the media are that an object describes.
func (b *builder) sourceIn(i int32) media.Source {
	if data := b.member(i, "data"); b.kind(data) == jsonlex.String {
		return media.Source{Data: b.bytes(data), Base64: b.word(b.member(i, "type")) != "text", Inside: true}
	}
	if content := b.member(i, "content"); b.kind(content) == jsonlex.String {
		return media.Source{Data: b.bytes(content), Inside: true}
	} else if content != 0 {
		return media.Source{Data: b.compact(content), Inside: true}
	}
	if data := b.member(i, "file_data"); b.kind(data) == jsonlex.String {
		if s := media.DataURL(b.bytes(data)); s.Inside {
			return s
		}
		return media.Source{Data: b.bytes(data), Base64: true, Inside: true}
	}
	for _, n := range [...]string{"url", "file_url"} {
		if url := b.member(i, n); b.kind(url) == jsonlex.String {
			return media.DataURL(b.bytes(url))
		}
	}
	if id := b.member(i, "file_id"); id != 0 {
		return media.Source{Data: b.bytes(id)}
	}
	return media.Source{Data: b.bytes(b.member(i, "id"))}
}

// Bytes returns the bytes of media of which their tokens are a digest: what the base64 text means, or the text itself, if
// it is none.
func (p Part) Bytes() []byte {
	if !p.Base64 {
		return p.Data
	}
	decoded, err := media.Decode(p.Data)
	if err != nil {
		return p.Data
	}
	return decoded
}
