package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/regular"
)

// ClockFile has what a part of a load has measured of its machine's clock, in the directory of a part that has met the others: a
// ClockReading a line, in the order of their instants.
const ClockFile = "clock.jsonl"

// maxClock bounds ClockFile, bytes: a day has 8,640 lines of less than 100 bytes.
const maxClock = 64 << 20

// ClockReading is one comparison of a part's clock with that of part 0. Both count as a run does: from the wall clock at one
// instant, then by the monotonic clock, so that a step of the wall clock moves neither.
type ClockReading struct {
	Unix        int64 `json:"unix_ns"`        // instant on the part's clock, ns since 1970
	Offset      int64 `json:"offset_ns"`      // to be added to the part's clock to have that of part 0
	Uncertainty int64 `json:"uncertainty_ns"` // how far Offset may be off: half of the round trip that measured it
}

// MaxDrift is how fast two clocks may drift apart where no reading says it: a kernel slews a clock by 500 ppm at most.
const MaxDrift = 500e-6

// Clock is the clock of a part beside that of part 0: at least one reading, in the order of their instants.
type Clock []ClockReading

// Move returns the instant of part 0's clock that an instant of the part's clock is, and how far it may be off. Between two readings the
// offset is linear, and uncertain by the larger of theirs and by what they differ. Outside, the offset is that of the nearest
// reading, and its uncertainty grows by MaxDrift; that of part 0 itself, 0, does not.
func (c Clock) Move(at time.Time) (time.Time, time.Duration) {
	ns := at.UnixNano()
	k, _ := slices.BinarySearchFunc(c, ns, func(r ClockReading, ns int64) int {
		if r.Unix <= ns {
			return -1
		}
		return 1
	}) // the first reading after the instant
	near := c[max(0, min(k, len(c))-1)]
	offset, uncertainty := near.Offset, near.Uncertainty
	if away := ns - near.Unix; k == 0 || k == len(c) {
		if uncertainty > 0 {
			uncertainty += int64(MaxDrift * float64(max(away, -away)))
		}
	} else if away > 0 {
		next := c[k]
		grown := next.Offset - near.Offset
		offset += int64(float64(grown) * (float64(away) / float64(next.Unix-near.Unix)))
		uncertainty = max(uncertainty, next.Uncertainty) + max(grown, -grown)
	}
	return at.Add(time.Duration(offset)), time.Duration(uncertainty)
}

// AppendLine appends the line of a reading, its line feed included.
func (r ClockReading) AppendLine(line []byte) []byte {
	return fmt.Appendf(line, "{\"unix_ns\":%d,\"offset_ns\":%d,\"uncertainty_ns\":%d}\n", r.Unix, r.Offset, r.Uncertainty)
}

// ReadClock reads ClockFile in the directory of a part. A last line without a line feed, which a killed part has written, is left out.
// The error names the file and the line, wraps fs.ErrNotExist where there is no file, and is also about a file without a whole line.
func ReadClock(dir string) (Clock, error) {
	path := filepath.Join(dir, ClockFile)
	data, err := regular.Read(path, maxClock)
	if err != nil {
		return nil, err
	}
	var c Clock
	n := 0
	for line := range bytes.Lines(data[:bytes.LastIndexByte(data, '\n')+1]) {
		n++
		if c, err = c.appendLine(line); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w; no run writes this: restore the file", path, n, err)
		}
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("%s: it has no reading of the clock: the part was killed before it began", path)
	}
	return c, nil
}

// appendLine appends the reading of a line. The error says what no run writes.
func (c Clock) appendLine(line []byte) (Clock, error) {
	var r struct {
		Unix        *int64 `json:"unix_ns"`
		Offset      *int64 `json:"offset_ns"`
		Uncertainty *int64 `json:"uncertainty_ns"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return c, err
	}
	if r.Unix == nil || r.Offset == nil || r.Uncertainty == nil {
		return c, errors.New("want unix_ns, offset_ns and uncertainty_ns")
	}
	c = append(c, ClockReading{*r.Unix, *r.Offset, *r.Uncertainty})
	return c, c.checkLast()
}

// maxClockApart bounds how far two clocks may be apart: some machine's clock begins at 1970 when it is switched on.
const maxClockApart = int64(100 * 365 * 24 * time.Hour)

// checkLast returns an error about the value of the last reading that no run writes.
func (c Clock) checkLast() error {
	k := len(c) - 1
	switch r := c[k]; {
	case r.Unix < 0:
		return fmt.Errorf("unix_ns: %d: want 0 or more", r.Unix)
	case k > 0 && r.Unix <= c[k-1].Unix:
		return fmt.Errorf("unix_ns: %d: want a later instant than that of the line before, %d", r.Unix, c[k-1].Unix)
	case r.Offset < -maxClockApart || r.Offset > maxClockApart:
		return fmt.Errorf("offset_ns: %d: want at most %d", r.Offset, maxClockApart)
	case r.Uncertainty < 0 || r.Uncertainty > maxClockApart:
		return fmt.Errorf("uncertainty_ns: %d: want 0 to %d", r.Uncertainty, maxClockApart)
	}
	return nil
}
