package cachestore

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A model of the removal of a dataset and its shard, beside a reader of that dataset and a builder of another dataset that names the
// same shard: every interleaving of the steps of two removers, the reader and the builder. Each may be killed before any step. A
// remover may be so slow that another process takes its lease over.

// sharedProtocol says what the modelled processes do.
type sharedProtocol struct {
	shardFirst    bool // wrong: the shard is removed before the dataset
	datasetsFirst bool // wrong: the remover looks which datasets name the shard, then reads the notes
	noDatasets    bool // wrong: the remover looks only before it marks the shard
	noNote        bool // wrong: the builder leaves no note
	noLook        bool // wrong: the builder reads no markers
	checkFirst    bool // wrong: the builder looks whether the shard exists, then writes its note
	noFence       bool // wrong: a remover that has lost the lease can still rename
}

// The steps at which a process of the model can be.
const (
	atStart = iota
	atEnd
	killedThen

	readerNotes
	readerLooks
	readerOpens
	readerUses // the dataset is open, and the shard is opened when a trace of it is asked for

	builderNotes
	builderLooks
	builderChecks
	builderBuilds
	builderPublishes
	builderCloses

	removerMarksDataset
	removerReadsNotesOfDataset
	removerRenamesDataset
	removerUnmarksDataset
	removerMarksShard
	removerReadsReader
	removerReadsBuilder
	removerReadsDatasets
	removerRenamesShard
	removerUnmarksShard
	removerReleases
)

// sharedWorld is a state of the model. It is comparable, so that each is looked at once.
type sharedWorld struct {
	first, second, shard bool // the datasets, and the shard that both name
	lease                int  // the remover that holds it; -1: none
	markedDataset        [2]bool
	markedShard          [2]bool
	readerNote           bool
	builderNote          bool
	reader, builder      int
	saw                  bool // the builder has seen the shard, checkFirst
	remover              [2]int
	unnamed              [2]bool // a remover has seen that no dataset names the shard
}

// sharedExplorer visits all worlds.
type sharedExplorer struct {
	sharedProtocol
	seen   map[sharedWorld]bool
	faults map[string]bool
}

func exploreShared(p sharedProtocol) *sharedExplorer {
	e := &sharedExplorer{p, map[sharedWorld]bool{}, map[string]bool{}}
	next := []sharedWorld{{first: true, shard: true, lease: -1}}
	for len(next) > 0 {
		w := next[len(next)-1]
		next = next[:len(next)-1]
		if e.seen[w] {
			continue
		}
		e.seen[w] = true
		if w.reader == readerUses && !w.shard {
			e.faults["removed although a reader uses it"] = true
		}
		if w.first && !w.shard {
			e.faults["missing of the dataset that is being removed"] = true
		}
		if w.second && !w.shard {
			e.faults["missing of the other dataset"] = true
		}
		next = append(next, e.steps(w)...)
	}
	return e
}

func (e *sharedExplorer) steps(w sharedWorld) (list []sharedWorld) {
	list = append(e.readerSteps(w), e.builderSteps(w)...)
	for k := range 2 {
		list = append(list, e.removerSteps(w, k)...)
		if w.remover[k] > killedThen {
			dead := w
			dead.remover[k] = killedThen
			list = append(list, dead)
		}
	}
	if w.reader > killedThen {
		dead := w
		dead.reader, dead.readerNote = killedThen, false // the note of a dead process does not count
		list = append(list, dead)
	}
	if w.builder > killedThen {
		dead := w
		dead.builder, dead.builderNote = killedThen, false
		list = append(list, dead)
	}
	return list
}

// takeLease takes the lease from its holder, dead or slow, with its markers.
func takeLease(w *sharedWorld) {
	if w.lease >= 0 {
		w.markedDataset[w.lease], w.markedShard[w.lease] = false, false
	}
	w.lease = -1
}

