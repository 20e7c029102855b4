package replay

// selectTraces returns the positions of the traces that a run plays: in order, those whose longest request fits a
// context, until there are enough. peaks are the tokens of each trace's longest request, prompt and completion together.
// 0 means no limit. doc/spec/reconstruction.md 7.4.
func selectTraces(peaks []int, maxContext, entries int) (kept []int) {
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
