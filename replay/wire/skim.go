package wire

// Skimming reads the JSON of a payload in one pass and allocates nothing. It checks the whole grammar, so that it accepts
// no payload that encoding/json rejects. Where it meets something rare (an escaped name, a name twice, deep nesting, an
// unexpected type, a line end) it is not sure, and decodeEvent decides. Tests compare the two.

// skimDepth is the deepest nesting that skimming accepts.
const skimDepth = 32

// skimEvent reads a payload. The event is valid only when sure.
func skimEvent(b []byte) (e event, sure bool) {
	m := openObject(b, skipSpace(b, 0))
	var seen seenMembers
	choices := false
	for m.next() {
		switch string(m.name) {
		case "choices":
			seen.add(0, &m)
			choices = !m.skipNull()
			if choices {
				skimChoices(&m, &e)
			}
		case "usage":
			seen.add(1, &m)
			skimUsageSpan(&m, &e)
		case "error":
			seen.add(2, &m)
			m.expectNull()
		default:
			m.skip()
		}
	}
	if !choices || m.at < 0 || skipSpace(b, m.at) != len(b) { // without choices it may be an error
		return event{}, false
	}
	return e, true
}

// skimChoices reads the first choice and skips the others. It is sure only where the first has the index 0, or is alone and has none.
func skimChoices(m *objectReader, e *event) {
	i := m.enter('[')
	if i < 0 {
		m.at = -1
		return
	}
	if m.b[i] == ']' {
		m.at = i + 1
		return
	}
	choice := openObject(m.b, i)
	var seen seenMembers
	for choice.next() {
		switch string(choice.name) {
		case "delta", "message":
			seen.add(0, &choice) // sure only of one of them
			skimDelta(&choice, e)
		case "text":
			seen.add(1, &choice)
			e.content = choice.skipContent(e) || e.content
		case "finish_reason":
			seen.add(2, &choice)
			skimFinish(&choice, e)
		case "index":
			seen.add(3, &choice)
			choice.expectWord("0")
		case "usage":
			choice.expectNull()
		default:
			choice.skip()
		}
	}
	m.at = skipRest(m.b, choice.at, 2)
	if end := skipSpace(m.b, choice.at); m.at >= 0 && m.b[end] == ',' && seen&(1<<3) == 0 {
		m.at = -1
	}
}

// skimDelta reads the delta or message of a choice.
func skimDelta(outer *objectReader, e *event) {
	if outer.skipNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "content":
			seen.add(0, &m)
			e.content = m.skipContent(e) || e.content
		case "reasoning_content":
			seen.add(1, &m)
			e.reasoning = m.skipContent(e) || e.reasoning
		case "reasoning":
			seen.add(2, &m)
			e.reasoning = m.skipContent(e) || e.reasoning
		case "tool_calls":
			seen.add(3, &m)
			skimToolCalls(&m, e)
		case "refusal", "function_call":
			m.expectNull()
		case "reasoning_details":
			skimNone(&m)
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

// skimNone moves behind a null or an empty array. It is not sure of any other value.
func skimNone(m *objectReader) {
	if i := m.enter('['); i >= 0 && m.b[i] == ']' {
		m.at = i + 1
		return
	}
	m.expectNull()
}

// skimToolCalls reads the functions of tool calls.
func skimToolCalls(outer *objectReader, e *event) {
	if outer.skipNull() {
		return
	}
	i := outer.enter('[')
	for i >= 0 && outer.b[i] != ']' {
		m := openObject(outer.b, i)
		var seen seenMembers
		for m.next() {
			if string(m.name) == "function" {
				seen.add(0, &m)
				skimFunction(&m, e)
			} else {
				m.skip()
			}
		}
		i = skipComma(outer.b, m.at)
	}
	if i >= 0 {
		i++
	}
	outer.at = i
}

// skimFunction reads the function of one tool call.
func skimFunction(outer *objectReader, e *event) {
	if outer.skipNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "name":
			seen.add(0, &m)
			e.toolCall = m.skipText(e) || e.toolCall
		case "arguments":
			seen.add(1, &m)
			e.toolCall = m.skipText(e) || e.toolCall
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

// skimFinish reads a finish reason. It is sure only of the reasons that servers are known to give.
func skimFinish(m *objectReader, e *event) {
	if m.skipNull() {
		return
	}
	start := m.at
	m.skip()
	if m.at < 0 {
		return
	}
	switch string(m.b[start:m.at]) {
	case `"stop"`:
		e.finish = "stop"
	case `"length"`:
		e.finish = "length"
	case `"tool_calls"`:
		e.finish = "tool_calls"
	case `"content_filter"`:
		e.finish = "content_filter"
	default:
		m.at = -1
	}
}

// skimUsageSpan sets the bytes of the usage object, which is decoded when the response has ended.
func skimUsageSpan(m *objectReader, e *event) {
	if m.skipNull() {
		return
	}
	start := m.at
	if i := m.enter('{'); i < 0 || m.b[i] == '}' {
		m.at = -1
		return
	}
	m.skip()
	if m.at >= 0 {
		e.usage = m.b[start:m.at]
	}
}
