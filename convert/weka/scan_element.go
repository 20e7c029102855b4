package weka

import (
	"maps"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// element is one entry of a list of requests. Its type may be the last key, so finish decides at the end which keys belong
// to it.
type element struct {
	trace.Entry
	subagent        trace.Subagent
	kind            string // value of type
	inLong, outLong int64
	model           string
	seen            keys
	null            keys                 // given as null, which counts as not given
	bad             map[key]*trace.Error // values that do not fit their key; nil while there is none
	unknown         []string             // names that no schema has
	before          *savedNames          // saved before its own requests were read
}

// savedNames are the names that the requests read so far have added to the trace.
type savedNames struct {
	models  []string
	unknown map[string]int
}

func saveNames(t *trace.Trace) *savedNames { return &savedNames{t.Models, maps.Clone(t.Unknown)} }

// dropRequests removes the names that an element's own requests added, because the requests do not count.
func (s *scanner) dropRequests(e *element) {
	if e.before != nil {
		s.tr.Models, s.tr.Unknown = e.before.models, e.before.unknown
	}
}

// readElement reads a request or a subagent. nested says that it is inside a subagent, where no subagent is allowed.
func (s *scanner) readElement(nested bool) (trace.Entry, bool) {
	if !s.want(jsonlex.Object) {
		return trace.Entry{}, false
	}
	e := s.newElement(nested)
	s.object(func(name string) { s.readMember(e, name, nested) })
	return s.finish(e, nested)
}

// newElement returns an empty element, valid until the next one of the same level.
func (s *scanner) newElement(nested bool) *element {
	e := &s.elementOf[0]
	if nested {
		e = &s.elementOf[1]
	}
	*e = element{}
	return e
}

// readMember reads one member of an element. A value that does not fit its key is an error only if the key belongs to the
// element, so the error is kept in bad. Invalid JSON ends the scan at once.
func (s *scanner) readMember(e *element, name string, nested bool) {
	mark, depth, prev := s.lex.Mark(), len(s.path), s.prev
	k := keyOf(name)
	if k == keyUnknown {
		s.need(trace.NameBytes + len(name))
		e.unknown = append(e.unknown, name)
	}
	if len(e.bad) > 0 {
		delete(e.bad, k) // the last value of a key counts
	}
	if k != keyUnknown && s.leftOut() {
		e.leaveOut(k)
		return
	}
	e.seen |= setOf(k)
	s.assign(e, k, nested, s)
	if s.err == nil || s.err.Kind == trace.NotJSON || s.tr.Budget.Exceeded() {
		return
	}
	e.keepError(k, s.err)
	s.err, s.path, s.prev = nil, s.path[:depth], prev
	s.lex.Reset(mark)
	s.skip()
}

// keepError records that the value of a key does not fit it.
func (e *element) keepError(k key, err *trace.Error) {
	if e.bad == nil {
		e.bad = map[key]*trace.Error{}
	}
	e.bad[k] = err
}

// leaveOut makes a key count as not given, whatever value it had before.
func (e *element) leaveOut(k key) {
	e.seen &^= setOf(k)
	e.null |= setOf(k)
	switch k {
	case keyIDs:
		e.IDs = trace.IDs{}
	case keyInputTypes:
		e.Input = trace.InputUnknown
	case keyStop:
		e.Stop = trace.StopUnknown
	case keyAPITime:
		e.APITime = trace.Seconds{}
	case keyThinkTime:
		e.ThinkTime = trace.Seconds{}
	case keyStatus:
		e.subagent.Completed = false
	case keyDuration:
		e.subagent.HasDuration = false
	case keyToolTokens:
		e.subagent.ToolTokens = 0
	case keySystemTokens:
		e.subagent.SystemTokens = 0
	}
}

// assign reads the value of a key of an element from a source.
func (s *scanner) assign(e *element, k key, nested bool, from source) {
	switch k {
	case keyT:
		e.T = from.time()
	case keyType:
		e.kind = from.text()
	case keyModel:
		e.model = from.text()
	case keyIn:
		e.In = from.whole()
	case keyInLong:
		e.inLong = from.whole()
	case keyOut:
		e.Out = from.whole()
	case keyOutLong:
		e.outLong = from.whole()
	case keyIDs:
		e.IDs = from.ids()
	case keyInputTypes:
		e.Input = inputOf(from.texts("tool_result"))
	case keyStop:
		e.Stop = stopOf(from.text())
	case keyAPITime:
		e.APITime = optionalTime(from)
	case keyThinkTime:
		e.ThinkTime = optionalTime(from)
	case keyRequests:
		s.assignRequests(e, nested, from)
	default:
		s.assignSubagent(&e.subagent, k, from)
	}
}

// assignSubagent reads the value of a key that only subagents have, or that is checked and not kept.
func (s *scanner) assignSubagent(m *trace.Subagent, k key, from source) {
	switch k {
	case keyOutputTypes, keyModels:
		from.texts("")
	case keyTTFT:
		optionalTime(from)
	case keyAgentID:
		m.AgentID = from.text()
	case keySubagentType:
		from.text()
	case keyStatus:
		m.Completed = from.text() == "completed"
	case keyDuration:
		if m.HasDuration = !from.null(); m.HasDuration {
			m.DurationMS = from.whole()
		}
	case keyTotalTokens, keyToolUseCount:
		if !from.null() {
			from.whole()
		}
	case keyToolTokens:
		m.ToolTokens = s.declared(from)
	case keySystemTokens:
		m.SystemTokens = s.declared(from)
	default:
		from.skip()
	}
}

// assignRequests reads the requests of a subagent. They seldom continue the ids of the trace, so it restores the list with
// which the next list is compared.
func (s *scanner) assignRequests(e *element, nested bool, from source) {
	s.dropRequests(e)
	e.before = saveNames(s.tr)
	e.subagent.Requests = e.subagent.Requests[:0]
	if nested { // finish refuses it, or counts it as an unknown key
		from.skip()
		return
	}
	prev := s.prev
	from.elements(true, func(inner trace.Entry) { e.subagent.Requests = append(e.subagent.Requests, inner.Request) })
	s.prev = prev
}

// inputOf returns what an input_types list of n words says. tool: one of them is tool_result.
func inputOf(n int, tool bool) trace.InputTypes {
	switch {
	case tool:
		return trace.InputTool
	case n > 0:
		return trace.InputUser
	}
	return trace.InputUnknown
}

// stopOf returns what a stop reason says: that a tool was called, another word, or nothing.
func stopOf(word string) trace.StopReason {
	switch word {
	case "":
		return trace.StopUnknown
	case "tool_use":
		return trace.StopTool
	}
	return trace.StopOther
}

// finish checks an element, all of whose members are read, against the schema of its type.
func (s *scanner) finish(e *element, nested bool) (trace.Entry, bool) {
	switch {
	case s.err != nil:
	case !e.seen.has(keyType):
		s.absent(e, keyType)
	case e.bad[keyType] != nil:
		s.err = e.bad[keyType]
	case e.kind == "subagent" && nested:
		s.fail(trace.NestedSubagent, "a subagent inside a subagent: only one level is recorded")
	case e.kind == "subagent":
		s.finishSubagent(e)
	default:
		s.finishRequest(e)
	}
	return e.Entry, s.err == nil
}

// applySchema refuses or counts the keys of an element that do not fit a schema.
func (s *scanner) applySchema(e *element, known, required keys) {
	fits := required&^e.seen|e.seen&^known == 0 && len(e.bad) == 0
	for k := keyT; int(k) < len(keyNames) && !fits; k++ {
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

// absent refuses an element that lacks a key.
func (s *scanner) absent(e *element, k key) {
	if e.null.has(k) {
		s.fail(trace.MissingField, "required field %q is null", keyNames[k])
		return
	}
	s.missing(keyNames[k])
}

// finishSubagent checks the keys of a subagent and makes it the entry.
func (s *scanner) finishSubagent(e *element) {
	required := subagentRequires
	if s.strict {
		required = subagentRequiresStrict
	}
	s.applySchema(e, subagentKeys, required)
	s.need(trace.SubagentBytes)
	m := e.subagent
	m.T = e.T
	e.Entry = trace.Entry{Subagent: &m}
}

// finishRequest checks the type and the keys of a request and completes the entry.
func (s *scanner) finishRequest(e *element) {
	s.dropRequests(e)
	s.need(trace.RequestBytes)
	known := requestKeys
	switch e.kind {
	case "n":
	case "s":
		known = streamedKeys
	default:
		if s.strict {
			s.fail(trace.BadType, "request type %q: want \"n\", \"s\" or \"subagent\"", trace.Clip([]byte(e.kind)))
			return
		}
		s.countUnknown("type " + strconv.Quote(trace.Clip([]byte(e.kind))))
	}
	s.applySchema(e, known, requestRequires)
	e.In = s.either(e, keyIn, keyInLong, e.In, e.inLong)
	e.Out = s.either(e, keyOut, keyOutLong, e.Out, e.outLong)
	e.Model = s.model(e.model)
}

// either returns the value that is given under one of two names (D15).
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
		s.fail(trace.Conflict, "both %q and %q are given: %d and %d", keyNames[short], keyNames[long], a, b)
	}
	return a
}

// model returns the index of a model's name in Trace.Models.
func (s *scanner) model(name string) int {
	for k, m := range s.tr.Models {
		if m == name {
			return k
		}
	}
	s.need(trace.NameBytes + len(name))
	s.tr.Models = append(s.tr.Models, name)
	return len(s.tr.Models) - 1
}

// key is a name that a request or a subagent may have.
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

// keyNames has the name of each key, as JSON and columns have it.
var keyNames = [...]string{"", "t", "type", "model", "in", "input_length", "out", "output_length", "hash_ids",
	"input_types", "output_types", "stop", "api_time", "think_time", "ttft", "agent_id", "subagent_type", "duration_ms",
	"total_tokens", "tool_use_count", "status", "requests", "models", "tool_tokens", "system_tokens"}

// keySlots is a hash table of the keys with open addressing: every member of every request is looked up.
var keySlots = func() (slots [64]key) {
	for k, name := range keyNames[1:] {
		at := slotOf(name)
		for slots[at%64] != keyUnknown {
			at++
		}
		slots[at%64] = key(k + 1)
	}
	return slots
}()

// slotOf returns where in keySlots a name is looked for first. The factors are such that no two keys have one slot.
func slotOf[T string | []byte](name T) int {
	if len(name) == 0 {
		return 0
	}
	return (4*len(name) + int(name[0]) + 3*int(name[len(name)-1])) % 64
}

// keyOf returns the key of a name, keyUnknown where it is none.
func keyOf[T string | []byte](name T) key {
	for at := slotOf(name); ; at++ {
		if k := keySlots[at%64]; k == keyUnknown || keyNames[k] == string(name) {
			return k
		}
	}
}

// nameOf returns a name as a string, without an allocation where it is that of a key.
func nameOf(name []byte) string {
	if k := keyOf(name); k != keyUnknown {
		return keyNames[k]
	}
	return string(name)
}

// keys is a set of keys.
type keys uint32

// setOf returns the set of some keys.
func setOf(list ...key) (s keys) {
	for _, k := range list {
		s |= 1 << k
	}
	return s
}

func (s keys) has(k key) bool { return s&(1<<k) != 0 }

// The closed schemas of requests and subagents: doc/spec/reconstruction.md 1.2 and 1.3.
var (
	requestKeys = setOf(keyT, keyType, keyModel, keyIn, keyInLong, keyOut, keyOutLong, keyIDs, keyInputTypes,
		keyOutputTypes, keyStop, keyAPITime, keyThinkTime)
	streamedKeys = requestKeys | setOf(keyTTFT)
	subagentKeys = setOf(keyT, keyType, keyAgentID, keySubagentType, keyDuration, keyTotalTokens, keyToolUseCount,
		keyStatus, keyRequests, keyModels, keyToolTokens, keySystemTokens)
	requestRequires        = setOf(keyT, keyModel) // and in, out under either name
	subagentRequires       = setOf(keyT, keyAgentID, keyRequests)
	subagentRequiresStrict = subagentRequires | setOf(keySubagentType, keyStatus, keyModels)
	neverLeftOut           = requestRequires | subagentRequires | setOf(keyType, keyIn, keyInLong, keyOut, keyOutLong)
)
