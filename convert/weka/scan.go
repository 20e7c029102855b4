package weka

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxTokens bounds the tokens of one prompt or completion: far above any model's context. A
// larger number is damage.
const MaxTokens = 1 << 24

// MaxSeconds bounds recorded times, in seconds: far above any clock, far below what milliseconds as float64 hold.
const MaxSeconds = 1e15

// Scan reads one trace from the bytes of one JSON value. Nothing of the result refers to data afterwards.
//
// It is written by hand for what trace files are: 97.9 % of their bytes are hash_ids, most of which repeat the list
// of the request before, digit for digit. Such a stretch is compared as text and never parsed. Everything else goes
// through a plain, strict JSON scanner. Tests hold it against encoding/json.
//
// The error is always an *Error.
func Scan(data []byte, r Rules) (*Trace, error) { return ScanWithin(data, r, nil) }

// ScanWithin is Scan of a trace that take is asked for the memory of, in bytes: for that of its plan too, by MakePlan.
func ScanWithin(data []byte, r Rules, take func(bytes int64) error) (*Trace, error) {
	s := scanner{b: data, strict: r.strict(), tr: newTrace(take)}
	s.trace()
	if s.err != nil {
		s.err.Trace = s.tr.ID
		return nil, s.err
	}
	return s.tr, nil
}

// newTrace is an empty trace that take is asked for the memory of.
func newTrace(take func(bytes int64) error) *Trace {
	if take == nil {
		return &Trace{}
	}
	return &Trace{meter: &meter{ask: take}}
}

// scanner walks over one JSON text. The first error sticks and ends every loop.
type scanner struct {
	b      []byte
	i      int
	strict bool
	tr     *Trace
	err    *Error
	path   []step // what is open
	prev   list   // the last hash_ids list read
	room   int    // runs of the list at hand that there is memory for

	milliseconds bool // times are given so, else in seconds
}

// step is one part of a path: a name, or an index where name is "".
type step struct {
	name  string
	index int
}

// list is a hash_ids list that a later one may repeat.
type list struct {
	text []byte // between the brackets; nil where it is not written canonically: plain digits and single commas
	ids  IDs
}

// maxDepth bounds nesting inside values that are skipped.
const maxDepth = 512

func (s *scanner) fail(f ErrorKind, format string, args ...any) {
	if s.err != nil {
		return
	}
	var w strings.Builder
	for k, p := range s.path {
		if k == 16 { // deeper than the schema goes
			w.WriteString("[...]")
			break
		}
		if p.name == "" {
			fmt.Fprintf(&w, "[%d]", p.index)
			continue
		}
		if w.Len() > 0 {
			w.WriteByte('.')
		}
		w.WriteString(p.name)
	}
	s.err = &Error{Kind: f, Where: w.String(), Problem: fmt.Sprintf(format, args...)}
}

func (s *scanner) syntax(want string) {
	if s.i >= len(s.b) {
		s.fail(NotJSON, "not JSON: cut off after %d bytes, want %s", len(s.b), want)
		return
	}
	s.fail(NotJSON, "not JSON: byte %d: want %s, found %q", s.i, want, s.b[s.i])
}

// space skips white space and returns the byte after it, 0 at the end of the text.
func (s *scanner) space() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// object calls member for every key of the object that begins here; member reads or skips the value.
func (s *scanner) object(member func(key string)) {
	s.i++ // '{'
	if s.space() == '}' {
		s.i++
		return
	}
	for {
		if s.space() != '"' {
			s.syntax("a key")
			return
		}
		key := s.text()
		if s.err == nil && s.space() != ':' {
			s.syntax("':'")
		}
		if s.err != nil {
			return
		}
		s.i++
		s.space()
		s.path = append(s.path, step{name: key})
		member(key)
		if s.err != nil {
			return
		}
		s.path = s.path[:len(s.path)-1]
		if !s.more('}') {
			return
		}
	}
}

// array calls element for every element of the array that begins here.
func (s *scanner) array(element func()) {
	s.i++ // '['
	if s.space() == ']' {
		s.i++
		return
	}
	for k := 0; ; k++ {
		s.space()
		s.path = append(s.path, step{index: k})
		element()
		if s.err != nil {
			return
		}
		s.path = s.path[:len(s.path)-1]
		if !s.more(']') {
			return
		}
	}
}

// more reads what follows a member or element: a comma (true) or the end of its container (false).
func (s *scanner) more(end byte) bool {
	switch s.space() {
	case ',':
		s.i++
		return true
	case end:
		s.i++
		return false
	}
	s.syntax("',' or '" + string(end) + "'")
	return false
}

