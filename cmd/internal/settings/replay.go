package settings

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

// Replay returns the settings that are options of a replay: doc/spec/replay.md 0.3. They write to these options. What the zero value of
// an option stands for is the default of its row.
func Replay(o *replay.Options) []Setting {
	s, _ := preset.Named(preset.Default)
	defaults := o.Defaults()
	o.Start.Ratios, o.Switches = new(resume.Ratios), &s
	ratios := defaults[&o.Start.Ratios][0].(*resume.Ratios)
	defaults[&o.Start.Ratios.Min], defaults[&o.Start.Ratios.Max] = []any{ratios.Min}, []any{ratios.Max}
	rows := slices.Concat(startRows(o), arrivalRows(o), paceRows(o), limitRows(o), timeoutRows(o), bodyRows(o), connectionRows(o), serverRows(o), switchRows(o.Switches))
	for k := range rows {
		rows[k].defaults(defaults[rows[k].To])
	}
	return rows
}

// defaults sets Default and Under of a row: values has what the zero value of its option means, under each preset.
func (row *Setting) defaults(values []any) {
	for k, v := range values {
		if pointer := reflect.ValueOf(v); pointer.Kind() == reflect.Pointer {
			v = pointer.Elem().Interface()
		}
		if v == replay.Off {
			if v = time.Duration(0); row.Kind.off {
				v = nil
			}
		}
		switch _, lasts := v.(time.Duration); {
		case k == 0 && row.Default == nil:
			row.Default = v
			if lasts {
				row.None = replay.Off
			}
		case k > 0 && v != row.Default && v != values[0]:
			if row.Under == nil {
				row.Under = map[string]any{}
			}
			row.Under[preset.Names[k]] = v
		}
	}
}

// Against returns a setting that contradicts the named one in some options, as the user wrote it; "" if none does.
func (s *Set) Against(name string, o *replay.Options) string {
	for _, c := range o.Contradictions() {
		if shown, other, ok := strings.Cut(s.told(c), " and "); ok && strings.HasPrefix(other, s.Show(name)+":") {
			return shown
		}
	}
	return ""
}

// Contradict tells an error for every contradiction between options, in terms of the settings that have written them.
func (s *Set) Contradict(o *replay.Options) {
	for _, c := range o.Contradictions() {
		if text := s.told(c); text != "" {
			s.wrong(errors.New(text), "")
		}
	}
}

// MissingBeside returns a function that says of a name of a replay's setting, old or present, that a simulation does not have it but only
// some; "" for another name.
func MissingBeside(some []string) func(name string) string {
	return func(name string) (why string) {
		now := preset.Renamed(name)
		if !slices.ContainsFunc(Replay(new(replay.Options)), func(row Setting) bool { return row.Name == now }) {
			return ""
		}
		if now != name {
			why = name + " is " + now + ", "
		}
		return why + "a setting of a replay that a simulation does not have: it has " + strings.Join(some, ", ")
	}
}

// PlayedBy returns what the results of a run say of its load: which turns leave, in which order, and when.
func PlayedBy(run *measure.Run) (o replay.Options, err error) {
	rows, groups := Replay(&o), []string{Played, Arrivals, Load, Switches}
	if s, ok := preset.Named(run.Preset); ok {
		o.Preset, *o.Switches = run.Preset, s
	}
	for _, row := range rows {
		k := slices.IndexFunc(run.Options, func(one measure.Option) bool { return one.Name == row.Name })
		if k < 0 || !slices.Contains(groups, row.Group) {
			continue
		}
		if len(run.Options[k].Value) == 0 {
			return o, fmt.Errorf("%s has no value", row.Name)
		}
		var n yaml.Node
		var texts []string
		if err = yaml.Unmarshal(run.Options[k].Value, &n); err == nil {
			texts, err = textsOf(row.Kind, n.Content[0])
		}
		var v any
		if err == nil && len(texts) > 0 {
			v, err = row.Kind.value(texts[0])
		}
		if err != nil {
			return o, fmt.Errorf("%s %s: %w", row.Name, run.Options[k].Value, err)
		}
		row.write(v)
	}
	return o, nil
}

// InSeconds reports whether the results have a setting of a replay as a number of seconds.
func InSeconds(name string) bool {
	return slices.ContainsFunc(Replay(new(replay.Options)), func(row Setting) bool { return row.Name == name && row.Kind.Type == Span.Type })
}

