package measure

// CoverageThreshold is the least share of a phase that its answers must cover (doc/spec/replay.md 8.8).
const CoverageThreshold = 0.95

// Coverage says how far into a phase the server answered: the latest instants of three kinds, as shares of the duration that the
// phase was asked to last, 0 to 1.
type Coverage struct {
	FirstToken float64 `json:"first_token"` // of a request that ended well
	ITL        float64 `json:"itl"`         // end of a request that has an inter-token latency
	Content    float64 `json:"content"`     // content message of any request, also of one that failed or was cancelled
}

// passes reports whether the largest share suffices.
func (c *Coverage) passes() bool { return max(c.FirstToken, c.ITL, c.Content) >= CoverageThreshold }

// latest are the latest instants of a phase that a Coverage needs, in nanoseconds since its start; 0: there is none.
type latest struct{ firstToken, itl, content int64 }

// add adds a record, which is not of the warmup.
func (l *latest) add(r *Record, rules Rules) {
	l.content = max(l.content, Nanos(r.LastToken))
	if r.Error != nil {
		return
	}
	l.firstToken = max(l.firstToken, Nanos(r.FirstToken))
	if _, ok := rules.ITL(r); ok {
		l.itl = max(l.itl, Nanos(r.End))
	}
}

// coverage returns the shares of a duration in nanoseconds.
func (l *latest) coverage(expected int64) *Coverage {
	share := func(at int64) float64 { return min(max(0, float64(at)/float64(expected)), 1) }
	return &Coverage{share(l.firstToken), share(l.itl), share(l.content)}
}
