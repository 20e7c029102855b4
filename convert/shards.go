package convert

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// sharding finds or builds the dataset of an input that has several shards. Other processes may do the same at the same time:
// each builds the shards of the units that no other holds, and all use what the others have built.
type sharding struct {
	*conversion
	units  []unit
	shards [][]shard                // by unit; nil: not known to be complete
	built  []int                    // by unit: how many of its shards this process built
	facts  mmapcache.StructureFacts // of all shards
	use    *cachestore.Use          // of all shards that were found or built; nil: of none yet

	explains bool     // nothing is built again
	damaged  sync.Map // keys of parts that were warned of
}

// shard is a structure and its starts, found or built.
type shard struct{ structure, starts *manifest.Manifest }

func newSharding(c *conversion, units []unit) *sharding {
	return &sharding{conversion: c, units: units, shards: make([][]shard, len(units)), built: make([]int, len(units))}
}

func (s *sharding) close() {
	if s.use != nil {
		s.use.Close()
	}
}

// several reports whether the input is known to have several shards, without reading rows.
func (s *sharding) several() (bool, error) {
	if len(s.units) > 1 || !s.units[0].several || s.options.Force {
		return len(s.units) > 1, nil
	}
	_, more, err := s.findStructure(s.units[0], 0)
	return more, err
}

// run finds or builds all shards, and then the dataset that names them.
func (s *sharding) run(ctx context.Context) error {
	delete(s.parts, mmapcache.StructureKind) // of the attempt to make one
	delete(s.result.Parts, mmapcache.StructureKind)
	if err := s.arenas(ctx); err != nil {
		return err
	}
	if err := s.stage("plan", func() error { return s.findOrBuild(ctx) }); err != nil {
		return err
	}
	if err := s.checkSessions(ctx); err != nil {
		return err
	}
	if err := s.noteFacts(); err != nil {
		return err
	}
	return s.dataset(ctx)
}

// findOrBuild goes through the units until all are complete. It builds those that no other process holds. Where only held ones
// are left, it waits for one of them: it is complete then, or its builder is dead and this process takes over.
func (s *sharding) findOrBuild(ctx context.Context) error {
	left, err := s.findAll(ctx)
	if err != nil {
		return err
	}
	for len(left) > 0 {
		var held []int
		for _, k := range left {
			free, err := s.unit(ctx, k, false)
			if err != nil {
				return err
			}
			if !free {
				held = append(held, k)
			}
		}
		if len(held) == 0 || len(held) < len(left) {
			left = held // another process may have ended meanwhile: look again before waiting
			continue
		}
		if _, err := s.unit(ctx, held[0], true); err != nil {
			return err
		}
		left = held[1:]
	}
	return nil
}

