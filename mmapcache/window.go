package mmapcache

// Window is a stretch of the prompt corpus, which is taken modulo its length: what a block, the head of a block or a filler stands
// for.
type Window struct{ Start, Tokens uint32 }

// AppendWindows appends the windows of a segment of the plan of trace i, in the order of its tokens. It reads mapped files: Guard
// makes an error of what cannot be read. A damaged cache may have windows that begin outside the corpus.
func (c *Cache) AppendWindows(dst []Window, i int, p *Plan, segment int) ([]Window, error) {
	shard, _, _, err := c.tablesOf(i)
	if err != nil {
		return dst, err
	}
	s := &p.Segments[segment]
	switch {
	case s.Flags&Filler != 0:
		return append(dst, Window{shard.fillerStart(&p.Trace, s.First), c.fillerTokens(p, s.First)}), nil
	case s.Flags&Head != 0:
		return append(dst, Window{shard.blockStart(&p.Trace, s.First), s.Count}), nil
	default:
		for k := range s.Count {
			dst = append(dst, Window{shard.blockStart(&p.Trace, s.First+k), p.Trace.BlockSize})
		}
		return dst, nil
	}
}
