package profile

import (
	"math"
	"slices"
	"strings"
)

const (
	agentWarmup = "sessions of agents are warmed up with the last requests before their start, under --scenario: leave it out, or choose a scenario, and --agentic-cache-warmup-duration for more"
)

// loadFlags say how much is played, and how long.
var loadFlags = append([]flag{
	mapped("--scenario", func(t *translation, g given) { t.set("scenario", g.value()) }),
	mappedSwitch("--unsafe-override", whenOn("unsafe-override", true)),
	mapped("--concurrency", func(t *translation, g given) {
		if g.value() == "auto" {
			t.add("not supported: --concurrency auto: " + search)
			return
		}
		t.set("concurrency", strings.Join(parts(g.values), ","))
	}),
	mapped("--prefill-concurrency", func(t *translation, g given) {
		if t.single(g) {
			t.set("prefill-limit", g.value())
		}
	}),
	mapped("--request-count --num-requests", func(t *translation, g given) {
		if !t.single(g) {
			return
		}
		t.count(g, "requests")
		if !t.has("--num-dataset-entries") && !t.has("--conversation-num") && !t.presumed() { // AIPerf loads no more traces than that
			t.limitTraces(g)
		}
	}),
	mapped("--benchmark-duration", func(t *translation, g given) {
		if t.single(g) {
			t.positiveSeconds(g, "duration")
		}
	}),
	mapped("--benchmark-grace-period", func(t *translation, g given) {
		if !t.has("--benchmark-duration") && !t.has("--scenario") {
			t.add("%s: works only with --benchmark-duration", g.name)
			return
		}
		if x, err := number(g.value()); err == nil && math.IsInf(x, 1) {
			t.note("%s: the grace lasts as long as a request may: longer is the same", g.shown())
			longest := t.value("--request-timeout-seconds")
			if longest == "" {
				longest = "21600"
			}
			g.values = []string{longest}
		}
		t.seconds(g, "grace")
	}),
	mapped("--failed-request-threshold", func(t *translation, g given) { t.set("max-error-rate", g.value()) }),
	mapped("--trajectory-start-min-ratio", func(t *translation, g given) { t.sampled("start-min-ratio", g.value()) }),
	mapped("--trajectory-start-max-ratio", func(t *translation, g given) { t.sampled("start-max-ratio", g.value()) }),
	mappedSwitch("--burst-phase-starts", func(t *translation, g given) { t.sampled("burst-start", g.on()) }),
	mapped("--agentic-cache-warmup-duration", func(t *translation, g given) {
		if v, err := secondsOf(g.value()); err != nil {
			t.add("%s: %w", g.shown(), err)
		} else {
			t.set("warmup", "duration="+v)
		}
	}).conflict("--warmup-requests-per-lane"),
	{names: []string{"--warmup-requests-per-lane"}, takes: oneValue, class: classMapped, pinned: true, apply: func(t *translation, g given) {
		t.set("warmup", "requests="+g.value())
	}},
	mapped("--agentic-warmup-grace-period", func(t *translation, g given) { t.seconds(g, "warmup-grace") }),
	mapped("--warmup-grace-period", func(t *translation, g given) {
		switch {
		case t.has("--agentic-warmup-grace-period"):
			t.note("%s: --agentic-warmup-grace-period takes its place, as in AIPerf", g.shown())
		case t.has("--scenario"):
			t.seconds(g, "warmup-grace")
		default:
			t.add("%s: works only with --scenario: %s", g.name, agentWarmup)
		}
	}),
	{names: []string{"--use-dynamo-conv-aware-routing"}, takes: noValue, class: classMapped, pinned: true, apply: (*translation).dynamo},
	{names: []string{"--dynamo-session-timeout-seconds"}, takes: oneValue, class: classMeaningless, pinned: true,
		about: "agentx writes no session control into bodies, which Dynamo no longer takes; the router keeps its own lease"},
	meaningless("--confidence-level", oneValue, "there is one run, and so no interval"),
	flag{names: []string{"--num-profile-runs"}, takes: oneValue, class: classRefused,
		about:  "agentx does not repeat a run yet: run it several times",
		unless: func(_ *translation, g given) bool { return g.value() == "1" }},
}, append(slices.Clone(arrivalFlags),
	refused(oneValue, agentWarmup,
		"--warmup-request-count --num-warmup-requests", "--warmup-duration", "--num-warmup-sessions", "--warmup-concurrency",
		"--warmup-prefill-concurrency", "--warmup-request-rate", "--warmup-arrival-pattern", "--warmup-concurrency-ramp-duration",
		"--warmup-prefill-concurrency-ramp-duration", "--warmup-request-rate-ramp-duration")...)...,
)

// sampled makes lanes begin at drawn instants of their traces, and gives a setting of such starts a value.
func (t *translation) sampled(setting string, value any) {
	if !t.starts {
		t.starts = true
		t.set("start", "sampled")
	}
	t.set(setting, value)
}

// single reports whether a flag has one value. It adds an error for a list, which AIPerf plays one after the other.
func (t *translation) single(g given) bool {
	if len(parts(g.values)) > 1 {
		t.add("not supported: %s: agentx plays a list of --concurrency alone: want one value", g.shown())
		return false
	}
	return true
}

// dynamo adds the header by which Dynamo identifies a session.
func (t *translation) dynamo(g given) {
	if g.on() {
		t.note("%s: sessions are told by X-Dynamo-Session-ID; nothing is written into bodies", g.name)
		t.sessionHeaders = append(t.sessionHeaders, dynamoHeader)
	}
}

const dynamoHeader = "X-Dynamo-Session-ID"
