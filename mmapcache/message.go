package mmapcache

import "fmt"

// openings of a message in a chat request, by role.
var openings = func() (o [3]string) {
	for r := range o {
		o[r] = `{"role":"` + Role(r).String() + `","content":"`
	}
	return o
}()

// Opening returns what stands before a message's content in a chat request.
func (m *Message) Opening() string {
	if m.Tool != None && m.Role == User {
		return `{"role":"tool","tool_call_id":"` + CallID(m.Tool) + `","content":"`
	}
	return openings[m.Role]
}

// Closing returns what stands behind it.
func (m *Message) Closing() string {
	if m.Tool != None && m.Role == Assistant {
		return `","tool_calls":[{"id":"` + CallID(m.Tool) + `","type":"function","function":{"name":"recorded_tool","arguments":"{}"}}]}`
	}
	return `"}`
}

// CallID names the call of a tool whose result a turn brings.
func CallID(turn int32) string { return fmt.Sprintf("call_turn_%d", turn) }
