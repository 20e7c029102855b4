// Package journal writes and reads what a session of a capture leaves on disk while it runs: a text file that only grows.
//
// A line is the CRC-32C of its JSON in eight hexadecimal digits, a blank, the JSON, and LF. It holds integers and words of
// closed lists, besides the trace's id, the tokenizer and the names of models. doc/spec/capture.md 9.1 has every line.
//
// Files: folder.go (the folder of a capture, its lock, and the writer of a journal), lines.go (what the lines hold, and their bytes),
// session.go (bytes to a Session, up to the first line that is not as the writer writes it), words.go (closed lists).
package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// version is that of the lines.
const version = 1

// Entry is a line of the journal: a Head, Model, Begin, IDs, Hole, End, Agent or Final.
type Entry interface {
	// pass writes the members of the line in their order, or reads them into the line that it returns.
	pass(f *fields) Entry
	// apply adds the line to a session. An error is about a line that breaks a rule; the session is as before.
	apply(s *Session) error
}

// kinds has the line of each kind.
var kinds = map[string]Entry{
	"head": Head{}, "model": Model{}, "begin": Begin{}, "ids": IDs{}, "hole": Hole{}, "end": End{}, "agent": Agent{}, "final": Final{},
}

// Bounds of the numbers of a line.
const (
	maxRequests = 1 << 26 // of a session
	MaxTokens   = 1 << 24 // of a prompt or an answer, as traces have it
	maxBlocks   = 1 << 26 // of a session
	maxMillis   = 1 << 40 // 34 years
	maxAgents   = 1 << 20
	maxStatus   = 999
)

// Head is the first line: of which session the journal is, and how its trace is to be written.
type Head struct {
	Trace     string // cap- of a capture, imp- of an import, and 8 hexadecimal digits
	BlockSize int
	Canon     string // canon-1
	Tokenizer string
	By        By
	Format    string // of the log, of an import from one format; else ""
	Export    Export
}

// pass writes or reads a head line. A reader refuses another version.
func (h Head) pass(f *fields) Entry {
	v := version
	f.begin("head")
	number(f, "v", &v, 0, math.MaxInt32)
	if v != version {
		f.fail(fmt.Errorf("version %d: this agentx reads %d", v, version))
	}
	word(f, "trace", &h.Trace, nil)
	number(f, "bs", &h.BlockSize, 0, MaxTokens)
	word(f, "canon", &h.Canon, nil)
	word(f, "tok", &h.Tokenizer, nil)
	word(f, "by", &h.By, nil)
	word(f, "format", &h.Format, plainName().MatchString, "")
	e := &h.Export
	milliseconds(f, "grid", &e.Grid)
	milliseconds(f, "gap", &e.MaxGap)
	set(f, "mask", &e.Masks, MaskNames)
	word(f, "holes", &e.Holes, nil, HolesCut)
	number(f, "min", &e.MinRequests, 0, math.MaxInt32, 0)
	word(f, "scope", &e.Scope, nil, ScopeTrace)
	if f.reads {
		f.fail(h.Validate())
	}
	return h
}

// Validate returns what is wrong with a head.
func (h Head) Validate() error {
	switch {
	case !traceName().MatchString(h.Trace):
		return fmt.Errorf("trace %.40q: want cap- or imp- and 8 hexadecimal digits", h.Trace)
	case h.BlockSize < 1 || h.BlockSize > MaxTokens:
		return fmt.Errorf("block size %d: want 1 to %d tokens", h.BlockSize, MaxTokens)
	case !plainName().MatchString(h.Canon):
		return fmt.Errorf("canon %.40q: want %s", h.Canon, namePattern)
	case !plainName().MatchString(h.Tokenizer):
		return fmt.Errorf("tokenizer %.40q: want %s", h.Tokenizer, namePattern)
	case !slices.Contains(ways, h.By):
		return fmt.Errorf("by %.40q: want one of %v", h.By, ways)
	}
	return h.Export.Validate()
}

