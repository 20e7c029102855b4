package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// Off disables a duration whose zero value means a default.
const Off time.Duration = -1

// MinStatsInterval is the shortest StatsInterval: a shorter one would hold up the run.
const MinStatsInterval = 100 * time.Millisecond

// MaxConcurrency is the largest number of lanes: a machine has fewer ports to one server.
const MaxConcurrency = 1 << 16

// Options say what to play, how, and against which server. Cache, URLs and Model are required. The zero value of every other
// field is the default of the command under the same preset: what it stands for is 0, none or nil, unless Defaults has the field.
type Options struct {
	Cache    *mmapcache.Cache
	URLs     []string // of the servers: the root of each, the root of its API (.../v1), or an endpoint; all requests of a tree go to one
	Model    string
	Endpoint payload.Endpoint
	Parts    bool                 // contents are lists of one text part, else strings
	Fields   payload.Fields       // of the bodies, beside prompt and model
	Marker   payload.MarkerTarget // position of the cache-bust marker that every tree has

	// What lanes play.
	Concurrency     int     // lanes: trees that are played at a time; or the cap of Arrivals, 0: none
	Traces          int     // how many traces to play, the first that fit MaxContext; 0: all
	MaxContext      int     // tokens, or ServerContext; play only traces whose requests all fit, prompt and completion together; 0: all
	Order           Order   // in which traces are dealt to lanes
	Recycle         Recycle // which trace a lane plays next
	MaxLivePerTrace bool    // no trace is played by more lanes at a time than at the start
	AllowWrap       bool    // more lanes than traces, even if their trees have no marker
	Start           Start   // where lanes begin
	Warmup          Warmup  // what is sent before that
	Arrivals        Arrivals
	Part            Part   // of the load, which Concurrency, Requests, Trees and Arrivals are of, that is played; the results go to Part.Dir() in Out
	Pace            Pace   // how recorded gaps are played
	Limits          Limits // on what recorded times do
	Seed            string // of everything that is drawn, a decimal number

	// Preset names the preset that the run starts from; "": preset.Default. Switches replace those of the preset; nil: they
	// are those of the preset.
	Preset   string
	Switches *preset.Switches

	// Scenario names the scenario that the caller has set these options by, and whose verdict the results have; nil: none.
	Scenario *measure.Scenario

	// StartAt is when the first phase begins, by the clock of the machine; the zero value: as soon as all is ready.
	StartAt time.Time

	// Meeting is that of the parts of the load, with whom the run begins and ends its phases; nil: it plays without them. The context of
	// Run is to be one of its Context. The caller closes it after Run.
	Meeting *meet.Meeting

	// Bounds. The first that is reached ends the run. Without one every trace is played once.
	Duration       time.Duration // of the sending; 0: no bound
	Requests       int           // that are sent; 0: no bound
	Trees          int           // that are opened; 0: no bound
	Once           bool          // every trace is played once at most
	StopOnDeadlock bool          // a deadlocked tree ends the run; else its lane goes on with the next tree

	// FailedRequestThreshold ends the run when a larger share of the ended requests has failed, from the one on whose number
	// is Concurrency or 10, the larger; 0: no limit.
	FailedRequestThreshold float64
	Grace                  time.Duration // how long requests in flight may go on after the end; Off: no grace
	InterruptGrace         time.Duration // longest such time after an interrupt; Off: none

	Timeout          time.Duration    // of a request
	StallTimeout     time.Duration    // how long a server may send nothing in the middle of an answer; Off: for ever
	FirstByteTimeout time.Duration    // and before its first byte; Off: for ever
	GoneAfter        time.Duration    // how long every request may fail without a connection before the run ends; Off: for ever
	KeepAlive        time.Duration    // how long an unused connection is kept; negative: not at all
	Reuse            wire.Reuse       // which requests may use a connection that was used before
	TCPUserTimeout   time.Duration    // how long a server may leave bytes unacknowledged; negative: as long as the system does
	OverflowPatterns []*regexp.Regexp // tell a context overflow by the text of an error, beside those of known servers
	Backoff          Backoff
	RetryAfter       RetryAfter // what a request becomes whose server asks to send it later
	Header           []wire.HeaderField
	SessionHeader    SessionHeader
	APIKey           string
	TLS              TLS        // which certificates servers may have
	KeepCookies      bool       // cookies and session tokens of answers go back on the later requests of their tree
	SkipPreflight    bool       // do not look at the servers before the run
	Calibrate        bool       // for two seconds after the run, measure what this machine reaches alone; the command does, unless a run is short
	Readiness        Readiness  // how to wait for the model
	CacheReset       CacheReset // of the servers, before the first request of the run
	Scrape           Scrape     // pages of metrics that are read beside the run

	Out        string      // directory for the results; "": none are written
	UniqueOut  bool        // if Out exists, a number is appended to it
	Overwrite  bool        // results in Out are replaced; else they are an error that wraps ErrResultsExist
	Provenance measure.Run // what the results say of the program, its options and the dataset

	SLO []slo.Condition // service levels, which the summary says how much of the run met

	// Callbacks; nil: none. They are called one at a time, and may be slow: a run does not wait for them, except two seconds
	// at its end.
	Warn     func(string)   // gets what is odd but no error
	Notice   func(string)   // gets each step before the first request, and what an interrupt waits for
	Progress func(Progress) // gets the progress about every second
	Opened   func(string)   // gets the directory of the results when their files are open, before the first request: measure.Follow reads there

	Period        func(Progress)  // gets the progress at the end of each period, all of them in order
	Phase         func(PhaseNews) // gets the steps of each period, all of them in order
	StatsInterval time.Duration   // length of a period; Off: there are none

	// Watch, if it is not nil, is called in a goroutine of its own when the measured phase begins. Its context ends when the phase
	// is over and the records are in their file; the run waits for its result, which the summary has.
	Watch func(ctx context.Context, w Watched) *measure.Until

	NewID func() string // ids of requests and sessions; nil: random UUIDs

	allLanes int // of the whole load, in the options of a part
}

