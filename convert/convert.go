// Package convert turns recorded traces into a prepared cache.
//
// The data path: hfsource delivers rows; convert/weka scans each into a trace and plans it as sessions, turns, segments
// and blocks; the plans are put together in the order of the input (pipeline.go); the starts of blocks and fillers are
// drawn (fill); convert/corpus and internal/tokenizer give the arenas; mmapcache writes and publishes each part, the
// dataset last. keys.go says what each part's key is made of.
package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Options say what to convert, and how.
type Options struct {
	Root   string   // cache root
	Inputs []string // as on the command line
	Source hfsource.Options

	Rules     weka.Rules
	Placement weka.Placement
	Tokenizer string
	Corpus    string

	Workers     int  // traces at a time; 0: one per core
	Force       bool // build although it is there
	VerifyHit   bool // build beside what is found, and compare
	SkipInvalid bool // leave invalid traces out, counted, instead of failing; a file that cannot be read still fails
	Strict      bool // refuse what is otherwise warned of: unknown keys, and oddities

	Wait   time.Duration                                   // for another builder of the same part, as in durable.Waiting
	OnWait func(part, holder string, waited time.Duration) // called while it waits; may be nil

	Version  string                                      // of the program, for the provenance
	Progress func(stage string, done int64, total int64) // called from several goroutines; may be nil
	Warn     func(format string, args ...any)            // may be nil
	now      func() time.Time                            // nil: the clock
	disk     durable.Options                             // faults for tests
}

// progress returns the meter of one stage: it is called with what has been done since.
func (o Options) progress(stage string, total int64) func(int64) {
	if o.Progress == nil {
		return func(int64) {}
	}
	return func(n int64) { o.Progress(stage, n, total) }
}

// PartResult says of one part what happened to it.
type PartResult struct {
	Key string `json:"key"`
	Hit bool   `json:"hit"`
}

// Result is what a conversion gave.
type Result struct {
	Path       string
	Key        string
	Hit        bool // nothing was built
	Facts      mmapcache.StructureFacts
	InputBytes int64 // of the files as they lie
	Bytes      int64 // on disk, all parts
	PassedOver []hfsource.SkippedEntry
	Stages     map[string]time.Duration // resolve, plan, arenas, fill, publish, and wait and verify where there was such
	Parts      map[string]PartResult
}

// found reports whether something was there before.
func (r *Result) found() bool {
	for _, p := range r.Parts {
		if p.Hit {
			return true
		}
	}
	return false
}

// Convert prepares the dataset of the inputs, or finds it prepared. Of several processes that want the same part one
// builds it, and the others wait and use it. On an error nothing half-written is left; what a build that is killed leaves
// is in nobody's way, and swept by agentx cache gc.
func Convert(ctx context.Context, o Options) (*Result, error) {
	r, err := convert(ctx, o)
	if errors.Is(err, hfsource.ErrMismatch) && !o.Source.Verify {
		if o.Warn != nil {
			o.Warn("%v: that is done now", err)
		}
		o.Source.Verify = true
		return convert(ctx, o)
	}
	return r, err
}

func convert(ctx context.Context, o Options) (*Result, error) {
	c := newConversion(o)
	err := c.resolved(ctx, func() error {
		if err := cachestore.CheckRoot(o.Root); err != nil {
			return err
		}
		defer c.noteUse(ctx).Close()
		if err := c.run(ctx); err != nil || !o.VerifyHit || !c.result.found() {
			return err
		}
		return c.stage("verify", func() error { return c.compare(ctx) })
	})
	if err != nil {
		return nil, err
	}
	return c.result, nil
}

func newConversion(o Options) *conversion {
	c := &conversion{o: o, parts: map[string]*manifest.Manifest{}, result: &Result{Stages: map[string]time.Duration{}, Parts: map[string]PartResult{}}}
	if c.o.Workers <= 0 {
		c.o.Workers = runtime.GOMAXPROCS(0)
	}
	if c.o.now == nil {
		c.o.now = time.Now
	}
	if c.o.Warn == nil {
		c.o.Warn = func(string, ...any) {}
	}
	c.o.Source.Workers = c.o.Workers
	return c
}

