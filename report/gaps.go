package report

import "github.com/agentx/agentx/replay/measure"

// gaps adds the block of the times between the content messages of all requests that ended well, in one pool.
func (t *tableBuilder) gaps() error {
	if !t.chunks.known() {
		return nil
	}
	moments, k := moments{}, newRanking(fewKeys)
	for more := true; more; {
		err := t.eachGap(func(gap int64) {
			if k.pass == 0 {
				moments.add(float64(gap)/1e6, 1)
			}
			k.add(uint64(gap), 1)
		})
		if err != nil {
			return err
		}
		more = k.endPass(neighbours)
	}
	if k.total == 0 {
		return nil
	}
	stats := []Stat{{"avg", Float(moments.mean)}, {"min", Float(moments.min)}, {"max", Float(moments.max)}}
	for n, q := range percentiles {
		first, _ := measure.Linear(k.total, q)
		sample := func(at int64) float64 { return float64(k.found[2*n+int(at-first)]) / 1e6 }
		stats = append(stats, Stat{percentileName(q), Float(measure.Method(measure.Linear).Of(k.total, q, sample))})
	}
	stats = append(stats, Stat{"std", Float(moments.std())}, Stat{"count", Int(k.total)}, Stat{"sum", Float(moments.mean * float64(k.total))})
	t.add(Block{interChunkLatency, "Inter Chunk Latency", "ms", Distribution, stats})
	return nil
}

// eachGap calls visit for every gap, in nanoseconds.
func (t *tableBuilder) eachGap(visit func(gap int64)) (err error) {
	t.each(func(r *row) {
		if r.failed || r.packed == 0 || err != nil {
			return
		}
		contents, e := t.chunks.of(r)
		if err = e; err != nil {
			return
		}
		last := int64(-1)
		for at := range contents.All() {
			if last >= 0 {
				visit(int64(at) - last)
			}
			last = int64(at)
		}
	})
	return err
}

// neighbours returns the ranks of the two samples between which each percentile lies.
func neighbours(n int64) (ranks []int64) {
	if n == 0 {
		return nil
	}
	for _, q := range percentiles {
		at, _ := measure.Linear(n, q)
		ranks = append(ranks, at+1, min(at+2, n))
	}
	return ranks
}
