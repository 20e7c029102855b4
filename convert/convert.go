// Package convert turns recorded traces into a prepared cache.
//
// The data path: hfsource delivers rows; convert/weka scans each into a trace and plans it as sessions, turns, segments
// and blocks; the plans are put together in the order of the input (planning.go); the starts of blocks and fillers are
// drawn (fill); convert/corpus and internal/tokenizer give the arenas; mmapcache writes and publishes each part, the
// dataset last. keys.go says what each part's key is made of.
package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

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
	Draws     weka.Draws
	Tokenizer string
	Corpus    string

	Workers     int  // traces at a time; 0: one per core
	Force       bool // build although it is there
	SkipInvalid bool // leave invalid traces out, counted, instead of failing
	Strict      bool // refuse input with unknown keys

	Version  string                                      // of the program, for the provenance
	Progress func(stage string, done int64, total int64) // called from several goroutines; may be nil
	Warn     func(format string, args ...any)            // may be nil
	Now      func() time.Time                            // nil: the clock
	Durable  durable.Options                             // faults for tests
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
	PassedOver []string
	Stages     map[string]time.Duration // resolve, plan, arenas, fill, publish
	Parts      map[string]PartResult
}

// Convert prepares the dataset of the inputs, or finds it prepared. On an error nothing half-written is left; a build that
// is killed leaves its staging directory, until that is removed by hand.
func Convert(ctx context.Context, o Options) (*Result, error) {
	c := conversion{o: o, result: &Result{Stages: map[string]time.Duration{}, Parts: map[string]PartResult{}}}
	if c.o.Workers <= 0 {
		c.o.Workers = runtime.GOMAXPROCS(0)
	}
	if c.o.Now == nil {
		c.o.Now = time.Now
	}
	if c.o.Warn == nil {
		c.o.Warn = func(string, ...any) {}
	}
	c.o.Source.Workers = c.o.Workers
	err := c.run(ctx)
	if c.snapshot != nil {
		err = errors.Join(err, c.snapshot.Close())
	}
	if err != nil {
		return nil, err
	}
	return c.result, nil
}

// conversion is one run of Convert.
type conversion struct {
	o        Options
	result   *Result
	snapshot *hfsource.Snapshot
	prompts  prompts
	probes   Probes
}

// stage runs one stage and adds the time it took.
func (c *conversion) stage(name string, f func() error) error {
	begin := time.Now()
	err := f()
	c.result.Stages[name] += time.Since(begin)
	return err
}

func (c *conversion) run(ctx context.Context) error {
	if err := c.stage("resolve", func() error { return c.resolve(ctx) }); err != nil {
		return err
	}
	structure, err := c.structure(ctx)
	if err != nil {
		return err
	}
	arenas, err := c.arenas(ctx)
	if err != nil {
		return err
	}
	starts, err := c.starts(ctx, structure.Key, arenas)
	if err != nil {
		return err
	}
	return c.dataset(ctx, structure, starts, arenas)
}

// resolve fixes everything mutable to content: input files, corpus and tokenizer by digest.
func (c *conversion) resolve(ctx context.Context) (err error) {
	if c.prompts, err = resolvePrompts(c.o.Corpus, c.o.Tokenizer); err != nil {
		return err
	}
	if c.snapshot, err = hfsource.Resolve(ctx, c.o.Inputs, c.o.Source); err != nil {
		return err
	}
	if c.o.Draws.Backend == weka.SHA256MT {
		c.o.Draws.Stream = c.prompts.stream
	}
	c.probes = Probe(c.o.Rules, c.o.Draws)
	c.result.InputBytes = c.snapshot.Bytes()
	c.result.PassedOver = c.snapshot.PassedOver
	return nil
}

