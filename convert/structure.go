package convert

import (
	"context"
	"path/filepath"

	"github.com/agentx/agentx/mmapcache"
)

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
