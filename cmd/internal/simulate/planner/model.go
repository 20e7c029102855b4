package planner

// model learns from the passes of a pool how long its passes take, and what its requests are like.
type model struct {
	kind    kind
	least   int // samples for a fit
	samples samples
	fitted  Line
	at      int // changes of the samples that fitted knows

	prompt  average // tokens of a prefill in a pass
	length  average // KV tokens of a decoding request
	prefill average // tokens of a pass
	decodes average // requests of a decode step
	seenKV  int     // the most KV tokens of a step
}

func newModel(k kind, c Config) *model {
	m := &model{kind: k, least: c.MinObservations, samples: newSamples(c.MaxSamples, c.BucketCount, k.features())}
	for _, a := range []*average{&m.prompt, &m.length, &m.prefill, &m.decodes} {
		*a = newAverage(c.MaxSamples)
	}
	return m
}

// line returns the line through the samples as they are.
func (m *model) line() Line {
	if m.at != m.samples.changes {
		m.fitted, m.at = fit(m.kind, m.samples.list, m.least), m.samples.changes
	}
	return m.fitted
}

// observe learns from a pass.
func (m *model) observe(r *record) {
	if r.prompts > 0 {
		m.prompt.add(float64(r.prefill) / float64(r.prompts))
	}
	if r.requests > 0 {
		m.length.add(float64(r.kv) / float64(r.requests))
	}
	m.prefill.add(float64(r.prefill))
	m.decodes.add(float64(r.requests))
	m.seenKV = max(m.seenKV, r.kv)
	m.point(r.prefill, int(r.requests), r.kv, r.wall)
}

// point keeps a pass that took time.
func (m *model) point(prefill, requests, kv int, wall int64) {
	if wall <= 0 {
		return
	}
	s := sample{wall: float64(wall) / 1e9}
	switch m.kind {
	case prefillKind:
		s.x[0] = float64(prefill)
	case decodeKind:
		s.x = [2]float64{float64(requests), float64(kv)}
	default:
		s.x = [2]float64{float64(prefill), float64(kv)}
	}
	m.samples.add(s)
}

// average is the mean of the last values, without the zeros before the first other value.
type average struct {
	ring []float64
	next int
	full bool
	some bool
}

func newAverage(window int) average { return average{ring: make([]float64, window)} }

func (a *average) add(v float64) {
	if v == 0 && !a.some {
		return
	}
	a.some = true
	a.ring[a.next] = v
	if a.next++; a.next == len(a.ring) {
		a.next, a.full = 0, true
	}
}

// value returns the mean; 0 without values.
func (a *average) value() float64 {
	list := a.ring[:a.next]
	if a.full {
		list = a.ring
	}
	if len(list) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}
