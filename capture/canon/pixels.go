package canon

import (
	"bytes"
	"encoding/binary"
)

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
