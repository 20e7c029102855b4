package mmapcache

// Window is a stretch of the prompt corpus, which is taken modulo its length: what a block, the head of a block or a filler stands
// for.
type Window struct{ Start, Tokens uint32 }

// AppendWindows appends the windows of a segment of a plan, in the order of its tokens. It reads mapped files: Guard makes an
// error of what cannot be read. A damaged cache may have windows that begin outside the corpus.
func (c *Cache) AppendWindows(dst []Window, p *Plan, segment int) []Window {
	s := &p.Segments[segment]
	switch first := int(p.Trace.FirstBlock + s.First); {
	case s.Flags&Filler != 0:
		start := c.placement.at(c.Structure.Blocks() + int(p.Trace.FirstTurn) + int(s.First))
		return append(dst, Window{start, c.fillerTokens(p, s.First)})
	case s.Flags&Head != 0:
		return append(dst, Window{c.placement.at(first), s.Count})
	default:
		for k := range int(s.Count) {
			dst = append(dst, Window{c.placement.at(first + k), p.Trace.BlockSize})
		}
		return dst
	}
}