// Validate returns an error that names the first field that cannot be used, or that contradicts another. Of ranges it looks at those of counts
// alone: the ranges of settings are checked where they are read, and other callers give durations that are not negative, or Off.
func (o Options) Validate() error {
	switch {
	case o.Cache == nil:
		return errNoCache
	case o.Cache.Manifest == nil:
		return errors.New("cache: opened without prompts: want one of mmapcache.Open")
	case o.Model == "":
		return errors.New("model is empty: give a name")
	case len(o.URLs) == 0:
		return errors.New("URLs is empty: give the URL of a server")
	case o.Cache.Facts.Rules.LiveAnswers && !o.Endpoint.LiveAnswers():
		return errLiveAnswers
	}
	for _, url := range o.URLs {
		if _, err := wire.New(url, o.clientOptions()); err != nil {
			return err
		}
	}
	if err := o.body().Validate(); err != nil {
		return err
	}
	return o.validatePlayed()
}

var errLiveAnswers = errors.New("endpoint: the turns of this cache go behind the answers of the server (session_rows=live, or files of AIPerf with what is new), which chat requests alone do: want the endpoint of chats, or a cache with session_rows=new")

var errNoCache = errors.New("cache: nil: want an open cache")

// validatePlayed validates the fields that do not say to whom and as what turns are sent.
func (o Options) validatePlayed() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"concurrency", o.Concurrency}, {"traces", o.Traces}, {"requests", o.Requests}, {"trees", o.Trees}} {
		if n.value < 0 {
			return fmt.Errorf("%s %d: want 0 or more", n.name, n.value)
		}
	}
	switch {
	case o.Concurrency > MaxConcurrency:
		return fmt.Errorf("concurrency %d: want at most %d", o.Concurrency, MaxConcurrency)
	case o.RetryAfter > RetryIgnored:
		return fmt.Errorf("retry after %d: want %d to %d", o.RetryAfter, RetryDefault, RetryIgnored)
	}
	if _, ok := new(big.Int).SetString(o.Seed, 10); !ok && o.Seed != "" {
		return fmt.Errorf("seed %q: want a decimal number", o.Seed)
	}
	for _, c := range o.SLO {
		if err := c.Check(measure.MetricNames()); err != nil {
			return fmt.Errorf("slo %w", err)
		}
	}
	return o.validateGroups()
}

