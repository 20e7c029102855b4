package mmapcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// Selection says which turns to show: all, where Turn is None and the rest is empty.
type Selection struct {
	Trace   string
	Session string
	Turn    int // in its session; None for all
}

// EachTurn calls f for every selected turn: the rendered trace, the session's number, and the turn within the trace. It fails where
// nothing is selected, and ends when ctx does.
func (c *Cache) EachTurn(ctx context.Context, sel Selection, encoding Encoding, f func(t *RenderedTrace, session int, turn int) error) error {
	found, longest := false, 0
	for i := range c.Structure.Traces.Len() {
		if sel.Trace != "" && c.Structure.Traces.At(i).ID != sel.Trace {
			continue
		}
		t, err := c.Render(i, encoding)
		if err != nil {
			return err
		}
		for n, s := range t.Sessions {
			if sel.Session != "" && s.ID != sel.Session {
				continue
			}
			longest = max(longest, int(s.Turns))
			for k := range int(s.Turns) {
				if sel.Turn != None && k != sel.Turn {
					continue
				}
				found = true
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := c.Guard(func() error { return f(t, n, int(s.FirstTurn)+k) }); err != nil {
					return err
				}
			}
		}
	}
	if !found {
		return sel.missing(longest)
	}
	return nil
}

// missing is the error about a selection without turns, where its longest session has so many.
func (sel Selection) missing(longest int) error {
	what := "no turn"
	if sel.Turn != None {
		what = fmt.Sprintf("no turn %d", sel.Turn)
	}
	if sel.Session != "" {
		what += fmt.Sprintf(" of a session %q", sel.Session)
	}
	if sel.Trace != "" {
		what += fmt.Sprintf(" of a trace %q", sel.Trace)
	}
	what += " in this cache"
	if longest > 0 {
		what += fmt.Sprintf(": its longest session has %d, from 0 to %d", longest, longest-1)
	}
	return errors.New(what)
}

// WriteText writes the selected turns in the stable text form that goldens are written in:
//
//	trace ID  scope local  block size 64
//	session ID  weka_subagent  spawned by turn 0, return + 683 ms  joined by turn 1  marker 19.461 s to 27.3 s (absolute/end)
//	turn 0  t 19.461 s  api 2.04 s  think 0 s  in 11651  out 205  model M  ids 182, 0 cached
//	  system 8448 tokens, blocks 0+132: "TEXT"
//	  user 3203 tokens, blocks 132+50, filler 3: "TEXT"
//
// where blocks 0+132 are the 132 blocks from the trace's block 0 on, and - is a time that was not recorded. TEXT is
// escaped as in JSON; without content it is cut. A name with a space or a character that does not print stands in quotes. The writer is expected to buffer.
func (c *Cache) WriteText(ctx context.Context, w io.Writer, sel Selection, content bool) error {
	var prompt Prompt
	var text []byte
	trace, session := "", ""
	return c.EachTurn(ctx, sel, Text, func(t *RenderedTrace, n, turn int) error {
		if t.Trace.ID != trace {
			trace, session = t.Trace.ID, ""
			fmt.Fprintf(w, "trace %s  scope %s  block size %d\n", plain(trace), plain(t.Trace.Scope), t.Trace.BlockSize)
		}
		s := t.Sessions[n]
		if s.ID != session {
			session = s.ID
			fmt.Fprintf(w, "session %s\n", s.describe())
		}
		u := t.Turns[turn]
		t.Prompt(turn, &prompt)
		fmt.Fprintf(w, "turn %d  t %s  api %s  think %s  in %d  out %d  model %s  ids %d, %d cached\n",
			turn-int(s.FirstTurn), secondsText(u.T), secondsText(u.APITime), secondsText(u.ThinkTime), u.In, u.Out, plain(u.Model), u.HashIDs, u.CacheHits)
		for k, m := range prompt.Messages {
			text = prompt.AppendContent(text[:0], k)
			if !content {
				text = clipEscaped(text, 60)
			}
			if _, err := fmt.Fprintf(w, "  %s %s: \"%s\"\n", m.Role, prompt.describe(k), text); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe tells what a message is made of.
func (p *Prompt) describe(k int) string {
	var parts []string
	tokens := 0
	for _, id := range p.path[p.Messages[k].path[0]:p.Messages[k].path[1]] {
		s := &p.trace.Segments[id]
		tokens += p.trace.tokens(s)
		switch {
		case s.Part&Filler != 0:
			parts = append(parts, fmt.Sprintf("filler %d", s.Count))
		case s.Part&Head != 0:
			parts = append(parts, fmt.Sprintf("%d of block %d", s.Count, s.First))
		default:
			parts = append(parts, fmt.Sprintf("blocks %d+%d", s.First, s.Count))
		}
	}
	return fmt.Sprintf("%d tokens, %s", tokens, strings.Join(parts, ", "))
}

func (s Session) describe() string {
	if s.Parent == None {
		return fmt.Sprintf("%s  %s", plain(s.ID), s.Kind)
	}
	join := "joined by nobody"
	if s.JoinTurn != None {
		join = fmt.Sprintf("joined by turn %d", s.JoinTurn)
	}
	return fmt.Sprintf("%s  %s  spawned by turn %d, %s + %g ms  %s  marker %s to %s (%s)",
		plain(s.ID), s.Kind, s.SpawnTurn, s.SpawnFrom, s.SpawnOffset, join, secondsText(s.Start), secondsText(s.End), s.Clock)
}

// plain returns a name of the input as it is, in quotes where it could be taken for something else.
func plain(name string) string {
	if quoted := strconv.Quote(name); name == "" || strings.Contains(name, " ") || len(quoted) != len(name)+2 {
		return quoted
	}
	return name
}

func secondsText(s float64) string {
	if math.IsNaN(s) {
		return "-"
	}
	return fmt.Sprintf("%g s", s)
}

// clipEscaped shortens escaped text to about n bytes, never inside a character or an escape.
func clipEscaped(text []byte, n int) []byte {
	if len(text) <= n {
		return text
	}
	cut := 0
	for cut < n {
		switch {
		case text[cut] == '\\' && cut+1 < len(text) && text[cut+1] == 'u':
			cut += 6
		case text[cut] == '\\':
			cut += 2
		default:
			cut++
			for cut < len(text) && text[cut]&0xC0 == 0x80 {
				cut++
			}
		}
	}
	cut = min(cut, len(text)) // of damaged text
	return append(text[:cut:cut], "..."...)
}
