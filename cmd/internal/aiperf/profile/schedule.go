package profile

import (
	"math"
	"strconv"
)

// scheduleByRows notes that AIPerf chooses a fixed schedule on its own: the first row has a timestamp, and the kind of the file is given.
func (t *translation) scheduleByRows(kind string) {
	if kind == "" {
		t.note("no --custom-dataset-type: AIPerf does not look at the timestamps of the rows then; --fixed-schedule sends the rows at them")
		return
	}
	t.byRows = true
}

// scheduled reports whether the rows go at their timestamps.
func (t *translation) scheduled() bool { return t.mooncake && (t.byRows || t.has("--fixed-schedule")) }

// fixedSchedule refuses inputs that do not say when a session began.
func (t *translation) fixedSchedule(g given) {
	if g.on() && !t.mooncake {
		t.add("not supported: %s: the rows of Mooncake files say when each began, other recordings do not: leave it out", g.name)
	}
}

// needSchedule reports whether rows go at their timestamps because a flag says so, as AIPerf wants it for these.
func (t *translation) needSchedule(g given) bool {
	if !t.has("--fixed-schedule") {
		t.add("%s: works only with --fixed-schedule", g.name)
	}
	return t.has("--fixed-schedule") && t.mooncake
}

// nanosecond is one, in milliseconds.
const nanosecond = 1e-6

// windowEdge plays rows from a timestamp, or up to one with those that have it. AIPerf counts milliseconds of the clock of the
// file, agentx from its first row on.
func (t *translation) windowEdge(g given) {
	ms, err := strconv.ParseInt(g.value(), 10, 64)
	rows := t.rows()
	switch {
	case !t.needSchedule(g):
	case err != nil || ms < 0:
		t.add("%s: want a whole number of milliseconds, 0 or more", g.shown())
	case rows.count == 0:
		t.add("not supported: %s: no row of --input-file %s can be read: want lines of JSON, not compressed", g.shown(), t.Data)
	case math.IsInf(rows.first, 1):
		t.add("not supported: %s: --input-file %s has no timestamp to count from: want one file with timestamps", g.shown(), t.Data)
	case rows.longest > 1:
		t.add("not supported: %s: AIPerf cuts sessions at a window, agentx plays a session whole or not at all: leave it out", g.shown())
	case g.name == "--fixed-schedule-start-offset":
		if from := float64(ms) - rows.first; from > 0 {
			t.set("from", numberText(from)+"ms")
		}
	case float64(ms) < rows.first:
		t.add("%s: the first row has the timestamp %g: want that or more", g.shown(), rows.first)
	case rows.whole:
		t.set("to", numberText(float64(ms)-rows.first+1)+"ms")
	default:
		t.set("to", numberText(float64(ms)-rows.first+nanosecond)+"ms")
	}
}

// addArrivals says when sessions begin, where the rows have timestamps that agentx would go by.
func (t *translation) addArrivals() {
	switch {
	case !t.mooncake || t.has("--request-rate"):
	case !t.scheduled():
		t.set("arrivals", "lanes")
	default:
		t.from = "--fixed-schedule"
		if t.byRows {
			t.from = "the timestamps of the rows (--no-fixed-schedule leaves them out)"
		}
		t.set("arrivals", "recorded")
		t.addTurns()
		t.from = ""
		t.noteZero()
	}
}

// addTurns says when the later turns of sessions go: AIPerf sends a row with a timestamp at that, and one with a delay after the
// answer before.
func (t *translation) addTurns() {
	switch rows := t.rows(); {
	case rows.laterTimes && rows.laterDelays:
		t.add("not supported: --input-file %s: some later turns of sessions have a timestamp, others a delay, and agentx plays all by one of the two", t.Data)
	case rows.laterTimes:
		t.set("turns", "absolute")
	}
}

// noteZero tells what AIPerf waits for before the first request, and agentx does not.
func (t *translation) noteZero() {
	first := t.rows().first
	zero, given := first, ""
	if g, ok := t.given["--fixed-schedule-start-offset"]; ok {
		zero, _ = strconv.ParseFloat(g.value(), 64)
		given = g.shown()
	} else if g, ok := t.given["--fixed-schedule-auto-offset"]; ok && !g.on() {
		zero, given = 0, g.name+"=false"
	}
	if zero != first && !math.IsInf(first, 1) {
		t.note("%s: the first request goes at once; AIPerf waits from this timestamp to that of its row. the others keep their distance from it", given)
	}
}

// wholeNumber returns the only number of a list, 0 for another list.
func wholeNumber(list []string) int {
	if len(list) != 1 {
		return 0
	}
	n, _ := strconv.Atoi(list[0])
	return n
}

// numberText writes a number in full.
func numberText(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