// startRows say what lanes play, and what is sent before.
func startRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "start", Group: Played, Kind: Word("zero\twith the first turn", "sampled\tsomewhere in the trace").Means(false, true), Default: false, To: &o.Start.Sampled,
			Help: "where lanes begin in their first traces: zero, at the first turn; sampled, at an instant drawn from --seed, trace and lane"},
		{Name: "start-min-ratio", Group: Played, Brief: true, Kind: share, To: &o.Start.Ratios.Min,
			Help: "with --start sampled: where in a trace lanes begin at the earliest"},
		{Name: "start-max-ratio", Group: Played, Brief: true, Kind: share, To: &o.Start.Ratios.Max,
			Help: "with --start sampled: where in a trace lanes begin at the latest"},
		{Name: "burst-start", Group: Played, Brief: true, Kind: Yes, Default: false, To: &o.Start.Burst,
			Help: "start all lanes and primers at once, not as far apart as drawn"},
		{Name: "sampler-order", Group: Played, Brief: true, Kind: Word("sequential", "shuffle", "random").Means(replay.Sequential, replay.Shuffle, replay.Random), Default: replay.Sequential,
			To: &o.Order, Help: "order in which lanes get traces"},
		{Name: "recycle", Group: Played, Kind: Word("sampler\tthe next of --sampler-order", "fifo-guarded\tthe one that ended first").Means(replay.RecycleSampler, replay.RecycleFIFOGuarded),
			Default: replay.RecycleSampler, To: &o.Recycle,
			Help: "which trace a lane plays next: sampler, the next of --sampler-order; fifo-guarded, the one that ended first and that no more lanes play than at the start"},
		{Name: "max-live-per-trace", Group: Played, Brief: true, Kind: Yes, Default: false, To: &o.MaxLivePerTrace,
			Help: "no trace is played by more lanes at a time than at the start"},
		{Name: "allow-wrap", Group: Played, Brief: true, Kind: Yes, Default: false, To: &o.AllowWrap, Help: "allow more lanes than traces also without a marker"},
		{Name: "marker", Group: Played, Kind: markerKind(), Default: payload.FirstTurnPrefix, Auto: true, To: &o.Marker,
			Help: "unique text in every tree, so that no tree hits what another one left in the prefix cache: first_turn_prefix or first_turn_suffix, before or after the first user message; system_prefix or system_suffix, before or after the system prompt; off (default: first_turn_prefix, or off where traces share blocks)"},
		{Name: "warmup", Group: Played, Kind: warmupKind, Default: "none", Apply: func(v any) {
			w, _ := parseWarmup(v.(string))
			o.Warmup.Primers, o.Warmup.Requests, o.Warmup.Duration = w.Primers, w.Requests, w.Duration
		}, Help: "what is sent before the measured phase: none; primers, the last request before the start of each session; requests=R (on each lane) or duration=D, primers and then requests without gaps"},
		{Name: "primer-lead-max", Group: Played, Brief: true, Kind: Longer.orOff(), To: &o.Warmup.LeadMax,
			Help: "longest time from a primer to the end of the ramp; off under a --system-idle-cap"},
		{Name: "warmup-grace", Group: Played, Brief: true, Kind: Longer.orOff(), To: &o.Warmup.Grace, Help: "how long warmup requests may go on after the last was sent"},
		{Name: "limit-traces", Group: Played, Plain: true, Kind: Count, Default: 0, To: &o.Traces, Help: "play only this many traces, the first; 0: all"},
		{Name: "max-context", Group: Played, Plain: true, Kind: contextKind(), Default: 0, To: &o.MaxContext,
			Help: "play only traces whose requests all fit a context of this many tokens: prompt, completion, marker, and the chat template of one message; server: take the number from the server (max_model_len, n_ctx); 0: all"},
	}
}