// Export says how the trace of a session is written. The zero value is the default of each flag.
type Export struct {
	Grid        time.Duration // times are multiples of it; 0: 10 ms
	MaxGap      time.Duration // longer idle gaps are cut to it; 0: none is
	Masks       Masks
	Holes       Holes
	MinRequests int // shorter traces are not written; 0: 1
	Scope       Scope
}

// DefaultGrid is the grid of times.
const DefaultGrid = 10 * time.Millisecond

// maxGrid bounds the grid: a coarser one leaves nothing of a session's rhythm.
const maxGrid = time.Hour

// whole reports whether a duration is of whole milliseconds, as a head can hold it.
func whole(d time.Duration) bool { return d >= 0 && d%time.Millisecond == 0 }

// Validate returns what is wrong with how a trace is to be written.
func (e Export) Validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(!whole(e.Grid), "grid %v: want whole milliseconds, at least 1ms", e.Grid)
	add(whole(e.Grid) && e.Grid > maxGrid, "grid %v: want at most %v", e.Grid, maxGrid)
	add(!whole(e.MaxGap), "max-gap %v: want whole milliseconds, or 0 for no limit", e.MaxGap)
	add(e.Masks > allMasks, "masks %d: want a set of %v", e.Masks, MaskNames)
	add(e.Holes != HolesCut && e.Holes != HolesDrop && e.Holes != HolesKeep, "holes %q: want cut, drop or keep", e.Holes)
	add(e.Scope != ScopeTrace && e.Scope != ScopeDataset, "scope %q: want trace or dataset", e.Scope)
	add(e.MinRequests < 0, "min-requests %d: want at least 1", e.MinRequests)
	return errors.Join(errs...)
}

// WithDefaults returns the export with the default of each flag that is not given.
func (e Export) WithDefaults() Export {
	e.Grid, e.MinRequests = cmp.Or(e.Grid, DefaultGrid), cmp.Or(e.MinRequests, 1)
	return e
}

// Masks is a set of what a trace hides.
type Masks uint8

// What a trace can hide.
const (
	MaskModels       Masks = 1 << iota // models become model-1, model-2, ...
	MaskPrefixCounts                   // tool_tokens and system_tokens become 0
	MaskTails                          // in mod block size is drawn anew

	allMasks = 1<<iota - 1
)

// MaskNames has the word of each mask, in their order.
var MaskNames = []string{"models", "prefix-counts", "tails"}

// Names returns the words of a set of masks.
func (m Masks) Names() []string { return namesOf(m, MaskNames) }

// MaskOf returns the mask of a word, 0 where it is none.
func MaskOf(name string) Masks {
	if k := slices.Index(MaskNames, name); k >= 0 {
		return 1 << k
	}
	return 0
}

// Holes says what becomes of a trace with a hole.
type Holes string

// What becomes of a trace with a hole.
const (
	HolesCut  Holes = ""     // it ends before the first
	HolesDrop Holes = "drop" // it is not written
	HolesKeep Holes = "keep" // everything known is written
)

// HolesOf returns what a word of a command line means: cut, drop or keep.
func HolesOf(word string) Holes { return Holes(strings.TrimPrefix(word, "cut")) }

// Scope says between which traces equal numbers of blocks mean equal blocks.
type Scope string

// Scopes of numbers.
const (
	ScopeTrace   Scope = ""        // within one
	ScopeDataset Scope = "dataset" // between all traces of one import
)

// ScopeOf returns what a word of a command line means: trace or dataset.
func ScopeOf(word string) Scope { return Scope(strings.TrimPrefix(word, "trace")) }

// Model names the model of an index, before the first line that uses it.
type Model struct {
	Index int
	Name  string
}

// pass writes or reads a model line.
func (v Model) pass(f *fields) Entry {
	f.begin("model")
	number(f, "i", &v.Index, 0, maxAgents)
	word(f, "name", &v.Name, plainName().MatchString)
	return v
}

// Place is the agent of a request. The zero value is the agent without an id.
type Place struct {
	Agent  int
	Parent int  // the agent that made it; 0 for agent 0
	Via    Tier // the evidence; 0 for agent 0
}