// validateGroups validates the fields that have rules of their own.
func (o Options) validateGroups() error {
	if err := o.Part.Validate(); err != nil {
		return err
	}
	if _, ok := preset.Named(o.Preset); !ok && o.Preset != "" {
		return fmt.Errorf("preset %q: want one of %s", o.Preset, strings.Join(preset.Names, ", "))
	}
	if o.Scenario != nil && o.Scenario.Name == "" {
		return errors.New("scenario: the name is empty: give one")
	}
	if list := o.Contradictions(); len(list) > 0 {
		return list[0]
	}
	if err := o.validateCookies(); err != nil {
		return err
	}
	for _, part := range []interface{ Validate() error }{o.SessionHeader, o.Scrape, o.TLS} {
		if err := part.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// switches returns those of the run. Validate has refused unknown presets.
func (o *Options) switches() *preset.Switches {
	if o.Switches != nil {
		return o.Switches
	}
	s, _ := preset.Named(cmp.Or(o.Preset, preset.Default))
	return &s
}

// once reports whether every trace is played once, which is also the bound of a run without another.
func (o *Options) once() bool {
	return o.Once || o.Duration == 0 && o.Requests == 0 && o.Trees == 0 || o.Arrivals.Mode == RecordedArrivals
}

// Defaults returns, by pointers to fields, what their zero values stand for under each of preset.Names: values, or pointers to these. The
// settings of the command have their defaults from here.
func (o *Options) Defaults() map[any][]any {
	same := func(v any) []any { return []any{v, v, v} }
	ordered, unordered := true, false
	return map[any][]any{
		&o.Preset:                    same(preset.Default),
		&o.Concurrency:               same(1),
		&o.Seed:                      same(defaultSeed),
		&o.Start.Ratios:              same(&resume.Ratios{Min: 0.25, Max: 0.75}),
		&o.Pace.Speed:                same(1.0),
		&o.Pace.KeepOrder:            {&ordered, &unordered, &ordered},
		&o.Limits.LaneStart:          {300 * time.Second, 300 * time.Second, Off},
		&o.Warmup.LeadMax:            same(10 * time.Second),
		&o.Grace:                     same(30 * time.Second),
		&o.InterruptGrace:            {30 * time.Second, 30 * time.Second, Off},
		&o.Timeout:                   same(wire.DefaultTimeout),
		&o.StallTimeout:              {5 * time.Minute, Off, Off},
		&o.FirstByteTimeout:          {30 * time.Minute, Off, Off},
		&o.GoneAfter:                 {time.Minute, Off, Off},
		&o.KeepAlive:                 {wire.DefaultKeepAlive, 300 * time.Second, 300 * time.Second},
		&o.TCPUserTimeout:            {wire.DefaultUserTimeout, wire.DefaultUserTimeout, 900 * time.Second}, // the last is that of the scenario agentx
		&o.RetryAfter:                {RetryDefault, RetryIgnored, RetryIgnored},
		&o.Backoff.First:             same(time.Second),
		&o.Backoff.Max:               same(30 * time.Second),
		&o.StatsInterval:             same(30 * time.Second),
		&o.SessionHeader.Correlation: same("X-Correlation-ID"),
		&o.Readiness.Interval:        same(5 * time.Second),
		&o.CacheReset.Path:           same("reset_prefix_cache"),
		&o.CacheReset.Timeout:        same(30 * time.Second),
	}
}

// presetNumber returns the place of a preset in preset.Names; "" is the first.
func presetNumber(name string) int {
	name, _ = preset.Canonical(name)
	return max(0, slices.Index(preset.Names, name))
}

// defaultSeed is what Options.Seed stands for where it is empty.
const defaultSeed = "42"

// WithDefaults returns the options with every default in its place, and without values that mean Off.
func (o Options) WithDefaults() Options {
	if name, alias := preset.Canonical(o.Preset); alias {
		o.Preset, o.Provenance.PresetAlias = name, o.Preset
	}
	number := presetNumber(o.Preset)
	if o.Limits.SystemIdle > 0 && o.Warmup.LeadMax == 0 { // which bounds leads instead
		o.Warmup.LeadMax = Off
	}
	for to, values := range o.Defaults() {
		if field := reflect.ValueOf(to).Elem(); field.IsZero() && !(to == any(&o.Concurrency) && o.Arrivals.arrive()) {
			field.Set(reflect.ValueOf(values[number]))
		}
	}
	o.RetryAfter = o.Throttling()
	o.Backoff.First = min(o.Backoff.First, o.Backoff.Max)
	for _, d := range []*time.Duration{&o.Grace, &o.InterruptGrace, &o.Limits.LaneStart, &o.Backoff.First, &o.StatsInterval, &o.StallTimeout, &o.FirstByteTimeout, &o.GoneAfter} {
		*d = max(*d, 0) // Off
	}
	if o.Endpoint.API() == wire.MessagesAPI {
		o.useMessagesHeader()
	}
	o.Switches = o.switches()
	o.Marker = o.Marker.Resolve(o.Cache)
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	for _, tell := range []*func(string){&o.Warn, &o.Notice, &o.Opened} {
		if *tell == nil {
			*tell = func(string) {}
		}
	}
	for _, tell := range []*func(Progress){&o.Progress, &o.Period} {
		if *tell == nil {
			*tell = func(Progress) {}
		}
	}
	if o.Phase == nil {
		o.Phase = func(PhaseNews) {}
	}
	return o
}

// Limits bound what recorded times do to a run.
type Limits struct {
	LaneStart  time.Duration // longest time to the first request of a lane; Off: none
	TraceIdle  time.Duration // longest idle time of a trace, which Switches.TraceCapAtLoad applies; 0: none
	SystemIdle time.Duration // longest time in which no request is in flight; 0: none
	Prefill    int           // requests without a first token; 0: none
}

// treeIdle returns the longest time in which a tree has no request in flight; 0: no limit.
func (o *Options) treeIdle() time.Duration {
	if !o.Switches.TraceCapAtLoad && o.Limits.TraceIdle > 0 {
		return o.Limits.TraceIdle
	}
	return o.Switches.TreeIdleCap.Duration()
}
