package mmapcache

import "fmt"

// MessageKind says what a message is to a tool call.
type MessageKind uint8

const (
	TextMessage       MessageKind = iota // neither of the others
	ToolCallMessage                      // of the assistant: it calls a tool
	ToolResultMessage                    // the answer to the call of the message before it
)

// Kind returns what the message is to a tool call. The two messages of one call have the same CallID.
func (m *Message) Kind() MessageKind {
	switch {
	case m.ToolTurn != None && m.Role == Assistant:
		return ToolCallMessage
	case m.ToolTurn != None && m.Role == User:
		return ToolResultMessage
	}
	return TextMessage
}

// CallID names the tool call that the message makes or answers. A text message has none.
func (m *Message) CallID() string { return CallID(m.ToolTurn) }

// CallID names the tool call whose result a turn brings.
func CallID(turn int32) string { return fmt.Sprintf("call_turn_%d", turn) }
