package trace

// Run is a stretch of a hash_ids list: First, First+1, ... of length N. Runs of a list are as long as possible.
type Run struct {
	First int64
	N     int
}

// IDs is a hash_ids list as runs. Recorded lists have thousands of ids in three or four runs.
type IDs struct {
	Runs []Run
	Len  int // ids in all
}

// Append appends an id to the list.
func (l *IDs) Append(id int64) {
	l.Len++
	if k := len(l.Runs) - 1; k >= 0 {
		if r := &l.Runs[k]; id == r.First+int64(r.N) {
			r.N++
			return
		}
	}
	l.Runs = append(l.Runs, Run{id, 1})
}

// Head returns the first n ids of the list.
func (l IDs) Head(n int) (h IDs) {
	for _, r := range l.Runs {
		if r.N = min(r.N, n-h.Len); r.N == 0 {
			break
		}
		h.Runs, h.Len = append(h.Runs, r), h.Len+r.N
	}
	return h
}

// CommonPrefix returns the length of the longest common prefix of two lists, in ids. Equal lists have equal runs, so the first
// run that differs decides.
func CommonPrefix(a, b IDs) int {
	n := 0
	for i := range min(len(a.Runs), len(b.Runs)) {
		x, y := a.Runs[i], b.Runs[i]
		if x.First != y.First {
			return n
		}
		n += min(x.N, y.N)
		if x.N != y.N {
			return n
		}
	}
	return n
}