// text reads the string that begins here.
func (s *scanner) text() string {
	raw, plain := s.rawString()
	if s.err != nil || plain {
		return string(raw)
	}
	var t string
	if err := json.Unmarshal(s.b[s.i-len(raw)-2:s.i], &t); err != nil {
		s.fail(NotJSON, "not JSON: string that ends at byte %d: %v", s.i, err)
	}
	return t
}

// rawString passes over the string that begins here and returns what stands between its quotes; plain means that it
// holds no escape.
func (s *scanner) rawString() (raw []byte, plain bool) {
	start := s.i + 1
	plain = true
	ascii := true
	for i := start; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			raw = s.b[start:i]
			s.i = i + 1
			if !ascii && !utf8.Valid(raw) {
				s.i = start
				s.fail(NotJSON, "not JSON: string at byte %d is not UTF-8", start)
			}
			return raw, plain
		case c == '\\':
			plain = false
			if n := escapeLen(s.b[i:]); n > 0 {
				i += n - 1
				continue
			}
			s.i = i
			s.syntax("an escape such as \\n or \\u0041, surrogates in pairs")
			return nil, false
		case c < 0x20:
			s.i = i
			s.syntax("no control character in a string")
			return nil, false
		case c >= 0x80:
			ascii = false
		}
	}
	s.i = len(s.b)
	s.syntax("the end of a string")
	return nil, false
}

// escapeLen returns the length of the escape that b begins with, 0 where it is none. A surrogate counts with its other half.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, b[1]) < 0 {
			return 0
		}
		return 2
	}
	u, ok := hex4(b)
	if !ok || u >= 0xDC00 && u < 0xE000 {
		return 0
	}
	if u < 0xD800 || u >= 0xE000 {
		return 6
	}
	if low, ok := hex4(b[6:]); !ok || low < 0xDC00 || low >= 0xE000 {
		return 0
	}
	return 12
}

// hex4 reads \uXXXX.
func hex4(b []byte) (uint16, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var u uint16
	for _, c := range b[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		u = u<<4 | uint16(c)
	}
	return u, true
}

// number passes over the number that begins here and returns its text.
func (s *scanner) number() string { return string(s.rawNumber()) }

func (s *scanner) rawNumber() []byte {
	start := s.i
	digits := func() bool {
		from := s.i
		for s.i < len(s.b) && s.b[s.i]-'0' <= 9 {
			s.i++
		}
		return s.i > from
	}
	at := func(chars string) bool { return s.i < len(s.b) && strings.IndexByte(chars, s.b[s.i]) >= 0 }
	if at("-") {
		s.i++
	}
	if at("0") {
		s.i++
	} else if !digits() {
		s.syntax("a digit")
		return nil
	}
	if at(".") {
		s.i++
		if !digits() {
			s.syntax("a digit")
			return nil
		}
	}
	if at("eE") {
		s.i++
		if at("+-") {
			s.i++
		}
		if !digits() {
			s.syntax("a digit")
			return nil
		}
	}
	return s.b[start:s.i]
}

// skip passes over any value.
func (s *scanner) skip() {
	s.skipDepth(0)
}

func (s *scanner) skipDepth(depth int) {
	if depth > maxDepth {
		s.fail(NotJSON, "nested deeper than %d", maxDepth)
		return
	}
	switch s.kind() {
	case "object":
		s.object(func(string) { s.skipDepth(depth + 1) })
	case "array":
		s.array(func() { s.skipDepth(depth + 1) })
	case "string":
		s.rawString()
	case "number":
		s.rawNumber()
	case "true or false", "null":
		s.word()
	default:
		s.syntax("a value")
	}
}

// kind names the value that begins here, "" where none does.
func (s *scanner) kind() string {
	if s.i >= len(s.b) {
		return ""
	}
	switch c := s.b[s.i]; c {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		if c == '-' || c-'0' <= 9 {
			return "number"
		}
		return ""
	}
}

func (s *scanner) word() {
	for _, w := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(w)) {
			s.i += len(w)
			return
		}
	}
	s.syntax("a value")
}

