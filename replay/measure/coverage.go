package measure

// CoverageThreshold is the least share of a phase that its answers must cover (doc/spec/replay.md 8.8).
const CoverageThreshold = 0.95

// Coverage says how far into a phase the server answered: the latest instants of three kinds, as shares of the duration that the
// phase was asked to last, 0 to 1.
type Coverage struct {
	FirstToken float64 `json:"first_token"` // of a request that ended well
	ITL        float64 `json:"itl"`         // end of a request that has an inter-token latency
	Content    Number  `json:"content"`     // content message of any request, also of one that failed or was cancelled; missing: it does not count

	Expected float64 `json:"expected_duration"` // of the phase, seconds
	Required float64 `json:"required"`          // share that the largest of the three must reach
}

// Largest returns the share that decides.
func (c *Coverage) Largest() float64 {
	largest := max(c.FirstToken, c.ITL)
	if !c.Content.IsMissing() {
		largest = max(largest, float64(c.Content))
	}
	return largest
}

// passes reports whether the largest share suffices.
func (c *Coverage) passes() bool { return c.Largest() >= CoverageThreshold }

// latest are the latest instants of a phase that a Coverage needs, 0: there is none.
type latest struct{ firstToken, itl, content Time }

// add adds a record, which is not of the warmup.
func (l *latest) add(r *Record, rules Rules) {
	l.content = max(l.content, r.LastToken)
	if r.Error != nil {
		return
	}
	l.firstToken = max(l.firstToken, r.FirstToken)
	if _, ok := rules.ITL(&r.Numbers); ok {
		l.itl = max(l.itl, r.End)
	}
}

// coverage returns the shares of a duration.
func (l *latest) coverage(expected Time, rules Rules) *Coverage {
	share := func(at Time) float64 { return min(max(0, float64(at)/float64(expected)), 1) }
	c := &Coverage{share(l.firstToken), share(l.itl), Number(share(l.content)), expected.Seconds(), CoverageThreshold}
	if rules.LatenciesOnly {
		c.Content = Missing
	}
	return c
}