// conversion is one run of Convert.
type conversion struct {
	o        Options
	result   *Result
	snapshot *hfsource.Snapshot
	prompts  promptCorpus
	wanted   map[string]*manifest.Manifest // by kind: keys and what they are made of
	parts    map[string]*manifest.Manifest // by kind: what was found or built
}

// resolved fixes what is to be converted, by content, and runs f.
func (c *conversion) resolved(ctx context.Context, f func() error) error {
	err := c.stage("resolve", func() error { return c.resolve(ctx) })
	if err == nil {
		err = f()
	}
	if c.snapshot != nil {
		err = errors.Join(err, c.snapshot.Close())
	}
	return err
}

// stage runs one stage and adds the time it took.
func (c *conversion) stage(name string, f func() error) error {
	begin := time.Now()
	err := f()
	c.result.Stages[name] += time.Since(begin)
	return err
}

// noteUse says that all parts are in use, so that nobody removes one before the dataset names it.
func (c *conversion) noteUse(ctx context.Context) *cachestore.Use {
	var names []string
	for kind, m := range c.wanted {
		names = append(names, kind+"/"+m.Key)
	}
	return cachestore.NoteUse(ctx, c.o.Root, names...)
}

func (c *conversion) run(ctx context.Context) error {
	if err := c.structure(ctx); err != nil {
		return err
	}
	arenas, err := c.arenas(ctx)
	if err != nil {
		return err
	}
	if err := c.starts(ctx, arenas); err != nil {
		return err
	}
	return c.dataset(ctx)
}

// resolve fixes everything mutable to content: input files, corpus and tokenizer by digest. Then all keys are known.
func (c *conversion) resolve(ctx context.Context) (err error) {
	if c.prompts, err = resolvePromptCorpus(c.o.Corpus, c.o.Tokenizer); err != nil {
		return err
	}
	if c.snapshot, err = hfsource.Resolve(ctx, c.o.Inputs, c.o.Source); err != nil {
		return err
	}
	if c.o.Placement.Backend == weka.SHA256MT {
		c.o.Placement.Stream = c.prompts.stream
	}
	c.result.InputBytes = c.snapshot.Bytes()
	c.result.PassedOver = c.snapshot.Skipped
	c.wanted, err = wanted(c.o.Rules, c.o.Placement, c.snapshot, c.prompts)
	return err
}

// part finds a directory, or makes it while others that want the same wait. With again it is made although it is there.
func (c *conversion) part(ctx context.Context, kind string, again bool, fill func(context.Context, *mmapcache.Builder) error) (*manifest.Manifest, error) {
	key := c.wanted[kind].Key
	if !again {
		there, err := mmapcache.Lookup(c.o.Root, kind, key)
		if err == nil && there != nil {
			err = c.checkPart(there)
			again = err != nil
		}
		if errors.Is(err, manifest.ErrDamaged) {
			c.o.Warn("%v: it is built again", err)
		} else if err != nil || there != nil {
			return c.note(there, true), err
		}
	}
	for {
		lease, there, err := cachestore.Claim(durable.WithOptions(ctx, c.o.disk), c.o.Root, kind, key, c.claimOptions(kind, again))
		if err == nil && there != nil {
			err = c.checkPart(there)
		}
		if err != nil || there != nil {
			return c.note(there, true), err
		}
		m, err := c.build(lease, kind, again, fill)
		if err := lease.Release(); err != nil {
			c.o.Warn("%v: others may wait for a while", err)
		}
		if !errors.Is(err, durable.ErrLost) || ctx.Err() != nil { // the context may be that of another lease, which is lost
			return c.note(m, false), err
		}
		c.o.Warn("%v: waiting for that", err)
	}
}

