package capture

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Of the tasks of a lane one is at work at a time, in their order, while others run. Rest and end wait for lanes that are taken.
func TestLanes(t *testing.T) {
	for _, given := range []bool{false, true} {
		p := newPool(1, 1)
		var l lane
		var mu sync.Mutex
		ran := ""
		note := func(name string) func() {
			return func() {
				mu.Lock()
				defer mu.Unlock()
				ran += name
			}
		}
		p.run(&l, note("a"))
		p.run(&l, note("b"))
		p.run(&l, note("c"))
		require.True(t, p.call(note("-"))) // behind those that can run
		mu.Lock()
		require.Equal(t, "a", strings.ReplaceAll(ran, "-", ""))
		mu.Unlock()
		if given {
			p.giveUp()
			p.free(&l)
		} else {
			for range 3 {
				require.False(t, p.resting(), "a lane is taken")
				p.free(&l)
				p.call(note("-"))
			}
		}
		require.Eventually(t, p.resting, 10*time.Second, time.Millisecond)
		p.close()
		want := "abc"
		if given {
			want = "a"
		}
		require.Equal(t, want, strings.ReplaceAll(ran, "-", ""))
	}
}

// counting counts the bytes that are tokenized.
type counting struct {
	inner interface {
		AppendIDs(ids []uint32, text string) []uint32
	}
	mu   *sync.Mutex
	seen map[string]int // by text
}

func (c counting) AppendIDs(ids []uint32, text string) []uint32 {
	c.mu.Lock()
	c.seen[text]++
	c.mu.Unlock()
	return c.inner.AppendIDs(ids, text)
}

// Turns that come faster than they are recorded are tokenized once each, too: none is read before the one before it was applied.
func TestTurnsInARowAreTokenizedOnce(t *testing.T) {
	c := counting{mu: &sync.Mutex{}, seen: map[string]int{}}
	r := start(t, newScripted(), func(o *Options) {
		c.inner = o.Tokenizer
		o.Tokenizer = c
	})
	const turns = 12
	messages := ""
	held := make(chan struct{})
	for k := range turns {
		messages += fmt.Sprintf(`,{"role":"user","content":"words of turn %d"}`, k)
		r.do("/s/row"+chatPath, "whole", `{"model":"m","stream":true,"messages":[`+messages[1:]+`]}`)
		if k == 0 {
			r.sessions.byID[r.sessions.list()[0].Trace].recorder.tell(func() { <-held })
		}
	}
	close(held)
	s, _ := r.end()
	require.Equal(t, turns, s.Recorded)
	for k := range turns {
		require.Equal(t, 1, c.seen[fmt.Sprintf("words of turn %d", k)], "turn %d of %v", k, c.seen)
	}
	r.requireAtRest()
}
