package mmapcache

// Sample returns a piece of the prompt corpus from its beginning, as it stands in a message of the given encoding, and how
// many tokens it has: at most so many, and fewer where a window may not end. There may be none.
func (c *Cache) Sample(encoding Encoding, most int) (piece []byte, tokens int, err error) {
	err = c.Guard(func() error {
		for n := min(most, c.CorpusTokens()-1); n > 0; n-- {
			size, ok := c.renderings[encoding].window(0, uint32(n))
			if !ok || encoding == Text && c.splits.notEmpty && (size == 0 || c.splits.needsDecode(0, uint32(n), c.CorpusTokens())) {
				continue
			}
			piece, tokens = append(piece, c.renderings[encoding].data[:size]...), n
			return nil
		}
		return nil
	})
	return piece, tokens, err
}
