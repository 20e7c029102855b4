package hitcurve

// fifo returns the blocks that FIFO finds in one pool with a cache of size blocks. Blocks leave in the order in which they came, of one
// prompt the last first; one that is there keeps its place. came has an entry of 0 for each chain number, and is overwritten.
func fifo(list []Access, came []int64, o *Options, size int64) (found int64) {
	count := size // blocks that have come, from the first that a lookup takes for one that is there
	for _, a := range list {
		gone := count - size // what came up to here is not there
		leading, missed := 0, false
		for _, run := range a.Chain {
			for _, at := range came[run.First : run.First+run.Count] {
				if missed = missed || at <= gone; missed {
					break
				}
				leading++
			}
		}
		found += int64(min(leading, o.most(a)))
		for r := len(a.Chain) - 1; r >= 0; r-- {
			part := came[a.Chain[r].First : a.Chain[r].First+a.Chain[r].Count]
			for i := len(part) - 1; i >= 0; i-- {
				if part[i] <= gone {
					count++
					part[i] = count
				}
			}
		}
	}
	return found
}
