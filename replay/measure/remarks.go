package measure

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/preset"
)

// Remark says what a reader of a run must know beside its figures. The console, pages, markdown and comparisons show the same list.
type Remark struct {
	Kind    string   `json:"kind"`
	Level   Level    `json:"level"`
	Metrics []string `json:"metrics"` // short names, as in MetricList, of those that are not what they seem; empty: of no one in particular
	Text    string   `json:"text"`    // begins with the kind
	Detail  []string `json:"detail,omitempty"`
}

// Level is how grave a remark is.
type Level string

const (
	Broken  Level = "broken"  // the run broke: agentx replay ends with status 1
	Warning Level = "warning" // figures are not what they seem: comparisons mark the run
	Note    Level = "note"    // part of what the figures are of
)

// Bounds above or below which a remark is made.
const (
	brokenRate  = 0.1  // share of requests that failed
	errorRate   = 0.01 // share of requests that failed
	silentEnd   = 60.0 // seconds at the end of a phase
	remarkShare = 0.1  // share of answers that deviate
	shortTrees  = 3    // median trees that a run is long
	busyLanes   = 0.8  // share of the lanes that play a tree
	tokenRatio  = 0.05 // by which tokens differ from those recorded or asked for
	reuseLoss   = 0.1  // by which the reuse of prefixes is below the recorded

	mostCategories = 12 // of failures that a remark names
)

// evidence is what remarks follow from.
type evidence struct {
	*Summary
	ending *Ending
	info   *RunInfo // nil: not known, as of a run that goes on
}

// remarkRules are the kinds of remarks in the order in which they are shown, all that broke a run first (doc/spec/results.md 3.11). Of
// returns the text and its details; "": there is no such remark.
var remarkRules = []struct {
	kind  string
	level Level
	of    func(e *evidence) (text string, detail []string)
}{
	{"failed", Broken, func(e *evidence) (string, []string) { return e.failed(brokenRate, 1) }},
	{"gone", Broken, (*evidence).gone},
	{"silent_end", Broken, (*evidence).silentEnd},
	{"killed", Warning, (*evidence).killed},
	{"interrupted", Warning, (*evidence).interrupted},
	{"invalid", Warning, (*evidence).invalid},
	{"deadlocked", Warning, (*evidence).deadlocked},
	{"partial", Warning, (*evidence).partial},
	{"empty", Warning, (*evidence).empty},
	{"errors", Warning, func(e *evidence) (string, []string) { return e.failed(errorRate, brokenRate) }},
	{"overflow", Warning, (*evidence).overflow},
	{"left_out", Warning, (*evidence).leftOut},
	{"short", Warning, (*evidence).short},
	{"client_bound", Warning, (*evidence).clientBound},
	{"standstill", Warning, (*evidence).standstill},
	{"silent_tokens", Warning, distorts("silent_tokens")},
	{"buffered", Warning, distorts("buffered")},
	{"content_filter", Warning, (*evidence).filtered},
	{"long_traces", Note, func(e *evidence) (string, []string) { return e.Context.Played(), nil }},
	{"left_out_traces", Note, func(e *evidence) (string, []string) { return e.Context.Skipped(), nil }},
	{"filler", Note, (*evidence).filler},
	{"calibration", Note, (*evidence).calibration},
	{"lanes", Note, (*evidence).idleLanes},
	{"prompts", Note, (*evidence).prompts},
	{"output", Note, (*evidence).output},
	{"reuse", Note, (*evidence).reuse},
	{"cached", Note, (*evidence).cached},
	{"prefix_caching", Note, (*evidence).prefixCaching},
	{"start_burst", Note, (*evidence).startBurst},
	{"few", Note, (*evidence).few},
	{"insecure", Note, (*evidence).insecure},
}

// AddRemarks sets the remarks of a summary that has all else. A run that goes on has no info yet.
func (s *Summary) AddRemarks(ending *Ending, info *RunInfo) {
	s.Remarks = []Remark{}
	for _, rule := range remarkRules {
		text, detail := rule.of(&evidence{s, ending, info})
		if text == "" {
			continue
		}
		metrics := distortions[rule.kind].metrics
		s.Remarks = append(s.Remarks, Remark{rule.kind, rule.level, append([]string{}, metrics...), rule.kind + ": " + text, detail})
	}
}

