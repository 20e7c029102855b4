package timeline

// Peak returns the context that a request needs, in tokens: its prompt and what it may generate.
func Peak(in, maxTokens int) int { return in + maxTokens }

// Select returns the positions of the traces that a run takes: in order, those whose peak fits a context, until there are
// enough. 0 means no limit. Section 7.4.
func Select(peaks []int, maxContext, entries int) (kept []int) {
	for k, peak := range peaks {
		if entries > 0 && len(kept) == entries {
			break
		}
		if maxContext <= 0 || peak <= maxContext {
			kept = append(kept, k)
		}
	}
	return kept
}
