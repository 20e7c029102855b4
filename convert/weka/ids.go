package weka

import "github.com/agentx/agentx/trace"

// textLen returns the number of bytes of a run of ids >= 0 in decimal, with one comma after each.
func textLen(r trace.Run) int {
	n := 0
	for done := 0; done < r.N; {
		digits, k := equalWidth(r.First+int64(done), r.N-done)
		n += k * (digits + 1)
		done += k
	}
	return n
}

// idsWithin returns how many ids of the run, each with its comma, fit into the first n bytes of its text.
func idsWithin(r trace.Run, n int) int {
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
func textPrefix(l trace.IDs, n int) trace.IDs {
	var head trace.IDs
	for _, r := range l.Runs {
		if n == 0 {
			break
		}
		size := textLen(r)
		if size > n {
			r.N = idsWithin(r, n)
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