// place writes or reads an agent. That without an id has no parent and needs no evidence.
func place(f *fields, p *Place, usual ...int) {
	number(f, "a", &p.Agent, 0, maxAgents, usual...)
	if p.Agent == 0 {
		return
	}
	number(f, "pa", &p.Parent, 0, maxAgents)
	number(f, "via", &p.Via, 0, int64(TierLinkage), 0)
	if f.reads && (p.Via < TierHeader || p.Agent == p.Parent) {
		f.fail(fmt.Errorf("agent %d: evidence %d and parent %d: want evidence of 1 to %d, and another agent as parent", p.Agent, p.Via, p.Parent, TierLinkage))
	}
}

// Begin says that a request arrived. Times are milliseconds since the first arrival of the session.
type Begin struct {
	Q int // number of the request, in the order of arrival
	T int64
	Place
}

// pass writes or reads a begin line.
func (v Begin) pass(f *fields) Entry {
	f.begin("begin")
	number(f, "q", &v.Q, 0, maxRequests)
	number(f, "t", &v.T, 0, maxMillis)
	place(f, &v.Place)
	return v
}

// IDs says which blocks the prompt of a request has. Their ids are the first Keep of those of request Base, and New from the
// session's counter.
type IDs struct {
	Q      int
	Model  int
	Stream bool
	In     int // tokens
	Tools  int // of them, of tool definitions
	System int
	Base   int // the request with the longest common list; -1: none
	Keep   int
	New    int
	Input  Kinds   // of the blocks behind those that it shares with its predecessor
	Media  int     // tokens of images, documents and audio
	Moved  *Place  // the request's agent, where Begin named another; nil where it did not
	Anew   bool    // of an import: the log has compacted what stood before
	Tool   int64   // of an import: milliseconds before the request in which tools ran; 0 also where the log does not say
	Global []int64 // of ScopeDataset: the numbers of the New blocks in all traces, as runs: the first, and how many; and so on
}

// pass writes or reads an ids line. The place is left out unless the agent moved.
func (v IDs) pass(f *fields) Entry {
	var stream int
	if v.Stream {
		stream = 1
	}
	f.begin("ids")
	number(f, "q", &v.Q, 0, maxRequests)
	number(f, "m", &v.Model, 0, maxAgents)
	number(f, "s", &stream, 0, 1)
	number(f, "in", &v.In, 0, MaxTokens)
	number(f, "tool", &v.Tools, 0, MaxTokens)
	number(f, "sys", &v.System, 0, MaxTokens)
	number(f, "base", &v.Base, -1, maxRequests)
	number(f, "keep", &v.Keep, 0, MaxTokens)
	number(f, "new", &v.New, 0, MaxTokens)
	number(f, "it", &v.Input, 0, allKinds)
	number(f, "media", &v.Media, 0, MaxTokens, 0)
	var moved Place
	if v.Moved != nil {
		moved = *v.Moved
	}
	if place(f, &moved, 0); moved.Agent != 0 {
		v.Moved = &moved
	}
	var anew int
	if v.Anew {
		anew = 1
	}
	number(f, "anew", &anew, 0, 1, 0)
	number(f, "tt", &v.Tool, 0, maxMillis, 0)
	numbers(f, "g", &v.Global)
	v.Anew = anew == 1
	v.Stream = stream == 1
	return v
}

// Hole stands in place of IDs where a prompt was lost.
type Hole struct {
	Q      int
	Reason Reason
}

// pass writes or reads a hole line.
func (v Hole) pass(f *fields) Entry {
	f.begin("hole")
	number(f, "q", &v.Q, 0, maxRequests)
	word(f, "why", &v.Reason, of(holes))
	return v
}

// End says how an exchange ended. First is the instant of the first output, -1 where there was none.
type End struct {
	Q        int
	T, First int64
	X        Outcome
	Status   int // of HTTP; 0 without one
	Out      int // tokens
	Output   Kinds
	Stop     Stop
	Marks    Mark
	Word     string // the API's own word for why it stopped, as StopWord returns it; "" where it is that of Stop
	Calls    int    // of tools
	API      int    // prompt tokens that the API counted; 0 where it did not say
	Lost     Reason // why nothing is known of the reply, where X is Aborted and the exchange itself went on; else ""
}