// arrivalRows say when trees open.
func arrivalRows(o *replay.Options) []Setting {
	a := &o.Arrivals
	return []Setting{
		{Name: "arrivals", Group: Arrivals, Kind: Word("lanes\twhen the tree before is over", "recorded\tat their recorded starts", "rate\tat --rate").Means(replay.Lanes, replay.RecordedArrivals, replay.RateArrivals),
			Default: replay.Lanes, Auto: true, To: &a.Mode,
			Help: "when trees open: lanes, when the tree before on the lane is over; recorded, at their recorded starts; rate, at --rate (default: rate with --rate; recorded where the input says when each trace began and no other option needs lanes; else lanes)"},
		{Name: "rate", Group: Arrivals, Kind: above0(int(arrivals.MaxRate)).orOff(), To: &a.Rate,
			Help: "trees that open per second, however slow the answers are; --concurrency then caps the open trees, without it there is no cap"},
		{Name: "rate-of", Group: Arrivals, Kind: Word("trees", "requests\tevery trace must have one").Means(false, true), Default: false, To: &a.PerRequest,
			Help: "what --rate counts: trees, or requests, if every trace has exactly one"},
		{Name: "arrival", Group: Arrivals, Kind: processKind(), Default: "poisson", Apply: func(v any) { a.Law, a.Shape, _ = arrivals.ParseKind(v.(string)) },
			Help: "gaps between the trees of --rate, drawn from --seed: poisson; constant; gamma:SHAPE, in bursts below a shape of 1, more even above it"},
		{Name: "ramp", Group: Arrivals, Kind: Span.atMost(arrivals.MaxRamp).orZero(), To: &a.Ramp,
			Help: "time over which the rate grows from 0 to --rate, or the lanes open one after another; 0: at once"},
		{Name: "from", Group: Arrivals, Kind: Span.orZero(), To: &a.From, Help: "with recorded arrivals: play the traces that start this long after the first, or later"},
		{Name: "to", Group: Arrivals, Kind: Span.orZero(), To: &a.To, Help: "with recorded arrivals: play the traces that start before this; 0: all"},
		{Name: "turns", Group: Arrivals, Kind: Word("gaps\tafter the turn before", "absolute\tat their recorded times").Means(false, true), Default: false, To: &a.AbsoluteTurns,
			Help: "when later turns are sent: gaps, the recorded gap after the turn before; absolute, at their recorded times since the tree opened, or when what they wait for is done if that is later"},
	}
}

// paceRows say how recorded times are played.
func paceRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "speed", Group: Played, Kind: Factor, Hint: "--asap leaves out all gaps", To: &o.Pace.Speed, Help: "divide recorded gaps and starts by this"},
		{Name: "max-gap", Group: Played, Kind: Span.orZero(), To: &o.Pace.MaxGap, Help: "shorten gaps to this, after --speed; 0: no limit"},
		{Name: "asap", Group: Played, Kind: Yes, Default: false, To: &o.Pace.ASAP, Help: "no gaps: send every turn as soon as the one before is answered"},
		{Name: "asap-keeps-order", Group: Played, Brief: true, Kind: Yes, To: &o.Pace.KeepOrder,
			Help: "with --asap: keep the recorded order between sessions"},
		{Name: "think-time-only", Group: Played, Brief: true, Kind: Yes, Default: false, To: &o.Pace.ThinkTimeOnly,
			Help: "the gap before a turn is its recorded think time, where it has one"},
		{Name: "system-idle-cap", Group: Played, Brief: true, Kind: Longer.orOff(), To: &o.Limits.SystemIdle, Help: "longest time that no request at all is in flight"},
		{Name: "trace-idle-cap", Group: Played, Brief: true, Kind: Span.orOff(), Apply: func(v any) {
			d, on := v.(time.Duration)
			if o.Limits.TraceIdle = d; on && d == 0 {
				o.Limits.TraceIdle = time.Nanosecond // of a limit 0 is none
			}
		}, Help: "longest idle time of a trace, 0 for none at all; --trace-cap says how it acts"},
		{Name: "lane-start-cap", Group: Played, Brief: true, Kind: Longer.orOff(), To: &o.Limits.LaneStart, Help: "longest time to the first request of a lane"},
	}
}

// limitRows bound a run, and say what failures do.
func limitRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "duration", Group: Load, Plain: true, Kind: Span, Default: time.Duration(0), To: &o.Duration, Help: "stop sending after this time; the first bound that is reached ends the run"},
		{Name: "requests", Group: Load, Plain: true, Kind: Count, Default: 0, To: &o.Requests, Help: "stop after this many requests"},
		{Name: "trees", Group: Load, Plain: true, Kind: Count, Default: 0, To: &o.Trees, Help: "stop after this many trees"},
		{Name: "once", Group: Load, Plain: true, Kind: Yes, Default: false, To: &o.Once, Help: "play every trace at most once (the default without another bound)"},
		{Name: "prefill-limit", Group: Load, Brief: true, Kind: Whole(1, math.MaxInt).orOff(), To: &o.Limits.Prefill, Help: "how many requests may wait for their first token at a time"},
		{Name: "grace", Group: Load, Kind: Span, To: &o.Grace, Help: "how long requests in flight may go on after --duration or an interrupt"},
		{Name: "interrupt-grace", Group: Load, Brief: true, Kind: Span, To: &o.InterruptGrace, Help: "longest time that requests in flight may go on after an interrupt"},
		{Name: "retry-after", Group: Load, Kind: Word("wait\tsend the turn again then", "record\tit has failed, and its lane waits", "off\tit has failed").Means(replay.RetryWait, replay.RetryRecord, replay.RetryIgnored),
			Default: replay.RetryRecord, Auto: true, To: &o.RetryAfter,
			Help: "after status 429 or 503 with Retry-After: wait, send the turn again at that time; record, count it as failed and let its lane send nothing until then, for a minute at most; off, count it as failed (default: wait where every trace is played once, else record)"},
		{Name: "max-error-rate", Group: Load, Kind: share.orZero(), To: &o.FailedRequestThreshold,
			Help: "end the run when more than this share of the ended requests has failed, 0 to 1; checked from the 10th of them on, or from as many as there are lanes; 0: no limit"},
		{Name: "stop-on-deadlock", Group: Load, Brief: true, Kind: Yes, Default: false, To: &o.StopOnDeadlock, Help: "end the run when a tree deadlocks"},
		{Name: "back-off", Group: Load, Brief: true, Kind: Longer.orOff(), To: &o.Backoff.Max, Help: "longest pause of a lane that gets no connection; the first is 1 s, each further one twice as long"},
		{Name: "stats-interval", Group: Results, Kind: Span.AtLeast(replay.MinStatsInterval).orZero(), To: &o.StatsInterval, Help: "how often a run without a terminal prints its rates, latencies and failures so far; 0: never"},
	}
}