// readerSteps are the steps of a reader, which has read what the dataset names: write the note of both, read the markers, open the
// dataset, use the shard.
func (e *sharedExplorer) readerSteps(w sharedWorld) (list []sharedWorld) {
	to := func(at int, change func(*sharedWorld)) {
		next := w
		if next.reader = at; change != nil {
			change(&next)
		}
		list = append(list, next)
	}
	switch w.reader {
	case atStart:
		if w.first {
			to(readerNotes, nil)
		}
	case readerNotes:
		to(readerLooks, func(next *sharedWorld) { next.readerNote = true })
	case readerLooks:
		if w.markedDataset != [2]bool{} || w.markedShard != [2]bool{} {
			to(readerLooks, takeLease) // or it waits
		} else {
			to(readerOpens, nil)
		}
	case readerOpens:
		if w.first {
			to(readerUses, nil)
		} else {
			to(atEnd, func(next *sharedWorld) { next.readerNote = false })
		}
	case readerUses:
		to(atEnd, func(next *sharedWorld) { next.readerNote = false })
	}
	return list
}

// builderSteps are the steps of a builder: note the shard, read the markers, build the shard if it is missing, publish the dataset.
func (e *sharedExplorer) builderSteps(w sharedWorld) (list []sharedWorld) {
	to := func(at int, change func(*sharedWorld)) {
		next := w
		if next.builder = at; change != nil {
			change(&next)
		}
		list = append(list, next)
	}
	switch w.builder {
	case atStart:
		to(builderNotes, func(next *sharedWorld) { next.saw = w.shard && e.checkFirst })
	case builderNotes:
		to(builderLooks, func(next *sharedWorld) { next.builderNote = !e.noNote })
	case builderLooks:
		if w.markedShard != [2]bool{} && !e.noLook {
			to(builderLooks, takeLease) // or it waits
		} else {
			to(builderChecks, nil)
		}
	case builderChecks:
		if w.shard || w.saw {
			to(builderPublishes, nil)
		} else {
			to(builderBuilds, nil)
		}
	case builderBuilds:
		to(builderPublishes, func(next *sharedWorld) { next.shard = true })
	case builderPublishes:
		to(builderCloses, func(next *sharedWorld) { next.second = true })
	case builderCloses:
		to(atEnd, func(next *sharedWorld) { next.builderNote = false })
	}
	return list
}

// removerSteps are the steps of a remover: get the lease; mark the dataset, read the notes, rename it away; mark the shard, read the
// notes one by one, look which datasets name it, rename it away; give the lease back.
func (e *sharedExplorer) removerSteps(w sharedWorld, k int) (list []sharedWorld) {
	held := w.lease == k
	to := func(at int, change func(*sharedWorld)) {
		next := w
		if next.remover[k] = at; change != nil {
			change(&next)
		}
		list = append(list, next)
	}
	if w.remover[k] == atStart {
		first := removerMarksDataset
		if e.shardFirst {
			first = removerMarksShard
		}
		to(first, func(next *sharedWorld) { takeLease(next); next.lease = k })
		return list
	}
	e.datasetSteps(w, k, held, to)
	e.shardSteps(w, k, held, to)
	if w.remover[k] == removerReleases {
		to(atEnd, func(next *sharedWorld) {
			if held {
				takeLease(next)
			}
		})
	}
	return list
}

func (e *sharedExplorer) datasetSteps(w sharedWorld, k int, held bool, to func(int, func(*sharedWorld))) {
	then := removerMarksShard
	if e.shardFirst {
		then = removerReleases
	}
	switch w.remover[k] {
	case removerMarksDataset:
		if !held {
			to(atEnd, nil)
		} else {
			to(removerReadsNotesOfDataset, func(next *sharedWorld) { next.markedDataset[k] = true })
		}
	case removerReadsNotesOfDataset:
		if w.readerNote {
			to(removerReleases, nil) // it is in use
		} else {
			to(removerRenamesDataset, nil)
		}
	case removerRenamesDataset:
		if held || e.noFence {
			to(removerUnmarksDataset, func(next *sharedWorld) { next.first = false })
		} else {
			to(atEnd, nil)
		}
	case removerUnmarksDataset:
		to(then, func(next *sharedWorld) { next.markedDataset[k] = false })
	}
}