// pass writes or reads an end line. Members with the usual value are left out.
func (v End) pass(f *fields) Entry {
	f.begin("end")
	number(f, "q", &v.Q, 0, maxRequests)
	number(f, "t", &v.T, 0, maxMillis)
	number(f, "first", &v.First, -1, maxMillis)
	word(f, "x", &v.X, of(outcomes))
	number(f, "status", &v.Status, 0, maxStatus)
	number(f, "out", &v.Out, 0, MaxTokens)
	number(f, "ot", &v.Output, 0, allKinds)
	number(f, "stop", &v.Stop, 0, int64(stops)-1)
	set(f, "marks", &v.Marks, markNames)
	word(f, "word", &v.Word, of(stopWords), v.Stop.String(), "")
	calls := 0 // an answer has one call, or none, where it is not said to have another number
	if v.Output&ToolUse != 0 {
		calls = 1
	}
	number(f, "calls", &v.Calls, 0, MaxTokens, calls)
	number(f, "api", &v.API, 0, math.MaxInt32, 0)
	word(f, "why", &v.Lost, func(why string) bool { return v.X == Aborted && of(holes)(why) }, "")
	return v
}

// Agent tells of a subagent what is learnt after its first request began.
type Agent struct {
	Agent  int
	Type   AgentType // "" where nothing is known of it
	Result int       // request with the result of the call that made it; 0: not seen
}

// pass writes or reads an agent line.
func (v Agent) pass(f *fields) Entry {
	f.begin("agent")
	number(f, "a", &v.Agent, 0, maxAgents)
	word(f, "type", &v.Type, of(agentTypes), "")
	number(f, "result", &v.Result, 0, maxRequests, 0)
	return v
}

// Final says why the session was finished.
type Final struct{ Why Why }

