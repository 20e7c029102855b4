package convert

import (
	"context"
	"errors"
	"sync"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// shardsInFlight is how many shards a build holds in memory: one is read while the one before is written.
const shardsInFlight = 2

// unitBuild builds what is missing of a unit. It publishes nothing before all files have been read to their end and match their
// digests.
type unitBuild struct {
	*sharding
	unit   unit
	shards []shard // of the unit, when it ends

	files  *hfsource.Snapshot // of the unit
	pool   pond.Pool
	cancel context.CancelCauseFunc // ends the reading and the writing
	rows   int                     // that were read
	open   *shardBuild             // takes the next row; nil before the first
	all    []*shardBuild
	slots  chan struct{}
	ending sync.WaitGroup
}

// shardBuild builds one shard.
type shardBuild struct {
	plans   *pipeline // nil where the structure exists or is written
	have    shard     // what exists
	written []*mmapcache.Builder
}

// run builds the shards and publishes them.
func (b *unitBuild) run(ctx context.Context) error {
	known, whole, err := b.structures()
	if err != nil {
		return err
	}
	b.files = b.unit.files(b.snapshot)
	if whole {
		b.all = known
		err = b.placeAll(ctx)
	} else {
		err = b.read(ctx)
	}
	if err != nil {
		return err
	}
	return b.publish(ctx)
}

// structures looks up the structures of the unit. whole reports that none is missing, so that its files need not be read.
func (b *unitBuild) structures() (list []*shardBuild, whole bool, err error) {
	if b.options.Force {
		return nil, false, nil
	}
	for k := 0; ; k++ {
		m, more, err := b.findStructure(b.unit, k)
		if err != nil || m == nil {
			return nil, false, err
		}
		list = append(list, &shardBuild{have: shard{structure: m}})
		if !more {
			return list, true, nil
		}
	}
}

// placeAll computes the starts that are missing of structures that exist.
func (b *unitBuild) placeAll(ctx context.Context) error {
	for _, sh := range b.all {
		if err := b.placeStructure(ctx, sh); err != nil {
			return err
		}
	}
	return nil
}

// read reads the files of the unit, and builds the shards behind it. The error is the first, not those that it caused.
func (b *unitBuild) read(ctx context.Context) error {
	ctx, b.cancel = context.WithCancelCause(ctx)
	defer b.cancel(nil)
	b.slots = make(chan struct{}, shardsInFlight)
	b.files.Memory = hfsource.NewMemoryBudget(ctx, b.files.Bytes())
	b.pool = pond.NewPool(b.options.Workers, pond.WithQueueSize(2*b.options.Workers))
	defer b.pool.StopAndWait()
	err := b.files.Rows(ctx, weka.ColumnPaths(), b.options.stageProgress("plan", b.snapshot.Bytes()), func(row hfsource.Row) error { return b.take(ctx, row) })
	if err == nil && b.open == nil {
		err = b.next(ctx) // no row: a shard without traces
	}
	if err != nil {
		b.cancel(err)
	}
	b.end(ctx, false)
	b.ending.Wait()
	return context.Cause(ctx)
}

// take adds a row to its shard, and ends the one before.
func (b *unitBuild) take(ctx context.Context, row hfsource.Row) error {
	if b.rows%b.options.shardRows == 0 {
		b.end(ctx, true)
		if err := b.next(ctx); err != nil {
			row.Free()
			return err
		}
	}
	b.rows++
	switch rules := b.options.Rules; {
	case b.open.plans != nil:
		b.open.plans.submit(func() plannedTrace { return planRow(row, b.files, rules) })
	case row.Err != nil:
		return row.Err
	default:
		row.Free()
	}
	return context.Cause(ctx)
}

// next begins the next shard, when there is room for it in memory.
func (b *unitBuild) next(ctx context.Context) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	sh := &shardBuild{}
	if !b.options.Force {
		var err error
		if sh.have.structure, _, err = b.findStructure(b.unit, len(b.all)); err != nil {
			return err
		}
	}
	b.all, b.open = append(b.all, sh), sh
	if sh.have.structure == nil {
		m := newMerger(b.files.Memory, b.options, bounds{shard: true}, b.cancel)
		sh.plans = &pipeline{snapshot: b.files, options: b.options, merger: m, tasks: b.pool.NewGroupContext(ctx)}
	}
	return nil
}

