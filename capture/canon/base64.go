package canon

import (
	"bytes"
	"encoding/base64"
)

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
