package interval

// Difference is how a figure of one sample, A, differs from that of another, B.
type Difference struct {
	A, B     float64  // over the trees that were compared
	Absolute Interval // of A - B
	Relative Interval // of (A - B) / B; Unknown where a resample has a B of 0
}

// Paired compares two samples tree by tree: trees with the same number are a pair, and pairs are drawn. Trees that only one of
// them has are left out. It returns the differences and the number of pairs. The error, if any, is a *FewTreesError.
func Paired(a, b Sample, stats []Statistic, seed Seed) ([]Difference, int, error) {
	both, others := a.places(), b.places()
	for t := range both {
		if _, ok := others[t]; !ok {
			delete(both, t)
		}
	}
	if len(both) < MinTrees {
		return nil, len(both), &FewTreesError{len(both), true}
	}
	number(both)
	pa, pb, g := a.prepare(both, stats), b.prepare(both, stats), seed.generator()
	weights := make([]uint32, len(both))
	return compare(pa, pb, stats, func() (wa, wb []uint32) {
		draw(g, weights)
		return weights, weights
	}), len(both), nil
}

// Unpaired compares two samples whose trees have nothing in common: for each resample it draws the trees of a, then those of b.
// The error, if any, is a *FewTreesError.
func Unpaired(a, b Sample, stats []Statistic, seed Seed) ([]Difference, error) {
	ta, tb := a.places(), b.places()
	if n := min(len(ta), len(tb)); n < MinTrees {
		return nil, &FewTreesError{Trees: n}
	}
	pa, pb, g := a.prepare(ta, stats), b.prepare(tb, stats), seed.generator()
	wa, wb := make([]uint32, len(ta)), make([]uint32, len(tb))
	return compare(pa, pb, stats, func() ([]uint32, []uint32) {
		draw(g, wa)
		draw(g, wb)
		return wa, wb
	}), nil
}

// compare computes the differences of the samples, and those of the resamples that draw gives.
func compare(a, b *sorted, stats []Statistic, draw func() (wa, wb []uint32)) []Difference {
	fa, fb := make([]float64, len(stats)), make([]float64, len(stats))
	absolute, relative := newDraws(stats), newDraws(stats)
	difference, share := make([]float64, len(stats)), make([]float64, len(stats))
	for range Resamples {
		wa, wb := draw()
		a.figures(wa, fa)
		b.figures(wb, fb)
		for k := range stats {
			difference[k] = fa[k] - fb[k]
			share[k] = difference[k] / fb[k]
		}
		absolute.add(difference)
		relative.add(share)
	}
	a.figures(ones(len(a.count)), fa)
	b.figures(ones(len(b.count)), fb)
	list := make([]Difference, len(stats))
	da, dr := absolute.intervals(stats), relative.intervals(stats)
	for k := range stats {
		list[k] = Difference{fa[k], fb[k], da[k], dr[k]}
	}
	return list
}

// ones are the weights of a sample as it is.
func ones(n int) []uint32 {
	list := make([]uint32, n)
	for k := range list {
		list[k] = 1
	}
	return list
}