// want fails unless a value of the given kind begins here.
func (s *scanner) want(kind string) bool {
	if s.err != nil {
		return false
	}
	got := s.kind()
	if got == kind {
		return true
	}
	if got == "" {
		s.syntax("a value")
		return false
	}
	start := s.i
	if s.skip(); s.err != nil { // broken JSON is the graver fault
		return false
	}
	s.fail(WrongType, "want %s, found %s", kind, clip(s.b[start:s.i]))
	switch {
	case len(s.path) == 0 && got == "array":
		s.err.Hint = tryLines
	case len(s.path) == 0:
		s.err.Hint = tryForm
	case got == "null" && s.strict && s.optional():
		s.err.Hint = tryNull
	}
	return false
}

// optional reports whether the default rules let the field whose value is read be left out.
func (s *scanner) optional() bool {
	name := s.path[len(s.path)-1].name
	if len(s.path) == 1 {
		return !slices.Contains([]string{"id", "models", "block_size", "requests"}, name)
	}
	return name != "" && !neverLeftOut.has(keysByName[name])
}

// clip shortens a value for an error.
func clip(b []byte) string {
	if len(b) > 40 {
		return strings.ToValidUTF8(string(b[:40]), "") + "..."
	}
	return string(b)
}

// null passes over a null and says so.
func (s *scanner) null() bool {
	if s.kind() != "null" {
		return false
	}
	s.word()
	return true
}

// leftOut passes over a null that is as good as no value, as writers of tables mean it. Strict rules refuse it.
func (s *scanner) leftOut() bool { return !s.strict && s.null() }

func (s *scanner) wantText() string {
	if !s.want("string") {
		return ""
	}
	return s.text()
}

// wantTime reads a number of seconds.
func (s *scanner) wantTime() float64 {
	if !s.want("number") {
		return 0
	}
	text := s.number()
	if s.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		v = math.Inf(1)
	}
	s.checkTime(v, text)
	return v
}

// checkTime refuses what is no time; shown is how it is written.
func (s *scanner) checkTime(v float64, shown string) {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		s.fail(NotFinite, "%s is no finite number", clip([]byte(shown)))
	} else if unit := sinceEpoch(v); unit != "" && math.Abs(v) > MaxSeconds {
		s.fail(TooLarge, "%s looks like %s since 1970: want %s", clip([]byte(shown)), unit, s.unit())
	} else if math.Abs(v) > MaxSeconds {
		s.fail(TooLarge, "%s %s: beyond %g", clip([]byte(shown)), s.unit(), MaxSeconds)
	}
}

// unit names what times are given in.
func (s *scanner) unit() string {
	if s.milliseconds {
		return "milliseconds"
	}
	return "seconds"
}

// sinceEpoch names the unit in which a number is a date between 2001 and 2100, counted from 1970; "" for none smaller than
// seconds.
func sinceEpoch(v float64) string {
	const from, to = 1e9, 4.1e9
	for _, u := range []struct {
		name string
		per  float64
	}{{"milliseconds", 1e3}, {"microseconds", 1e6}, {"nanoseconds", 1e9}} {
		if s := v / u.per; s >= from && s < to {
			return u.name
		}
	}
	return ""
}

// wantSeconds reads a number or null.
func (s *scanner) wantSeconds() Seconds {
	if s.null() {
		return Seconds{}
	}
	return Seconds{s.wantTime(), true}
}

// wantGiven reads a number, or what is left out.
func (s *scanner) wantGiven() Seconds {
	if s.leftOut() {
		return Seconds{}
	}
	return Seconds{s.wantTime(), true}
}

// wantInt reads a number that is whole.
func (s *scanner) wantInt() int64 {
	if !s.want("number") {
		return 0
	}
	text := s.number()
	if s.err != nil {
		return 0
	}
	v, fault := whole(text)
	switch fault {
	case NotInteger:
		s.fail(NotInteger, "want a whole number, found %s", clip([]byte(text)))
	case IDRange:
		s.fail(IDRange, "%s is outside the signed 64-bit range", clip([]byte(text)))
	}
	return v
}

// whole returns the value of the text of a JSON number that is whole: 12, 12.0 and 1.2e1 are.
func whole(text string) (int64, ErrorKind) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, ""
	}
	sign, mantissa := "", text
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	exponent := 0
	if k := strings.IndexAny(mantissa, "eE"); k >= 0 {
		e, err := strconv.Atoi(mantissa[k+1:])
		if err != nil { // an exponent beyond int: only zero survives it
			e = math.MaxInt32
			if mantissa[k+1] == '-' {
				e = math.MinInt32
			}
		}
		exponent, mantissa = min(max(e, math.MinInt32), math.MaxInt32), mantissa[:k]
	}
	if k := strings.IndexByte(mantissa, '.'); k >= 0 {
		exponent -= len(mantissa) - k - 1
		mantissa = mantissa[:k] + mantissa[k+1:]
	}
	short := strings.TrimRight(mantissa, "0")
	exponent += len(mantissa) - len(short)
	short = strings.TrimLeft(short, "0")
	switch {
	case short == "":
		return 0, ""
	case exponent < 0:
		return 0, NotInteger
	case len(short)+exponent > 19:
		return 0, IDRange
	}
	v, err := strconv.ParseInt(sign+short+strings.Repeat("0", exponent), 10, 64)
	if err != nil {
		return 0, IDRange
	}
	return v, ""
}

