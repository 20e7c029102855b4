package content

import (
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/internal/media"
)

// GenAI reads a message of OpenTelemetry's conventions, which has parts; one without is of chat completions. A message of which all parts
// are results is of a tool.
func (r *Reader) GenAI(v Raw) (m text.Message, err error) {
	f, err := fieldsOf(v)
	switch {
	case err != nil:
		return m, Malformed(err)
	case !f[kParts].IsArray():
		return r.Message(v)
	case !f[kRole].IsString():
		return m, ErrNoRole
	}
	m = r.says(f[kRole])
	m.Parts = r.GenAIParts(f[kParts])
	results := 0
	for k := range m.Parts {
		if m.Parts[k].Kind == text.Result {
			results++
		}
	}
	if results > 0 && results == len(m.Parts) {
		m.Role, m.Name = text.Tool, 0
	}
	return m, r.err
}

// GenAIParts reads parts of a message of OpenTelemetry's conventions.
func (r *Reader) GenAIParts(v Raw) (parts []text.Part) {
	_ = v.Array(func(v Raw) error { // it was read before
		parts = append(parts, r.genAIPart(v))
		return nil
	})
	return parts
}

func (r *Reader) genAIPart(v Raw) text.Part {
	if v.IsString() {
		return text.Part{Kind: text.Plain, Text: r.Text(v)}
	}
	f, _ := fieldsOf(v)
	body := f[kContent]
	switch kind := f[kType].String(); {
	case kind == "text" && (body == nil || body.IsString()):
		return text.Part{Kind: text.Plain, Text: r.Text(body)}
	case kind == "reasoning" && (body == nil || body.IsString()):
		return text.Part{Kind: text.Thinking, Text: r.Text(body)}
	case kind == "tool_call":
		return r.call(f[kId], f[kName], f[kArguments])
	case kind == "tool_call_response":
		p := text.Part{Kind: text.Result, ID: r.Text(f[kId])}
		for _, v := range [...]Raw{f[kResponse], f[kResult], body} { // the schema has the first, its example the second
			if v.IsString() {
				p.Parts = []text.Part{{Kind: text.Plain, Text: r.Text(v)}}
				break
			} else if v != nil {
				p.Parts = []text.Part{{Kind: text.Plain, Text: r.JSON(v)}}
				break
			}
		}
		return p
	case kind == "blob" && body.IsString():
		return r.media(mediaKind(f[kModality], f[kMimeType]), media.Source{Data: body.AppendString(nil), Base64: true, Inside: true})
	case (kind == "uri" || kind == "file") && (f[kUrl].IsString() || f[kFileId].IsString()):
		return r.media(mediaKind(f[kModality], f[kMimeType]), sourceOf(v))
	default:
		return r.other(v, kind)
	}
}

// mediaKind returns what media are, a document where neither says it.
func mediaKind(modality, mime Raw) text.PartKind {
	for _, v := range [...]Raw{modality, mime} {
		switch name, _, _ := strings.Cut(v.String(), "/"); name {
		case "image":
			return text.Image
		case "audio":
			return text.Audio
		}
	}
	return text.Document
}