// RemarksOf returns the texts of the remarks of some levels.
func (s *Summary) RemarksOf(levels ...Level) (list []string) {
	for _, r := range s.Remarks {
		if slices.Contains(levels, r.Level) {
			list = append(list, strings.Join(slices.Concat([]string{r.Text}, r.Detail), "; "))
		}
	}
	return list
}

// remarkRows writes the remarks; the verdict has a row of its own.
func (s *Summary) remarkRows(b *strings.Builder) {
	label := "remarks"
	for _, r := range s.Remarks {
		if r.Kind == "invalid" {
			continue
		}
		row(b, label, "%s", r.Text)
		for _, detail := range r.Detail {
			row(b, "", "  %s", detail)
		}
		label = ""
	}
}

// when returns the text of a remark that is made.
func when(made bool, format string, args ...any) (text string, detail []string) {
	if !made {
		return "", nil
	}
	return fmt.Sprintf(format, args...), nil
}

// failed says that more than a share of the requests failed, up to another share.
func (e *evidence) failed(above, upTo Number) (text string, detail []string) {
	if !(e.ErrorRate > above && e.ErrorRate <= upTo) {
		return "", nil
	}
	var each []string
	for k, c := range ErrorCounts(e.Errors).CommonestFirst() {
		if k == mostCategories {
			each = append(each, fmt.Sprintf("and %d more kinds", len(e.Errors)-k))
			break
		}
		each = append(each, fmt.Sprintf("%d %.60s", e.Errors[c], c))
	}
	of := ""
	if len(each) > 0 {
		of = ": " + strings.Join(each, ", ")
	}
	return fmt.Sprintf("%s of the requests failed%s", FormatShare(e.ErrorRate), of), nil
}

// gone names the servers that answered, and then stopped.
func (e *evidence) gone() (text string, detail []string) {
	gone := e.ending.gone()
	if len(gone) == 0 {
		return "", nil
	}
	for _, at := range gone {
		name := e.Run.URL
		if at.url < len(e.Run.URLs) {
			name = e.Run.URLs[at.url]
		}
		if at.address != "" {
			name += " at " + at.address
		}
		heard := e.ending.servers[at]
		n, last := heard.silent()
		detail = append(detail, fmt.Sprintf("%s: its last byte came %s after the start of the phase; %s failed without an answer after that, the last at %s",
			name, duration(heard.receive), Plural(n, "request", "requests"), duration(last)))
	}
	return fmt.Sprintf("%s stopped answering before the end of the run", Plural(len(gone), "server", "servers")), detail
}

// silentEnd says that nothing came for silentEnd seconds at the end, while requests waited.
func (e *evidence) silentEnd() (text string, detail []string) {
	if e.info == nil || e.info.Facts == nil {
		return "", nil
	}
	end := e.info.Facts.PhaseDuration
	if d := e.info.Facts.Deadline; d > 0 {
		end = d
	}
	silence := e.ending.silence(end)
	if !(silence >= silentEnd) {
		return "", nil
	}
	return fmt.Sprintf("no byte came from any server in the last %s of the phase, while requests waited; before, there were answers", duration(silence)), nil
}

// killed says that the run has no end.
func (e *evidence) killed() (text string, detail []string) {
	if e.info == nil || e.info.Facts != nil {
		return "", nil
	}
	text = "the run was killed, or is not over"
	if ran, planned := e.ending.all.last, e.info.duration(); 0 < ran && ran < planned {
		text += fmt.Sprintf(", after %s of %s", duration(ran), duration(planned))
	}
	text += ": its figures are of what it had written"
	if more := e.ending.numbers - e.ending.records; more > 0 && e.Parts == nil && e.Part == nil {
		e.unrecorded = more
		text += fmt.Sprintf(", without at least %s", Plural(more, "request", "requests"))
	}
	return text, nil
}

