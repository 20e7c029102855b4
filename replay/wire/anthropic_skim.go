package wire

// skimMessagesEvent reads a payload of the Messages API. The event is valid only when sure.
func skimMessagesEvent(b []byte) (e event, sure bool) {
	m := openObject(b, skipSpace(b, 0))
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "type":
			seen.add(0, &m)
			skimType(&m, &e)
		case "delta", "content_block":
			seen.add(1, &m) // sure only of one of them
			skimBlock(&m, &e)
			e.blank = e.blank && string(m.name) == "delta" // the start of a block is always empty
		case "message":
			seen.add(2, &m)
			skimStart(&m, &e)
		case "usage":
			seen.add(2, &m) // sure only of one of them
			skimUsageSpan(&m, &e)
		case "error":
			seen.add(3, &m)
			m.expectNull()
		case "content", "stop_reason", "object": // of a complete message, of which a request has one, or of an error
			m.at = -1
		default:
			m.skip()
		}
	}
	if m.at < 0 || skipSpace(b, m.at) != len(b) {
		return event{}, false
	}
	return e, true
}

// skimType reads the type of an event, a string without escapes.
func skimType(m *objectReader, e *event) {
	start := m.at
	end, plain := skipString(m.b, start)
	m.at = -1
	if end < 0 || !plain {
		return
	}
	switch string(m.b[start+1 : end-1]) {
	case "error":
	case "message_stop":
		e.last = true
		fallthrough
	default:
		m.at = end
	}
}

// skimBlock reads the block of content_block_start, what content_block_delta adds to it, or the end of message_delta.
func skimBlock(outer *objectReader, e *event) {
	if outer.skipNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "text":
			seen.add(0, &m)
			e.content = m.skipContent(e)
		case "thinking":
			seen.add(1, &m)
			e.reasoning = m.skipContent(e)
		case "partial_json":
			seen.add(2, &m)
			e.toolCall = m.skipText(e) || e.toolCall
		case "name":
			seen.add(3, &m)
			e.toolCall = m.skipText(e) || e.toolCall
		case "stop_reason":
			seen.add(4, &m)
			skimReason(&m, e)
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

// skimStart reads the message of message_start, which has no content yet.
func skimStart(outer *objectReader, e *event) {
	if outer.skipNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen seenMembers
	for m.next() {
		switch string(m.name) {
		case "usage":
			seen.add(0, &m)
			skimUsageSpan(&m, e)
		case "content":
			seen.add(1, &m)
			if i := m.enter('['); i < 0 || m.b[i] != ']' {
				m.at = -1
			} else {
				m.at = i + 1
			}
		case "stop_reason":
			seen.add(2, &m)
			m.expectNull()
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

// stopReasons are the reasons that skimming knows.
var stopReasons = [...]string{"end_turn", "max_tokens", "tool_use", "stop_sequence", "pause_turn", "refusal"}

// skimReason reads a stop reason. It is sure only of those that servers are known to give.
func skimReason(m *objectReader, e *event) {
	if m.skipNull() {
		return
	}
	start := m.at
	end, plain := skipString(m.b, start)
	m.at = -1
	if end < 0 || !plain {
		return
	}
	for _, reason := range stopReasons {
		if string(m.b[start+1:end-1]) == reason {
			e.finish, m.at = reason, end
		}
	}
}