// timeoutRows bound requests.
func timeoutRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "timeout", Group: Load, Kind: Longer, To: &o.Timeout, Help: "longest time of one request"},
		{Name: "stall-timeout", Group: Load, Kind: Span.orZero(), To: &o.StallTimeout, Help: "longest time without a byte in the middle of an answer; 0: no limit"},
		{Name: "first-byte-timeout", Group: Load, Brief: true, Kind: Span.orZero(), To: &o.FirstByteTimeout, Help: "longest time to the first byte of an answer; 0: no limit"},
		{Name: "gone-after", Group: Load, Brief: true, Kind: Span.orZero(), To: &o.GoneAfter, Help: "end the run when every request of this time, five at least, failed without a connection; 0: go on"},
	}
}

// endpoints are the words of the endpoints, and aboutEndpoints what they mean; lengths are those of the fields that ask for a number of
// tokens, and aboutLengths which of them is meant by none.
var endpoints, aboutEndpoints, lengths, aboutLengths = func() (Kind, string, Kind, string) {
	var words, about, fields, others []string
	var values []any
	for _, e := range payload.Endpoints() {
		words, about, values = append(words, e.String()+"\t"+e.About()), append(about, e.String()+": "+e.About()), append(values, e)
		if e.Length() != payload.MaxTokens {
			others = append(others, string(e.Length())+" with --payload "+e.String())
		}
	}
	for _, f := range payload.LengthFields {
		fields = append(fields, string(f))
	}
	return Word(words...).Means(values...), strings.Join(about, "; "), Word(fields...), fmt.Sprintf("%s, else %s", strings.Join(others, ", "), payload.MaxTokens)
}()

// bodyRows say how requests are written.
func bodyRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "payload", Group: bodies, Plain: true, Kind: endpoints,
			Default: payload.ChatCompletions, To: &o.Endpoint,
			Help: aboutEndpoints},
		{Name: "extra-body", Group: bodies, Plain: true, Secret: true, Kind: Checked(func(text string) error { return payload.ValidateExtra([]byte(text)) }), Default: "", To: &o.Fields.Extra,
			Help: "JSON object whose members go into every request body; fields that the recording needs win, with a warning"},
		{Name: "max-tokens-field", Group: bodies, Plain: true, Kind: lengths, Default: "", To: &o.Fields.Length,
			Help: "body field that says how many tokens to generate: max_tokens, max_completion_tokens, or none, which leaves out ignore_eos as well (default: " + aboutLengths + ")"},
		{Name: "no-ignore-eos", Group: bodies, Plain: true, Kind: Yes, Default: false, To: &o.Fields.OmitIgnoreEOS,
			Help: "leave ignore_eos out of the body: the model then ends its answers, shorter or longer than recorded"},
		{Name: "no-stream-options", Group: bodies, Plain: true, Kind: Yes, Default: false, To: &o.Fields.OmitStreamOptions,
			Help: "leave stream_options out of the body: most servers then report no token counts"},
		{Name: "per-chunk-usage", Group: bodies, Brief: true, Kind: Yes, Default: false, To: &o.Fields.PerChunkUsage, Help: "ask the server for token counts in every message of an answer"},
		{Name: "overflow-pattern", Group: bodies, Plain: true, Kind: List(overflowPattern), To: &o.OverflowPatterns, Shown: patternTexts,
			Help: "regular expression, in any letter case, for error texts that mean a context overflow, besides those of known servers (repeatable)"},
		{Name: "content-parts", Group: bodies, Brief: true, Kind: Yes, Default: false, To: &o.Parts,
			Help: "send contents of messages as lists of one text part, not as strings; the marker is a part of its own"},
		{Name: "correlation-header", Group: bodies, Brief: true, Kind: headerName, To: &o.SessionHeader.Correlation, Help: "header with the id of the session"},
		{Name: "session-header", Group: bodies, Kind: headerNames.orOff(), Apply: func(v any) { o.SessionHeader.More = headerList(v) }, Environ: sessionVariables,
			Help: "NAME, a further header with the id of the session, such as X-Session-ID, X-SMG-Routing-Key or X-Dynamo-Session-ID, which brings X-Dynamo-Parent-Session-ID (repeatable, or with commas)"},
	}
}

