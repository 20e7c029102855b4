package cachestore

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A model of the removal of a directory beside its readers: every interleaving of the steps of two removers and two
// readers. Each may be killed before any step, or be so slow that another one takes its lease over.

// protocol says what the modelled processes do.
type protocol struct {
	putBack    bool // the remover renames first, then reads the notes, and puts back what is in use
	notesFirst bool // wrong: the remover reads the notes, then writes its marker
	lookFirst  bool // wrong: a reader reads the markers, then writes its note
	noFence    bool // wrong: a remover that has lost the lease can still rename
	noTakeover bool // wrong: readers wait for a marker and do nothing about a dead remover
	readOnly   bool // readers can write no notes
}

// The steps at which a process of the model can be.
const (
	ended = iota - 1 // killed
	start
	noting   // reader: its note is there, and empty
	looking  // reader: reads the markers
	waiting  // reader: has seen a marker
	opening  // reader
	opened   // reader
	finished // either
	marking  // remover: has the lease
	reading0 // remover: reads the note of reader 0
	reading1 // remover: reads the note of reader 1
	renaming // remover
	unmarking
	deleting   // remover: what it has renamed away
	rereading0 // remover, putBack: reads the notes once more
	rereading1
	restoring
	releasing
)

// world is a state of the model. It is comparable, so that each is looked at once.
type world struct {
	there   bool    // the directory lies under its name
	aside   [2]bool // it lies in the directory of a remover
	marker  [2]bool
	lease   int // the remover that holds it; -1: none
	note    [2]bool
	reader  [2]int
	remover [2]int
	missed  [2]bool // a reader found nothing
}

// explorer visits all worlds.
type explorer struct {
	protocol
	seen   map[world]bool
	faults map[string]bool
}

func explore(p protocol) *explorer {
	e := &explorer{p, map[world]bool{}, map[string]bool{}}
	e.visit(world{there: true, lease: -1})
	return e
}

// visit checks a world and then visits those that are one step away.
func (e *explorer) visit(w world) {
	if e.seen[w] {
		return
	}
	e.seen[w] = true
	e.check(w)
	for _, next := range e.steps(w) {
		e.visit(next)
	}
}

// check records the faults of a world.
func (e *explorer) check(w world) {
	for k := range 2 {
		if w.reader[k] == opened && !w.there && !(e.readOnly && k == 1) {
			e.faults["removed although opened"] = true
		}
		if w.missed[k] && w.there {
			e.faults["missing for a moment"] = true
		}
		if w.reader[k] == opened && !w.there && w.remover[0] == ended && w.remover[1] == ended && !(e.readOnly && k == 1) {
			e.faults["lost by a kill although opened"] = true
		}
		if w.reader[k] != ended && !e.ends(w, k) {
			e.faults["blocked for good"] = true
		}
	}
}

// ends reports whether a reader comes to its end although all others are killed.
func (e *explorer) ends(w world, reader int) bool {
	w.remover = [2]int{ended, ended}
	w.reader[1-reader] = ended
	for range 20 {
		next := e.readerSteps(w, reader)
		if len(next) == 0 {
			return w.reader[reader] == finished
		}
		w = next[len(next)-1]
	}
	return false
}

func (e *explorer) steps(w world) (list []world) {
	for k := range 2 {
		list = append(list, e.readerSteps(w, k)...)
		list = append(list, e.removerSteps(w, k)...)
		if w.reader[k] != finished && w.reader[k] != ended {
			dead := w
			dead.reader[k], dead.note[k] = ended, false // the note of a dead process does not count
			list = append(list, dead)
		}
		if w.remover[k] != finished && w.remover[k] != ended {
			dead := w
			dead.remover[k] = ended
			list = append(list, dead)
		}
	}
	return list
}

// takeOver takes the lease from its holder, dead or slow, with its marker and what it has renamed away.
func takeOver(w *world) {
	if w.lease >= 0 {
		w.marker[w.lease], w.aside[w.lease] = false, false
	}
	w.lease = -1
}

