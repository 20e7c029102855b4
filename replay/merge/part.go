package merge

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// part is one part of a load.
type part struct {
	number, of int
	dir        string // "": it is missing
	info       measure.RunInfo
	lanes      []measure.LaneReport
	clock      measure.Clock // nil: not known

	leftOut string // why it is not used; "": it is
	lost    string // why it has not come to its end; "": it has

	phases map[string]placed
	passes map[int]int // by tree of the whole load: how often its trace was begun before
	seen   *scan
}

// placed says where the records of a phase lie, in nanoseconds since 1970.
type placed struct {
	start  int64 // of the phase, on the clock of the part
	origin int64 // of the phase in the whole load, on the clock of part 0
	assume bool  // start is not known: it is taken to be that of the load
}

// open reads what the part has besides its records. What it lacks is why it is left out, or was lost.
func (p *part) open() {
	leave := func(err error) {
		if p.leftOut == "" {
			p.leftOut = err.Error()
		}
	}
	var err error
	p.info, err = measure.ReadInfo(p.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		leave(fmt.Errorf("it has no %s, so its load is unknown", measure.RunFile))
		return
	case err != nil:
		leave(err)
		return
	}
	if q := p.info.Part; q == nil || q.Number != p.number || q.Of != p.of {
		leave(fmt.Errorf("its %s describes %s", measure.RunFile, describePart(p.info.Part)))
		return
	}
	if p.lanes, err = measure.ReadLanes(p.dir); err != nil {
		leave(err)
	}
	if p.clock, err = measure.ReadClock(p.dir); errors.Is(err, fs.ErrNotExist) && p.info.Part.Meeting != "" {
		leave(fmt.Errorf("it has no %s, which every part of a meeting writes, so its clock cannot be compared", measure.ClockFile))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		leave(err)
	}
	if p.info.Facts == nil {
		p.lost = "it was killed, or has not ended"
	}
}

// describePart says which part a run says it is.
func describePart(q *measure.PartInfo) string {
	if q == nil {
		return "a run that is no part"
	}
	return fmt.Sprintf("part %d of %d", q.Number, q.Of)
}

// problem says in a line why the part is not whole; "": it is.
func (p *part) problem() string {
	switch {
	case p.dir == "":
		return fmt.Sprintf("part %d is missing: %s", p.number, p.leftOut)
	case p.leftOut != "":
		return fmt.Sprintf("part %d cannot be used: %s", p.number, p.leftOut)
	case p.lost != "":
		return fmt.Sprintf("part %d is not whole: %s", p.number, p.lost)
	}
	return ""
}

// whole returns the number in the whole load of what has number n in the part, such as a tree.
func (p *part) whole(n int) int { return p.number + n*p.of }

// move returns where an instant of the part lies on the clock of part 0, both in nanoseconds since 1970, and how far that may be off.
func (p *part) move(at int64) (moved, uncertainty int64) {
	if p.clock == nil {
		return at, 0
	}
	to, u := p.clock.Move(time.Unix(0, at))
	return to.UnixNano(), int64(u)
}

// instant returns where an instant of a phase of the part lies in that of the load, both in seconds of the phase.
func (p *part) instant(phase string, seconds float64) float64 {
	x, ok := p.phases[phase]
	if !ok {
		return seconds
	}
	moved, _ := p.move(x.start + measure.Nanos(seconds))
	return time.Duration(max(0, moved-x.origin)).Seconds()
}

// shift returns by how much a record is moved: by what holds when its request was sent. No instant becomes negative.
func (p *part) shift(r *measure.Record) measure.Time {
	x := p.phases[r.Phase]
	moved, _ := p.move(x.start + int64(r.Sent))
	return max(measure.Time(moved-x.origin)-r.Sent, -min(r.Due, r.Admitted, r.Sent))
}

// uncertainty returns how far an instant of a record that shift has moved may be off, in nanoseconds: by the clock, and by what the
// clocks drifted apart between the instant and the sending.
func (p *part) uncertainty(r *measure.Record) (most int64) {
	x := p.phases[r.Phase]
	sent := x.start + int64(r.Sent)
	moved, _ := p.move(sent)
	for _, at := range []measure.Time{r.Due, r.Sent, r.End} {
		own := x.start + int64(at)
		to, u := p.move(own)
		drift := (to - own) - (moved - sent)
		most = max(most, u+max(drift, -drift))
	}
	return most
}

// adopt makes a record one of the whole load: its instants, tree and credit. It returns the error of one that is not of the part.
func (p *part) adopt(r *measure.Record) error {
	if r.Lane%p.of != p.number {
		return fmt.Errorf("lane: %d: it is of part %d, and this is part %d of %d", r.Lane, r.Lane%p.of, p.number, p.of)
	}
	r.Move(p.shift(r))
	r.Tree, r.Credit = p.whole(r.Tree), p.whole(r.Credit)
	return nil
}