// wantStrings reads a list of strings and calls each for every one.
func (s *scanner) wantStrings(each func(string)) {
	if s.want("array") {
		s.array(func() {
			if t := s.wantText(); s.err == nil {
				each(t)
			}
		})
	}
}

// unknown tolerates and counts, or refuses, a key that the schema does not have. Its value has been passed over.
func (s *scanner) unknown(name string) {
	if s.strict {
		s.fail(UnknownKey, "unknown key %q", name)
		return
	}
	s.count(name)
}

func (s *scanner) count(name string) {
	if s.tr.Unknown == nil {
		s.tr.Unknown = map[string]int{}
	}
	if s.tr.Unknown[name]++; s.tr.Unknown[name] == 1 {
		s.needs(nameBytes + len(name))
	}
}

func (s *scanner) missing(name string) {
	s.fail(MissingField, "required field %q is missing", name)
}

// absent refuses an element that lacks a key.
func (s *scanner) absent(e *element, k key) {
	if e.null.has(k) {
		s.fail(MissingField, "required field %q is null", keyNames[k])
		return
	}
	s.missing(keyNames[k])
}

// trace reads the whole text.
func (s *scanner) trace() {
	if s.space() == 0 && s.i >= len(s.b) {
		s.fail(NotJSON, "not JSON: it is empty")
		s.err.Hint = "fetch or copy the file again"
		return
	}
	if s.kind() == "array" {
		s.refuseForm(keysOfFirst(s.b[s.i:]))
	}
	if !s.want("object") {
		return
	}
	has := map[string]bool{}
	unknown := []string{}
	s.object(func(key string) {
		if s.topLevel(key) {
			has[key] = true
			return
		}
		s.skip()
		s.needs(nameBytes + len(key))
		unknown = append(unknown, key)
	})
	s.end()
	if !has["requests"] && !has["block_size"] {
		s.refuseForm(unknown)
	}
	for _, key := range unknown {
		s.unknown(key)
	}
	s.complete(has["id"], has["models"], has["block_size"], has["hash_id_scope"], has["requests"])
}

// topLevel reads the value of a key of the trace itself, unless the schema does not have it.
func (s *scanner) topLevel(key string) bool {
	switch key {
	case "id":
		s.tr.ID = s.wantText()
	case "models":
		s.wantStrings(func(string) {})
	case "block_size":
		s.blockSize(s.wantInt())
	case "hash_id_scope":
		if s.tr.Scope = ScopeAbsent; !s.leftOut() {
			s.scope()
		}
	case "tool_tokens":
		s.tr.ToolTokens = s.wantDeclared()
	case "system_tokens":
		s.tr.SystemTokens = s.wantDeclared()
	case "requests":
		s.tr.Entries, s.tr.Models, s.tr.Unknown = s.tr.Entries[:0], nil, nil
		if s.want("array") {
			s.array(s.entry)
		}
	case "totals":
		if s.tr.HasTotals = !s.null(); s.tr.HasTotals && s.want("object") {
			s.skip()
		}
	default:
		return false
	}
	return true
}

// refuseForm refuses a row that is another thing than a trace, by its keys.
func (s *scanner) refuseForm(keys []string) {
	has := func(names ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(names, key) })
	}
	why := ""
	switch {
	case has("hash_ids"):
		return
	case has("input_length", "input_tokens") && has("output_length", "output_tokens"):
		why = "this is a Mooncake row without hash_ids: its lengths do not say which prompts share what"
	case has("messages", "conversations"):
		why = "this is a row of a chat dataset, with messages and without hash_ids, and no recorded trace"
	}
	if why != "" && s.err == nil {
		s.fail(MissingField, "%s", why)
		s.err.Hint = tryTraces
	}
}

// maxFirst is the longest first element of a list that is looked at, in bytes.
const maxFirst = 1 << 20