// readerSteps are the steps of a reader: write the note, read the markers, open, close.
func (e *explorer) readerSteps(w world, k int) (list []world) {
	to := func(at int, change func(*world)) {
		next := w
		if next.reader[k] = at; change != nil {
			change(&next)
		}
		list = append(list, next)
	}
	marked := (w.marker[0] || w.marker[1]) && !e.putBack
	fill := func(next *world) { next.note[k] = true }
	switch w.reader[k] {
	case start:
		switch {
		case e.readOnly && k == 1:
			to(opening, nil)
		case e.lookFirst:
			if !marked {
				to(noting, nil)
			}
		default:
			to(noting, nil)
		}
	case noting:
		if e.lookFirst {
			to(opening, fill)
		} else {
			to(looking, fill)
		}
	case looking:
		if marked {
			to(waiting, nil)
		} else {
			to(opening, nil)
		}
	case waiting:
		if !marked {
			to(looking, nil)
		} else if !e.noTakeover {
			to(looking, takeOver)
		}
	case opening:
		if w.there {
			to(opened, nil)
		} else {
			to(finished, func(next *world) { next.missed[k], next.note[k] = true, false })
		}
	case opened:
		to(finished, func(next *world) { next.note[k] = false })
	}
	return list
}

// removerSteps are the steps of a remover: get the lease, write the marker, read the notes one by one, rename away, take
// the marker away, delete, and give the lease back.
func (e *explorer) removerSteps(w world, k int) (list []world) {
	to := func(at int, change func(*world)) {
		next := w
		if next.remover[k] = at; change != nil {
			change(&next)
		}
		list = append(list, next)
	}
	held := w.lease == k
	mark := func(next *world) { next.marker[k] = held }
	switch w.remover[k] {
	case start:
		first := marking
		if e.notesFirst || e.putBack {
			first = reading0
		}
		to(first, func(next *world) { takeOver(next); next.lease = k })
	case marking:
		switch {
		case !held:
			to(finished, nil)
		case e.notesFirst:
			to(renaming, mark)
		default:
			to(reading0, mark)
		}
	case reading0, reading1:
		switch {
		case w.note[w.remover[k]-reading0]:
			to(unmarking, nil)
		case w.remover[k] == reading0:
			to(reading1, nil)
		case e.notesFirst:
			to(marking, nil)
		default:
			to(renaming, nil)
		}
	case renaming:
		after := unmarking
		if e.putBack {
			after = rereading0
		}
		if held && w.there {
			to(after, func(next *world) { next.there, next.aside[k] = false, true })
		} else if e.noFence && w.there {
			to(after, func(next *world) { next.there = false })
		} else {
			to(unmarking, nil)
		}
	case rereading0, rereading1:
		switch {
		case w.note[w.remover[k]-rereading0]:
			to(restoring, nil)
		case w.remover[k] == rereading0:
			to(rereading1, nil)
		default:
			to(deleting, nil)
		}
	case restoring:
		to(releasing, func(next *world) { next.there, next.aside[k] = w.there || w.aside[k], false })
	case unmarking:
		to(deleting, func(next *world) { next.marker[k] = false })
	case deleting:
		to(releasing, func(next *world) { next.aside[k] = false })
	case releasing:
		to(finished, func(next *world) {
			if held {
				next.lease = -1
			}
		})
	}
	return list
}

// The remover writes a marker, then reads the notes; a reader writes its note, then reads the markers. So one of them
// sees the other.
func TestRemovalProtocolKeepsOpenedDirectories(t *testing.T) {
	for _, readOnly := range []bool{false, true} { // a reader without a note must not miss the directory for a moment either
		e := explore(protocol{readOnly: readOnly})
		assert.Empty(t, e.faults)
		removed, used, waited := false, false, false
		for w := range e.seen {
			removed = removed || !w.there
			used = used || w.reader == [2]int{opened, opened}
			waited = waited || w.reader[0] == waiting
		}
		assert.True(t, removed && used && waited, "the worlds in question are among the %d", len(e.seen))
		t.Log(len(e.seen), "worlds")
	}
}

// Putting back instead of marking fails, and so does every protocol that lacks a part of marking: the model sees faults.
func TestWeakerRemovalProtocolsFail(t *testing.T) {
	const removed, momentarily, lost, blocked = "removed although opened", "missing for a moment", "lost by a kill although opened", "blocked for good"
	for name, c := range map[string]struct {
		protocol
		faults []string
	}{
		"renamed away and put back":              {protocol{putBack: true}, []string{removed, momentarily, lost}},
		"renamed away and put back, read-only":   {protocol{putBack: true, readOnly: true}, []string{removed, momentarily, lost}},
		"notes before the marker":                {protocol{notesFirst: true}, []string{removed, lost}},
		"markers before the note":                {protocol{lookFirst: true}, []string{removed, lost, blocked}},
		"a slow remover is not stopped":          {protocol{noFence: true}, []string{removed, lost}},
		"the marker of a dead remover is obeyed": {protocol{noTakeover: true}, []string{blocked}},
	} {
		faults := explore(c.protocol).faults
		for _, want := range c.faults {
			assert.Contains(t, faults, want, name)
		}
		assert.Len(t, faults, len(c.faults), name)
	}
}