// checkPart holds what the manifest of a directory says of it against what is known before it is opened. Errors wrap
// manifest.ErrDamaged.
func (c *conversion) checkPart(m *manifest.Manifest) error {
	path := filepath.Join(c.o.Root, m.Kind, m.Key, manifest.FileName)
	switch m.Kind {
	case mmapcache.StructureKind:
		facts, err := mmapcache.StructureFactsOf(m)
		if err != nil {
			return err
		}
		named := slices.Clone(facts.FilesWithoutChecksum)
		for _, s := range facts.Skipped {
			named = append(named, s.File)
		}
		for _, n := range named {
			if n > len(c.snapshot.Files) {
				return fmt.Errorf("%s: %w: it names file %d of %d", path, manifest.ErrDamaged, n, len(c.snapshot.Files))
			}
		}
	case mmapcache.ArenasKind:
		facts, err := mmapcache.ArenaFactsOf(m)
		if err != nil {
			return err
		}
		if facts.Tokens != c.prompts.tokens {
			return fmt.Errorf("%s: %w: %d tokens, the corpus has %d", path, manifest.ErrDamaged, facts.Tokens, c.prompts.tokens)
		}
	case mmapcache.DatasetKind:
		for kind, part := range c.parts {
			if m.Parts[kind].Digest != part.Digest {
				return fmt.Errorf("%s: %w: names another content of %s %s than is there", path, manifest.ErrDamaged, kind, part.Key)
			}
		}
	}
	return nil
}

// claimOptions say how to claim a part. Waiting for another process that builds it counts as a stage.
func (c *conversion) claimOptions(kind string, rebuild bool) cachestore.ClaimOptions {
	last, limit := time.Duration(0), c.o.Wait
	if limit > 0 { // for all parts together
		limit = max(1, limit-c.result.Stages["wait"])
	}
	return cachestore.ClaimOptions{Rebuild: rebuild, Wait: limit, OnWait: func(holder string, waited time.Duration) {
		c.result.Stages["wait"] += waited - last
		last = waited
		if c.o.OnWait != nil {
			c.o.OnWait(kind, holder, waited)
		}
	}}
}

// there says whether a part still is: one that was found may have been removed since by cache rm, which knows nothing of
// datasets to come. It narrows the gap to the publishing of the dataset.
func (c *conversion) there(part *manifest.Manifest) error {
	now, err := mmapcache.Lookup(c.o.Root, part.Kind, part.Key)
	switch {
	case err != nil:
	case now == nil:
		err = errors.New("it was removed meanwhile, perhaps by agentx cache rm")
	case now.Digest != part.Digest:
		err = errors.New("it was replaced meanwhile by other content")
	default:
		return nil
	}
	return fmt.Errorf("part %s: %w: run convert again", filepath.Join(c.o.Root, part.Kind, part.Key), err)
}

// note records a part, if there is one.
func (c *conversion) note(m *manifest.Manifest, hit bool) *manifest.Manifest {
	if m != nil {
		c.result.Parts[m.Kind] = PartResult{m.Key, hit}
		c.parts[m.Kind] = m
	}
	return m
}

// build makes one directory and publishes it, with replace also over another content.
func (c *conversion) build(lease *cachestore.Lease, kind string, replace bool, fill func(context.Context, *mmapcache.Builder) error) (m *manifest.Manifest, err error) {
	ctx := lease.Context()
	defer func() {
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, durable.ErrLost) {
			err = cause
		}
	}()
	b, err := mmapcache.NewBuilder(ctx, c.o.Root, kind, c.wanted[kind].PreImage)
	if err != nil {
		return nil, err
	}
	defer b.Discard()
	if replace {
		b.Replace()
	}
	if err := fill(ctx, b); err != nil {
		return nil, err
	}
	err = c.stage("publish", func() (err error) {
		m, err = b.Publish(ctx, c.provenance(kind))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish %s %s: %w", kind, b.Key(), err)
	}
	return m, nil
}

