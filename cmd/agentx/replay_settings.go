package main

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// setting is a switch or an option of a replay: doc/spec/replay.md 0.3. A preset has a value for every switch; an option has a
// default of its own.
type setting struct {
	name  string
	about string
	group string // heading in the help
	alias string // flag that sets it, too; "": none
	hint  string // what to try instead of a wrong value; "": nothing
	kind  kind
	value any                                // default of an option
	under map[string]any                     // defaults of an option that differ, by preset
	apply func(o *replay.Options, value any) // sets an option; nil for a switch
	auto  bool                               // the default is not applied: the run finds out what it means
}

// settings are all of them, in the order of the help.
var settings = slices.Concat(switchSettings(), startSettings, arrivalSettings, paceSettings, limitSettings, requestSettings, connectionSettings, prepareSettings, tellSettings)

// settingNamed returns a setting by its name, nil if there is none.
func settingNamed(name string) *setting {
	k := slices.IndexFunc(settings, func(s setting) bool { return s.name == name })
	if k < 0 {
		return nil
	}
	return &settings[k]
}

// aliased returns the setting that a flag sets, nil if there is none.
func aliased(flag string) *setting {
	k := slices.IndexFunc(settings, func(s setting) bool { return s.alias == flag && flag != "" })
	if k < 0 {
		return nil
	}
	return &settings[k]
}

// The headings of the help.
const (
	switchGroup = "Switches"
	startGroup  = "Lanes and warmup"

	arrivalGroup = "Arrivals"

	paceGroup  = "Times"
	limitGroup = "Requests and failures"

	connectionGroup = "Connections"

	prepareGroup = "Before the first request"
	tellGroup    = "While it runs"
)

// switchSettings returns the switches. Their names, and those of their words, are those of package preset.
func switchSettings() (list []setting) {
	for _, s := range []setting{
		{name: "SpawnOffset", about: "when a child starts: recorded offset, or return of its parent"},
		{name: "JoinTiming", about: "when a turn joins: not early, or with its last child"},
		{name: "Anchor", about: "start of a spread phase: its first request, or t*"},
		{name: "TreeIdleCap", about: "longest time of a tree without a request in flight", kind: longer.orOff()},
		{name: "TraceCap", about: "when TraceIdleCap acts: in the run, or on the recording"},
		{name: "WarmupLeadCap", about: "what caps leads: SystemIdleCap, or TraceIdleCap"},
		{name: "WarmupStage", about: "bounds that the pressure stage may have"},
		{name: "HandoffOffset", about: "how sessions go on after the pressure stage"},
		{name: "HandoffOrder", about: "what orders the pressure stage: the seed alone, or answers"},
		{name: "WarmupOverflow", about: "a primer that overflows: another trace, or a failed warmup"},
		{name: "MarkerPermitsWrap", about: "a marker permits more lanes than traces", kind: yesOrNo},
		{name: "NegativeDuration", about: "only shown: fixed when the cache is built"},
		{name: "CountGrace", about: "requests that end in the grace are headline", kind: yesOrNo},
		{name: "LenientStreams", about: "status 200 with any content is a success", kind: yesOrNo},
		{name: "AnswerForms", about: "forms of an answer that are read: those of all servers, or AIPerf's"},
		{name: "TokenSigns", about: "messages that tell of tokens: all that do, or those with text"},
		{name: "OverflowWords", about: "texts of a context overflow: of all servers, or AIPerf's"},
		{name: "FailedShare", about: "what failures are a share of: ended requests, or records"},
		{name: "ThroughputWindow", about: "denominator of throughputs, time of effective curves"},
		{name: "ITLDivisor", about: "tokens that an ITL divides by"},
		{name: "FlowCurve", about: "how tokens spread over time"},
		{name: "Curves", about: "curves of tokens over time, and failed requests in them"},
		{name: "CoverageGate", about: "a valid run has tokens in 95 % of its duration", kind: yesOrNo},
		{name: "CoverageBy", about: "which tokens: of any request, or of those with a latency"},
		{name: "AffinityHeader", about: "requests have the header X-Session-Affinity", kind: yesOrNo},
		{name: "SchemaVersion", about: "of the files for readers of AIPerf's"},
	} {
		s.group = switchGroup
		if words := preset.Choices[s.name]; words != nil {
			s.kind = word(words...)
		}
		list = append(list, s)
	}
	return list
}