// duration is for how many seconds the run was to send at most; 0: it had no such bound.
func (r *Run) duration() float64 {
	for _, o := range r.Options {
		if seconds, err := strconv.ParseFloat(string(o.Value), 64); err == nil && o.Name == "duration" { // null without a bound
			return seconds
		}
	}
	return 0
}

// interrupted says when a run was stopped before its bound.
func (e *evidence) interrupted() (text string, detail []string) {
	if e.info == nil || e.info.Facts == nil || !e.info.Facts.Cancelled {
		return "", nil
	}
	at := e.info.Facts.PhaseDuration
	if d := e.info.Facts.Deadline; d > 0 { // an interrupt is one, and the phase goes on to the last answer
		at = min(at, d)
	}
	text = fmt.Sprintf("the run was stopped before its bound, %s after the start of the phase", duration(at))
	if planned := e.info.duration(); at < planned {
		text += ", which was to last " + duration(planned)
	}
	return text, nil
}

// invalid gives the reasons for which a run is not valid, and what to try.
func (e *evidence) invalid() (text string, detail []string) {
	if e.Valid == nil || *e.Valid {
		return "", nil
	}
	if advice := e.Advice(); advice != "" {
		detail = []string{"try: " + advice}
	}
	return strings.Join(e.Reasons, ", "), detail
}

// deadlocked counts the trees in which nothing could happen any more.
func (e *evidence) deadlocked() (text string, detail []string) {
	n := e.Deadlocked()
	return when(n > 0, "%s could not be played to the end", Plural(n, "tree", "trees"))
}

// partial names the parts of a load that are left out or were lost.
func (e *evidence) partial() (text string, detail []string) {
	return strings.Join(FirstOfParts(e.Parts.Problems()), "; "), nil
}

// empty says that the headline has no request.
func (e *evidence) empty() (text string, detail []string) {
	return when(e.Measured == 0, "no request of the headline ended well")
}

// overflow says that too many prompts did not fit the context.
func (e *evidence) overflow() (text string, detail []string) {
	return when(e.OverflowRate > maxOverflowRate, "%s of the requests did not fit the context of the server (%d): the figures leave out the longest prompts", FormatShare(e.OverflowRate), e.Buckets.ContextOverflow)
}

// short says that a run lasted less than shortTrees median trees.
func (e *evidence) short() (text string, detail []string) {
	length, tree := Number(e.ending.all.last-e.ending.all.first), e.ending.medianTree()
	return when(e.Completed > 0 && length < shortTrees*tree, "it took %s from its first request to the end of its last, less than three of its median trees (%s)",
		FormatSeconds(length), FormatSeconds(tree)) // false where tree is Missing
}

// clientBound says what bound the client.
func (e *evidence) clientBound() (text string, detail []string) {
	if !e.Client.Bound {
		return "", nil
	}
	return "the client, or a limit set on it, was a bottleneck: part of these numbers is its own", e.Client.BoundBy
}

// standstill says when this process stood still for long.
func (e *evidence) standstill() (text string, detail []string) {
	s := e.Client.Standstills
	if !s.Long() {
		return "", nil
	}
	return fmt.Sprintf("a client stood still for %s, %s after the start of the phase, with %s in flight: what arrived then has later instants than it should",
		FormatSeconds(Number(s.Longest.Seconds)), FormatSeconds(Number(s.Longest.At)), Plural(s.Longest.InFlight, "request", "requests")), nil
}

// distortions are the kinds of deviation that distort metrics.
var distortions = map[string]struct {
	metrics []string            // short names
	what    string              // they tell instead
	by      func(r *Record) int // how far a request deviates
	unit    string              // of by
}{
	"silent_tokens": {[]string{"itl", "latency"}, "leave out tokens that no message shows", func(r *Record) int { return r.Silent }, "% of them"},
	"buffered":      {[]string{"ttft", "itl"}, "tell when a buffer was emptied", func(r *Record) int { return r.Burst }, "messages at once"},
}

