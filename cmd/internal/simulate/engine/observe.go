package engine

// Pass is what one pass scheduled and left waiting: doc/spec/simulate.md 10.
type Pass struct {
	Start, End    int64
	Charged       int   // prompt tokens that its prefill part was charged for
	Prefill       Group // requests with prompt tokens in this pass
	Decode        Group // requests of its decode step
	QueuedPrefill Group // requests that wait for their first pass
	QueuedDecode  Group // requests that wait after a preemption
}

// Group is some requests of a pass.
type Group struct {
	Requests int
	Tokens   int     // prompt tokens computed; tokens read by the decode step; prompt lengths; known lengths
	Prefix   int     // of Prefill: prompt tokens that were known before
	Variance float64 // of the population: prompt lengths of prefills, known lengths of decodes
}

// recordPass fills the record of the pass that was evaluated, before its tokens are emitted.
func (w *Worker) recordPass(now int64, charged, requests, length int) {
	w.record = Pass{Start: now, End: w.end, Charged: charged}
	w.record.Prefill = w.group(w.running, func(r *Request) (int, bool) {
		return r.Prompt, r.used.pass == w.pass.number && r.used.chunk > 0
	})
	w.record.Prefill.Tokens, w.record.Prefill.Prefix = w.pass.chunk, w.pass.prefix
	w.record.Decode = w.group(w.running, func(r *Request) (int, bool) {
		return r.length(), r.computed >= r.length() && !(w.rules.firstAtPrefill && r.Tokens == 0)
	})
	w.record.Decode.Tokens = w.kvTokens(length)
	w.recordQueue()
}

func (w *Worker) recordQueue() {
	waiting := w.waiting.all()
	w.record.QueuedPrefill = w.group(waiting, func(r *Request) (int, bool) { return r.Prompt, r.Status == Waiting })
	w.record.QueuedDecode = w.group(waiting, func(r *Request) (int, bool) { return r.length(), r.Status == Preempted })
}

// group counts the requests that belong to a group, and the lengths that they have in it.
func (w *Worker) group(list []*Request, member func(*Request) (int, bool)) (g Group) {
	mean, squares, first := 0.0, 0.0, 0 // Welford's, of the differences from the first: they stay while all lengths grow together
	for _, r := range list {
		length, ok := member(r)
		if !ok {
			continue
		}
		if g.Requests++; g.Requests == 1 {
			first = length
		}
		g.Tokens += length
		x := float64(length - first)
		d := x - mean
		mean += d / float64(g.Requests)
		squares += float64(d * (x - mean))
	}
	if g.Requests > 0 {
		g.Variance = squares / float64(g.Requests)
	}
	return g
}
