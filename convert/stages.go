package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/trace"
)

// structure finds or builds the tables of all traces.
func (c *conversion) structure(ctx context.Context) error {
	m, err := c.part(ctx, mmapcache.StructureKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("plan", func() error { return c.buildStructure(ctx, b) })
	})
	if err != nil {
		return err
	}
	if c.result.Facts, err = mmapcache.StructureFactsOf(m); err != nil {
		return err
	}
	if c.result.Parts[mmapcache.StructureKind].Hit {
		if err := c.checkBounds(c.result.Facts); err != nil {
			return err
		}
	}
	c.locateSkipped(&c.result.Facts)
	if err := c.enforceFlags(c.result.Facts); err != nil {
		return err
	}
	c.warnWithoutChecksum()
	return nil
}

// checkBounds returns errSeveralShards where the structure that exists has more rows than a shard, none of global scope. Structure
// may have made it.
func (c *conversion) checkBounds(f mmapcache.StructureFacts) error {
	if c.bounds.rows == 0 || f.Traces+f.AllSkipped() <= c.bounds.rows {
		return nil
	}
	tables, err := mmapcache.OpenStructure(c.options.Root, c.wanted[mmapcache.StructureKind].Key)
	if err != nil {
		return err
	}
	defer tables.Close()
	for i := range tables.Structure.Traces.Len() {
		if tables.Structure.Traces.At(i).Scope == trace.ScopeGlobal.String() {
			return nil
		}
	}
	return errSeveralShards
}

// warnWithoutChecksum warns of input files whose damage could go unnoticed. Those of the hub were compared with its digests.
func (c *conversion) warnWithoutChecksum() {
	for _, n := range c.result.Facts.FilesWithoutChecksum {
		if f := &c.snapshot.Files[n-1]; !f.FromHub() {
			c.options.Warn("%s carries no checksums: damage from before it was hashed would go unnoticed", f.Path)
		}
	}
}

// warnGarbage warns of files that were read and end in something else.
func (c *conversion) warnGarbage() {
	for _, f := range c.snapshot.Files {
		if f.HasGarbage() {
			c.options.Warn("%s: what stands behind its last gzip member is no gzip, and is left out, as gzip does", f.Path)
		}
	}
}

// buildStructure reads the inputs and writes the tables of their traces.
func (c *conversion) buildStructure(ctx context.Context, b *mmapcache.Builder) error {
	s, facts, err := planInputs(ctx, c.snapshot, c.recordings, c.options, c.bounds)
	if err != nil {
		return err
	}
	if err := c.enforceFlags(facts); err != nil {
		return err
	}
	return b.BuildStructure(s, facts)
}

// arenas finds or builds the prompt corpus.
func (c *conversion) arenas(ctx context.Context) error {
	m, err := c.part(ctx, mmapcache.ArenasKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		return c.stage("arenas", func() error { return errors.Join(c.prompts.build(b), ctx.Err()) })
	})
	if err != nil {
		return err
	}
	facts, err := mmapcache.ArenaFactsOf(m)
	if err != nil {
		return err
	}
	if known := c.prompts.tokens; known != 0 && facts.Tokens != known {
		return fmt.Errorf("corpus %s has %d tokens, and the key says %d: this is a bug in agentx", c.options.Corpus, facts.Tokens, known)
	}
	c.prompts.tokens = facts.Tokens
	return c.refuseLongBlocks(c.result.Facts)
}

// placement finds or computes where in the corpus every block and filler begins.
func (c *conversion) placement(ctx context.Context) error {
	m, err := c.part(ctx, mmapcache.PlacementKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		structure, err := mmapcache.OpenStructure(c.options.Root, c.wanted[mmapcache.StructureKind].Key)
		if err != nil {
			return err
		}
		defer structure.Close()
		s := structure.Structure
		g := &placing{structure: s, tokens: c.prompts.tokens, progress: c.options.stageProgress("fill", int64(s.Blocks()))}
		return c.stage("fill", func() error { return c.place(ctx, b, g) })
	})
	if err != nil {
		return err
	}
	facts, err := mmapcache.PlacementFactsOf(m)
	if err == nil {
		c.warnInexact(facts)
	}
	return err
}

// warnInexact warns of windows that a server may count other tokens of than were cut.
func (c *conversion) warnInexact(f mmapcache.PlacementFacts) {
	if f.Inexact == 0 {
		return
	}
	why := f.Why
	if why == "" {
		why = fmt.Sprintf("corpus %s has too few places for windows of their lengths", c.options.Corpus)
	}
	c.options.Warn("%d of %d windows of the prompts may encode to other tokens than they were cut from: %s", f.Inexact, f.Windows, why)
}

// place computes a placement and writes it.
func (c *conversion) place(ctx context.Context, b *mmapcache.Builder, g *placing) error {
	facts := mmapcache.PlacementFacts{}
	if c.options.Placement.Backend == rules.Exact {
		e := c.edges()
		if e.err != nil {
			return e.err
		}
		if g.edges = e.edges; e.why != nil {
			facts.Why = e.why.Error()
		}
	}
	table, err := b.NewPlacement(g.structure.Blocks()+g.structure.Turns.Len(), g.tokens)
	if err != nil {
		return err
	}
	g.table = table
	if err := g.run(ctx, c.options); err != nil {
		table.Abort()
		return err
	}
	if c.options.Placement.Backend == rules.Exact {
		facts.Windows, facts.Inexact = int(g.windows.Load()), int(g.inexact.Load())
		if g.edges == nil {
			facts.Inexact = facts.Windows
		}
		if err := table.SetFacts(facts); err != nil {
			return err
		}
	}
	return table.Close(ctx)
}

// corpusEdges are the edges of the prompt corpus.
type corpusEdges struct {
	edges    *reconstruct.Edges
	why, err error // why there are none; why that is unknown
}

// readEdges finds the edges of the corpus in the arenas.
func (c *conversion) readEdges() (e corpusEdges) {
	e.edges, e.why, e.err = c.prompts.edges(c.options.Root, c.wanted[mmapcache.ArenasKind].Key)
	return e
}

// dataset finds or publishes the manifest that names the parts. It is published again where a part was built.
func (c *conversion) dataset(ctx context.Context) error {
	built := c.result.anyPart(false)
	m, err := c.part(ctx, mmapcache.DatasetKind, built, func(_ context.Context, b *mmapcache.Builder) error {
		return c.nameParts(b)
	})
	if err != nil {
		return err
	}
	for _, part := range c.parts { // a part found at the beginning may be gone
		if err := c.checkExists(part); err != nil {
			return err
		}
	}
	return c.complete(m, built)
}

// complete fills in the result when the dataset exists, and notes that it was used.
func (c *conversion) complete(m *manifest.Manifest, built bool) (err error) {
	r := c.result
	r.Key, r.Hit = m.Key, !built && r.Parts[mmapcache.DatasetKind].Hit
	delete(r.Parts, mmapcache.DatasetKind)
	cachestore.Touch(c.options.Root, m.Key)
	r.Path = mmapcache.DatasetPath(c.options.Root, m.Key)
	r.Bytes, err = cachestore.Size(c.options.Root, m.Key)
	return err
}

// nameParts adds the parts, which must still exist, to the manifest of the dataset.
func (c *conversion) nameParts(b *mmapcache.Builder) error {
	for _, part := range c.parts {
		if err := c.checkExists(part); err != nil {
			return err
		}
		b.AddPart(part)
	}
	return nil
}