// startSettings say what lanes play, and what is sent before.
var startSettings = []setting{
	{name: "Start", alias: "start", group: startGroup, kind: word("zero", "sampled"), value: "zero",
		about: "where lanes begin in their first traces: zero, at the first turn; sampled, at an instant drawn from --seed, trace and lane",
		apply: func(o *replay.Options, v any) { o.Start.Sampled = v == "sampled" }},
	{name: "StartMinRatio", group: startGroup, kind: share, value: replay.DefaultMinRatio,
		about: "with Start sampled: where in a trace lanes begin at the earliest",
		apply: func(o *replay.Options, v any) { o.Start.Ratios.Min = v.(float64) }},
	{name: "StartMaxRatio", group: startGroup, kind: share, value: replay.DefaultMaxRatio,
		about: "with Start sampled: where in a trace lanes begin at the latest",
		apply: func(o *replay.Options, v any) { o.Start.Ratios.Max = v.(float64) }},
	{name: "BurstStart", group: startGroup, kind: yesOrNo, value: false,
		about: "lanes, and primers, start all at once, not as far apart as drawn",
		apply: func(o *replay.Options, v any) { o.Start.Burst = v.(bool) }},
	{name: "SamplerOrder", group: startGroup, kind: word("sequential", "shuffle", "random"), value: "sequential",
		about: "order in which lanes get traces",
		apply: func(o *replay.Options, v any) { o.Order = orders[v.(string)] }},
	{name: "Recycle", alias: "recycle", group: startGroup, kind: word("sampler", "fifo-guarded"), value: "sampler",
		about: "which trace a lane plays next: sampler, the next of SamplerOrder; fifo-guarded, the one that ended first and that no more lanes play than at the start",
		apply: func(o *replay.Options, v any) { o.Recycle = recycles[v.(string)] }},
	{name: "MaxLivePerTrace", group: startGroup, kind: yesOrNo, value: false,
		about: "no trace is played by more lanes at a time than at the start",
		apply: func(o *replay.Options, v any) { o.MaxLivePerTrace = v.(bool) }},
	{name: "AllowWrap", group: startGroup, kind: yesOrNo, value: false,
		about: "allow more lanes than traces also without a marker",
		apply: func(o *replay.Options, v any) { o.AllowWrap = v.(bool) }},
	{name: "Marker", alias: "marker", group: startGroup, kind: markerKind, value: payload.FirstTurnPrefix.String(), auto: true,
		about: "unique text in every tree, so that no tree hits what another one left in the prefix cache: first_turn_prefix or first_turn_suffix, before or after the first user message; system_prefix or system_suffix, before or after the system prompt; off (default: first_turn_prefix, or off where traces share blocks)",
		apply: func(o *replay.Options, v any) { o.Marker, _ = payload.ParseMarkerTarget(v.(string)) }},
	{name: "Warmup", alias: "warmup", group: startGroup, kind: warmupKind, value: "none",
		about: "what is sent before the measured phase: none; primers, the last request before the start of each session; requests=R (on each lane) or duration=D, primers and then requests without gaps",
		apply: func(o *replay.Options, v any) {
			w, _ := parseWarmup(v.(string))
			o.Warmup.Primers, o.Warmup.Requests, o.Warmup.Duration = w.Primers, w.Requests, w.Duration
		}},
	{name: "PrimerLeadMax", group: startGroup, kind: longer.orOff(), value: replay.DefaultPrimerLead,
		about: "longest time from a primer to the end of the ramp; off under a SystemIdleCap",
		apply: func(o *replay.Options, v any) { o.Warmup.LeadMax = orReplayOff(v) }},
	{name: "WarmupGrace", group: startGroup, kind: longer.orOff(),
		about: "how long warmup requests may go on after the last was sent",
		apply: func(o *replay.Options, v any) { o.Warmup.Grace, _ = v.(time.Duration) }},
}

