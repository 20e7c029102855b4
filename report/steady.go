package report

import "github.com/agentx/agentx/replay/measure"

// newSteady returns the builder of what lay between the end of the warmup and the deadline. A request counts in its latencies if it
// was sent in that time and ended, be it in the grace; its interval and its tokens count as far as they lie in that time.
func (run *Run) newSteady(chunks *chunkFile, c *collection) *tableBuilder {
	t := run.newTable(chunks, measure.ProfilingPhase, &c.headline)
	t.samples = []*rows{&c.headline, &c.cooldown}
	t.present = []*rows{&c.headline, &c.cooldown, &c.rest}
	t.steady, t.from, t.to = true, 0, 0
	if f := run.Info.Facts; f != nil && f.Deadline > 0 {
		t.to = measure.At(min(f.Deadline, f.PhaseDuration))
		return t
	}
	each(t.present, func(r *row) { t.to = max(t.to, r.End) })
	return t
}

// steadyRates adds the rates of what lay in the window. Of a request that lay in it in part, that share counts as a request.
func (t *tableBuilder) steadyRates() error {
	seconds := measure.Number(float64(t.to-t.from) / 1e9)
	if !(seconds > 0) {
		return nil
	}
	t.scalar("phase_duration", "Phase Duration", "sec", Float(float64(seconds)))
	var requests, good, input, output float64
	var err error
	t.each(func(r *row) {
		if r.failed || err != nil {
			return
		}
		var n float64
		share := t.within(r.Sent, r.End)
		requests += share
		if r.good {
			good += share
		}
		input += float64(max(0, r.PromptTokens.N())) * t.within(r.Sent, max(r.FirstToken, r.Sent))
		n, err = t.outputWithin(r)
		output += n
	})
	if err != nil {
		return err
	}
	t.rates(seconds, Float(requests), Float(good), Float(input), Float(output))
	return nil
}

// within returns the share of an interval that lies in the window; of an instant, whether it does.
func (t *tableBuilder) within(from, to measure.Time) float64 {
	if to <= from {
		if from >= t.from && from < t.to {
			return 1
		}
		return 0
	}
	return float64(max(0, min(to, t.to)-max(from, t.from))) / float64(to-from)
}

// outputWithin returns the output tokens that a request got in the window.
func (t *tableBuilder) outputWithin(r *row) (float64, error) {
	if r.OSL() == unknown || r.End <= t.to {
		return float64(max(0, r.OSL())), nil
	}
	contents, err := t.chunks.of(r)
	if err != nil {
		return 0, err
	}
	steps := flow(nil, r, contents)
	if len(steps) == 0 {
		return 0, nil
	}
	n := steps[0].tokens * t.within(steps[0].at, steps[0].at)
	for k := range steps[1:] {
		from, to := steps[k].at, steps[k+1].at
		n += steps[k].rate * float64(to-from) * t.within(from, to)
	}
	return n, nil
}
