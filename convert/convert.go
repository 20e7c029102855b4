package convert

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Result describes the dataset that Convert built or found.
type Result struct {
	Path           string // of the dataset
	Key            string
	Hit            bool // nothing was built
	Facts          mmapcache.StructureFacts
	Texts          mmapcache.TextFacts // of logs
	InputBytes     int64               // of the input files, compressed as they are
	Sources        []mmapcache.Source  // the input files, under their names of today: a dataset that was found has those of its first build
	Bytes          int64               // of all parts, on disk
	SkippedEntries []hfsource.SkippedEntry
	Stages         map[string]time.Duration      // resolve, plan, arenas, fill, publish; wait and verify if they happened
	Parts          map[string]cachestore.PartHit // by kind, without the dataset itself; of a dataset of shards the arenas alone
	Shards         *cachestore.ShardCount        // of a dataset of shards; nil for another
}

// anyPart reports whether some part was found, or built.
func (r *Result) anyPart(found bool) bool {
	for _, p := range r.Parts {
		if p.Hit == found {
			return true
		}
	}
	return false
}

// Convert prepares the dataset of the inputs, or finds it prepared. Several processes may convert the same input into one
// root: one builds each part, the others wait and use it.
//
// A failed Convert leaves whole parts or nothing. A killed process leaves a staging directory, which no other process waits
// for and which agentx cache gc removes.
func Convert(ctx context.Context, o Options) (*Result, error) {
	return makeResult(ctx, o, false, func(ctx context.Context, c *conversion) error {
		err := c.run(ctx)
		if err == nil && o.VerifyHit && c.result.anyPart(true) {
			err = c.stage("verify", func() error { return c.compare(ctx) })
		}
		return err
	})
}

// makeResult resolves the inputs and calls build, which makes the parts, or with tables set the structure alone.
func makeResult(ctx context.Context, o Options, tables bool, build func(context.Context, *conversion) error) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return verified(o.withDefaults(), func(o Options) (*Result, error) {
		c := newConversion(o)
		c.tables = tables
		err := c.withInput(ctx, func(ctx context.Context) error {
			if err := cachestore.CheckRoot(o.Root); err != nil {
				return err
			}
			use := c.noteUse(ctx)
			err := build(ctx, c)
			use.Close()
			return c.explainFullDisk(ctx, err)
		})
		if err != nil {
			return nil, err
		}
		return c.result, nil
	})
}

// verified runs f, and again with files of the hub verified where they are not what they were.
func verified(o Options, f func(Options) (*Result, error)) (*Result, error) {
	r, err := f(o)
	if errors.Is(err, hfsource.ErrMismatch) && !o.Source.Verify {
		o.Warn("%v: agentx verifies the files now", err)
		o.Source.Verify = true
		return f(o)
	}
	return r, err
}

// conversion is one run of Convert, Structure, Explain or VerifyRebuild.
type conversion struct {
	tables     bool    // the structure alone
	logs       bool    // the inputs are logs with text
	options    Options // with defaults
	result     *Result
	snapshot   *hfsource.Snapshot
	recordings []int // by file of the snapshot, see recordingsOf
	prompts    promptCorpus
	wanted     map[string]*manifest.Manifest // by kind: the key and its pre-image
	parts      map[string]*manifest.Manifest // by kind: what was found or built
	probes     Probes
	keyed      promptCorpus       // as it was when the keys were computed
	sharded    *manifest.Manifest // key and pre-image of the dataset, should it have several shards; nil where it cannot
	bounds     bounds             // of the one structure
	edges      func() corpusEdges // reads the edges of the corpus once
}

func newConversion(o Options) *conversion {
	c := &conversion{
		options: o,
		parts:   map[string]*manifest.Manifest{},
		result:  &Result{Stages: map[string]time.Duration{}, Parts: map[string]cachestore.PartHit{}},
	}
	c.edges = sync.OnceValue(c.readEdges)
	return c
}

// withInput resolves the input and runs f, under a context with the disk faults of tests. It closes the input at the end.
func (c *conversion) withInput(ctx context.Context, f func(context.Context) error) error {
	ctx = durable.WithOptions(ctx, c.options.disk)
	err := c.stage("resolve", func() error { return c.resolve(ctx) })
	if err == nil {
		err = f(ctx)
	}
	if c.snapshot != nil {
		c.warnGarbage()
		err = errors.Join(err, c.snapshot.Close())
	}
	return err
}