func (e *sharedExplorer) shardSteps(w sharedWorld, k int, held bool, to func(int, func(*sharedWorld))) {
	named := w.second || w.first && !e.shardFirst
	see := func(next *sharedWorld) { next.unnamed[k] = !named }
	switch w.remover[k] {
	case removerMarksShard:
		mark := func(next *sharedWorld) { next.markedShard[k] = true; see(next) }
		switch {
		case !held:
			to(atEnd, nil)
		case named:
			to(removerReleases, nil)
		case e.datasetsFirst:
			to(removerReadsDatasets, mark)
		default:
			to(removerReadsReader, mark)
		}
	case removerReadsReader:
		if w.readerNote {
			to(removerUnmarksShard, nil)
		} else {
			to(removerReadsBuilder, nil)
		}
	case removerReadsBuilder:
		switch {
		case w.builderNote:
			to(removerUnmarksShard, nil)
		case e.datasetsFirst || e.noDatasets:
			to(removerRenamesShard, nil)
		default:
			to(removerReadsDatasets, nil)
		}
	case removerReadsDatasets:
		switch {
		case named:
			to(removerUnmarksShard, nil)
		case e.datasetsFirst:
			to(removerReadsReader, see)
		default:
			to(removerRenamesShard, see)
		}
	case removerRenamesShard:
		if w.unnamed[k] && (held || e.noFence) {
			to(removerUnmarksShard, func(next *sharedWorld) { next.shard = false })
		} else {
			to(removerUnmarksShard, nil)
		}
	case removerUnmarksShard:
		then := removerReleases
		if e.shardFirst && w.first {
			then = removerMarksDataset
		}
		to(then, func(next *sharedWorld) { next.markedShard[k] = false })
	}
}

// A dataset goes before its shard. For the shard the remover writes a marker, reads the notes, and then looks which datasets name
// it: a builder that it does not see in the notes has published its dataset by then, or has yet to read the markers.
func TestRemovalProtocolKeepsSharedShards(t *testing.T) {
	e := exploreShared(sharedProtocol{})
	assert.Empty(t, e.faults)
	removed, shared, rebuilt := false, false, false
	for w := range e.seen {
		removed = removed || !w.first && !w.shard
		shared = shared || !w.first && w.second && w.builder == atEnd && w.remover == [2]int{atEnd, atEnd}
		rebuilt = rebuilt || w.builder == builderBuilds
	}
	assert.True(t, removed && shared && rebuilt, "the worlds in question are among the %d", len(e.seen))
	t.Log(len(e.seen), "worlds")
}

// Every protocol that lacks a part fails: the model sees faults.
func TestWeakerProtocolsLoseSharedShards(t *testing.T) {
	const used, first, second = "removed although a reader uses it", "missing of the dataset that is being removed", "missing of the other dataset"
	for name, c := range map[string]struct {
		sharedProtocol
		faults []string
	}{
		"the shard first":                      {sharedProtocol{shardFirst: true}, []string{first, used}},
		"datasets before notes":                {sharedProtocol{datasetsFirst: true}, []string{second}},
		"datasets before the marker alone":     {sharedProtocol{noDatasets: true}, []string{second}},
		"a builder without a note":             {sharedProtocol{noNote: true}, []string{second}},
		"a builder that reads no markers":      {sharedProtocol{noLook: true}, []string{second}},
		"a builder that looks before it notes": {sharedProtocol{checkFirst: true}, []string{second}},
		"a slow remover is not stopped":        {sharedProtocol{noFence: true}, []string{second}},
	} {
		faults := exploreShared(c.sharedProtocol).faults
		for _, want := range c.faults {
			assert.Contains(t, faults, want, name)
		}
		assert.Len(t, faults, len(c.faults), name)
	}
}