// distorts returns the rule of a kind of deviation that distorts metrics.
func distorts(kind string) func(e *evidence) (string, []string) {
	return func(e *evidence) (string, []string) {
		n, x := e.Deviations[kind], distortions[kind]
		return when(float64(n.Requests) > remarkShare*float64(e.Completed), "%s %s, for %d of %d answers, typically %.0f %s", strings.Join(x.metrics, " and "), x.what, n.Requests, e.Completed, float64(n.Typical), x.unit)
	}
}

// filtered says that a content filter ended every answer.
func (e *evidence) filtered() (text string, detail []string) {
	return when(e.FinishReasons.allFiltered(), "a content filter of the server ended every answer: the numbers are those of what it let through")
}

// calibration says which figures are near what this machine reaches alone.
func (e *evidence) calibration() (text string, detail []string) {
	if e.Calibration == nil || e.Calibration.Near == nil {
		return "", nil
	}
	return "the client is part of what was measured", e.Calibration.Near
}

// idleLanes says that lanes sent nothing, or that fewer than busyLanes of them played.
func (e *evidence) idleLanes() (text string, detail []string) {
	asked, playing := e.Lanes.N, e.Fidelity.Lanes.Playing
	switch {
	case e.Arrivals != nil: // they are the most trees at a time
	case asked > e.Lanes.Started && e.Requests > 0:
		return fmt.Sprintf("%d of %d sent nothing", asked-e.Lanes.Started, asked), nil
	case asked > 0 && playing < busyLanes*Number(asked):
		return fmt.Sprintf("%.1f of %d played a tree on average, up to the last request: the load was lower than asked for", playing, asked), nil
	}
	return "", nil
}

// prompts says that prompts were shorter or longer than recorded.
func (e *evidence) prompts() (text string, detail []string) {
	r, why := e.Fidelity.PromptTokens.Ratio, ""
	if e.info != nil && e.info.Dataset.Texts != nil {
		why = ": texts are those of the log, which has the counts of its model's tokenizer"
	}
	return when(e.info != nil && (r < 1-tokenRatio || r > 1+tokenRatio), "the server counted %s of the recorded tokens%s", FormatShare(r), why)
}

// output says that answers were shorter or longer than asked for.
func (e *evidence) output() (text string, detail []string) {
	r := e.Fidelity.OutputTokens.Ratio
	return when(e.info != nil && (r < 1-tokenRatio || r > 1+tokenRatio), "the server gave %s of the tokens that were asked for", FormatShare(r))
}

// reuse says that prompts repeat less of earlier ones than in the recording.
func (e *evidence) reuse() (text string, detail []string) {
	r := e.Fidelity.PrefixReuse
	return when(e.info != nil && r.Sent < r.Recorded-reuseLoss, "%s of what was sent repeats an earlier prompt, %s of the recorded blocks: a prefix cache finds less than in the recording", FormatShare(r.Sent), FormatShare(r.Recorded))
}

// cached says that servers report more cached tokens than this run can have left there.
func (e *evidence) cached() (text string, detail []string) {
	r := e.Fidelity.PrefixReuse
	if e.info == nil || !(r.Reported > r.Sent+tokenRatio) {
		return "", nil
	}
	return fmt.Sprintf("the servers report %s of the prompts as cached, and %s of what was sent repeats an earlier prompt of the run: the rest was there before (%s empties it), or they count otherwise",
		FormatShare(r.Reported), FormatShare(r.Sent), preset.Setting("reset-cache")), nil
}

// few says that high percentiles are those of single requests.
func (e *evidence) few() (text string, detail []string) {
	switch n := e.Measured; {
	case n == 0 || n >= 100:
		return "", nil
	case n < 20:
		return fmt.Sprintf("%s: p95 and p99 are those of single ones", Plural(n, "request", "requests")), nil
	default:
		return fmt.Sprintf("%s: p99 is that of a single one", Plural(n, "request", "requests")), nil
	}
}

// insecure says that nothing proved who the servers are.
func (e *evidence) insecure() (text string, detail []string) {
	return when(e.Run.isTrue("insecure"), "the certificates of the servers were not looked at: anybody may have answered")
}