// resolve hashes the input files, the corpus and the tokenizer, and computes all keys from the digests.
func (c *conversion) resolve(ctx context.Context) (err error) {
	o := &c.options
	if !c.tables {
		if err := c.resolvePrompts(ctx); err != nil {
			return err
		}
	}
	o.Source.Texts, o.Source.Rows = textFormats(), rowsOf
	files, formats, err := LogFiles(o.Inputs)
	if err != nil {
		return err
	}
	o.Logs.setFiles(o.Inputs, formats)
	if c.snapshot, err = hfsource.Resolve(ctx, files, o.Source); err != nil {
		return err
	}
	c.result.InputBytes, c.result.Sources = c.snapshot.Bytes(), c.provenance(mmapcache.StructureKind).Sources
	c.result.SkippedEntries = c.snapshot.Skipped
	if c.logs, err = c.findLogs(ctx); err != nil {
		return err
	}
	if c.logs && o.RefuseText {
		return fmt.Errorf("input %s: %w", o.Inputs[0], cachestore.ErrText)
	}
	if c.logs && c.tables {
		return fmt.Errorf("input %s: %w", o.Inputs[0], ErrNoBlocks)
	}
	if c.logs {
		if c.wanted, err = c.wantedLogs(); err != nil {
			return err
		}
		return c.tryTokenizer()
	}
	if c.recordings, err = recordingsOf(ctx, c.snapshot, o.Rules.Namespace); err != nil {
		return err
	}
	if o.recordings != nil {
		c.recordings = o.recordings
	}
	if _, all := haveRows(c.snapshot, mmapcache.FormatMooncake); all && o.MooncakeBlock > 0 {
		o.Rules.BlockSize = o.MooncakeBlock
	}
	if c.tables {
		c.wanted, err = wantedStructure(o.Rules, c.snapshot, c.recordings)
		return err
	}
	if c.prompts.skipped != "" {
		o.Warn("%s", c.prompts.skipped)
	}
	c.probes, c.keyed = Probe(o.Rules, o.Placement), c.prompts
	c.wanted, err = wantedParts(o.Rules, o.Placement, c.probes, c.snapshot, c.recordings, c.prompts)
	if starts, _ := haveRecordings(c.recordings); err == nil && !starts {
		arenas := c.wanted[mmapcache.ArenasKind].Key
		c.sharded, err = manifest.New(mmapcache.DatasetKind, shardedImageOf(o.Rules, o.Placement, c.probes, c.snapshot, c.prompts, arenas, o.shardRows))
	}
	if err != nil {
		return err
	}
	return c.tryTokenizer()
}

// resolvePrompts names the tokenizer and the corpus by their digests.
func (c *conversion) resolvePrompts(ctx context.Context) error {
	o := &c.options
	tok, err := tokensource.Resolve(ctx, o.Tokenizer, o.Source.Hub)
	if err != nil {
		return err
	}
	if c.prompts, err = resolvePromptCorpus(o.Corpus, tok); err != nil {
		return err
	}
	if o.Placement.Backend == rules.SHA256MT {
		o.Placement.Stream = c.prompts.stream
	}
	return nil
}

// tryTokenizer loads a tokenizer of a file, where the arenas have to be built: one that is refused is reported before anything is done.
func (c *conversion) tryTokenizer() error {
	tok := c.prompts.tokenizer
	if tok.Builtin() {
		return nil
	}
	if m, err := c.lookup(mmapcache.ArenasKind); m != nil || err != nil { // a damaged part is reported and built later
		return nil
	}
	_, err := tok.Load()
	return err
}

// stage runs one stage and adds the time it took to the result.
func (c *conversion) stage(name string, f func() error) error {
	begin := time.Now()
	err := f()
	c.result.Stages[name] += time.Since(begin)
	return err
}

// noteUse marks all parts as in use, so that no other process removes one before the dataset names it.
func (c *conversion) noteUse(ctx context.Context) *cachestore.Use {
	var names []string
	for kind, m := range c.wanted {
		names = append(names, kind+"/"+m.Key)
	}
	if c.sharded != nil {
		names = append(names, mmapcache.DatasetKind+"/"+c.sharded.Key)
	}
	return cachestore.NoteUse(ctx, c.options.Root, names...)
}

