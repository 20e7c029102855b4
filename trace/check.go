package trace

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits of a trace. What is beyond them is damage, or another unit.
const (
	MaxTokens    = 1 << 24 // of one prompt, completion or declared prefix: far above any model's context
	MaxBlockSize = 1 << 20 // tokens of a block: far above any in use, far below what would exhaust memory
	MaxSeconds   = 1e15    // a recorded time: far above any clock, far below what milliseconds as float64 hold
)

// Check refuses a trace with a value that nothing behind it takes: lengths, block size, ids, times, models. Negative ids, times
// and completions are valid: doc/spec/reconstruction.md 1.4. The error is always an *Error.
func (t *Trace) Check() error {
	if err := t.check(); err != nil {
		err.Trace = t.ID
		return err
	}
	return nil
}

// check is Check without the name of the trace in the error.
func (t *Trace) check() *Error {
	if err := CheckBlockSize(t.BlockSize); err != nil {
		return err.at("block_size")
	}
	if t.Scope > ScopeGlobal {
		return &Error{Kind: BadScope, Where: "hash_id_scope", Problem: fmt.Sprintf("scope %d: want absent, local or global", t.Scope)}
	}
	if err := checkPrefix("", t.ToolTokens, t.SystemTokens); err != nil {
		return err
	}
	for k := range t.Entries {
		e, where := &t.Entries[k], Place{k, None}
		if e.Subagent == nil {
			if err := e.Request.check(where, len(t.Models)); err != nil {
				return err
			}
			continue
		}
		if err := e.Subagent.check(where, len(t.Models)); err != nil {
			return err
		}
		if err := t.checkLinks(k, e.Subagent.Links); err != nil {
			return err.at(where.String())
		}
	}
	return nil
}

// checkLinks refuses links to requests that the trace does not have.
func (t *Trace) checkLinks(entry int, l *Links) *Error {
	if l == nil {
		return nil
	}
	n := len(t.Entries)
	if l.Parent != None {
		if l.Parent < 0 || l.Parent >= entry || t.Entries[l.Parent].Subagent == nil || t.Entries[l.Parent].Subagent.Links == nil {
			return &Error{Kind: Conflict, Problem: fmt.Sprintf("it hangs on entry %d: want a subagent with links above it", l.Parent)}
		}
		n = len(t.Entries[l.Parent].Subagent.Requests)
	}
	if l.After < 0 || l.After >= n || l.Before != None && (l.Before <= l.After || l.Before >= n) {
		return &Error{Kind: Conflict, Problem: fmt.Sprintf("it hangs on requests %d and %d of %d", l.After, l.Before, n)}
	}
	return nil
}

func (s *Subagent) check(where Place, models int) *Error {
	if err := CheckTime(s.T, nil, "seconds"); err != nil {
		return err.at(where.String() + ".t")
	}
	if err := checkPrefix(where.String()+".", s.ToolTokens, s.SystemTokens); err != nil {
		return err
	}
	for k := range s.Requests {
		if err := s.Requests[k].check(Place{where.Outer, k}, models); err != nil {
			return err
		}
	}
	return nil
}

func (r *Request) check(where Place, models int) *Error {
	if err := CheckLengths("in", "out", r.In, r.Out); err != nil {
		return err.at(where.String())
	}
	for _, time := range [...]struct {
		name string
		Seconds
	}{{"t", Seconds{r.T, true}}, {"api_time", r.APITime}, {"think_time", r.ThinkTime}} {
		if err := CheckTime(time.V, nil, "seconds"); err != nil && time.OK {
			return err.at(where.String() + "." + time.name)
		}
	}
	if !r.IDs.whole() {
		return &Error{Kind: Conflict, Where: where.String() + ".hash_ids", Problem: fmt.Sprintf("runs %v of a list of %d ids: want runs that are as long as possible, of that many ids together", r.IDs.Runs, r.IDs.Len)}
	}
	if r.Model < 0 || r.Model >= models {
		return &Error{Kind: MissingField, Where: where.String() + ".model", Problem: fmt.Sprintf("model %d of %d", r.Model, models)}
	}
	return nil
}

// whole reports whether the runs of a list are what its length says, and as long as possible.
func (l IDs) whole() bool {
	n := 0
	for k, r := range l.Runs {
		if r.N <= 0 || r.N > l.Len-n || k > 0 && r.First == l.Runs[k-1].First+int64(l.Runs[k-1].N) {
			return false
		}
		n += r.N
	}
	return n == l.Len
}

// checkPrefix refuses a declared size that is too large. where is the path before the names of the fields.
func checkPrefix(where string, tool, system int64) *Error {
	for k, n := range []int64{tool, system} {
		if n > MaxTokens || n < -MaxTokens { // sums must not overflow
			return &Error{Kind: TooLarge, Where: where + []string{"tool_tokens", "system_tokens"}[k], Problem: fmt.Sprintf("%d tokens: larger than %d", n, MaxTokens)}
		}
	}
	return nil
}