// pass writes or reads a final line.
func (v Final) pass(f *fields) Entry {
	f.begin("final")
	word(f, "why", &v.Why, of(whys))
	return v
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefix of a line: the place of its CRC, and a blank.
const prefix = "00000000 "

// fields is the JSON of a line, over whose members one function passes to write and to read them. Words are of closed lists or
// patterns, so that none needs an escape.
type fields struct {
	text  []byte // that is written, or what is left of it to be read
	reads bool
	err   error // the first one
}

// errOther is about a line with other members, in another order or spelling.
var errOther = errors.New("its members, or their order or spelling, are not those that this version of agentx writes")

// fail keeps the first error of a line.
func (f *fields) fail(err error) {
	if f.err == nil {
		f.err = err
	}
}

// begin begins a line of a kind. A reader has found its kind before.
func (f *fields) begin(kind string) {
	if !f.reads {
		f.text = fmt.Appendf(f.text, `{"k":"%s"`, kind)
	}
}

// member writes or reads the key of a member. It reports false for a member that is left out because its value is a usual one; a reader
// then sets the first of these.
func member[T comparable](f *fields, name string, v *T, usual []T) bool {
	key := `,"` + name + `":`
	if !f.reads {
		if slices.Contains(usual, *v) {
			return false
		}
		f.text = append(f.text, key...)
		return true
	}
	rest, found := bytes.CutPrefix(f.text, []byte(key))
	if f.text = rest; found {
		return true
	}
	if len(usual) == 0 {
		f.fail(errOther)
		return false
	}
	*v = usual[0]
	return false
}

// take takes the text up to the first byte that is one of until.
func (f *fields) take(until string) []byte {
	end := max(0, bytes.IndexAny(f.text, until))
	value := f.text[:end]
	f.text = f.text[end:]
	return value
}

// number writes or reads a number. A reader refuses one that is not in least to most.
func number[N ~int | ~int64 | ~uint8](f *fields, name string, v *N, least, most int64, usual ...N) {
	if !member(f, name, v, usual) {
		return
	}
	if !f.reads {
		f.text = strconv.AppendInt(f.text, int64(*v), 10)
		return
	}
	n, err := strconv.ParseInt(string(f.take(",}")), 10, 64)
	switch {
	case err != nil:
		f.fail(errOther)
	case n < least || n > most:
		f.fail(fmt.Errorf("%s %d: want %d to %d", name, n, least, most))
	default:
		*v = N(n)
	}
}

// milliseconds writes or reads a duration. One of 0 is left out.
func milliseconds(f *fields, name string, d *time.Duration) {
	ms := d.Milliseconds()
	number(f, name, &ms, 0, maxMillis, 0)
	*d = time.Duration(ms) * time.Millisecond
}

// word writes or reads a word. A reader refuses one that is not good; a nil good takes any.
func word[S ~string](f *fields, name string, v *S, good func(string) bool, usual ...S) {
	if !member(f, name, v, usual) {
		return
	}
	if !f.reads {
		f.text = append(append(append(f.text, '"'), *v...), '"')
		return
	}
	text := f.take(",}")
	if len(text) < 2 || text[0] != '"' || text[len(text)-1] != '"' {
		f.fail(errOther)
		return
	}
	if *v = S(text[1 : len(text)-1]); good != nil && !good(string(*v)) {
		f.fail(fmt.Errorf("%s %.40q: not a value that this version of agentx writes", name, string(*v)))
	}
}

// of returns a function that reports whether a word is in a list.
func of[S ~string](list []S) func(string) bool {
	return func(word string) bool { return slices.Contains(list, S(word)) }
}

// set writes or reads a set as the list of its words. An empty set is left out.
func set[S ~uint8](f *fields, name string, v *S, all []string) {
	if !member(f, name, v, []S{0}) {
		return
	}
	names := namesOf(*v, all)
	if !f.reads {
		text, _ := json.Marshal(names) // words always marshal
		f.text = append(f.text, text...)
		return
	}
	if err := json.Unmarshal(append(f.take("]"), ']'), &names); err != nil {
		f.fail(errOther)
		return
	}
	f.text = f.text[1:]
	for _, name := range names {
		k := slices.Index(all, name)
		if k < 0 {
			f.fail(fmt.Errorf("%.40q: want one of %v", name, all))
			return
		}
		*v |= 1 << k
	}
}

// numbers writes or reads a list of numbers. An empty one is left out.
func numbers(f *fields, name string, list *[]int64) {
	some := len(*list) > 0
	if !member(f, name, &some, []bool{false}) {
		return
	}
	if !f.reads {
		text, _ := json.Marshal(*list) // numbers always marshal
		f.text = append(f.text, text...)
		return
	}
	if err := json.Unmarshal(append(f.take("]"), ']'), list); err != nil {
		f.fail(errOther)
		return
	}
	f.text = f.text[1:]
}

// namesOf returns the words of a set.
func namesOf[S ~uint8](set S, all []string) (names []string) {
	for k, name := range all {
		if set&(1<<k) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// encode writes a line into a buffer.
func encode(buffer []byte, e Entry) []byte {
	f := fields{text: append(buffer[:0], prefix...)}
	e.pass(&f)
	return seal(append(f.text, '}', '\n'))
}

// seal writes the CRC of a line.
func seal(line []byte) []byte {
	sum := binary.BigEndian.AppendUint32(nil, crc32.Checksum(line[len(prefix):len(line)-1], castagnoli))
	hex.Encode(line, sum)
	return line
}

// parse reads a line without its LF. It takes no line but those that encode writes.
func parse(line []byte) (Entry, error) {
	if len(line) <= len(prefix) || !bytes.Equal(seal(append(slices.Clone(line), '\n'))[:len(prefix)], line[:len(prefix)]) {
		return nil, errors.New("its CRC does not fit its content")
	}
	text, found := bytes.CutPrefix(line[len(prefix):], []byte(`{"k":"`))
	kind, text, ended := bytes.Cut(text, []byte(`"`))
	if !found || !ended {
		return nil, errors.New(`its JSON does not begin with {"k":"KIND"`)
	}
	e := kinds[string(kind)]
	if e == nil {
		return nil, fmt.Errorf("unknown kind %.40q", kind)
	}
	f := fields{text: text, reads: true}
	e = e.pass(&f)
	if f.err == nil && !bytes.Equal(encode(nil, e), append(slices.Clone(line), '\n')) {
		f.err = errOther
	}
	return e, f.err
}
