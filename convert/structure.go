package convert

import (
	"context"
	"path/filepath"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/mmapcache"
)

// Structure prepares the tables of the inputs alone, or finds them prepared: sessions, turns, and which blocks each prompt
// consists of. It opens neither tokenizer nor corpus, and computes no placement. Convert of the same inputs finds the part.
//
// Path and Key of the result are those of the structure, which no dataset names: agentx cache gc removes it once no process
// uses it. Options that decide other parts, and VerifyHit, change nothing.
func Structure(ctx context.Context, o Options) (*Result, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return verified(o.withDefaults(), func(o Options) (*Result, error) { return structure(ctx, o) })
}

func structure(ctx context.Context, o Options) (*Result, error) {
	c := newConversion(o)
	c.tables = true
	err := c.withInput(ctx, func(ctx context.Context) error {
		if err := cachestore.CheckRoot(o.Root); err != nil {
			return err
		}
		use := c.noteUse(ctx)
		err := c.structure(ctx)
		use.Close()
		return c.explainFullDisk(ctx, err)
	})
	if err != nil {
		return nil, err
	}
	m, r := c.parts[mmapcache.StructureKind], c.result
	r.Key, r.Path, r.Hit = m.Key, filepath.Join(o.Root, m.Kind, m.Key), r.Parts[m.Kind].Hit
	for _, f := range m.Files {
		r.Bytes += f.Size
	}
	return r, nil
}