// CheckBlockSize refuses a block size.
func CheckBlockSize(tokens int64) *Error {
	if tokens > 0 && tokens <= MaxBlockSize {
		return nil
	}
	return &Error{Kind: BadBlockSize, Problem: fmt.Sprintf("block size %d: want 1 to %d tokens", tokens, MaxBlockSize)}
}

// CheckLengths refuses impossible lengths of a prompt and a completion, in tokens. The names are those of their fields.
func CheckLengths(inName, outName string, in, out int64) *Error {
	switch {
	case in < 0:
		return &Error{Kind: NegativeIn, Problem: fmt.Sprintf("%s = %d: a prompt cannot have a negative length", inName, in)}
	case in > MaxTokens || out > MaxTokens || out < -MaxTokens:
		return &Error{Kind: TooLarge, Problem: fmt.Sprintf("%s = %d, %s = %d: larger than %d tokens", inName, in, outName, out, MaxTokens)}
	}
	return nil
}

// CheckTime refuses a time beyond MaxSeconds, and NaN. text is the time as the file writes it, nil for the number itself.
func CheckTime(v float64, text []byte, unit string) *Error {
	if math.Abs(v) <= MaxSeconds {
		return nil
	}
	shown := Clip(text)
	if text == nil {
		shown = strconv.FormatFloat(v, 'g', -1, 64)
	}
	err := &Error{Kind: TooLarge, Problem: fmt.Sprintf("%s %s: beyond %g", shown, unit, MaxSeconds)}
	if math.IsInf(v, 0) || math.IsNaN(v) {
		err.Kind, err.Problem = NotFinite, shown+" is not a finite number"
	} else if date := SinceEpoch(v); date != "" {
		err.Problem = fmt.Sprintf("%s looks like %s since 1970: want %s", shown, date, unit)
	}
	return err
}

// SinceEpoch names the unit in which a number is a date between 2001 and 2100, counted from 1970: milliseconds or smaller.
// It returns "" for any other number.
func SinceEpoch(v float64) string {
	const from, to = 1e9, 4.1e9
	units := []string{"milliseconds", "microseconds", "nanoseconds"}
	per := []float64{1e3, 1e6, 1e9}
	k := slices.IndexFunc(per, func(n float64) bool { return v/n >= from && v/n < to })
	if k < 0 {
		return ""
	}
	return units[k]
}

// at adds the place of the field.
func (e *Error) at(where string) *Error {
	e.Where = where
	return e
}

// Error says what is wrong with a trace, and where in it. Readers and MakePlan return no other type.
type Error struct {
	Kind    ErrorKind
	Trace   string // its id, "" where that is not known yet
	Where   string // path of the field, such as requests[12].in, or the session
	Row     int    // of what only all rows of a file show: the number of a row, from 1; else 0
	Problem string
	Hint    string // what the user can do, if other traces of the file probably have the same problem; may be empty
}

func (e *Error) Error() string {
	s := e.Problem
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	if e.Trace != "" {
		s = fmt.Sprintf("trace %q: %s", e.Trace, s)
	}
	return s
}

// ErrorKind is a kind of invalid input.
type ErrorKind string

// Kinds that readers report.
const (
	NotJSON        ErrorKind = "not-json"      // the text is not JSON, or a string is not UTF-8
	UnknownKey     ErrorKind = "unknown-key"   // a key that strict rules do not allow, or that tells another format
	MissingField   ErrorKind = "missing-field" // a required key is missing or null
	WrongType      ErrorKind = "wrong-type"    // a string where a number belongs, and the like
	NotInteger     ErrorKind = "not-integer"   // a fraction where a whole number belongs
	IDRange        ErrorKind = "id-range"      // a whole number beyond 64 bits
	BadType        ErrorKind = "request-type"  // a type that strict rules do not have
	NestedSubagent ErrorKind = "nested-marker" // a subagent inside a subagent
	Unclear        ErrorKind = "unclear"       // a file whose rows have several readings: no row of it is read
	Contradiction  ErrorKind = "contradiction" // what a file of rows says, and a rule or a row says otherwise
)

// Kinds that Check reports, and readers too.
const (
	NotFinite    ErrorKind = "not-finite"  // a time beyond float64
	NegativeIn   ErrorKind = "negative-in" // a prompt of negative length
	BadBlockSize ErrorKind = "block-size"  // outside 1 to MaxBlockSize
	BadScope     ErrorKind = "scope"       // a hash_id_scope that does not exist, or that the rules do not have
	Conflict     ErrorKind = "conflict"    // two fields that contradict each other
	TooLarge     ErrorKind = "too-large"   // beyond MaxTokens, MaxSeconds or the memory
)

// Kinds that MakePlan reports, beside TooLarge and those of Check.
const (
	DuplicateID      ErrorKind = "duplicate-agent"       // two subagents with one agent_id
	PrefixTooLong    ErrorKind = "prefix"                // the declared prefix is longer than the first list
	JoinBeforeSpawn  ErrorKind = "join_before_spawn"     // a child would be joined before it is spawned (Refusals: "error")
	NegativeBranch   ErrorKind = "negative_branch_start" // a branch starts before time 0 (Refusals: "error")
	DuplicateSession ErrorKind = "duplicate_session"     // two sessions with one name
	BadTraceID       ErrorKind = "trace-id"              // an id with "::"
)