// keysOfFirst returns the keys of the first element of a list, none where it is no object, or a trace.
func keysOfFirst(list []byte) []string {
	d := json.NewDecoder(bytes.NewReader(list[:min(len(list), maxFirst)]))
	var first map[string]json.RawMessage
	if _, err := d.Token(); err != nil || d.Decode(&first) != nil || first["requests"] != nil {
		return nil
	}
	return slices.Collect(maps.Keys(first))
}

// complete refuses a trace that lacks what it has to have.
func (s *scanner) complete(id, models, blockSize, scope, requests bool) {
	if s.err != nil {
		return
	}
	switch {
	case !id:
		s.missing("id")
	case !models:
		s.missing("models")
	case !blockSize:
		s.missing("block_size")
	case !scope && s.strict:
		s.missing("hash_id_scope")
	case !requests:
		s.missing("requests")
	}
	if (!id || !models) && !blockSize && !requests {
		s.err.Hint = tryForm
	}
}

func (s *scanner) blockSize(v int64) {
	if s.tr.BlockSize = v; s.err == nil && (v <= 0 || v > MaxBlockSize) {
		s.fail(BadBlockSize, "block size %d: want 1 to %d tokens", v, MaxBlockSize)
	}
}

// end fails unless the text ends here.
func (s *scanner) end() {
	if s.err == nil && (s.space() != 0 || s.i < len(s.b)) {
		s.fail(NotJSON, "not JSON: byte %d: more after the value; a .json file holds one, a .jsonl file one per line", s.i)
		s.err.Hint = tryLines
	}
}

// wantDeclared reads a declared count of tokens. It may be negative; absurd ones are refused, so that sums do not overflow.
func (s *scanner) wantDeclared() int64 {
	if s.leftOut() {
		return 0
	}
	return s.declared(s.wantInt())
}

func (s *scanner) declared(v int64) int64 {
	if s.err == nil && (v > MaxTokens || v < -MaxTokens) {
		s.fail(TooLarge, "%d tokens: larger than %d", v, int64(MaxTokens))
	}
	return v
}

func (s *scanner) scope() {
	if s.kind() == "null" {
		s.fail(BadScope, "hash_id_scope null: want \"local\"")
		s.err.Hint = tryNull
		return
	}
	s.scopeOf(s.wantText())
}

func (s *scanner) scopeOf(name string) {
	switch {
	case s.err != nil:
	case name == "local":
		s.tr.Scope = ScopeLocal
	case name == "global" && !s.strict:
		s.tr.Scope = ScopeGlobal
	case name == "global":
		s.fail(BadScope, "hash_id_scope \"global\": strict rules (--profile aiperf, unknown_keys=reject) take \"local\" only")
		s.err.Hint = tryDefault
	case s.strict:
		s.fail(BadScope, "hash_id_scope %q: want \"local\"", clip([]byte(name)))
	default:
		s.fail(BadScope, "hash_id_scope %q: want \"local\" or \"global\"", clip([]byte(name)))
	}
}

// entry reads one element of the trace's requests.
func (s *scanner) entry() {
	if e, ok := s.element(false); ok {
		s.tr.Entries = append(s.tr.Entries, e)
	}
}

// key is a name that a request or a marker may have.
type key uint8

const (
	keyUnknown key = iota
	keyT
	keyType
	keyModel
	keyIn
	keyInLong
	keyOut
	keyOutLong
	keyIDs
	keyInputTypes
	keyOutputTypes
	keyStop
	keyAPITime
	keyThinkTime
	keyTTFT
	keyAgentID
	keySubagentType
	keyDuration
	keyTotalTokens
	keyToolUseCount
	keyStatus
	keyRequests
	keyModels
	keyToolTokens
	keySystemTokens
)

var keyNames = [...]string{"", "t", "type", "model", "in", "input_length", "out", "output_length", "hash_ids",
	"input_types", "output_types", "stop", "api_time", "think_time", "ttft", "agent_id", "subagent_type", "duration_ms",
	"total_tokens", "tool_use_count", "status", "requests", "models", "tool_tokens", "system_tokens"}

var keysByName = func() map[string]key {
	m := make(map[string]key, len(keyNames))
	for k, name := range keyNames[1:] {
		m[name] = key(k + 1)
	}
	return m
}()

// keys is a set of keys.
type keys uint32

func setOf(list ...key) (s keys) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

func (s keys) has(k key) bool { return s&(1<<k) != 0 }