func (c *conversion) provenance(kind string) mmapcache.Provenance {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := mmapcache.Provenance{Created: c.o.now().UTC(), Host: host, Agentx: c.o.Version}
	switch kind {
	case mmapcache.StructureKind, mmapcache.DatasetKind:
		for _, f := range c.snapshot.Files {
			p.Sources = append(p.Sources, mmapcache.Source{Path: c.lasting(f.Path), Size: f.Size, SHA256: f.SHA256})
		}
		if len(c.snapshot.Datasets) > 0 {
			p.Datasets, _ = json.Marshal(c.snapshot.Datasets) // strings and times always marshal
		}
	case mmapcache.ArenasKind:
		p.Corpus, p.Tokenizer = c.prompts.provenance(), c.o.Tokenizer
	}
	return p
}

// lasting is the name of an input file under which it can be found again from anywhere.
func (c *conversion) lasting(path string) string {
	for _, d := range c.snapshot.Datasets { // such a file is called by a short form of its commit
		if rest, ok := strings.CutPrefix(path, "hf://datasets/"+d.Repo+"@"+d.Commit[:12]+"/"); ok {
			return "hf://datasets/" + d.Repo + "@" + d.Commit + "/" + rest
		}
	}
	if path == "-" || c.o.Source.Embedded[path] != nil {
		return path
	}
	return absolute(path)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// structure finds or builds the tables.
func (c *conversion) structure(ctx context.Context) error {
	m, err := c.part(ctx, mmapcache.StructureKind, c.o.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("plan", func() error {
			s, facts, err := planInputs(ctx, c.snapshot, c.o)
			if err != nil {
				return err
			}
			if err := c.enforceFlags(facts); err != nil {
				return err
			}
			return b.BuildStructure(s, facts)
		})
	})
	if err != nil {
		return err
	}
	if c.result.Facts, err = mmapcache.StructureFactsOf(m); err != nil {
		return err
	}
	c.locate(&c.result.Facts)
	if err := c.enforceFlags(c.result.Facts); err != nil {
		return err
	}
	for _, n := range c.result.Facts.FilesWithoutChecksum {
		if f := &c.snapshot.Files[n-1]; !f.FromHub() {
			c.o.Warn("%s carries no checksums: damage from before it was hashed would go unnoticed", f.Path)
		}
	}
	return nil
}

// locate adds the paths of this run to the skipped traces: the manifest, a pure function of its key, knows numbers.
func (c *conversion) locate(f *mmapcache.StructureFacts) {
	for k := range f.Skipped {
		s := &f.Skipped[k]
		row := hfsource.Row{File: c.snapshot.Files[s.File-1].Path, Line: s.Line}
		s.Where = row.Location()
	}
}

// enforceFlags holds what is known of the traces against the flags, on a hit as on a build, before anything is published. A block
// that is longer than the prompt corpus cannot be skipped: which traces make a structure does not depend on the corpus.
func (c *conversion) enforceFlags(f mmapcache.StructureFacts) error {
	if len(f.Skipped) > 0 && !c.o.SkipInvalid {
		first := f.Skipped[0]
		return &InvalidTraceError{first.Where, errors.New(first.Reason)}
	}
	if f.MaxBlockSize > c.prompts.tokens {
		return fmt.Errorf("trace %q: block_size %d is larger than the corpus %s of %d tokens: use a longer --corpus", f.MaxBlockTrace, f.MaxBlockSize, c.o.Corpus, c.prompts.tokens)
	}
	if c.o.Strict {
		return refuseOddities(f)
	}
	return nil
}

