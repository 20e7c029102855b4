package mmapcache

// Sample returns the beginning of the prompt corpus in an encoding, as a message has it, and how many tokens that is: at
// most the given number, fewer where text cannot be cut there, and 0 where it cannot be cut at all.
func (c *Cache) Sample(encoding Encoding, most int) (piece []byte, tokens int, err error) {
	if err := encoding.validate(); err != nil {
		return nil, 0, err
	}
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