// connectionRows say how requests share connections.
func connectionRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "connection-reuse", Group: bodies, Kind: Word("pooled\tby all requests", "sticky-user-sessions\tby those of the same session", "never").Means(wire.Pooled, wire.StickySessions, wire.NoReuse),
			Default: wire.Pooled, To: &o.Reuse, Help: "which requests may use a connection again: pooled, all; sticky-user-sessions, those of the same session; never, none"},
		{Name: "keep-alive", Group: bodies, Kind: Span.orZero(), To: &o.KeepAlive, Help: "how long an idle connection may be used again; 0: a connection for every request"},
		{Name: "tcp-user-timeout", Group: bodies, Brief: true, Kind: Longer.orOff(), To: &o.TCPUserTimeout, Help: "longest time without an acknowledgement of sent bytes"},
		{Name: "keep-cookies", Group: bodies, Kind: Yes, Default: false, To: &o.KeepCookies,
			Help: "send Set-Cookie and x-session-token of an answer back on the later requests of its tree, as gateways with sticky sessions want"},
		{Name: "ca-file", Group: Server, Kind: File("pem", "crt", "key").orOff(), To: &o.TLS.CAFile,
			Help: "FILE (PEM) with certificates of further authorities to trust for https servers"},
		{Name: "server-name", Group: Server, Kind: pattern("the name of a server, such as llm.example.org", `^[0-9A-Za-z._:-]+$`).orOff(), To: &o.TLS.ServerName,
			Help: "NAME that the certificates of https servers must have, if it is not the host of the URL"},
		{Name: "insecure", Group: Server, Kind: Yes, Default: false, To: &o.TLS.Insecure, Help: "do not check the certificates of https servers: anybody may be the server"},
	}
}

// serverRows say which servers are asked, and what happens before the first request.
func serverRows(o *replay.Options) []Setting {
	return []Setting{
		{Name: "url", Group: Server, Plain: true, Secret: true, Kind: List(serverURLs), To: &o.URLs, Shown: redactedURLs,
			Help: "server, such as http://127.0.0.1:8000; also with /v1, or with the endpoint, /v1/chat/completions (repeatable, or with commas: trees are dealt to the servers in turn, and each stays on one)"},
		{Name: "model", Group: Server, Plain: true, Kind: AnyText, Default: "", To: &o.Model, Help: "name of the model to ask for"},
		{Name: "header", Group: Server, Plain: true, Secret: true, Kind: List(headerField), To: &o.Header, Shown: headerFieldNames, Masked: ", without their values",
			Help: "NAME:VALUE, a header of every request (repeatable)"},
		{Name: "wait-ready", Group: Server, Kind: Span.orZero(), To: &o.Readiness.Timeout,
			Help: "wait until every server serves the model; no attempt starts after this time; 0: do not wait"},
		{Name: "wait-ready-mode", Group: Server, Brief: true, Kind: Word("inference", "models", "both").Means(replay.ReadyByInference, replay.ReadyByModels, replay.ReadyByBoth),
			Default: replay.ReadyByInference, To: &o.Readiness.Mode, Help: "what --wait-ready asks a server for"},
		{Name: "wait-ready-interval", Group: Server, Brief: true, Kind: Longer, To: &o.Readiness.Interval, Help: "how long --wait-ready waits between two attempts"},
		{Name: "no-preflight", Group: Server, Plain: true, Kind: Yes, Default: false, To: &o.SkipPreflight,
			Help: "before the run, ask the server neither for its models nor for one token"},
		{Name: "no-calibrate", Group: Server, Kind: Yes, Default: false, Auto: true, Apply: func(v any) { o.Calibrate = v != true }, Opposite: "Calibrate",
			Help: "skip the 2 s after the run in which agentx measures what this machine reaches alone; unless it is set, runs of less than 20 s or 1,000 requests skip them"},
		{Name: "reset-cache", Group: Server, Kind: Yes, Default: false, To: &o.CacheReset.Enabled,
			Help: "empty the prefix cache of every server before the run (POST /reset_prefix_cache)"},
		{Name: "reset-cache-path", Group: Server, Brief: true, Kind: resetPath, To: &o.CacheReset.Path, Help: "path of --reset-cache, below the root of a server"},
		{Name: "reset-cache-timeout", Group: Server, Brief: true, Kind: Longer, To: &o.CacheReset.Timeout, Help: "longest time of one attempt of --reset-cache"},
		{Name: "scrape", Group: Results, Plain: true, Secret: true, Kind: List(scrapePages), Apply: func(v any) { o.Scrape = scrapeOf(v) }, Shown: redactedURLs,
			Help: "page of Prometheus metrics that is read beside the run (repeatable, or with commas); off: none (default: /metrics of each server, if it has one)"},
	}
}

