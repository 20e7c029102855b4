package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
)

// together is what a run does with the other parts of its load: doc/spec/cluster.md 3.2. Without a meeting it does nothing.
type together struct {
	meeting *meet.Meeting
	clock   *os.File // ClockFile; nil: it is not kept
	end     func()   // of keeping it
	err     error    // of writing it
}

// now returns the time, of the clock that is compared with that of part 0 if there is one.
func (t *together) now() time.Time {
	if t.meeting == nil {
		return time.Now()
	}
	return t.meeting.Now()
}

// begin waits until all parts begin a phase. Part 0, or the one that there is, calls first when all can; the error is its.
func (t *together) begin(ctx context.Context, phase string, first func(context.Context) error) error {
	switch {
	case t.meeting != nil:
		return t.meeting.Begin(ctx, phase, first)
	case first != nil:
		return first(ctx)
	}
	return nil
}

// stop ends the load of all parts.
func (t *together) stop(how meet.How, reason string) {
	if t.meeting != nil {
		t.meeting.Stop(how, strings.TrimPrefix(reason, "replay: "))
	}
}

// fail ends the load of all parts because of an error, if there is one.
func (t *together) fail(err error) {
	if err != nil {
		t.stop(meet.Failed, err.Error())
	}
}

// lost returns the parts that are lost.
func (t *together) lost() []measure.LostPart {
	if t.meeting == nil {
		return nil
	}
	return t.meeting.Lost()
}

// finish says that this part is over, and returns the parts that are lost. Part 0 waits for the others.
func (t *together) finish(ctx context.Context) []measure.LostPart {
	if t.meeting == nil {
		return nil
	}
	return t.meeting.Finish(ctx)
}

// keepClock begins to write the clock into the results.
func (t *together) keepClock(dir resultsDir) (err error) {
	if t.meeting == nil || dir.path == "" {
		return nil
	}
	if t.clock, err = os.OpenFile(dir.file(measure.ClockFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	t.end = t.meeting.KeepClock(func(r measure.ClockReading) {
		if _, err := t.clock.Write(r.AppendLine(nil)); err != nil && t.err == nil {
			t.err = fmt.Errorf("results: %w", err)
		}
	})
	return nil
}

// endClock writes the last line of the clock. The error is about the first line that could not be written.
func (t *together) endClock() error {
	if t.clock == nil {
		return nil
	}
	t.end()
	err := errors.Join(t.err, t.clock.Close())
	t.clock = nil
	return err
}

// MaxStartIn is how far ahead Options.StartAt may be.
const MaxStartIn = 24 * time.Hour

// startStep is how long a run waits for its start before it looks at the clock again, which may be set meanwhile.
const startStep = time.Second

// nearStart waits until readyTime before the instant at which a run is to begin, by the clock of the machine, or until ctx ends; the zero
// value does not wait. The error says that the instant is over: a part that began late would not be compared with the others.
func nearStart(ctx context.Context, at time.Time, notice func(string)) error {
	if at.IsZero() || ctx.Err() != nil {
		return nil
	}
	left := time.Until(at)
	if left < 0 {
		return fmt.Errorf("replay: the start at %s: the preparation ended %v later, so nothing was sent: want a later time",
			at.Format(time.RFC3339Nano), -left.Round(time.Millisecond))
	}
	notice(fmt.Sprintf("waiting for the start at %s, %v from now", at.Format(time.RFC3339Nano), left.Round(time.Millisecond)))
	awaitStart(ctx, at.Add(-readyTime))
	return nil
}

// awaitStart waits for an instant by the clock of the machine, or until ctx ends: then the run sends nothing, and its results say so.
func awaitStart(ctx context.Context, at time.Time) {
	for left := time.Until(at); left > 0 && durable.Sleep(ctx, min(left, startStep)) == nil; {
		left = time.Until(at)
	}
}