// maxShownValue bounds the bytes of a value that an error shows.
const maxShownValue = 40

// Clip shortens a value for an error.
func Clip(b []byte) string {
	if len(b) > maxShownValue {
		return strings.ToValidUTF8(string(b[:maxShownValue]), "") + "..."
	}
	return string(b)
}

// Oddity is valid input that is rarely intended.
type Oddity struct {
	Kind  string
	Count int
	First string // where the first is, and its value
}

// Oddities are the oddities of one trace, by kind.
type Oddities []Oddity

// Add counts an oddity. The text says where the first of its kind is, and its value.
func (o *Oddities) Add(kind, format string, args ...any) {
	for k := range *o {
		if (*o)[k].Kind == kind {
			(*o)[k].Count++
			return
		}
	}
	*o = append(*o, Oddity{Kind: kind, Count: 1, First: fmt.Sprintf(format, args...)})
}

// Kinds of oddities. The other kinds in oddityTexts begin with "negative_".
const (
	OddityShortIDs     = "short_hash_ids"
	OddityLongIDs      = "long_hash_ids"
	OddityBlockSize    = "block_size"
	OddityBackward     = "backward_t"
	OddityEpoch        = "t_since_1970"
	OddityGuessedBlock = "guessed_block_size"
	OddityFraction     = "fractional_timestamp"
	OddityNoRequests   = "no_requests"
	OddityEmptyAgent   = "empty_subagent"
	OddityDropped      = "dropped_subagent"

	// Of loads: package convert/loads. What the names mean is doc/spec/text.md 10.
	OddityBranch    = "branch"
	OddityMark      = "bom"
	OddityTruncated = "truncated_last_line"
	OddityFailed    = "failed_row"
	OddityEmpty     = "empty_prompt"
	OddityOrphan    = "parent_missing"
	OddityCycle     = "cycle"
	OddityLengths   = "lengths_alone" // what MakePlan says of LengthsAlone
	OddityCopied    = "copied_request"
	OddityIgnored   = "ignored:" // and a kind of rows
	OddityUnlinked  = "unlinked_wait"

	OddityAnswers      = "answers_as_filler" // asked for, so a strict conversion accepts it
	OddityMixedFormats = "mixed_forms"       // traces of several formats in one input; convert notices it
)

// oddityTexts says what each kind means, and what happens to it.
var oddityTexts = map[string]string{
	OddityShortIDs:        "hash_ids cover fewer blocks than the prompt has: filler takes their place",
	OddityLongIDs:         "hash_ids name more blocks than the prompt has: the others are not sent",
	OddityBlockSize:       "block_size is not a power of two up to 4096",
	OddityBackward:        "a request starts before the one above it",
	OddityEpoch:           "t looks like milliseconds since 1970, and is taken for seconds",
	OddityGuessedBlock:    "no row says the block size: it follows from input_length and the number of hash_ids of all rows",
	OddityFraction:        "a timestamp has a fraction, as seconds have, and is taken for milliseconds",
	OddityNoRequests:      "the trace has no requests",
	OddityEmptyAgent:      "a subagent has no requests",
	OddityDropped:         "a subagent stands above every request of its trace: it is left out",
	OddityBranch:          "a request is a second answer to the one before it: a session of its own begins there",
	OddityMark:            "a byte order mark stands before the first line: it is left out",
	OddityTruncated:       "the last line has no end and is no row: it is left out",
	OddityFailed:          "a request failed: it is left out",
	OddityEmpty:           "a prompt has no tokens",
	OddityOrphan:          "a request names one before it that the input does not have: it begins a session",
	OddityCycle:           "requests name one another as the one before: the first of them begins a session",
	OddityLengths:         "the recording has lengths and times alone: what its prompts share is not known, and they share nothing here",
	OddityCopied:          "a request stands twice: the second is left out",
	OddityUnlinked:        "a request waits, or does not wait, for others in a way that sessions cannot say: it is played in its session at its time",
	OddityAnswers:         "rows have what is new, as session_rows=new says: before it stand the rows before, and filler for each answer",
	OddityMixedFormats:    "traces of several formats become one dataset",
	"negative_t":          "t is negative",
	"negative_out":        "out is negative: 1 token is asked for",
	"negative_api_time":   "api_time is negative",
	"negative_think_time": "think_time is negative",
	"negative_duration":   "duration_ms is negative",
}

// Harmless reports whether a kind of oddity means that nothing is lost and nothing was chosen: strict conversions accept it.
func Harmless(kind string) bool {
	return kind == OddityAnswers || kind == OddityLengths || kind == OddityBranch || kind == OddityMark || kind == OddityCopied || strings.HasPrefix(kind, OddityIgnored)
}

// OddityText says what a kind of oddity means. It returns an unknown kind, of a later program, unchanged.
func OddityText(kind string) string {
	if text := oddityTexts[kind]; text != "" {
		return text
	}
	if rows, ignored := strings.CutPrefix(kind, OddityIgnored); ignored {
		return "rows of kind " + rows + " have nothing that is replayed"
	}
	return kind
}