// switchRows are the switches. Package preset has their names, words and values.
func switchRows(to *preset.Switches) (rows []Setting) {
	under := map[string][]preset.Switch{} // once for each: a list reads the tags of all
	for _, p := range preset.Names {
		s, _ := preset.Named(p)
		under[p] = s.List()
	}
	for k, x := range to.List() {
		row := Setting{Name: x.Name, Group: Switches, Brief: true, Help: x.About, Kind: Yes, To: x.To, Under: map[string]any{}}
		seconds, isCap := x.To.(**preset.Seconds)
		switch {
		case isCap:
			row.Kind, row.Apply = Longer.orOff(), func(v any) { *seconds = secondsOf(v) }
		case len(x.Words) > 0:
			row.Kind = Word(x.Words...)
			if _, is := x.To.(*bool); is {
				row.Kind = row.Kind.Means(false, true)
			}
		}
		for _, p := range preset.Names {
			switch v := under[p][k].To.(type) {
			case *preset.Choice:
				row.Under[p] = string(*v)
			case *bool:
				row.Under[p] = *v
			case **preset.Seconds:
				row.Under[p] = spanOf(*v)
			}
		}
		row.Default = row.Under[preset.Default]
		rows = append(rows, row)
	}
	return rows
}

// secondsOf and spanOf turn a value of a row into the cap of a switch, and the reverse; nil is off.
func secondsOf(v any) *preset.Seconds {
	d, on := v.(time.Duration)
	if !on {
		return nil
	}
	s := preset.Seconds(d.Seconds())
	return &s
}

func spanOf(s *preset.Seconds) any {
	if s == nil {
		return nil
	}
	return s.Duration()
}

// pattern is a text that a regular expression matches.
func pattern(want, pattern string) Kind {
	k := AnyText
	k.Want, k.Schema = want, map[string]any{"type": "string", "pattern": pattern}
	k.Read = func(text string) (any, bool) { return text, regexp.MustCompile(pattern).MatchString(text) }
	return k
}

// resetPath is a path below the root of a server.
var resetPath = func() Kind {
	k := pattern("a path below the URL of the server, without query", `^[!"$->@-~]+$`)
	read := k.Read
	k.Read = func(text string) (any, bool) {
		v, ok := read(text)
		return v, ok && !strings.Contains(text, "://")
	}
	return k
}()

// markerKind is the kind of the name of a marker target. Its errors say why some names of AIPerf are refused.
func markerKind() Kind {
	about := map[payload.MarkerTarget]string{
		payload.FirstTurnPrefix: "\tbefore the first user message", payload.FirstTurnSuffix: "\tafter it", payload.SystemPrefix: "\tbefore the system prompt", payload.SystemSuffix: "\tafter it",
	}
	var names []string
	var targets []any
	for t := payload.NoMarker; t.Validate() == nil; t++ {
		names, targets = append(names, t.String()+about[t]), append(targets, t)
	}
	k := Word(names...).Means(targets...)
	k.Why = func(text string) error {
		_, err := payload.ParseMarkerTarget(text)
		return meant(err, text, k.Words)
	}
	return k
}

// contextKind is the kind of --max-context: a number of tokens, or the word server.
func contextKind() Kind {
	const server = "server"
	k := Kind{Want: Count.Want + ", or " + server, Type: "string", Tags: []string{Int, Text}, Words: []string{server}, about: []string{"as long as the server tells"}, means: []any{replay.ServerContext}}
	k.Schema = map[string]any{"anyOf": []any{Count.Schema, map[string]any{"type": "string", "pattern": "^([0-9]+|" + server + ")$"}}}
	k.Read = func(text string) (any, bool) {
		if text == server {
			return replay.ServerContext, true
		}
		return Count.Read(text)
	}
	return k
}