// The closed schemas of sections 1.2 and 1.3.
var (
	requestKeys = setOf(keyT, keyType, keyModel, keyIn, keyInLong, keyOut, keyOutLong, keyIDs, keyInputTypes,
		keyOutputTypes, keyStop, keyAPITime, keyThinkTime)
	streamedKeys = requestKeys | setOf(keyTTFT)
	markerKeys   = setOf(keyT, keyType, keyAgentID, keySubagentType, keyDuration, keyTotalTokens, keyToolUseCount,
		keyStatus, keyRequests, keyModels, keyToolTokens, keySystemTokens)
	requestRequires      = setOf(keyT, keyModel) // and in, out under either name
	markerRequires       = setOf(keyT, keyAgentID, keyRequests)
	markerRequiresStrict = markerRequires | setOf(keySubagentType, keyStatus, keyModels)
	neverLeftOut         = requestRequires | markerRequires | setOf(keyType, keyIn, keyInLong, keyOut, keyOutLong)
)

// element is one entry of a list of requests before its type is known, for the type may stand last.
type element struct {
	Entry
	marker          Marker
	kind            string
	inLong, outLong int64
	model           string
	seen            keys
	null            keys           // given as null, which is as good as not given
	bad             map[key]*Error // values that do not fit their key; nil while there is none
	unknown         []string       // names that no schema has
	before          *notes         // what was known before its own requests were read
}

// notes is what the scanner has found in requests besides themselves.
type notes struct {
	models  []string
	unknown map[string]int
}

func notesOf(t *Trace) *notes { return &notes{t.Models, maps.Clone(t.Unknown)} }

// element reads a request or a marker. Inside a marker no further marker is allowed.
func (s *scanner) element(inside bool) (Entry, bool) {
	if !s.want("object") {
		return Entry{}, false
	}
	var e element
	s.object(func(name string) { s.member(&e, name, inside) })
	return s.finish(&e, inside)
}

// finish holds an element, all of whose members are known, against the schema of its type.
func (s *scanner) finish(e *element, inside bool) (Entry, bool) {
	switch {
	case s.err != nil:
	case !e.seen.has(keyType):
		s.absent(e, keyType)
	case e.bad[keyType] != nil:
		s.err = e.bad[keyType]
	case e.kind == "subagent" && inside:
		s.fail(NestedMarker, "a subagent inside a subagent: only one level is recorded")
	case e.kind == "subagent":
		s.finishMarker(e)
	default:
		s.finishRequest(e)
	}
	return e.Entry, s.err == nil
}

// member reads one member of an element. What is wrong with a value is kept until the element's type says whether
// the key belongs to it; broken JSON ends the scan at once.
func (s *scanner) member(e *element, name string, inside bool) {
	start, depth, prev := s.i, len(s.path), s.prev
	k := keysByName[name]
	if k == keyUnknown {
		s.needs(nameBytes + len(name))
		e.unknown = append(e.unknown, name)
	}
	delete(e.bad, k) // of a key given twice the last value counts
	if k != keyUnknown && s.leftOut() {
		e.leaveOut(k)
		return
	}
	e.seen |= setOf(k)
	s.value(e, k, inside)
	if s.err == nil || s.err.Kind == NotJSON || s.tr.meter.over() {
		return
	}
	if e.bad == nil {
		e.bad = map[key]*Error{}
	}
	e.bad[k] = s.err
	s.err, s.i, s.path, s.prev = nil, start, s.path[:depth], prev
	s.skip()
}

// leaveOut takes a key for one that is not given, whatever stood there before.
func (e *element) leaveOut(k key) {
	e.seen &^= setOf(k)
	e.null |= setOf(k)
	switch k {
	case keyIDs:
		e.IDs = IDs{}
	case keyInputTypes:
		e.Input = InputUnknown
	case keyStop:
		e.Stop = StopUnknown
	case keyAPITime:
		e.APITime = Seconds{}
	case keyThinkTime:
		e.ThinkTime = Seconds{}
	case keyStatus:
		e.marker.Completed = false
	case keyDuration:
		e.marker.HasDuration = false
	case keyToolTokens:
		e.marker.ToolTokens = 0
	case keySystemTokens:
		e.marker.SystemTokens = 0
	}
}