// paceSettings say what becomes of recorded times.
var paceSettings = []setting{
	{name: "Speed", alias: "speed", group: paceGroup, kind: factor, value: 1.0,
		about: "divide recorded gaps and starts by this", hint: "--asap leaves out all gaps",
		apply: func(o *replay.Options, v any) { o.Pace.Speed = v.(float64) }},
	{name: "GapCap", alias: "max-gap", group: paceGroup, kind: span.zeroIsOff().orOff(),
		about: "shorten gaps to this, after --speed; 0: no limit",
		apply: func(o *replay.Options, v any) { o.Pace.MaxGap, _ = v.(time.Duration) }},
	{name: "IgnoreDelays", alias: "asap", group: paceGroup, kind: yesOrNo, value: false,
		about: "no gaps: send every turn as soon as the one before is answered",
		apply: func(o *replay.Options, v any) { o.Pace.ASAP = v.(bool) }},
	{name: "IgnoreDelaysKeepsOrder", group: paceGroup, kind: yesOrNo, value: true, under: map[string]any{preset.AIPerf: false},
		about: "with IgnoreDelays: the recorded order between sessions stays",
		apply: func(o *replay.Options, v any) { keep := v.(bool); o.Pace.KeepOrder = &keep }},
	{name: "ThinkTimeOnly", group: paceGroup, kind: yesOrNo, value: false,
		about: "the gap before a turn is its recorded think time, where it has one",
		apply: func(o *replay.Options, v any) { o.Pace.ThinkTimeOnly = v.(bool) }},
	{name: "SystemIdleCap", group: paceGroup, kind: longer.orOff(),
		about: "longest time that no request at all is in flight",
		apply: func(o *replay.Options, v any) { o.Limits.SystemIdle, _ = v.(time.Duration) }},
	{name: "TraceIdleCap", group: paceGroup, kind: span.orOff(),
		about: "longest idle time of a trace, 0 for none at all; TraceCap says how it acts",
		apply: func(o *replay.Options, v any) {
			if d, on := v.(time.Duration); on {
				o.Limits.TraceIdle = max(d, time.Nanosecond) // of a limit 0 is none
			}
		}},
	{name: "LaneStartCap", group: paceGroup, kind: longer.orOff(), value: replay.DefaultLaneStart, under: map[string]any{preset.AgentX: nil},
		about: "longest time to the first request of a lane",
		apply: func(o *replay.Options, v any) { o.Limits.LaneStart = orReplayOff(v) }},
}

// limitSettings bound requests, and say what failures do.
var limitSettings = []setting{
	{name: "PrefillLimit", group: limitGroup, kind: whole(1, math.MaxInt).orOff(),
		about: "requests that may wait for their first token at a time",
		apply: func(o *replay.Options, v any) { o.Limits.Prefill, _ = v.(int) }},
	{name: "Grace", alias: "grace", group: limitGroup, kind: span, value: replay.DefaultGrace,
		about: "how long requests in flight may go on after --duration or an interrupt",
		apply: func(o *replay.Options, v any) { o.Grace = orReplayOff(v) }},
	{name: "InterruptGrace", group: limitGroup, kind: span, value: replay.DefaultInterruptGrace, under: map[string]any{preset.AgentX: time.Duration(0)},
		about: "how long they may go on after an interrupt, at most",
		apply: func(o *replay.Options, v any) { o.InterruptGrace = orReplayOff(v) }},
	{name: "RequestTimeout", alias: "timeout", group: limitGroup, kind: longer, value: replay.DefaultTimeout,
		about: "longest time of one request",
		apply: func(o *replay.Options, v any) { o.Timeout = v.(time.Duration) }},
	{name: "StallTimeout", alias: "stall-timeout", group: limitGroup, kind: span.zeroIsOff().orOff(), value: replay.DefaultStallTimeout,
		under: map[string]any{preset.AIPerf: nil, preset.AgentX: nil},
		about: "longest time without a byte in the middle of an answer; 0: no limit",
		apply: func(o *replay.Options, v any) { o.StallTimeout = orReplayOff(v) }},
	{name: "FirstByteTimeout", group: limitGroup, kind: span.zeroIsOff().orOff(), value: replay.DefaultFirstByteTimeout,
		under: map[string]any{preset.AIPerf: nil, preset.AgentX: nil},
		about: "longest time to the first byte of an answer; 0: no limit",
		apply: func(o *replay.Options, v any) { o.FirstByteTimeout = orReplayOff(v) }},
	{name: "RetryAfter", alias: "retry-after", group: limitGroup, kind: word("wait", "record", "off"), value: "record", auto: true,
		under: map[string]any{preset.AIPerf: "off", preset.AgentX: "off"},
		about: "after status 429 or 503 with Retry-After: wait, send the turn again then; record, it has failed, and its lane sends nothing before, a minute at most; off, it has failed (default: wait where every trace is played once, else record)",
		apply: func(o *replay.Options, v any) { o.RetryAfter = retries[v.(string)] }},
	{name: "FailedRequestThreshold", alias: "max-error-rate", group: limitGroup, kind: share.zeroIsOff().orOff(),
		about: "end the run when more than this share of requests has failed, 0 to 1, from the 10th ended request on, or one on each lane; 0: no limit",
		apply: func(o *replay.Options, v any) { o.FailedRequestThreshold, _ = v.(float64) }},
	{name: "PerChunkUsage", group: limitGroup, kind: yesOrNo, value: false,
		about: "ask the server for token counts in every message of an answer",
		apply: func(o *replay.Options, v any) { o.Fields.PerChunkUsage = v.(bool) }},
	{name: "StopOnWedge", group: limitGroup, kind: yesOrNo, value: false,
		about: "end the run when a tree deadlocks",
		apply: func(o *replay.Options, v any) { o.StopOnDeadlock = v.(bool) }},
	{name: "BackOff", group: limitGroup, kind: longer.orOff(), value: replay.DefaultBackoffMax,
		about: "longest pause of a lane without connections; 1 s first, then twice as long",
		apply: func(o *replay.Options, v any) {
			o.Backoff = replay.Backoff{First: replay.Off}
			if most, on := v.(time.Duration); on {
				o.Backoff = replay.Backoff{First: min(replay.DefaultBackoffFirst, most), Max: most}
			}
		}},
}

