package profile

import "slices"

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

// requestRate opens trees at a rate. AIPerf counts requests, so each trace must be one.
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
	case !t.mooncake || t.rows().longest > 1:
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

// arrivalPattern passes on the law of the gaps. AIPerf reads it with a rate alone.
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

// arrivalSmoothness chooses gamma where no pattern is given.
func (t *translation) arrivalSmoothness(g given) {
	law := oneSpelling(t.value("--arrival-pattern"))
	switch {
	case !t.has("--request-rate") || law != "" && law != "gamma":
		t.add("%s: works only with --request-rate and --arrival-pattern gamma", g.name)
	case law == "":
		t.gamma()
	}
}

// gamma draws gamma gaps, of shape 1 where no smoothness is given.
func (t *translation) gamma() {
	shape := "1"
	if g, ok := t.given["--arrival-smoothness"]; ok && t.single(g) && t.positive(g) {
		shape = g.value()
	}
	t.set("arrival", "gamma:"+shape)
}

// rateRamp lets the rate grow.
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