// refuseOddities refuses what is otherwise warned of.
func refuseOddities(f mmapcache.StructureFacts) error {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(f.Unknown)) {
		list = append(list, DescribeUnknownKey(f, name))
	}
	for _, o := range f.Oddities {
		list = append(list, DescribeOddity(o))
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("--strict refuses what is otherwise warned of: %s", strings.Join(list, "; "))
}

// DescribeUnknownKey says what a name that the schema does not have is, how often it is there, and in which trace first.
func DescribeUnknownKey(f mmapcache.StructureFacts, name string) string {
	what := fmt.Sprintf("unknown key %q", name)
	if kind, ok := strings.CutPrefix(name, "type "); ok { // quoted, as scanners count it
		what = "unknown request type " + kind
	}
	times := "once"
	if n := f.Unknown[name]; n > 1 {
		times = fmt.Sprintf("%d times", n)
	}
	return fmt.Sprintf("%s, %s, first in %s", what, times, f.UnknownIn[name])
}

// DescribeOddity says what an oddity is, how many there are, and where the first.
func DescribeOddity(o mmapcache.Oddity) string {
	return fmt.Sprintf("%s (%s: %s)", weka.OddityText(o.Kind), firstIn(o.Count, o.Trace), o.First)
}

// firstIn says how often something is there, and in which trace first.
func firstIn(n int, trace string) string {
	if n == 1 {
		return fmt.Sprintf("once, in trace %q", trace)
	}
	return fmt.Sprintf("%d times, first in trace %q", n, trace)
}

// arenas finds or builds the prompt corpus.
func (c *conversion) arenas(ctx context.Context) (*manifest.Manifest, error) {
	return c.part(ctx, mmapcache.ArenasKind, c.o.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("arenas", func() error { return errors.Join(c.prompts.build(b), ctx.Err()) })
	})
}

// starts finds or draws the places of blocks and fillers.
func (c *conversion) starts(ctx context.Context, arenas *manifest.Manifest) error {
	facts, err := mmapcache.ArenaFactsOf(arenas)
	if err != nil {
		return err
	}
	if facts.Tokens != c.prompts.tokens {
		return fmt.Errorf("corpus %s has %d tokens, and not the %d that keys are made of: this agentx is broken", c.o.Corpus, facts.Tokens, c.prompts.tokens)
	}
	_, err = c.part(ctx, mmapcache.PlacementKind, c.o.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		s, err := mmapcache.OpenStructure(c.o.Root, c.wanted[mmapcache.StructureKind].Key)
		if err != nil {
			return err
		}
		defer s.Close()
		return c.stage("fill", func() error {
			t, err := b.NewPlacement(s.Structure.Blocks()+s.Structure.Turns.Len(), facts.Tokens)
			if err != nil {
				return err
			}
			if err := fill(ctx, s, t, facts.Tokens, c.o); err != nil {
				t.Abort()
				return err
			}
			return t.Close(ctx)
		})
	})
	return err
}

// dataset finds or publishes the manifest that names the parts.
func (c *conversion) dataset(ctx context.Context) error {
	built := false
	for _, p := range c.result.Parts {
		built = built || !p.Hit
	}
	m, err := c.part(ctx, mmapcache.DatasetKind, built, func(_ context.Context, b *mmapcache.Builder) error {
		for _, kind := range mmapcache.Kinds() {
			part := c.parts[kind]
			if kind == mmapcache.DatasetKind {
				continue
			}
			if err := c.there(part); err != nil {
				return err
			}
			b.AddPart(part)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, part := range c.parts { // what was found at the beginning may be gone
		if err := c.there(part); err != nil {
			return err
		}
	}
	r := c.result
	r.Key, r.Hit = m.Key, !built && r.Parts[mmapcache.DatasetKind].Hit
	delete(r.Parts, mmapcache.DatasetKind)
	cachestore.Touch(c.o.Root, m.Key)
	r.Path = mmapcache.DatasetPath(c.o.Root, m.Key)
	r.Bytes, err = cachestore.Size(c.o.Root, m.Key)
	return err
}
