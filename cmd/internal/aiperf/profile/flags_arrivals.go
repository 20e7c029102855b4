package profile

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/regular"
)

// arrivalFlags say when sessions begin on their own, or lanes open.
var arrivalFlags = slices.Concat([]flag{
	mappedSwitch("--fixed-schedule", (*translation).fixedSchedule),
	mappedSwitch("--no-fixed-schedule", func(*translation, given) {}).conflict("--fixed-schedule"), // checkDatasetType has read it
	mappedSwitch("--fixed-schedule-auto-offset", func(t *translation, g given) { t.needSchedule(g) }).conflict("--fixed-schedule-start-offset"),
	mapped("--fixed-schedule-start-offset", (*translation).windowEdge),
	mapped("--fixed-schedule-end-offset", (*translation).windowEdge),
	mapped("--request-rate", (*translation).requestRate).conflict("--fixed-schedule"),
	mapped("--arrival-pattern --request-rate-mode", (*translation).arrivalPattern),
	mapped("--arrival-smoothness --vllm-burstiness", (*translation).arrivalSmoothness),
	mapped("--request-rate-ramp-duration", (*translation).rateRamp),
	mapped("--concurrency-ramp-duration", (*translation).lanesRamp),
},
	refused(oneValue, "agentx has one rate, which --request-rate-ramp-duration lets grow", "--request-rate-series"),
	refused(oneValue, "its users begin each turn a set time after the one before, and agentx plays the recorded gaps: --concurrency N plays N sessions at a time",
		"--user-centric-rate", "--num-users"),
	refused(oneValue, "prefill-limit holds from the start: leave it out", "--prefill-concurrency-ramp-duration"),
)

// requestRate opens trees at a rate. AIPerf's rate counts requests, so each trace must have exactly one.
func (t *translation) requestRate(g given) {
	switch {
	case !t.single(g) || !t.positive(g):
		return
	case t.byRows:
		t.add("%s and rows with timestamps: AIPerf sends those at their times: leave one of them out (--no-fixed-schedule ignores the timestamps)", g.name)
		return
	case t.has("--scenario"):
		t.add("%s and --scenario contradict each other: leave one of them out", g.name)
		return
	case !t.kind.rows && !t.kind.single() || t.rows().longest > 1:
		t.add("not supported: %s: AIPerf counts the later turns of a session too, each of which waits for the rate; agentx has a rate of sessions (agentx replay --rate), the same where each is one request", g.shown())
		return
	}
	t.set("rate", g.value())
	t.set("rate-of", "requests")
	numbers := "; gaps have the same law, but are drawn by another generator"
	if oneSpelling(t.value("--arrival-pattern")) == "constant" {
		numbers = ""
	}
	t.note("%s: the first request goes at once, in AIPerf after one gap%s", g.shown(), numbers)
	if t.has("--concurrency") {
		t.note("--concurrency %s: a request beyond it waits here for its turn; AIPerf leaves the instant of such a request unused", t.value("--concurrency"))
	}
}

// arrivalPattern passes on the law of the gaps, which AIPerf reads only with a rate.
func (t *translation) arrivalPattern(g given) {
	law := t.word(g, "poisson", "gamma", "constant", "concurrency_burst")
	switch {
	case !t.has("--request-rate"):
		t.note("%s: nothing without --request-rate, as in AIPerf", g.shown())
	case law == "concurrency_burst":
		t.add("not supported: %s with --request-rate: AIPerf draws poisson gaps for it: say poisson, or leave --request-rate out", g.shown())
	case law == "gamma":
		t.gamma()
	default:
		t.set("arrival", law)
	}
}

// arrivalSmoothness chooses gamma gaps if no pattern is given.
func (t *translation) arrivalSmoothness(g given) {
	law := oneSpelling(t.value("--arrival-pattern"))
	switch {
	case !t.has("--request-rate") || law != "" && law != "gamma":
		t.add("%s: works only with --request-rate and --arrival-pattern gamma", g.name)
	case law == "":
		t.gamma()
	}
}

// gamma sets gamma gaps, of shape 1 if no smoothness is given.
func (t *translation) gamma() {
	shape := "1"
	if g, ok := t.given["--arrival-smoothness"]; ok && t.single(g) && t.positive(g) {
		shape = g.value()
	}
	t.set("arrival", "gamma:"+shape)
}

// rateRamp passes on the time over which the rate grows.
func (t *translation) rateRamp(g given) {
	if !t.has("--request-rate") {
		t.add("%s: works only with --request-rate", g.name)
		return
	}
	t.note("%s: the rate grows without steps, in AIPerf every 0.1 s", g.shown())
	t.positiveSeconds(g, "ramp")
}

// lanesRamp opens lanes one after another. Lane k of N opens at k of N parts of --ramp; in AIPerf the last opens at the end.
func (t *translation) lanesRamp(g given) {
	lanes := parts(t.given["--concurrency"].values)
	n := wholeNumber(lanes)
	switch seconds, err := number(g.value()); {
	case t.scheduled() || t.has("--request-rate"):
		t.add("not supported: %s: --concurrency is a cap where sessions begin on their own, and it does not grow: leave it out", g.shown())
	case len(lanes) > 1:
		t.add("not supported: %s with --concurrency %s: every part would have a ramp of its own: want one value", g.shown(), t.value("--concurrency"))
	case err != nil || seconds == 0:
		t.positiveSeconds(g, "ramp")
	case n > 1:
		g.values = []string{numberText(seconds * float64(n) / float64(n-1))}
		t.seconds(g, "ramp")
	default:
		t.note("%s: one lane opens at once, as in AIPerf", g.shown())
	}
}