// processKind is the kind of --arrival: the law of the gaps between trees.
func processKind() Kind {
	k := Checked(func(text string) error { _, _, err := arrivals.ParseKind(text); return err })
	k.Want, k.Words, k.about = "poisson, constant or gamma:SHAPE", []string{"poisson", "constant", "gamma:"}, []string{"", "", "SHAPE: in bursts below 1, more even above"}
	k.Schema = map[string]any{"type": "string", "pattern": `^(poisson|constant|gamma:[0-9]*\.?[0-9]*(e[+-]?[0-9]+)?)$`}
	return k
}

const warmupWanted = "none, primers, requests=R or duration=D"

// warmupKind is what is sent before the measured phase. In a file it may also be an object with the bound of the pressure stage.
var warmupKind = func() Kind {
	k := Checked(func(text string) error { _, err := parseWarmup(text); return err })
	k.Want, k.Words = warmupWanted, []string{"none", "primers", "requests=", "duration="}
	k.about = []string{"", "", "on each lane"}
	k.Schema = map[string]any{"oneOf": []any{
		map[string]any{"enum": []any{"none", "primers"}},
		map[string]any{"type": "string", "pattern": "^(requests=[0-9]*[1-9][0-9]*|duration=[0-9.a-zµ]*[1-9][0-9.a-zµ]*)$"},
		map[string]any{
			"type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": false,
			"properties": map[string]any{"requests": map[string]any{"type": "integer", "minimum": 1}, "duration": Longer.Schema},
		},
	}}
	k.Object = func(n *yaml.Node) (string, error) {
		var bounds []string
		for at := 0; at+1 < len(n.Content); at += 2 {
			of := Kind{Want: "requests or duration"}
			switch n.Content[at].Value {
			case "requests":
				of = Whole(1, math.MaxInt)
			case "duration":
				of = Longer
			}
			text, err := of.scalar(n.Content[at+1])
			if err != nil {
				return "", fmt.Errorf("%s: %w", n.Content[at].Value, err)
			}
			bounds = append(bounds, n.Content[at].Value+"="+text)
		}
		return strings.Join(bounds, ","), nil
	}
	return k
}()

// parseWarmup reads none, primers, or a bound of the pressure stage: requests=R or duration=D.
func parseWarmup(text string) (w replay.Warmup, err error) {
	if text == "none" {
		return w, nil
	}
	w.Primers = true
	if text == "primers" {
		return w, nil
	}
	if strings.Contains(text, ",") {
		return w, fmt.Errorf("two bounds of the pressure stage: want requests=R or duration=D")
	}
	name, value, _ := strings.Cut(text, "=")
	switch name {
	case "requests":
		if w.Requests, err = strconv.Atoi(value); err != nil || w.Requests < 1 {
			return w, fmt.Errorf("want requests=R, a number above 0")
		}
	case "duration":
		d, err := Longer.value(value)
		if err != nil {
			return w, fmt.Errorf("want duration=D, a duration above 0")
		}
		w.Duration = d.(time.Duration)
	default:
		return w, wrongWord(text, warmupWanted, []string{"none", "primers", "requests=R", "duration=D"})
	}
	return w, nil
}

// What is wrong with a word, in the same words everywhere.
var wrongWord, meant = suggest.Wrong, suggest.Meant