var retries = map[string]replay.RetryAfter{"wait": replay.RetryWait, "record": replay.RetryRecord, "off": replay.RetryIgnored}

// connectionSettings say how requests share connections.
var connectionSettings = []setting{
	{name: "ConnectionReuse", alias: "connection-reuse", group: connectionGroup, kind: word("pooled", "sticky-user-sessions", "never"), value: "pooled",
		about: "which requests may use a connection again: pooled, all; sticky-user-sessions, those of the same session; never, none",
		apply: func(o *replay.Options, v any) { o.Reuse = reuses[v.(string)] }},
	{name: "KeepAlive", alias: "keep-alive", group: connectionGroup, kind: span.zeroIsOff().orOff(), value: wire.DefaultKeepAlive,
		under: map[string]any{preset.AIPerf: aiperfKeepAlive, preset.AgentX: aiperfKeepAlive},
		about: "how long an idle connection may be used again; 0: a connection for every request",
		apply: func(o *replay.Options, v any) { o.KeepAlive = orReplayOff(v) }},
	{name: "TCPUserTimeout", group: connectionGroup, kind: longer.orOff(), value: wire.DefaultUserTimeout,
		under: map[string]any{preset.AgentX: harnessUserTimeout},
		about: "longest time without an acknowledgement of sent bytes",
		apply: func(o *replay.Options, v any) { o.TCPUserTimeout = orReplayOff(v) }},
	{name: "CAFile", alias: "ca-file", group: connectionGroup, kind: fileName.orOff(),
		about: "FILE with the certificates of further authorities, PEM, that may have signed those of https servers",
		apply: func(o *replay.Options, v any) { o.TLS.CAFile, _ = v.(string) }},
	{name: "ServerName", alias: "server-name", group: connectionGroup, kind: serverName.orOff(),
		about: "NAME that the certificates of https servers are for, where it is not that of the URL",
		apply: func(o *replay.Options, v any) { o.TLS.ServerName, _ = v.(string) }},
	{name: "Insecure", alias: "insecure", group: connectionGroup, kind: yesOrNo, value: false,
		about: "do not look at the certificates of https servers: anybody may be the server",
		apply: func(o *replay.Options, v any) { o.TLS.Insecure = v.(bool) }},
	{name: "KeepCookies", alias: "keep-cookies", group: connectionGroup, kind: yesOrNo, value: false,
		about: "send Set-Cookie and x-session-token of an answer back on the later requests of its tree, as gateways with sticky sessions want",
		apply: func(o *replay.Options, v any) { o.KeepCookies = v.(bool) }},
}

// fileName is the name of a file.
var fileName = kind{
	want: "the name of a file", flag: "string", tags: []string{yamlText}, schema: map[string]any{"type": "string", "minLength": 1},
	parse: func(text string) (any, bool) { return text, text != "" },
}

// serverName is the name of a server.
var serverName = kind{
	want: "the name of a server, such as llm.example.org", flag: "string", tags: []string{yamlText}, schema: map[string]any{"type": "string", "pattern": serverPattern},
	parse: func(text string) (any, bool) { return text, regexp.MustCompile(serverPattern).MatchString(text) },
}

const serverPattern = `^[0-9A-Za-z._:-]+$`

var reuses = map[string]wire.Reuse{"pooled": wire.Pooled, "sticky-user-sessions": wire.StickySessions, "never": wire.NoReuse}

// aiperfKeepAlive is how long AIPerf reuses an idle connection.
const aiperfKeepAlive = 300 * time.Second

// harnessUserTimeout is the TCPUserTimeout of the harness under its scenario agentx.
const harnessUserTimeout = 900 * time.Second