// scheduleByRows chooses a fixed schedule, as AIPerf does if the first row has a timestamp and the kind of the file is given.
func (t *translation) scheduleByRows(kind string) {
	if kind == "" {
		t.note("no --custom-dataset-type: AIPerf does not look at the timestamps of the rows then; --fixed-schedule sends the rows at them")
		return
	}
	t.byRows = true
}

// scheduled reports whether rows are sent at their timestamps.
func (t *translation) scheduled() bool {
	return t.kind.starts && (t.byRows || t.has("--fixed-schedule"))
}

// fixedSchedule refuses inputs without recorded starts.
func (t *translation) fixedSchedule(g given) {
	if g.on() && !t.kind.starts {
		t.add("not supported: %s: the rows of Mooncake files say when each began, other recordings do not: leave it out", g.name)
	}
}

// needSchedule reports whether --fixed-schedule is given, which AIPerf requires for flag g, and adds an error if it is not.
func (t *translation) needSchedule(g given) bool {
	if !t.has("--fixed-schedule") {
		t.add("%s: works only with --fixed-schedule", g.name)
	}
	return t.has("--fixed-schedule") && t.kind.starts
}

// nanosecond is a nanosecond in milliseconds.
const nanosecond = 1e-6

// windowEdge plays rows from a timestamp on, or up to and including one. AIPerf counts milliseconds on the clock of the file, agentx from the
// first row on.
func (t *translation) windowEdge(g given) {
	ms, err := strconv.ParseInt(g.value(), 10, 64)
	rows := t.rows()
	switch {
	case !t.needSchedule(g):
	case !t.kind.rows:
		t.add("not supported: %s: agentx counts from the first row of a file of mooncake_trace or single_turn alone: leave it out", g.shown())
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

// addArrivals sets how sessions begin if the rows have timestamps, which agentx replay would follow by default.
func (t *translation) addArrivals() {
	switch {
	case !t.kind.starts || t.has("--request-rate"):
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

// addTurns sets when later turns of sessions are sent: AIPerf sends a row with a timestamp at that, and a row with a delay after the answer before.
func (t *translation) addTurns() {
	switch rows := t.rows(); {
	case !t.kind.rows: // all have instants
		t.set("turns", "absolute")
	case rows.laterTimes && rows.laterDelays:
		t.add("not supported: --input-file %s: some later turns of sessions have a timestamp, others a delay, and agentx plays all by one of the two", t.Data)
	case rows.laterTimes:
		t.set("turns", "absolute")
	}
}

// noteZero notes that AIPerf, unlike agentx, waits before the first request.
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
		t.note("%s: the first request goes at once; AIPerf waits from this timestamp to that of its row. The other requests keep their distance from it", given)
	}
}

// wholeNumber returns the number of a list with one entry, 0 for another list.
func wholeNumber(list []string) int {
	if len(list) != 1 {
		return 0
	}
	n, _ := strconv.Atoi(list[0])
	return n
}

// numberText writes a number in full.
func numberText(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// maxFirstRow bounds how much of a file is read to look at a row, in bytes.
const maxFirstRow = 16 << 20

// rowHead has the members by which a row of Mooncake is recognized, and by which AIPerf times it.
type rowHead struct {
	Timestamp   *float64
	Delay       *float64
	Session     *string      `json:"session_id"`
	InputLength *json.Number `json:"input_length"`
}

// firstRow returns the first row of a file with JSON lines; an empty one if there is none, about which the conversion will say more.
func firstRow(name string) (first rowHead) {
	eachRow(name, func(row rowHead) bool {
		first = row
		return false
	})
	return first
}

// eachRow calls more with the rows of a file with JSON lines, until more returns false or a line is no row.
func eachRow(name string, more func(row rowHead) bool) {
	f, err := regular.Open(name)
	if err != nil {
		return
	}
	defer f.Close()
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if from, err = gzip.NewReader(f); err != nil {
			return
		}
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxFirstRow)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		var row rowHead
		if json.Unmarshal([]byte(line), &row) != nil || !more(row) {
			return
		}
	}
}

// rowTimes summarizes the times of a file of Mooncake rows.
type rowTimes struct {
	count                   int
	longest                 int     // rows of a session at most
	first                   float64 // timestamp of the earliest session, in milliseconds
	whole                   bool    // every timestamp is a whole number
	laterTimes, laterDelays bool    // rows within a session have a timestamp, a delay
}

// rows summarizes the times of the rows of the input, which it reads once.
func (t *translation) rows() *rowTimes {
	if t.readRows != nil {
		return t.readRows
	}
	t.readRows = &rowTimes{first: math.Inf(1), whole: true}
	sessions := map[string]int{}
	eachRow(t.value("--input-file"), func(row rowHead) bool {
		t.readRows.add(row, sessions)
		return true
	})
	return t.readRows
}

// add counts a row.
func (r *rowTimes) add(row rowHead, sessions map[string]int) {
	r.count++
	place := 1 // in its session
	if row.Session != nil {
		sessions[*row.Session]++
		place = sessions[*row.Session]
	}
	r.longest = max(r.longest, place)
	if row.Timestamp != nil {
		r.whole = r.whole && *row.Timestamp == math.Trunc(*row.Timestamp)
	}
	if place > 1 {
		r.laterTimes = r.laterTimes || row.Timestamp != nil
		r.laterDelays = r.laterDelays || row.Delay != nil
	} else if row.Timestamp != nil {
		r.first = min(r.first, *row.Timestamp)
	}
}
