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

// Selection says which turns to visit. The zero value selects all.
type Selection struct {
	Trace   string // id; "": all
	Session string // id; "": all
	Turn    *int   // number within the session, from 0; nil: all
}

// Validate returns an error about a turn below 0.
func (sel Selection) Validate() error {
	if sel.Turn != nil && *sel.Turn < 0 {
		return fmt.Errorf("selection: turn %d: want 0 or more", *sel.Turn)
	}
	return nil
}

// EachTurn calls visit for every selected turn. session and turn count within the trace. It fails where nothing is
// selected, and stops at the first error, that of ctx included.
func (c *Cache) EachTurn(ctx context.Context, sel Selection, encoding Encoding, visit func(t *RenderedTrace, session int, turn int) error) error {
	if err := sel.Validate(); err != nil {
		return err
	}
	found, longest := false, 0
	err := c.EachShard(func(first int, tables *Structure) error {
		for i := range tables.Traces.Len() {
			if sel.Trace != "" && tables.Traces.At(i).ID != sel.Trace {
				continue
			}
			t, err := c.Render(first+i, encoding)
			if err != nil {
				return err
			}
			visited, most, err := c.eachTurn(ctx, sel, t, visit)
			if err != nil {
				return err
			}
			found, longest = found || visited, max(longest, most)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return sel.notFound(longest)
	}
	return nil
}

// eachTurn is EachTurn of one trace. visited says that a turn is selected, and longest how many turns the longest session has
// of those that are.
func (c *Cache) eachTurn(ctx context.Context, sel Selection, t *RenderedTrace, visit func(t *RenderedTrace, session int, turn int) error) (visited bool, longest int, err error) {
	for n, s := range t.Sessions {
		if sel.Session != "" && s.ID != sel.Session {
			continue
		}
		longest = max(longest, int(s.Turns))
		first, end := sel.turns(int(s.Turns))
		for k := first; k < end; k++ {
			visited = true
			if err := ctx.Err(); err != nil {
				return visited, longest, err
			}
			if err := c.Guard(func() error { return visit(t, n, int(s.FirstTurn)+k) }); err != nil {
				return visited, longest, err
			}
		}
	}
	return visited, longest, nil
}

// turns returns the selected turns [first, end) of a session of n turns.
func (sel Selection) turns(n int) (first, end int) {
	if sel.Turn == nil {
		return 0, n
	}
	return *sel.Turn, min(*sel.Turn+1, n)
}

// notFound is the error about a selection without turns. longest is the number of turns of its longest session.
func (sel Selection) notFound(longest int) error {
	what := "no turn"
	if sel.Turn != nil {
		what = fmt.Sprintf("no turn %d", *sel.Turn)
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

// WriteText writes the selected turns as stable text for people and golden files:
//
//	trace ID  scope local  block size 64  recorded start 3000 ms
//	session ID  weka_subagent  spawned by turn 0, return + 683 ms  joined by turn 1  marker 19.461 s to 27.3 s (absolute/end)
//	turn 0  t 19.461 s  api 2.04 s  think 0 s  in 11651  out 205  model M  ids 182, 0 cached
//	  system 8448 tokens, blocks 0+132: "TEXT"
//	  user 3203 tokens, blocks 132+50, filler 3: "TEXT"
//
// Blocks 0+132 are the 132 blocks of the trace from block 0 on; - is a time that was not recorded. TEXT is escaped as in
// JSON and, unless content is asked for, cut. A name with a space or an unprintable character is quoted. Buffer the
// writer: it gets one short line at a time.
func (c *Cache) WriteText(ctx context.Context, w io.Writer, sel Selection, content bool) error {
	var prompt Prompt
	var text []byte
	trace, session := "", ""
	return c.EachTurn(ctx, sel, c.TextEncoding(), func(t *RenderedTrace, n, turn int) error {
		if t.Trace.ID != trace {
			trace, session = t.Trace.ID, ""
			fmt.Fprintf(w, "trace %s  scope %s  block size %d%s\n", plain(trace), plain(t.Trace.Scope), t.Trace.BlockSize, t.startText())
		}
		s := t.Sessions[n]
		if s.ID != session {
			session = s.ID
			fmt.Fprintf(w, "session %s\n", s.describe())
		}
		u := t.Turns[turn]
		t.Prompt(turn, &prompt)
		fmt.Fprintf(w, "turn %d  t %s  api %s  think %s  in %d  out %s  model %s  ids %d, %d cached\n",
			turn-int(s.FirstTurn), secondsText(u.T), secondsText(u.APITime), secondsText(u.ThinkTime), u.In, u.outText(), plain(u.Model), u.HashIDs, u.CacheHits)
		for k, m := range prompt.Messages {
			text = prompt.AppendContent(text[:0], k)
			if !content {
				text = clipEscaped(text, 60)
			}
			quote := `"`
			if m.Recorded() {
				quote = "" // JSON
			}
			if _, err := fmt.Fprintf(w, "  %s %s: %s%s%s\n", m.Role, prompt.describe(k), quote, text, quote); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe says which blocks and fillers a message is made of.
func (p *Prompt) describe(k int) string {
	var parts []string
	tokens := 0
	for _, id := range p.segments(&p.Messages[k]) {
		s := &p.trace.Segments[id]
		tokens += p.trace.tokens(s)
		switch {
		case s.Flags&Filler != 0:
			parts = append(parts, fmt.Sprintf("filler %d", s.Count))
		case s.Flags&Head != 0:
			parts = append(parts, fmt.Sprintf("%d of block %d", s.Count, s.First))
		case s.Flags&Recorded != 0:
			parts = append(parts, fmt.Sprintf("message %d", s.First))
		case s.Flags&Prefix != 0:
			parts = append(parts, fmt.Sprintf("filler %d", s.Count))
		default:
			parts = append(parts, fmt.Sprintf("blocks %d+%d", s.First, s.Count))
		}
	}
	return fmt.Sprintf("%d tokens, %s", tokens, strings.Join(parts, ", "))
}

// describe says what a session is, and when it starts and ends.
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

// startText says when the trace began in its recording, "" where that is not known.
func (t *RenderedTrace) startText() string {
	if math.IsNaN(t.start) {
		return ""
	}
	return "  recorded start " + strconv.FormatFloat(t.start, 'f', -1, 64) + " ms"
}

// plain returns a name, in quotes where it could be taken for something else.
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
	cut = min(cut, len(text)) // in damaged text an escape may lack its end
	return append(text[:cut:cut], "..."...)
}

// outText writes the recorded completion of a turn for people.
func (t Turn) outText() string {
	if t.Out == NoLength {
		return "-"
	}
	return fmt.Sprint(t.Out)
}
