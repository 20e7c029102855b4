// Package media says how many tokens stand for an image, a document or a sound in a prompt, from the bytes of it that are there:
// doc/spec/capture.md 5.2.
//
//	s := media.DataURL([]byte("data:image/png;base64,iVBORw0KGgo..."))
//	tokens := s.ImageTokens() // clamp(ceil(width · height / 750), 1, 1600)
package media

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// How many tokens stand for media.
const (
	byReference    = 1000
	pixelsPerToken = 750
	maxImage       = 1600
	bytesPerToken  = 64
	maxDocument    = 1 << 16
)

// Source is where media are: in a message, as base64 text or as they are, or elsewhere.
type Source struct {
	Data   []byte // of the message; of media elsewhere what refers to them
	Base64 bool   // Data is base64 text
	Inside bool   // Data has the media
}

// DataURL returns where the media of a URL are: inside, if it is one such as data:image/png;base64,AAAA.
func DataURL(url []byte) Source {
	head, data, found := bytes.Cut(url, []byte(","))
	if found && len(head) >= 5 && bytes.EqualFold(head[:5], []byte("data:")) && bytes.HasSuffix(head, []byte(";base64")) {
		return Source{Data: data, Base64: true, Inside: true}
	}
	return Source{Data: url}
}

// ImageTokens returns how many tokens stand for an image: by its width and height where its header says them.
func (s Source) ImageTokens() int {
	if width, height, ok := s.size(); ok {
		return min(max(ceil(uint64(width)*uint64(height), pixelsPerToken), 1), maxImage)
	}
	return byReference
}

// SizeTokens returns how many tokens stand for media that count by their bytes: a document, or speech and other sound.
func (s Source) SizeTokens() int {
	if s.Inside {
		return min(max(ceil(uint64(s.length()), bytesPerToken), 1), maxDocument)
	}
	return byReference
}

// RedactedTokens returns how many tokens stand for thinking of which only an encrypted text of a length is there.
func RedactedTokens(length int) int { return ceil(3*uint64(length), 16) }

// ceil returns n/d, rounded up.
func ceil(n, d uint64) int { return int((n + d - 1) / d) }

// Decode returns what a base64 text means, in either alphabet, padded or not.
func Decode(text []byte) ([]byte, error) {
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
func (s Source) length() int {
	if !s.Base64 {
		return len(s.Data)
	}
	text := bytes.TrimRight(s.Data, "=\r\n")
	return (len(text) - bytes.Count(text, []byte("\n")) - bytes.Count(text, []byte("\r"))) * 3 / 4
}

// size returns the width and height that the header of a PNG, a JPEG or a GIF names.
func (s Source) size() (width, height int, ok bool) {
	if !s.Inside {
		return 0, 0, false
	}
	const header = 4 << 10 // of base64 text, in which all but a JPEG with much before its size have it
	for _, length := range [...]int{min(header, len(s.Data)), len(s.Data)} {
		data := s.Data[:length]
		if s.Base64 {
			data, _ = Decode(data[:length]) // a text that is cut off ends in the midst of bytes: those before are enough
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