// run finds or builds the dataset: that of one shard, or that of several. What the input holds decides which of them it is.
func (c *conversion) run(ctx context.Context) error {
	if c.logs {
		return c.runLogs(ctx)
	}
	if c.sharded == nil {
		return c.runOne(ctx)
	}
	one := c.wanted[mmapcache.DatasetKind]
	known, err := c.known()
	switch {
	case err != nil:
		return err
	case known == nil:
	case known.Key == one.Key:
		return c.runOne(ctx)
	default:
		c.wanted[mmapcache.DatasetKind] = c.sharded
		if found, err := c.findShards(ctx, known); found || err != nil {
			return err
		}
	}
	units, err := unitsOf(ctx, c.snapshot, c.options.shardRows)
	if err != nil {
		return err
	}
	s := newSharding(c, units)
	defer s.close()
	if several, err := s.several(); err != nil {
		return err
	} else if !several && known == nil {
		if err := c.tryOne(ctx, units[0]); !errors.Is(err, errSeveralShards) {
			return err
		}
	}
	c.wanted[mmapcache.DatasetKind] = c.sharded
	if err := s.run(ctx); !errors.Is(err, errCoupled) {
		return err
	}
	c.bounds, c.result.Shards, c.wanted[mmapcache.DatasetKind] = bounds{}, nil, one
	return c.runOne(ctx)
}

// tryOne is runOne for the only unit of an input. It returns errSeveralShards where that has several shards.
func (c *conversion) tryOne(ctx context.Context, u unit) error {
	if c.bounds = (bounds{}); u.several {
		c.bounds.rows = c.options.shardRows
	}
	return c.runOne(ctx)
}

// known returns the manifest of the dataset if it exists, in either form; else nil.
func (c *conversion) known() (*manifest.Manifest, error) {
	if c.options.Force {
		return nil, nil
	}
	for _, wanted := range []*manifest.Manifest{c.wanted[mmapcache.DatasetKind], c.sharded} {
		m, err := c.find(mmapcache.DatasetKind, wanted.Key)
		if m != nil || err != nil && !errors.Is(err, manifest.ErrDamaged) {
			return m, err
		}
	}
	return nil, nil
}

// runOne finds or builds the parts of a dataset of one shard, and the dataset last.
func (c *conversion) runOne(ctx context.Context) error {
	for _, findOrBuild := range []func(context.Context) error{c.structure, c.arenas, c.placement, c.dataset} {
		if err := findOrBuild(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Structure prepares the tables of the inputs alone, or finds them prepared: sessions, turns, and which blocks each prompt
// consists of. It opens neither tokenizer nor corpus, and computes no placement. Convert of the same inputs finds the part.
//
// Path and Key of the result are those of the structure, which no dataset names: agentx cache gc removes it once no process
// uses it. Options that decide other parts, and VerifyHit, change nothing.
func Structure(ctx context.Context, o Options) (*Result, error) {
	return makeResult(ctx, o, true, func(ctx context.Context, c *conversion) error {
		if err := c.structure(ctx); err != nil {
			return err
		}
		m, r := c.parts[mmapcache.StructureKind], c.result
		r.Key, r.Path, r.Hit, r.Bytes = m.Key, filepath.Join(o.Root, m.Kind, m.Key), r.Parts[m.Kind].Hit, m.Size()
		return nil
	})
}

// Errors that callers match with errors.Is. They match InvalidTraceError and RebuildMismatchError with errors.As.
var (
	// ErrBusy: another process has been building the same part for longer than Options.Wait.
	ErrBusy = cachestore.ErrBusy

	// ErrDamaged: a file of the cache has changed since it was written. Convert builds damaged parts again; VerifyRebuild
	// does not.
	ErrDamaged = mmapcache.ErrDamaged

	// ErrChanged: an input file has changed since it was hashed.
	ErrChanged = hfsource.ErrChanged

	// ErrStrict: Options.Strict refuses oddities or unknown keys, which the error lists.
	ErrStrict = errors.New("a strict conversion refuses what another warns of")

	// ErrUnnamed: VerifyRebuild does not find the input of a dataset.
	ErrUnnamed = errors.New("its provenance does not name its input: that was standard input, or logs")
	// ErrNoBlocks: prompts that are recorded messages have no blocks, which simulations and made-up traces consist of.
	ErrNoBlocks = errors.New("its prompts are recorded text, without blocks of tokens")
)

// InvalidTraceError is a trace that cannot be converted.
type InvalidTraceError struct {
	Where  string // file, and line or row
	Err    error
	Others bool // the input is known to have valid traces beside it
}

func (e *InvalidTraceError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *InvalidTraceError) Unwrap() error { return e.Err }

// RebuildMismatchError reports a dataset that differs from a new build of the same input.
type RebuildMismatchError struct {
	Path  string // of the dataset
	Found []mmapcache.Damage
}

func (e *RebuildMismatchError) Error() string {
	var all []string
	for _, d := range e.Found {
		all = append(all, d.File+": "+d.Reason)
	}
	return fmt.Sprintf("%s differs from a new build of the same input: %s", e.Path, strings.Join(all, "; "))
}
