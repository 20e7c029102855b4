package measure

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/preset"
)

// maxLaneLine bounds a line of LanesFile, bytes.
const maxLaneLine = 1 << 20

// ReadLanes reads LanesFile in the directory of a run; nil where there is none. An error names the file and the line.
func ReadLanes(dir string) (lanes []LaneReport, err error) {
	path := filepath.Join(dir, LanesFile)
	file, err := regular.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLaneLine)
	for n := 1; lines.Scan(); n++ {
		var l LaneReport
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w; no run writes this: restore the file, or remove it, and the page does without", path, n, err)
		}
		lanes = append(lanes, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return lanes, nil
}

// LaneReport is what one lane did, one line of lanes.jsonl. Durations are seconds, instants seconds since the start of the
// phase.
type LaneReport struct {
	Lane         int     `json:"lane"`
	Trace        string  `json:"trace"`         // its first; empty: it had none
	TStar        Number  `json:"t_star"`        // where in it the lane began, on the clock of the recording; null: at its first turn
	StartSkipped float64 `json:"start_skipped"` // by how much its first request was sent earlier than drawn
	Skipped      float64 `json:"skipped"`       // idle time of its trees that was skipped
	FirstDue     float64 `json:"first_due"`     // when its first request could be sent
	FirstRequest Number  `json:"first_request"` // null: it sent nothing
	Finished     Number  `json:"finished"`      // when no trace was left for it; null: it played to the end of the phase
	Requests     int     `json:"requests"`
	Trees        int     `json:"trees"` // opened
}

// DescribeSilence returns the warning about a lane that had a trace and sent nothing.
func (l *LaneReport) DescribeSilence() string {
	where := ""
	if !l.TStar.IsMissing() {
		where = fmt.Sprintf(" from t* = %.3f s", float64(l.TStar))
	}
	due := ""
	if l.FirstDue > 0 {
		due = fmt.Sprintf(", and its first request is due after %.3g s (%s bounds that)", l.FirstDue, preset.Setting("lane-start-cap"))
	}
	return fmt.Sprintf("lane %d sent nothing: it played trace %q%s%s", l.Lane, l.Trace, where, due)
}

// MaxDeadlocks is how many deadlocked trees a summary names.
const MaxDeadlocks = 100

// DeadlockReport is a tree in which nothing could happen any more, by a defect of the recording or of this program. The files of
// a run call it wedged.
type DeadlockReport struct {
	Phase   string           `json:"phase"`
	At      float64          `json:"at"` // seconds since the start of the phase
	Lane    int              `json:"lane"`
	Tree    int              `json:"tree"`
	Trace   string           `json:"trace"`
	Root    string           `json:"root_correlation_id"`
	Blocked []BlockedSession `json:"blocked"`
	Last    LastEvent        `json:"last"`
}

// BlockedSession is a session that waits for something that cannot happen.
type BlockedSession struct {
	Session       string   `json:"session"`
	CorrelationID string   `json:"correlation_id"`
	Turn          int      `json:"turn"`
	BlockedBy     string   `json:"why"`       // gate or predecessor
	WaitsFor      []string `json:"waits_for"` // names of branches, or SESSION#TURN
}

// LastEvent is the last event of a tree.
type LastEvent struct {
	At      float64 `json:"at"`
	Kind    string  `json:"what"` // sent, returned, or opened: nothing was sent
	Session string  `json:"session"`
	Turn    int     `json:"turn"`
}

// maxBlocked is how many blocked sessions, and how many things that one waits for, a line names.
const maxBlocked = 5

// String describes the deadlock in one line.
func (d *DeadlockReport) String() string {
	var b strings.Builder
	if d.Phase == WarmupPhase {
		b.WriteString("warmup: ")
	}
	fmt.Fprintf(&b, "lane %d: trace %q is deadlocked after %.3f s:", d.Lane, d.Trace, d.At)
	for k, s := range d.Blocked {
		if k == maxBlocked {
			fmt.Fprintf(&b, " and %d more", len(d.Blocked)-k)
			break
		}
		fmt.Fprintf(&b, " turn %d of %s waits for %s %s;", s.Turn, s.Session, s.BlockedBy, strings.Join(s.WaitsFor[:min(maxBlocked, len(s.WaitsFor))], ", "))
	}
	b.WriteString(" it was closed, its lane goes on")
	return b.String()
}

// laneStart is the first request of a lane.
type laneStart struct{ sent, ttft float64 } // seconds; a TTFT that no figure counts is NaN

// startOf returns the start of the lane whose first request has a record.
func startOf(r *Record) laneStart {
	start := laneStart{r.Sent.Seconds(), math.NaN()}
	if v, ok := MetricNamed("ttft").Of(&r.Numbers, Rules{}); ok && r.Bucket == Profiling && r.Error == nil {
		start.ttft = v
	}
	return start
}

// startBurst says how much of the tail of TTFT are the requests with which the lanes began at once.
type startBurst struct {
	slow, first int     // requests at p95 and above; of these, the first of a lane
	p95, others float64 // of all, and without the first ones
}

// atOnce is within how many seconds of the first lane others begin at once.
const atOnce = 1

// burst returns the burst of the start; zero where too few began at once, or are left without them.
func (a *Aggregate) burst() (b startBurst) {
	begin := math.Inf(1)
	for _, lane := range a.lanes {
		begin = min(begin, lane.sent)
	}
	var firsts []float64
	for _, lane := range a.lanes {
		if lane.sent <= begin+atOnce && !math.IsNaN(lane.ttft) {
			firsts = append(firsts, lane.ttft)
		}
	}
	place := slices.IndexFunc(MetricList, func(m Metric) bool { return m.Name == "ttft" })
	all := slices.Sorted(slices.Values(a.headline.samples[place]))
	if len(firsts) < 2 || len(all)-len(firsts) < 20 {
		return startBurst{}
	}
	slices.Sort(firsts)
	others, next := make([]float64, 0, len(all)), 0
	for _, v := range all {
		if next < len(firsts) && v == firsts[next] {
			next++
		} else {
			others = append(others, v)
		}
	}
	b.p95, b.others = float64(NewStat(all).P95), float64(NewStat(others).P95)
	slow := func(list []float64) int { return len(list) - sort.SearchFloat64s(list, b.p95) }
	b.slow, b.first = slow(all), slow(firsts)
	return b
}

// startBurst says that the slowest requests are those with which the lanes began.
func (e *evidence) startBurst() (text string, detail []string) {
	b := e.burst
	return when(b.slow > 0 && 2*b.first >= b.slow && 2*b.others <= b.p95,
		"%d of the %d requests at or above TTFT p95 are the first of their lanes, which began at once: without these p95 is %s, with them %s (%s spreads them)",
		b.first, b.slow, FormatSeconds(Number(b.others)), FormatSeconds(Number(b.p95)), preset.Setting("ramp"))
}
