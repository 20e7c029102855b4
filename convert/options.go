package convert

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokensource"
)

// Defaults and limits of Options.
const (
	DefaultProfile   = "default"
	DefaultTokenizer = "o200k_base"
	DefaultCorpus    = "code"
	DefaultSeed      = 42

	MaxWorkers = 1024
)

// Options say what to convert, and how. Root and Inputs are required; the zero value of every other field means what the
// flags of agentx convert mean when they are not given.
type Options struct {
	Root   string   // directory of the cache
	Inputs []string // files, directories, "-", hf://datasets/..., or names in Source.Embedded
	Source hfsource.Options

	Rules     rules.Rules     // how traces are reconstructed; the zero value is rules.Default()
	Placement rules.Placement // how places in the corpus are computed; the zero value is that of DefaultProfile, with DefaultSeed
	Tokenizer string          // a name of Tokenizers, a path, or OWNER/NAME of a model of the hub; "" is DefaultTokenizer
	Corpus    string          // a name of Corpora, or a file or directory, see CheckCorpus; "" is DefaultCorpus

	Logs       LogOptions // how logs with text are read
	RefuseText bool       // refuse logs with text, which become caches that only their owner may read: cachestore.ErrText

	MooncakeBlock int // tokens of a block of Mooncake rows; 0: as Rules say. An input with other rows is converted without it

	Builder Builder // of several that build one corpus of shards together; each may be of this value

	Workers     int  // traces converted at a time, at most MaxWorkers; 0: one per CPU
	Force       bool // build parts although they exist
	VerifyHit   bool // build once more what was found, and compare
	TrustRoot   bool // use parts that everybody may write, which count as damaged otherwise
	SkipInvalid bool // leave invalid traces out, and count them, instead of failing; an unreadable file still fails
	Strict      bool // fail where the input has oddities or unknown keys, which otherwise cause warnings

	Wait   time.Duration                                   // for other processes that build the same parts; 0: as long as it takes; below 0: not at all
	OnWait func(part, holder string, waited time.Duration) // called several times a heartbeat while waiting; may be nil

	Version  string                                // of the calling program, for the provenance
	Progress func(stage string, done, total int64) // done is what was done since the last call; called by several goroutines; may be nil
	Warn     func(format string, args ...any)      // may be nil
	Memory   func(bytes int64)                     // told how many bytes tables may have so far; may be nil

	now       func() time.Time // for tests; nil: time.Now
	disk      durable.Options  // for tests
	shardRows int              // for tests; 0: the constant of this name

	each func(plannedTrace) // gets every trace, in the order of the input, with its plan; nil: nothing does

	recordings []int // as they were when the dataset was built that is built again; nil: as the names of files say
}

// Builder says where among the files of a corpus a builder begins, where several build it. Which files it builds is decided by
// leases, so that any number of builders with any values build all.
type Builder struct {
	Number int // from 0
	Of     int // builders; 0: there is one, or they begin at the same place
}

// Profiles lists the names that SetProfile takes.
func Profiles() []string { return []string{DefaultProfile, "aiperf"} }

// SetProfile sets Rules and Placement to those of a profile: "default" repairs defects of the published reconstruction,
// "aiperf" does what AIPerf 0.13.0 does.
func (o *Options) SetProfile(name string) error {
	switch name {
	case DefaultProfile:
		o.Rules, o.Placement = rules.Default(), rules.Placement{Backend: rules.Exact, Seed: DefaultSeed}
	case "aiperf":
		o.Rules, o.Placement = rules.AIPerf(), rules.Placement{Backend: rules.SHA256MT, Seed: DefaultSeed}
	default:
		return fmt.Errorf("unknown profile: want %s", strings.Join(Profiles(), " or "))
	}
	return nil
}

// withDefaults replaces zero values by what they mean.
func (o Options) withDefaults() Options {
	var defaults Options
	_ = defaults.SetProfile(DefaultProfile) // it exists
	o.Rules = cmp.Or(o.Rules, defaults.Rules)
	o.Placement = cmp.Or(o.Placement, defaults.Placement).WithDefaults()
	o.Tokenizer = cmp.Or(o.Tokenizer, DefaultTokenizer)
	o.Corpus = cmp.Or(o.Corpus, DefaultCorpus)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.shardRows = cmp.Or(o.shardRows, shardRows)
	o.Source.Workers = o.Workers
	return o.withCallbacks()
}

// withCallbacks replaces nil callbacks by functions that do nothing, and a nil clock by time.Now.
func (o Options) withCallbacks() Options {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.Memory == nil {
		o.Memory = func(int64) {}
	}
	if o.OnWait == nil {
		o.OnWait = func(string, string, time.Duration) {}
	}
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// Validate returns an error that names the first field whose value cannot be used, and what is allowed. It opens no file.
func (o Options) Validate() error {
	source := o.Source // withDefaults sets its Workers
	o = o.withDefaults()
	switch {
	case o.Root == "":
		return errors.New("root: empty: want the directory of the cache")
	case len(o.Inputs) == 0:
		return errors.New("inputs: none: want at least one")
	case o.Workers < 0 || o.Workers > MaxWorkers:
		return fmt.Errorf("workers %d: want 0 (one per CPU) to %d", o.Workers, MaxWorkers)
	case o.Builder != Builder{} && (o.Builder.Number < 0 || o.Builder.Number >= o.Builder.Of):
		return fmt.Errorf("builder %d of %d: want 0 to %d", o.Builder.Number, o.Builder.Of, o.Builder.Of-1)
	}
	if err := tokensource.Check(o.Tokenizer); err != nil {
		return fmt.Errorf("tokenizer %s: %w", o.Tokenizer, err)
	}
	if _, err := parseCorpusName(o.Corpus); err != nil {
		return err
	}
	if err := o.Rules.Validate(); err != nil {
		return err
	}
	if err := o.Placement.Validate(); err != nil {
		return err
	}
	return source.Validate()
}

// stageProgress returns a function that reports how much of one stage was done since its last call.
func (o Options) stageProgress(stage string, total int64) func(int64) {
	return func(n int64) { o.Progress(stage, n, total) }
}