func (s *scanner) value(e *element, k key, inside bool) {
	m := &e.marker
	switch k {
	case keyT:
		e.T = s.wantTime()
	case keyType:
		e.kind = s.wantText()
	case keyModel:
		e.model = s.wantText()
	case keyIn:
		e.In = s.wantInt()
	case keyInLong:
		e.inLong = s.wantInt()
	case keyOut:
		e.Out = s.wantInt()
	case keyOutLong:
		e.outLong = s.wantInt()
	case keyIDs:
		if s.want("array") {
			e.IDs = s.hashIDs()
		}
	case keyInputTypes:
		e.Input = InputUnknown
		s.wantStrings(e.addInput)
	case keyOutputTypes, keyModels:
		s.wantStrings(func(string) {})
	case keyStop:
		e.Stop = stopOf(s.wantText())
	case keyAPITime:
		e.APITime = s.wantSeconds()
	case keyThinkTime:
		e.ThinkTime = s.wantSeconds()
	case keyTTFT:
		s.wantSeconds()
	case keyAgentID:
		m.AgentID = s.wantText()
	case keySubagentType:
		s.wantText()
	case keyStatus:
		m.Completed = s.wantText() == "completed"
	case keyDuration:
		if m.HasDuration = !s.null(); m.HasDuration {
			m.DurationMS = s.wantInt()
		}
	case keyTotalTokens, keyToolUseCount:
		if !s.null() {
			s.wantInt()
		}
	case keyToolTokens:
		m.ToolTokens = s.wantDeclared()
	case keySystemTokens:
		m.SystemTokens = s.wantDeclared()
	case keyRequests:
		s.forget(e)
		e.before = notesOf(s.tr)
		s.inner(m, inside)
	default:
		s.skip()
	}
}

func (e *element) addInput(word string) {
	e.Input = max(e.Input, InputUser)
	if word == "tool_result" {
		e.Input = InputTool
	}
}

func stopOf(word string) StopReason {
	switch word {
	case "":
		return StopUnknown
	case "tool_use":
		return StopTool
	}
	return StopOther
}

// forget takes back what an element's own requests gave: they do not count after all.
func (s *scanner) forget(e *element) {
	if e.before != nil {
		s.tr.Models, s.tr.Unknown = e.before.models, e.before.unknown
	}
}

// inner reads the requests of a marker. Ids of a context seldom continue those of another, so the list to compare
// with is put back afterwards.
func (s *scanner) inner(m *Marker, inside bool) {
	m.Requests = m.Requests[:0]
	if !s.want("array") {
		return
	}
	if inside { // the type, which may stand last, will refuse it or make it an unknown key
		s.skip()
		return
	}
	prev := s.prev
	s.array(func() {
		if e, ok := s.element(true); ok {
			m.Requests = append(m.Requests, e.Request)
		}
	})
	s.prev = prev
}

// settle applies a schema to what an element holds.
func (s *scanner) settle(e *element, known, required keys) {
	for k := keyT; int(k) < len(keyNames); k++ {
		switch {
		case s.err != nil:
			return
		case !e.seen.has(k) && required.has(k):
			s.absent(e, k)
		case e.seen.has(k) && !known.has(k):
			s.unknown(keyNames[k])
		case e.bad[k] != nil:
			s.err = e.bad[k]
		}
	}
	for _, name := range e.unknown {
		s.unknown(name)
	}
}

func (s *scanner) finishMarker(e *element) {
	required := markerRequires
	if s.strict {
		required = markerRequiresStrict
	}
	s.settle(e, markerKeys, required)
	s.needs(markerBytes)
	m := e.marker
	m.T = e.T
	e.Entry = Entry{Marker: &m}
}

func (s *scanner) finishRequest(e *element) {
	s.forget(e)
	s.needs(requestBytes)
	known := requestKeys
	switch e.kind {
	case "n":
		e.Type = 'n'
	case "s":
		e.Type = 's'
		known = streamedKeys
	default:
		if s.strict {
			s.fail(BadType, "request type %q: want \"n\", \"s\" or \"subagent\"", clip([]byte(e.kind)))
			return
		}
		e.Type = '?'
		s.count("type " + strconv.Quote(clip([]byte(e.kind))))
	}
	s.settle(e, known, requestRequires)
	e.In = s.either(e, keyIn, keyInLong, e.In, e.inLong)
	e.Out = s.either(e, keyOut, keyOutLong, e.Out, e.outLong)
	switch {
	case s.err != nil:
	case e.In < 0:
		s.fail(NegativeIn, "in = %d: a prompt cannot have a negative length", e.In)
	case e.In > MaxTokens || e.Out > MaxTokens || e.Out < -MaxTokens:
		s.fail(TooLarge, "in = %d, out = %d: larger than %d tokens", e.In, e.Out, int64(MaxTokens))
	}
	e.Model = s.model(e.model)
}

