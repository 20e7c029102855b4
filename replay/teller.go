package replay

import (
	"fmt"
	"time"
)

// teller says what a run has to say in a goroutine of its own, so that nobody who does not read holds up the conductor: of
// progress only the latest counts, and warnings wait for as long as there is room.
type teller struct {
	progress chan Progress
	warnings chan word
	over     chan struct{} // closed when nothing more is to come
	done     chan struct{} // closed when all has been said
	lost     int           // warnings that there was no room for
}

// word is a warning, or what is no more than told.
type word struct {
	text   string
	notice bool
}

// roomForWarnings is how many warnings may wait; lastWords is how long the end of a run waits for them to be said.
const (
	roomForWarnings = 1024
	lastWords       = 2 * time.Second
)

func newTeller(o Options) *teller {
	t := &teller{make(chan Progress, 1), make(chan word, roomForWarnings), make(chan struct{}), make(chan struct{}), 0}
	go t.tell(o.Progress, func(w word) {
		if w.notice {
			o.Notice(w.text)
		} else {
			o.Warn(w.text)
		}
	})
	return t
}

func (t *teller) tell(progress func(Progress), say func(word)) {
	defer close(t.done)
	for {
		select {
		case p := <-t.progress:
			progress(p)
		case w := <-t.warnings:
			say(w)
		case <-t.over:
			for len(t.warnings) > 0 {
				say(<-t.warnings)
			}
			if t.lost > 0 {
				say(word{text: fmt.Sprintf("and %d more warnings, for which there was no room", t.lost)})
			}
			return
		}
	}
}

// show hands over how far the run has come, in place of what has not been said yet.
func (t *teller) show(p Progress) {
	select {
	case <-t.progress:
	default:
	}
	t.progress <- p // only this goroutine fills it
}

// warn hands over a warning.
func (t *teller) warn(about string) { t.put(word{text: about}) }

// notice hands over what is no more than told.
func (t *teller) notice(about string) { t.put(word{about, true}) }

func (t *teller) put(w word) {
	select {
	case t.warnings <- w:
	default:
		t.lost++
	}
}

// end waits until all has been said, but not for ever.
func (t *teller) end() {
	close(t.over)
	select {
	case <-t.done:
	case <-time.After(lastWords):
	}
}