// found returns the manifest of a part that is there and whole by the sizes of its files.
func (c *conversion) found(kind string, image any) (*manifest.Manifest, error) {
	m, err := manifest.New(kind, image)
	if err != nil || c.o.Force {
		return nil, err
	}
	there, err := mmapcache.Lookup(c.o.Root, kind, m.Key)
	if errors.Is(err, manifest.ErrDamaged) {
		c.o.Warn("%v: it is built again", err)
		return nil, nil
	}
	return there, err
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

// note records a part.
func (c *conversion) note(m *manifest.Manifest, hit bool) *manifest.Manifest {
	c.result.Parts[m.Kind] = PartResult{m.Key, hit}
	return m
}

// build makes one part and publishes it.
func (c *conversion) build(ctx context.Context, kind string, image any, sources bool, make func(*mmapcache.Builder) error) (*manifest.Manifest, error) {
	b, err := mmapcache.NewBuilder(c.o.Root, kind, image, c.o.Durable)
	if err != nil {
		return nil, err
	}
	defer b.Discard()
	if err := make(b); err != nil {
		return nil, err
	}
	var m *manifest.Manifest
	err = c.stage("publish", func() (err error) {
		m, err = b.Publish(ctx, c.provenance(sources))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish %s %s: %w", kind, b.Key(), err)
	}
	return c.note(m, false), nil
}

func (c *conversion) provenance(sources bool) mmapcache.Provenance {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := mmapcache.Provenance{Created: c.o.Now().UTC(), Host: host, Agentx: c.o.Version}
	if !sources {
		return p
	}
	for _, f := range c.snapshot.Files {
		path := f.Path
		if abs, err := filepath.Abs(path); err == nil && path != "-" && c.o.Source.Embedded[path] == nil {
			path = abs
		}
		p.Sources = append(p.Sources, mmapcache.Source{Path: path, Size: f.Size, SHA256: f.SHA256})
	}
	return p
}

// structure finds or builds the tables.
func (c *conversion) structure(ctx context.Context) (*manifest.Manifest, error) {
	image := structureImage{maker: made(c.probes.Structure), Rules: c.o.Rules, Inputs: inputImages(c.snapshot)}
	m, err := c.found(mmapcache.StructureKind, image)
	if err != nil {
		return nil, err
	}
	if m != nil {
		if c.result.Facts, err = mmapcache.FactsOf(m); err != nil {
			return nil, err
		}
		c.locate()
		return c.note(m, true), c.judge()
	}
	var s *mmapcache.Structure
	err = c.stage("plan", func() (err error) {
		s, c.result.Facts, err = plan(ctx, c.snapshot, c.o)
		return err
	})
	if err == nil {
		err = c.judge()
	}
	if err != nil {
		return nil, err
	}
	m, err = c.build(ctx, mmapcache.StructureKind, image, true, func(b *mmapcache.Builder) error {
		return c.stage("plan", func() error { return b.BuildStructure(s, c.result.Facts) })
	})
	c.locate()
	return m, err
}

// locate adds the paths of this run to the skipped traces: the manifest, a pure function of its key, knows numbers.
func (c *conversion) locate() {
	for k := range c.result.Facts.Skipped {
		s := &c.result.Facts.Skipped[k]
		row := hfsource.Row{File: c.snapshot.Files[s.File-1].Path, Line: s.Line}
		s.Where = row.Where()
	}
}

// judge holds what is known of the traces against the flags, on a hit as on a build, before anything is published. A block
// that is longer than the prompt corpus cannot be skipped: which traces make a structure does not depend on the corpus.
func (c *conversion) judge() error {
	f := c.result.Facts
	if len(f.Skipped) > 0 && !c.o.SkipInvalid {
		first := f.Skipped[0]
		return &InvalidError{first.Where, errors.New(first.Why)}
	}
	if f.MaxBlockSize > c.prompts.tokens {
		return fmt.Errorf("trace %q: block_size %d is larger than the corpus %s of %d tokens: use a longer --corpus", f.MaxBlockTrace, f.MaxBlockSize, c.o.Corpus, c.prompts.tokens)
	}
	if len(f.Unknown) > 0 && c.o.Strict {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(f.Unknown)) {
			names = append(names, fmt.Sprintf("%q (%d times, first in trace %q)", name, f.Unknown[name], f.UnknownIn[name]))
		}
		return fmt.Errorf("input has keys or types that are not in the schema, which --strict refuses: %s", strings.Join(names, ", "))
	}
	return nil
}

// arenas finds or builds the prompt corpus.
func (c *conversion) arenas(ctx context.Context) (*manifest.Manifest, error) {
	m, err := c.found(mmapcache.ArenasKind, c.prompts.image)
	if err != nil {
		return nil, err
	}
	if m != nil {
		return c.note(m, true), nil
	}
	return c.build(ctx, mmapcache.ArenasKind, c.prompts.image, false, func(b *mmapcache.Builder) error {
		return c.stage("arenas", func() error { return c.prompts.build(b) })
	})
}

// starts finds or draws the places of blocks and fillers.
func (c *conversion) starts(ctx context.Context, structureKey string, arenas *manifest.Manifest) (*manifest.Manifest, error) {
	facts, err := mmapcache.ArenaFactsOf(arenas)
	if err != nil {
		return nil, err
	}
	image := startsImage{maker: made(c.probes.Starts), Structure: structureKey, Draws: c.o.Draws, Tokens: facts.Tokens}
	m, err := c.found(mmapcache.StartsKind, image)
	if err != nil {
		return nil, err
	}
	if m != nil {
		return c.note(m, true), nil
	}
	s, err := mmapcache.OpenStructure(c.o.Root, structureKey)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return c.build(ctx, mmapcache.StartsKind, image, false, func(b *mmapcache.Builder) error {
		return c.stage("fill", func() error {
			t, err := b.NewStarts(s.Structure.Blocks()+s.Structure.Turns.Len(), facts.Tokens)
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
}

// dataset finds or publishes the manifest that names the parts.
func (c *conversion) dataset(ctx context.Context, structure, starts, arenas *manifest.Manifest) error {
	image := datasetImage{Format: mmapcache.Format, Structure: structure.Key, Starts: starts.Key, Arenas: arenas.Key}
	built := false
	for _, p := range c.result.Parts {
		built = built || !p.Hit
	}
	m, err := c.found(mmapcache.DatasetKind, image)
	if err != nil {
		return err
	}
	if m == nil || built {
		m, err = c.build(ctx, mmapcache.DatasetKind, image, true, func(b *mmapcache.Builder) error {
			for _, part := range []*manifest.Manifest{structure, starts, arenas} {
				if err := c.there(part); err != nil {
					return err
				}
				b.Name(part)
			}
			return nil
		})
		if err != nil {
			return err
		}
		built = true
	}
	delete(c.result.Parts, mmapcache.DatasetKind)
	r := c.result
	r.Key, r.Hit = m.Key, !built
	r.Path = filepath.Join(c.o.Root, mmapcache.DatasetKind, m.Key)
	r.Bytes, err = mmapcache.Size(c.o.Root, m.Key)
	return err
}