// either returns the value that was given under one of two names (D15).
func (s *scanner) either(e *element, short, long key, a, b int64) int64 {
	switch both := e.seen & setOf(short, long); {
	case s.err != nil:
	case both == 0 && e.null.has(long):
		s.absent(e, long)
	case both == 0:
		s.absent(e, short)
	case both == setOf(long):
		return b
	case both == setOf(short, long) && (s.strict || a != b):
		s.fail(Conflict, "both %q and %q are given: %d and %d", keyNames[short], keyNames[long], a, b)
	}
	return a
}

// model returns the index of a model's name.
func (s *scanner) model(name string) int {
	for k, m := range s.tr.Models {
		if m == name {
			return k
		}
	}
	s.needs(nameBytes + len(name))
	s.tr.Models = append(s.tr.Models, name)
	return len(s.tr.Models) - 1
}

// hashIDs reads the list that begins here.
func (s *scanner) hashIDs() IDs {
	start := s.i + 1
	s.i, s.room = start, 0
	ids := s.repeated()
	s.reserve(&ids)
	canonical := true
	if s.i == start || s.b[s.i-1] != ']' {
		canonical = s.digits(&ids)
	}
	s.prev = list{ids: ids}
	if canonical && s.err == nil {
		s.prev.text = s.b[start : s.i-1]
	}
	return ids
}

// push appends an id for which there is memory.
func (s *scanner) push(ids *IDs, id int64) {
	if ids.push(id); len(ids.Runs) > s.room {
		s.reserve(ids)
	}
}

// reserve asks for the memory of as many runs again as a list has.
func (s *scanner) reserve(ids *IDs) {
	room := 2 * len(ids.Runs)
	s.needs((room - s.room) * runBytes)
	s.room = room
}

// needs asks for n bytes and fails where there are not that many.
func (s *scanner) needs(n int) {
	if s.err == nil && !s.tr.meter.needs(n) {
		s.fail(TooLarge, "%v", s.tr.meter.err)
		s.err.Hint = trySplit
	}
}

// repeated passes over the ids at the head of the list that are, byte for byte, those of the list before, up to the
// bracket that closes the list or to the first id that differs.
func (s *scanner) repeated() IDs {
	here, prev := s.b[s.i:], s.prev.text
	n := sameBytes(here, prev)
	if n == len(prev) && n > 0 && n < len(here) {
		switch here[n] {
		case ']':
			s.i += n + 1
			return IDs{append([]Run(nil), s.prev.ids.Runs...), s.prev.ids.Len}
		case ',':
			s.i += n + 1
			return IDs{append(make([]Run, 0, len(s.prev.ids.Runs)+4), s.prev.ids.Runs...), s.prev.ids.Len}
		}
	}
	n = 1 + bytes.LastIndexByte(prev[:min(n, len(prev))], ',')
	s.i += n
	var ids IDs
	for _, r := range s.prev.ids.Runs {
		if n == 0 {
			break
		}
		size := r.textLen()
		if size > n {
			r.N = r.idsWithin(n)
			size = n
		}
		n -= size
		ids.Runs = append(ids.Runs, r)
		ids.Len += r.N
	}
	return ids
}

// digits reads the rest of a list. It reports whether all of it is written canonically.
func (s *scanner) digits(ids *IDs) bool {
	i, b := s.i, s.b
	if ids.Len == 0 && i < len(b) && b[i] == ']' {
		s.i++
		return true
	}
	for {
		from := i
		var v uint64
		for i < len(b) && b[i]-'0' <= 9 {
			v = v*10 + uint64(b[i]-'0')
			i++
		}
		n := i - from
		if n == 0 || n > 18 || i >= len(b) || b[from] == '0' && n > 1 || b[i] != ',' && b[i] != ']' {
			s.i = from
			s.slowIDs(ids)
			return false
		}
		s.push(ids, int64(v))
		i++
		if b[i-1] == ']' {
			s.i = i
			return true
		}
		if s.err != nil {
			return false
		}
	}
}

// slowIDs reads the rest of a list in which something is not plain: white space, a sign, 1e3, or a fault.
func (s *scanner) slowIDs(ids *IDs) {
	if s.space() == ']' && ids.Len == 0 {
		s.i++
		return
	}
	for {
		s.space()
		s.path = append(s.path, step{index: ids.Len})
		v := s.wantInt()
		if s.err != nil {
			return
		}
		s.path = s.path[:len(s.path)-1]
		if s.push(ids, v); s.err != nil || !s.more(']') {
			return
		}
	}
}

// sameBytes returns the length of the longest common prefix of a and b.
func sameBytes(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