// prepareSettings say what happens before the first request.
var prepareSettings = []setting{
	{name: "WaitReady", alias: "wait-ready", group: prepareGroup, kind: span.zeroIsOff().orOff(),
		about: "wait until every server serves the model; no attempt starts after this time; 0: do not wait",
		apply: func(o *replay.Options, v any) { o.Readiness.Timeout, _ = v.(time.Duration) }},
	{name: "WaitReadyMode", group: prepareGroup, kind: word("inference", "models", "both"), value: "inference",
		about: "what WaitReady asks a server for",
		apply: func(o *replay.Options, v any) { o.Readiness.Mode = readyModes[v.(string)] }},
	{name: "WaitReadyInterval", group: prepareGroup, kind: longer, value: replay.DefaultReadyInterval,
		about: "how long WaitReady waits between two attempts",
		apply: func(o *replay.Options, v any) { o.Readiness.Interval = v.(time.Duration) }},
	{name: "Calibrate", group: prepareGroup, kind: yesOrNo, value: true, auto: true,
		about: "measure this machine alone for 2 s before the run; without a word about it not before runs of less than 20 s or 1,000 requests",
		apply: func(o *replay.Options, v any) { o.Calibrate = v.(bool) }},
	{name: "ResetCache", alias: "reset-cache", group: prepareGroup, kind: yesOrNo, value: false,
		about: "empty the prefix cache of every server before the run (POST /reset_prefix_cache)",
		apply: func(o *replay.Options, v any) { o.CacheReset.Enabled = v.(bool) }},
	{name: "ResetCachePath", group: prepareGroup, kind: resetPath, value: replay.DefaultResetPath,
		about: "path of ResetCache, below the root of a server",
		apply: func(o *replay.Options, v any) { o.CacheReset.Path = v.(string) }},
	{name: "ResetCacheTimeout", group: prepareGroup, kind: longer, value: replay.DefaultResetTimeout,
		about: "longest time of one attempt of ResetCache",
		apply: func(o *replay.Options, v any) { o.CacheReset.Timeout = v.(time.Duration) }},
}

// tellSettings say what a run tells of itself.
var tellSettings = []setting{
	{name: "StatsInterval", alias: "stats-interval", group: tellGroup, kind: span.atLeast(replay.MinStatsInterval).zeroIsOff().orOff(), value: replay.DefaultStatsInterval,
		about: "how often a run without a terminal prints its rates, latencies and failures so far; 0: never",
		apply: func(o *replay.Options, v any) { o.StatsInterval = orReplayOff(v) }},
	untilSetting,
}

var readyModes = map[string]replay.ReadyMode{"inference": replay.ReadyByInference, "models": replay.ReadyByModels, "both": replay.ReadyByBoth}

// resetPath is a path below the root of a server.
var resetPath = kind{
	want: "a path below the URL of the server, without query", flag: "string", tags: []string{yamlText}, schema: map[string]any{"type": "string", "pattern": pathPattern},
	parse: func(text string) (any, bool) {
		return text, regexp.MustCompile(pathPattern).MatchString(text) && replay.CacheReset{Path: text}.Validate() == nil
	},
}

const pathPattern = `^[!"$->@-~]+$`

// orReplayOff returns a duration for options in which 0 stands for the default.
func orReplayOff(v any) time.Duration {
	if d, _ := v.(time.Duration); d > 0 {
		return d
	}
	return replay.Off
}

var recycles = map[string]replay.Recycle{"sampler": replay.RecycleSampler, "fifo-guarded": replay.RecycleFIFOGuarded}

var orders = map[string]replay.Order{"sequential": replay.Sequential, "shuffle": replay.Shuffle, "random": replay.Random}

// markerKind is the name of a marker target. An error gives the reason for names of AIPerf that are refused.
var markerKind = func() kind {
	var names []string
	for t := payload.NoMarker; t.Validate() == nil; t++ {
		names = append(names, t.String())
	}
	k := word(names...)
	k.why = func(text string) error {
		_, err := payload.ParseMarkerTarget(text)
		return meant(err, text, names)
	}
	return k
}()

// switchesOf returns the switches with the given values.
func switchesOf(values map[string]any) *preset.Switches {
	texts := map[string]json.RawMessage{}
	for name, v := range values {
		texts[name] = jsonOf(v)
	}
	text, _ := json.Marshal(texts) // jsonOf wrote them
	s := new(preset.Switches)
	if err := json.Unmarshal(text, s); err != nil {
		panic(err) // every kind of a switch takes only what its type holds
	}
	return s
}

// presetValues returns the values of the switches under a preset.
func presetValues(name string) map[string]any {
	s, _ := preset.Named(name)
	text, _ := json.Marshal(s) // words, numbers and switches always marshal
	var values map[string]any
	_ = json.Unmarshal(text, &values)
	for name, v := range values {
		if seconds, ok := v.(float64); ok {
			values[name] = time.Duration(seconds * float64(time.Second))
		}
	}
	return values
}