// findAll finds the units that are complete, and returns the numbers of the others, in the order in which to build them.
func (s *sharding) findAll(ctx context.Context) (left []int, err error) {
	if s.options.Force {
		return s.order(), nil
	}
	var all []shard
	for _, u := range s.units {
		list, _, err := s.find(u)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	s.noteShards(ctx, all)
	for _, k := range s.order() {
		list, whole, err := s.find(s.units[k]) // what exists now stays
		if err != nil {
			return nil, err
		}
		if whole {
			s.shards[k] = list
		} else {
			left = append(left, k)
		}
	}
	return left, nil
}

// order returns the numbers of all units, beginning where this builder of several begins.
func (s *sharding) order() []int {
	list := make([]int, len(s.units))
	first := 0
	if b := s.options.Builder; b.Of > 0 {
		first = b.Number * len(list) / b.Of
	}
	for k := range list {
		list[k] = (first + k) % len(list)
	}
	return list
}

// unit finds or builds the shards of unit k. Where another process builds them, it waits, or reports false.
func (s *sharding) unit(ctx context.Context, k int, wait bool) (free bool, err error) {
	u := s.units[k]
	for {
		free, err := s.claimUnit(ctx, k, wait)
		if !errors.Is(err, cachestore.ErrLost) || ctx.Err() != nil {
			return free, err
		}
		s.options.Warn("%s: %v: waiting for that process", u.describe(s.snapshot), err)
		wait = true
	}
}

// claimUnit is unit, but for a lease that is lost.
func (s *sharding) claimUnit(ctx context.Context, k int, wait bool) (free bool, err error) {
	u := s.units[k]
	first, err := s.structureOf(u, 0)
	if err != nil {
		return false, err
	}
	made := func() (bool, error) {
		if s.options.Force {
			return false, nil
		}
		return s.complete(ctx, k)
	}
	o := s.claimOptions("shards of "+u.describe(s.snapshot), false)
	if !wait {
		o.Wait = -1
	}
	lease, err := cachestore.ClaimShards(ctx, s.options.Root, first.Key, made, o)
	switch {
	case errors.Is(err, cachestore.ErrBusy) && !wait && s.options.Wait >= 0:
		return false, nil
	case err != nil || lease == nil:
		return err == nil, err
	}
	err = s.buildUnit(lease, k)
	if err := lease.Release(); err != nil {
		s.options.Warn("%v: other processes may wait until the lease expires", err)
	}
	return err == nil, err
}

// buildUnit builds what is missing of a unit.
func (s *sharding) buildUnit(lease *cachestore.Lease, k int) error {
	ctx := lease.Context()
	b := &unitBuild{sharding: s, unit: s.units[k]}
	defer b.discard()
	err := b.run(ctx)
	if err == nil { // else another may build it
		s.shards[k], s.built[k] = b.shards, b.built()
		return nil
	}
	if cause := context.Cause(ctx); errors.Is(cause, cachestore.ErrLost) {
		return cause
	}
	return err
}

// complete reports whether all shards of unit k exist, and keeps them.
func (s *sharding) complete(ctx context.Context, k int) (bool, error) {
	list, whole, err := s.find(s.units[k])
	if err != nil || !whole {
		return false, err
	}
	s.noteShards(ctx, list)
	list, whole, err = s.find(s.units[k]) // what exists now stays
	if whole {
		s.shards[k] = list
	}
	return whole, err
}

// noteShards notes that this process uses shards.
func (s *sharding) noteShards(ctx context.Context, list []shard) {
	var names []string
	for _, sh := range list {
		names = append(names, mmapcache.StructureKind+"/"+sh.structure.Key, mmapcache.PlacementKind+"/"+sh.starts.Key)
	}
	s.noteNames(ctx, names)
}

// noteNames notes that this process uses directories, each "kind/key".
func (s *sharding) noteNames(ctx context.Context, names []string) {
	switch {
	case len(names) == 0:
	case s.use == nil:
		s.use = cachestore.NoteUse(ctx, s.options.Root, names...)
	default:
		s.use.Add(ctx, names...)
	}
}

// find looks up the shards of a unit, until one is missing. whole reports that none is. Damage is a warning: it is built again.
func (s *sharding) find(u unit) (list []shard, whole bool, err error) {
	for k := 0; ; k++ {
		structure, more, err := s.findStructure(u, k)
		if err != nil || structure == nil {
			return list, false, err
		}
		wanted, err := s.startsOf(structure.Key)
		if err != nil {
			return list, false, err
		}
		starts, err := s.lookupPart(mmapcache.PlacementKind, wanted.Key)
		if err != nil || starts == nil {
			return list, false, err
		}
		list = append(list, shard{structure, starts})
		if !more {
			return list, true, nil
		}
	}
}

// findStructure looks up the structure of shard k of a unit, nil where it is missing or damaged. more says that the file goes on
// behind it.
func (s *sharding) findStructure(u unit, k int) (m *manifest.Manifest, more bool, err error) {
	wanted, err := s.structureOf(u, k)
	if err != nil {
		return nil, false, err
	}
	if m, err = s.lookupPart(mmapcache.StructureKind, wanted.Key); err != nil || m == nil {
		return nil, false, err
	}
	facts, err := mmapcache.StructureFactsOf(m)
	return m, facts.More, err
}

// lookupPart is find of the conversion, with a warning where a part is damaged, and built again for that.
func (s *sharding) lookupPart(kind, key string) (*manifest.Manifest, error) {
	m, err := s.conversion.find(kind, key)
	if errors.Is(err, manifest.ErrDamaged) {
		if _, said := s.damaged.LoadOrStore(key, true); !said && !s.explains {
			s.options.Warn("%v: it is built again", err)
		}
		return nil, nil
	}
	return m, err
}

// structureOf returns a manifest with key and pre-image of the structure of shard k of a unit.
func (s *sharding) structureOf(u unit, k int) (*manifest.Manifest, error) {
	image := structureImageOf(s.options.Rules, s.probes.Structure, u.files(s.snapshot), nil)
	if u.several {
		image.Rows = &rowsImage{First: k * s.options.shardRows, Most: s.options.shardRows}
	}
	return manifest.New(mmapcache.StructureKind, image)
}

// startsOf returns a manifest with key and pre-image of the starts of a structure.
func (s *sharding) startsOf(structure string) (*manifest.Manifest, error) {
	arenas := s.wanted[mmapcache.ArenasKind].Key
	return manifest.New(mmapcache.PlacementKind, placementImageOf(s.options.Placement, s.probes, structure, s.keyed, arenas))
}

// dataset finds or publishes the manifest that names the shards. One that names others is replaced.
func (s *sharding) dataset(ctx context.Context) error {
	rebuild := s.options.Force
	if m, err := s.lookup(mmapcache.DatasetKind); err == nil && m != nil && !rebuild {
		if err := s.checkNamed(m); err != nil {
			s.options.Warn("%v: it is built again", err)
			rebuild = true
		}
	}
	m, err := s.part(ctx, mmapcache.DatasetKind, rebuild, s.nameShards)
	if err == nil {
		err = s.checkNamed(m)
	}
	if err != nil {
		return err
	}
	return s.conversion.complete(m, slices.Max(s.built) > 0 || s.result.anyPart(false))
}

// checkNamed returns an error that wraps ErrDamaged where the dataset names other content than the shards of this process have.
func (s *sharding) checkNamed(m *manifest.Manifest) error {
	have, err := mmapcache.DatasetFactsOf(m)
	if err != nil {
		return err
	}
	wanted := s.list()
	same := len(wanted) == len(have.Shards)
	for k := 0; same && k < len(wanted); k++ {
		same = have.Shards[k].Structure.Digest == wanted[k].structure.Digest && have.Shards[k].Starts.Digest == wanted[k].starts.Digest
	}
	if !same {
		return fmt.Errorf("dataset %s: %w: it names other shards than the cache has", m.Key, manifest.ErrDamaged)
	}
	return nil
}

// list returns all shards in the order of the input.
func (s *sharding) list() []shard { return slices.Concat(s.shards...) }

// nameShards adds the arenas and all shards, which must still exist, to the manifest of the dataset.
func (s *sharding) nameShards(ctx context.Context, b *mmapcache.Builder) error {
	facts := mmapcache.DatasetFacts{StructureFacts: s.facts}
	for _, sh := range s.list() {
		if err := errors.Join(s.checkExists(sh.structure), s.checkExists(sh.starts), context.Cause(ctx)); err != nil {
			return err
		}
		f, err := mmapcache.StructureFactsOf(sh.structure)
		if err != nil {
			return err
		}
		facts.Shards = append(facts.Shards, mmapcache.Shard{
			Structure: manifest.Part{Key: sh.structure.Key, Digest: sh.structure.Digest}, Starts: manifest.Part{Key: sh.starts.Key, Digest: sh.starts.Digest},
			Traces: f.Traces, Sessions: f.Sessions, Turns: f.Turns, Blocks: f.Blocks,
		})
	}
	return errors.Join(b.NameShards(facts), s.nameParts(b)) // the arenas are a part
}

// shardRows is the most rows of a shard. Keys contain it.
const shardRows = 1024

// unit is what one builder reads: a file that may have several rows, or a run of files of one row each that make one shard.
type unit struct {
	from, to int  // files of the snapshot
	several  bool // rows: its shards follow each other through the file
}

// files returns the files of a unit, numbered from 0.
func (u unit) files(s *hfsource.Snapshot) *hfsource.Snapshot { return s.Slice(u.from, u.to) }

// describe names the files of a unit for messages.
func (u unit) describe(s *hfsource.Snapshot) string {
	if n := u.to - u.from; n > 1 {
		return fmt.Sprintf("%s and %d more files", s.Files[u.from].Path, n-1)
	}
	return s.Files[u.from].Path
}

// unitsOf cuts the files of a snapshot into units. A run of files of one row is cut after as many as a shard has rows.
func unitsOf(ctx context.Context, s *hfsource.Snapshot, rows int) (list []unit, err error) {
	for k := range s.Files {
		several, err := s.HasSeveralRows(ctx, k)
		if err != nil {
			return nil, err
		}
		last := len(list) - 1
		if !several && last >= 0 && !list[last].several && list[last].to-list[last].from < rows {
			list[last].to++
			continue
		}
		list = append(list, unit{k, k + 1, several})
	}
	return list, nil
}

// findShards completes the result from a dataset of shards that exists, if all its parts do. It reads no row.
func (c *conversion) findShards(ctx context.Context, dataset *manifest.Manifest) (found bool, err error) {
	facts, err := mmapcache.DatasetFactsOf(dataset)
	if err != nil {
		return false, nil // it is published again
	}
	parts, err := mmapcache.PartsOf(dataset)
	if err != nil {
		return false, err
	}
	defer cachestore.NoteDataset(ctx, c.options.Root, dataset.Key).Close()
	for _, p := range parts {
		m, err := c.find(p.Kind, p.Key)
		if err != nil && !errors.Is(err, manifest.ErrDamaged) {
			return false, err
		}
		if m == nil || m.Digest != p.Digest {
			return false, nil // the shards are looked up one by one, and the missing ones built
		}
		if p.Kind == mmapcache.ArenasKind {
			c.notePart(m, true)
		}
	}
	c.notePart(dataset, true)
	c.result.Shards = &cachestore.ShardCount{Total: len(facts.Shards), Found: len(facts.Shards)}
	c.result.Facts = facts.StructureFacts
	c.result.Facts.Skipped = slices.Clone(facts.Skipped)
	c.locateSkipped(&c.result.Facts)
	if err := c.enforceFlags(c.result.Facts); err != nil {
		return false, err
	}
	c.warnWithoutChecksum()
	return true, c.complete(dataset, false)
}

// shardPlace is a shard of a unit.
type shardPlace struct{ unit, shard int }

// checkSessions refuses two sessions of one name in different shards, as merger.registerSessions does within one. Of each name it
// keeps a hash and the number of its shard; where two are equal, it reads the rows again to compare and to name them.
func (s *sharding) checkSessions(ctx context.Context) error {
	first, seed := map[uint64]uint32{}, maphash.MakeSeed()
	var places []shardPlace
	for u, list := range s.shards {
		for k, sh := range list {
			ids, err := mmapcache.SessionIDs(s.options.Root, sh.structure)
			if err != nil {
				return err
			}
			here := uint32(len(places))
			places = append(places, shardPlace{u, k})
			for _, id := range ids {
				hash := maphash.String(seed, id)
				if at, taken := first[hash]; taken && at != here {
					if err := s.refuseSame(ctx, id, places[at], places[here]); err != nil {
						return err
					}
				}
				first[hash] = here
			}
		}
	}
	return nil
}

// refuseSame returns an error where the first of two shards has a session of a name that the second has too.
func (s *sharding) refuseSame(ctx context.Context, id string, first, second shardPlace) error {
	ids, err := mmapcache.SessionIDs(s.options.Root, s.shards[first.unit][first.shard].structure)
	if err != nil || !slices.Contains(ids, id) {
		return err
	}
	if s.options.SkipInvalid {
		return errCoupled // which of them is left out, only one structure of all rows knows
	}
	there, err := s.locate(ctx, id, first)
	if err != nil {
		return err
	}
	here, err := s.locate(ctx, id, second)
	if err != nil {
		return err
	}
	return &InvalidTraceError{here.location, secondSession(here.plan.Trace.ID, id, there.position.String()), true}
}

// locate reads the file of a shard again, and returns the row that has a session of a name. The file of its position is that of the
// whole input.
func (s *sharding) locate(ctx context.Context, id string, at shardPlace) (found plannedTrace, err error) {
	u, most, rows := s.units[at.unit], s.options.shardRows, 0
	files := u.files(s.snapshot)
	err = files.Rows(ctx, weka.ColumnPaths(), nil, func(row hfsource.Row) error {
		rows++
		if (rows-1)/most != at.shard {
			row.Free()
			return ctx.Err()
		}
		p := planRow(row, files, s.options.Rules)
		p.memory.Release()
		if p.plan != nil && slices.ContainsFunc(p.plan.Sessions, func(s mmapcache.Session) bool { return s.ID == id }) {
			p.position.file += u.from
			found = p
			return errStop
		}
		return ctx.Err()
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return found, err
}

// errStop ends the reading of a file.
var errStop = errors.New("the row is known")