// end lets the open shard be written while the next one is read. more says that its file goes on behind it.
func (b *unitBuild) end(ctx context.Context, more bool) {
	sh, k := b.open, len(b.all)-1
	if sh == nil {
		return
	}
	b.open = nil
	b.ending.Go(func() {
		defer func() { <-b.slots }()
		if err := b.write(ctx, sh, k, more); err != nil {
			b.cancel(err)
		}
	})
}

// write writes structure and starts of a shard.
func (b *unitBuild) write(ctx context.Context, sh *shardBuild, k int, more bool) error {
	if sh.plans == nil {
		return b.placeStructure(ctx, sh)
	}
	if err := errors.Join(sh.plans.tasks.Wait(), context.Cause(ctx)); err != nil {
		return err
	}
	m := sh.plans.merger
	if err := m.invalid(); err != nil {
		m.refused.Others = m.refused.Others || k > 0 // the shards before have valid traces
		return err
	}
	if !more {
		m.noteFilesWithoutChecksum(b.files.Files)
	}
	m.facts.More = more
	if b.options.Strict {
		if err := refuseOddities(m.facts); err != nil {
			return err
		}
	}
	if err := b.refuseLongBlocks(m.facts); err != nil {
		return err
	}
	wanted, err := b.structureOf(b.unit, k)
	if err != nil {
		return err
	}
	structure, err := b.builder(ctx, sh, wanted)
	if err != nil {
		return err
	}
	if err := structure.BuildStructure(m.structure, m.facts); err != nil {
		return err
	}
	if err := b.place(ctx, sh, structure.Key(), m.structure); err != nil {
		return err
	}
	sh.plans = nil
	_, err = b.files.Memory.Retain(-m.retained.Load())
	return err
}

// builder begins a directory that is published with the others of the unit.
func (b *unitBuild) builder(ctx context.Context, sh *shardBuild, wanted *manifest.Manifest) (*mmapcache.Builder, error) {
	builder, err := mmapcache.NewBuilder(ctx, b.options.Root, wanted.Kind, wanted.PreImage)
	if err != nil {
		return nil, err
	}
	if b.options.Force {
		builder.Replace()
	}
	sh.written = append(sh.written, builder)
	return builder, nil
}

// placeStructure computes the starts of a structure that exists, unless they exist too.
func (b *unitBuild) placeStructure(ctx context.Context, sh *shardBuild) error {
	key := sh.have.structure.Key
	wanted, err := b.startsOf(key)
	if err != nil {
		return err
	}
	if sh.have.starts, err = b.lookupPart(mmapcache.PlacementKind, wanted.Key); err != nil || sh.have.starts != nil {
		return err
	}
	tables, err := mmapcache.OpenStructure(b.options.Root, key)
	if err != nil {
		return err
	}
	defer tables.Close()
	return b.place(ctx, sh, key, tables.Structure)
}

// place computes the starts of a structure.
func (b *unitBuild) place(ctx context.Context, sh *shardBuild, key string, s *mmapcache.Structure) error {
	wanted, err := b.startsOf(key)
	if err != nil {
		return err
	}
	builder, err := b.builder(ctx, sh, wanted)
	if err != nil {
		return err
	}
	return b.conversion.place(ctx, builder, &placing{structure: s, tokens: b.prompts.tokens, progress: func(int64) {}})
}

// publish publishes what was built, in order.
func (b *unitBuild) publish(ctx context.Context) error {
	var names []string
	for _, sh := range b.all {
		for _, builder := range sh.written {
			names = append(names, builder.Name())
		}
	}
	b.noteNames(ctx, names)
	for _, sh := range b.all {
		for _, builder := range sh.written {
			m, err := builder.Publish(ctx, b.provenanceOf(builder.Kind(), b.files.Files))
			if err != nil {
				return err
			}
			if m.Kind == mmapcache.StructureKind {
				sh.have.structure = m
			} else {
				sh.have.starts = m
			}
		}
		b.shards = append(b.shards, sh.have)
	}
	return nil
}

// built returns how many shards this process built some of.
func (b *unitBuild) built() (n int) {
	for _, sh := range b.all {
		if len(sh.written) > 0 {
			n++
		}
	}
	return n
}

// discard removes what was not published.
func (b *unitBuild) discard() {
	for _, sh := range b.all {
		for _, builder := range sh.written {
			builder.Discard()
		}
	}
}
