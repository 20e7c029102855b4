package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"time"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefixLen is the length of what stands before the JSON of a line: the CRC and a blank.
const prefixLen = 9

// line is a line being written. Words are of closed lists or patterns, so that none needs an escape.
type line struct{ text []byte }

func newLine(buffer []byte, kind string) line {
	buffer = append(buffer[:0], "00000000 {\"k\":\""...)
	buffer = append(buffer, kind...)
	return line{append(buffer, '"')}
}

func (l *line) key(name string) {
	l.text = append(l.text, ',', '"')
	l.text = append(l.text, name...)
	l.text = append(l.text, '"', ':')
}

func (l *line) number(name string, v int64) {
	l.key(name)
	l.text = strconv.AppendInt(l.text, v, 10)
}

func (l *line) count(name string, v int) { l.number(name, int64(v)) }

// given writes a number unless it is 0.
func (l *line) given(name string, v int64) {
	if v != 0 {
		l.number(name, v)
	}
}

// word writes a word unless it is "".
func (l *line) word(name, v string) {
	if v != "" {
		l.key(name)
		l.text = append(append(append(l.text, '"'), v...), '"')
	}
}

// words writes a list unless it is empty.
func (l *line) words(name string, list []string) {
	if len(list) == 0 {
		return
	}
	l.key(name)
	for k, w := range list {
		l.text = append(l.text, "[,"[min(k, 1)], '"')
		l.text = append(append(l.text, w...), '"')
	}
	l.text = append(l.text, ']')
}

// end closes the line and writes its CRC.
func (l *line) end() []byte {
	l.text = append(l.text, '}', '\n')
	sum := crc32.Checksum(l.text[prefixLen:len(l.text)-1], castagnoli)
	for k := range 8 {
		l.text[7-k] = "0123456789abcdef"[sum>>(4*k)&15]
	}
	return l.text
}

// Entry is a line of the journal: a Head, Model, Begin, IDs, Hole, End, Agent or Final.
type Entry interface{ append(buffer []byte) []byte }

func (h Head) append(b []byte) []byte {
	l := newLine(b, "head")
	l.count("v", Version)
	l.word("trace", h.Trace)
	l.count("bs", h.BlockSize)
	l.word("canon", h.Canon)
	l.word("tok", h.Tokenizer)
	l.word("by", string(h.By))
	l.given("grid", h.Export.Grid.Milliseconds())
	l.given("gap", h.Export.MaxGap.Milliseconds())
	l.words("mask", h.Export.Masks.Names())
	l.word("holes", string(h.Export.Holes))
	l.given("min", int64(h.Export.MinRequests))
	return l.end()
}

// Names returns the words of a set of masks.
func (m Masks) Names() (names []string) {
	for k, name := range MaskNames {
		if m&(1<<k) != 0 {
			names = append(names, name)
		}
	}
	return names
}

func (m Model) append(b []byte) []byte {
	l := newLine(b, "model")
	l.count("i", m.Index)
	l.word("name", m.Name)
	return l.end()
}

// place writes an agent. That without an id has no parent and needs no evidence.
func (l *line) place(p Place) {
	l.count("a", p.Agent)
	if p.Agent != 0 {
		l.count("pa", p.Parent)
		l.count("via", int(p.Via))
	}
}

func (v Begin) append(b []byte) []byte {
	l := newLine(b, "begin")
	l.count("q", v.Q)
	l.number("t", v.T)
	l.place(v.Place)
	return l.end()
}

func (v IDs) append(b []byte) []byte {
	l := newLine(b, "ids")
	l.count("q", v.Q)
	l.count("m", v.Model)
	stream := 0
	if v.Stream {
		stream = 1
	}
	l.count("s", stream)
	l.count("in", v.In)
	l.count("tool", v.Tools)
	l.count("sys", v.System)
	l.count("base", v.Base)
	l.count("keep", v.Keep)
	l.count("new", v.New)
	l.count("it", int(v.Input))
	l.given("media", int64(v.Media))
	if v.Moved != nil {
		l.place(*v.Moved)
	}
	return l.end()
}

func (v Hole) append(b []byte) []byte {
	l := newLine(b, "hole")
	l.count("q", v.Q)
	l.word("why", string(v.Reason))
	return l.end()
}

// usualCalls returns how many tool calls an answer has that is not said to have another number.
func usualCalls(output Kinds) int {
	if output&ToolUse != 0 {
		return 1
	}
	return 0
}

func (v End) append(b []byte) []byte {
	l := newLine(b, "end")
	l.count("q", v.Q)
	l.number("t", v.T)
	l.number("first", v.First)
	l.word("x", string(v.X))
	l.count("status", v.Status)
	l.count("out", v.Out)
	l.count("ot", int(v.Output))
	l.count("stop", int(v.Stop))
	l.words("marks", v.Marks.Names())
	if v.Word != v.Stop.String() {
		l.word("word", v.Word)
	}
	if v.Calls != usualCalls(v.Output) {
		l.count("calls", v.Calls)
	}
	l.given("api", int64(v.API))
	l.word("why", string(v.Lost))
	return l.end()
}

func (v Agent) append(b []byte) []byte {
	l := newLine(b, "agent")
	l.count("a", v.Agent)
	l.word("type", string(v.Type))
	l.given("result", int64(v.Result))
	return l.end()
}

func (v Final) append(b []byte) []byte {
	l := newLine(b, "final")
	l.word("why", string(v.Why))
	return l.end()
}

// whole reports whether a duration is of whole milliseconds, as a head can hold it.
func whole(d time.Duration) bool { return d >= 0 && d%time.Millisecond == 0 }

// Validate returns what is wrong with how a trace is to be written.
func (e Export) Validate() error {
	var errs []error
	switch {
	case !whole(e.Grid):
		errs = append(errs, fmt.Errorf("grid %v: want whole milliseconds, at least 1ms", e.Grid))
	case e.Grid > maxGrid:
		errs = append(errs, fmt.Errorf("grid %v: want at most %v", e.Grid, maxGrid))
	}
	if !whole(e.MaxGap) {
		errs = append(errs, fmt.Errorf("max-gap %v: want whole milliseconds, or 0 for no limit", e.MaxGap))
	}
	if e.Masks > allMasks {
		errs = append(errs, fmt.Errorf("masks %d: want a set of %v", e.Masks, MaskNames))
	}
	if e.Holes != HolesCut && e.Holes != HolesDrop && e.Holes != HolesKeep {
		errs = append(errs, fmt.Errorf("holes %q: want cut, drop or keep", e.Holes))
	}
	if e.MinRequests < 0 {
		errs = append(errs, fmt.Errorf("min-requests %d: want at least 1", e.MinRequests))
	}
	return errors.Join(errs...)
}

// maxGrid bounds the grid: a coarser one leaves nothing of a session's rhythm.
const maxGrid = time.Hour

// WithDefaults returns the export with the default of each flag that is not given.
func (e Export) WithDefaults() Export {
	if e.Grid == 0 {
		e.Grid = DefaultGrid
	}
	if e.MinRequests == 0 {
		e.MinRequests = 1
	}
	return e
}