// serverURLs reads servers with commas between; HOST:PORT is http://HOST:PORT. Errors leave them out: they may hold a password.
func serverURLs(text string) (list []string, err error) {
	if text == "" {
		return nil, nil
	}
	list = strings.Split(text, ",")
	for k, server := range list {
		if !strings.Contains(server, "://") {
			if u, err := url.Parse("http://" + server); err == nil && u.Port() != "" {
				server = "http://" + server
				list[k] = server
			}
		}
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("want http://HOST:PORT, HOST:PORT or https://HOST")
		}
		if _, err := wire.New(server, wire.Options{}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// redactedURLs returns URLs without secrets: one as a text, several as a list.
func redactedURLs(v any) any {
	list := slices.Clone(v.([]string))
	for k := range list {
		list[k] = replay.RedactURL(list[k])
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// scrapePages reads pages of metrics with commas between, or off.
func scrapePages(text string) (list []string, err error) {
	for page := range strings.SplitSeq(text, ",") {
		if page != "" {
			list = append(list, page)
		}
	}
	return list, replay.Scrape{Pages: scrapeOf(list).Pages}.Validate()
}

// scrapeOf turns a value of --scrape, pages or off, into the option of a replay.
func scrapeOf(v any) (s replay.Scrape) {
	list, _ := v.([]string)
	s.Off = slices.Contains(list, "off")
	s.Pages = slices.DeleteFunc(slices.Clone(list), func(page string) bool { return page == "off" })
	return s
}

// headerField reads NAME:VALUE, which may be a secret.
func headerField(text string) ([]wire.HeaderField, error) {
	name, value, ok := strings.Cut(text, ":")
	field := wire.HeaderField{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
	if !ok {
		return nil, errors.New("a field without a colon: want NAME:VALUE")
	}
	return []wire.HeaderField{field}, field.Validate()
}

// headerFieldNames returns the names of header fields, whose values may be secrets.
func headerFieldNames(v any) any {
	var names []string
	for _, field := range v.([]wire.HeaderField) {
		names = append(names, field.Name)
	}
	return names
}

// overflowPattern reads a regular expression, which matches in any letter case.
func overflowPattern(text string) ([]*regexp.Regexp, error) {
	pattern, err := regexp.Compile("(?i)" + text)
	if _, own := regexp.Compile(text); own != nil {
		return nil, own
	}
	if err == nil && pattern.MatchString("") {
		err = errors.New("the pattern matches every text: want one that only messages about overflows match")
	}
	return []*regexp.Regexp{pattern}, err
}

// patternTexts returns regular expressions as the user wrote them.
func patternTexts(v any) any {
	var texts []string
	for _, pattern := range v.([]*regexp.Regexp) {
		texts = append(texts, strings.TrimPrefix(pattern.String(), "(?i)"))
	}
	return texts
}

// headerPattern is the name of a header.
const headerPattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// headerName is the kind of the name of a header that gets the id of a session.
var headerName = Kind{
	Want: "the name of a header that requests do not have already", Type: "string", Tags: []string{Text},
	Schema: map[string]any{"type": "string", "pattern": "^" + headerPattern + "$"},
	Read: func(text string) (any, bool) {
		return text, text != "" && replay.SessionHeader{Correlation: text}.Validate() == nil
	},
}

// headerNames is the kind of several such names with commas between them.
var headerNames = Kind{
	Want: "names of headers with commas between, none twice and none that requests have already", Type: "strings", Commas: true, Joins: true, Tags: []string{Text},
	Schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": headerName.Schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^ *" + headerPattern + "( *, *" + headerPattern + ")* *$"},
	}},
	Read: func(text string) (any, bool) {
		list := headerList(text)
		return strings.Join(list, ","), len(list) > 0 && !slices.Contains(list, "") && replay.SessionHeader{More: list}.Validate() == nil
	},
}

// headerList returns the names in a value of headerNames.
func headerList(v any) (list []string) {
	text, _ := v.(string)
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(name))
	}
	return list
}

// switching are variables of the environment that switch a header on. They have the names of AIPerf's variables but for the first word.
var switching = []struct{ variable, header string }{
	{"AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "X-Session-ID"},
	{"AGENTX_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "X-SMG-Routing-Key"},
	{"AGENTX_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID", "X-Dynamo-Session-ID"},
}

// sessionVariables gives --session-header its value from the environment: from its own variable, and from those that switch one header on.
func sessionVariables(give func(text, shown, at string)) (wrong error) {
	var names, from, shown []string
	own := Variable("session-header")
	if text := os.Getenv(own); text != "" {
		from, shown = append(from, own), append(shown, own+"="+text)
		if text != "off" {
			names = append(names, text)
		}
	}
	for _, v := range switching {
		text := os.Getenv(v.variable)
		on, err := strconv.ParseBool(text)
		switch {
		case text == "" || err == nil && !on:
			continue
		case err != nil:
			wrong = fmt.Errorf("%s=%s: want true or false", v.variable, text)
			continue
		}
		from, shown = append(from, v.variable), append(shown, fmt.Sprintf("%s=%s", v.variable, text))
		if !slices.ContainsFunc(headerList(strings.Join(names, ",")), func(name string) bool { return strings.EqualFold(name, v.header) }) {
			names = append(names, v.header)
		}
	}
	switch {
	case len(from) == 0:
	case len(names) == 0:
		give("off", strings.Join(shown, " "), strings.Join(from, ", "))
	default:
		give(strings.Join(names, ","), strings.Join(shown, " "), strings.Join(from, ", "))
	}
	return wrong
}
