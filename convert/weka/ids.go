package weka

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

// push appends one id.
func (l *IDs) push(id int64) {
	l.Len++
	if k := len(l.Runs) - 1; k >= 0 {
		if r := &l.Runs[k]; id == r.First+int64(r.N) {
			r.N++
			return
		}
	}
	l.Runs = append(l.Runs, Run{id, 1})
}

// commonPrefix returns the length of the longest common prefix of two lists, in ids. Equal lists have equal runs, so the first
// run that differs decides.
func commonPrefix(a, b IDs) int {
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

// textLen returns the number of bytes of a run of ids >= 0 in decimal, with one comma after each.
func (r Run) textLen() int {
	n := 0
	for done := 0; done < r.N; {
		digits, k := equalWidth(r.First+int64(done), r.N-done)
		n += k * (digits + 1)
		done += k
	}
	return n
}

// idsWithin returns how many ids of the run, each with its comma, fit into the first n bytes of its text.
func (r Run) idsWithin(n int) int {
	done := 0
	for done < r.N {
		digits, k := equalWidth(r.First+int64(done), r.N-done)
		fit := min(k, n/(digits+1))
		done += fit
		n -= fit * (digits + 1)
		if fit < k {
			break
		}
	}
	return done
}

// textPrefix returns the ids that the first n bytes of the list's text hold, each with its comma.
func (l IDs) textPrefix(n int) IDs {
	var head IDs
	for _, r := range l.Runs {
		if n == 0 {
			break
		}
		size := r.textLen()
		if size > n {
			r.N = r.idsWithin(n)
			size = n
		}
		n -= size
		head.Runs = append(head.Runs, r)
		head.Len += r.N
	}
	return head
}

// equalWidth returns the number of decimal digits of id >= 0, and how many of the n ids from id on have that many digits.
func equalWidth(id int64, n int) (digits, equal int) {
	digits, limit := 1, int64(10)
	for id >= limit {
		digits++
		if digits == 19 {
			return digits, n // the last width of int64
		}
		limit *= 10
	}
	return digits, int(min(int64(n), limit-id))
}
