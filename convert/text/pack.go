package text

import "encoding/binary"

// PackParts appends parts as a few bytes each: what a reader keeps of rows until it knows which message they are of.
func PackParts(b []byte, parts []Part) []byte {
	b = binary.AppendUvarint(b, uint64(len(parts)))
	for k := range parts {
		p := &parts[k]
		b = append(b, byte(p.Kind)<<1|boolByte(p.Failed))
		for _, n := range [...]uint32{uint32(p.Tokens), uint32(p.ID), uint32(p.Name), uint32(p.Text)} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		b = PackParts(b, p.Parts)
	}
	return b
}

// UnpackParts returns the parts that PackParts appended at the beginning of b, and what stands behind them.
func UnpackParts(b []byte) (parts []Part, rest []byte) {
	n, b := unpack(b)
	if n > 0 {
		parts = make([]Part, n)
	}
	for k := range parts {
		p := &parts[k]
		p.Kind, p.Failed = PartKind(b[0]>>1), b[0]&1 != 0
		b = b[1:]
		var v [4]uint64
		for i := range v {
			v[i], b = unpack(b)
		}
		p.Tokens, p.ID, p.Name, p.Text = int32(v[0]), Text(v[1]), Text(v[2]), Text(v[3])
		p.Parts, b = UnpackParts(b)
	}
	return parts, b
}

func unpack(b []byte) (uint64, []byte) {
	n, size := binary.Uvarint(b)
	return n, b[size:]
}
