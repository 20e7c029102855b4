package convert

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
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
	c.locateSkipped(&c.result.Facts)
	if err := c.enforceFlags(c.result.Facts); err != nil {
		return err
	}
	c.warnWithoutChecksum()
	return nil
}

// warnWithoutChecksum warns of input files whose damage could go unnoticed. Those of the hub were compared with its digests.
func (c *conversion) warnWithoutChecksum() {
	for _, n := range c.result.Facts.FilesWithoutChecksum {
		if f := &c.snapshot.Files[n-1]; !f.FromHub() {
			c.options.Warn("%s carries no checksums: damage from before it was hashed would go unnoticed", f.Path)
		}
	}
}

func (c *conversion) buildStructure(ctx context.Context, b *mmapcache.Builder) error {
	s, facts, err := planInputs(ctx, c.snapshot, c.mooncake, c.options)
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
	_, err := c.part(ctx, mmapcache.PlacementKind, c.options.Force, func(ctx context.Context, b *mmapcache.Builder) error {
		structure, err := mmapcache.OpenStructure(c.options.Root, c.wanted[mmapcache.StructureKind].Key)
		if err != nil {
			return err
		}
		defer structure.Close()
		return c.stage("fill", func() error { return c.buildPlacement(ctx, b, structure) })
	})
	return err
}

func (c *conversion) buildPlacement(ctx context.Context, b *mmapcache.Builder, structure *mmapcache.Cache) error {
	s := structure.Structure
	table, err := b.NewPlacement(s.Blocks()+s.Turns.Len(), c.prompts.tokens)
	if err != nil {
		return err
	}
	if err := placeTraces(ctx, s, table, c.prompts.tokens, c.options); err != nil {
		table.Abort()
		return err
	}
	return table.Close(ctx)
}

// dataset finds or publishes the manifest that names the parts. It is published again where a part was built.
func (c *conversion) dataset(ctx context.Context) error {
	built := c.result.builtAny()
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
