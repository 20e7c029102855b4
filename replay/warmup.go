package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// Warmup says what is sent before the measured phase. The zero value is nothing. Every request of it asks for one token.
type Warmup struct {
	Primers  bool          // the last request of each session before the start of its lane
	Requests int           // then so many requests on each lane, without gaps; 0: none
	Duration time.Duration // then requests without gaps for so long; 0: none
	LeadMax  time.Duration // longest time from a primer to the end of the ramp; 0: that of Defaults, or no limit under Limits.SystemIdle; Off: no limit
	Grace    time.Duration // how long requests may go on after the last was sent; 0: no limit
}

// asked reports whether there is a warmup.
func (w Warmup) asked() bool { return w.Primers || w.pressing() }

// pressing reports whether there is a pressure stage, which comes after the primers.
func (w Warmup) pressing() bool { return w.Requests > 0 || w.Duration > 0 }

// warmup is what a run plays before the phase that is measured: rounds of primers (warmup_primers.go), then the pressure stage
// (warmup_stage.go). It is the recorder of these phases. doc/spec/replay.md 3.
type warmup struct {
	*run
	facts      measure.WarmupFacts
	pressing   bool          // the pressure stage is played, not a round of primers
	grace      time.Duration // of the phase that is played
	overflowed map[int]bool  // traces of which a root primer did not fit the context
	replaced   map[int]bool  // lanes that have drawn another trace

	refused  bool     // the server has failed a request of a root
	failed   int      // requests of roots that failed or were cancelled
	failures []string // the first of them
}

// warmUp plays the warmup, if there is one, and leaves the lanes as profiling takes them up. ok is false if profiling must not
// begin: the error says why, or the run was interrupted.
func (r *run) warmUp(ctx context.Context) (ok bool, err error) {
	if !r.Warmup.asked() {
		return true, nil
	}
	w := &warmup{run: r, overflowed: map[int]bool{}, replaced: map[int]bool{}}
	r.warmed = &w.facts
	if !r.Start.Sampled {
		r.reporter.warn("warmup: there are no primers, because every lane begins with the first turn of its trace: " + preset.Setting("start") + " sampled begins in the middle")
	}
	defer func() {
		r.endPeriod()
		for _, p := range r.periods { // none if nothing was sent
			w.facts.Duration = measure.Number(p.length.Seconds())
		}
	}()
	r.sampler.renderLater()
	if _, err := r.beginPeriod(ctx, measure.WarmupPhase); err != nil {
		return false, err
	}
	stuck, err := w.prime(ctx)
	if err == nil && r.Warmup.pressing() && !stuck {
		err = w.press(ctx)
	}
	if errors.Is(err, errEnded) {
		return false, nil
	}
	return err == nil, err
}

// errEnded says that the run ends with a phase of the warmup for a reason that is told elsewhere: an interrupt, a
// deadlocked tree (StopOnDeadlock), or records that cannot be written.
var errEnded = errors.New("replay: the run has ended in its warmup")

// phase returns a phase of the warmup.
func (w *warmup) phase(source treeSource, limits conductor.Limits) phase {
	limits.Prefill = w.Limits.Prefill
	return phase{
		name: measure.WarmupPhase, source: source, limits: limits, recorder: w, oneToken: true, fatal: w.fails,
		deadlines: deadlines{grace: cmp.Or(w.Warmup.Grace, unlimited), lastSent: true},
	}
}

// play plays a phase of the warmup. After an error no other phase begins.
func (w *warmup) play(ctx context.Context, p phase) (*loop, error) {
	w.grace = p.deadlines.grace
	l, err := w.playPhase(ctx, p)
	switch {
	case err != nil:
		return l, err
	case l.interrupted || l.unwritable || l.deadlocked:
		return l, errEnded
	case w.failed > 0:
		return l, w.failure()
	}
	return l, nil
}

// record counts and writes the record of a request.
func (w *warmup) record(r *measure.Record) error {
	r.Bucket = measure.WarmupBucket
	switch {
	case w.pressing:
		w.facts.StageRequests++
	case r.Error != nil:
		w.facts.PrimersFailed++
		fallthrough
	default:
		w.facts.Primers++
	}
	return w.results.recordWarmup(r)
}

// onEvent records a deadlocked tree. What else a conductor does in a warmup is not reported.
func (w *warmup) onEvent(e conductor.Event) {
	if e.Kind == conductor.TreeDeadlocked {
		w.results.onDeadlock(measure.WarmupPhase, e)
	}
}

// fails notes a request of a root session that ended badly, and reports whether that fails the warmup. With WarmupOverflow redraw a
// primer that does not fit the context does not: its lane draws another trace.
func (w *warmup) fails(r *measure.Record) bool {
	switch {
	case r.Error == nil || r.Parent != "":
		return false
	case r.Error.Category == wire.ContextOverflow && !w.Switches.OverflowFails:
		w.overflowed[w.sampler.lanes[w.Part.own(r.Lane)].index] = true
		return false
	case r.Error.Category != wire.Cancelled:
		w.refused = true
		w.fail(r, r.Error.Message)
	case !w.refused: // not cancelled because another request failed
		w.fail(r, fmt.Sprintf("still running after the grace of %v", w.grace))
	}
	return true
}

// maxFailures is how many requests that failed a warmup are named.
const maxFailures = 10

// fail notes why a request has failed the warmup; of many it keeps the first.
func (w *warmup) fail(r *measure.Record, reason string) {
	if w.failed++; w.failed <= maxFailures {
		w.failures = append(w.failures, fmt.Sprintf("lane %d, trace %q, session %q, turn %d: %s", r.Lane, r.Trace, r.Session, r.Turn, reason))
	}
}

// failure returns the error of a warmup in which requests of root sessions failed.
func (w *warmup) failure() error {
	what, more := "the primer", ""
	if w.pressing {
		what = "a request of the pressure stage"
	}
	if n := w.failed - len(w.failures); n > 0 {
		more = fmt.Sprintf("; and %d more", n)
	}
	return fmt.Errorf("replay: the warmup failed, so nothing was measured: %s of %s%s", what, strings.Join(w.failures, "; "), more)
}
