package aiperf

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// failure is a kind of failure as the harness has it: the name of the exception, and those of its causes.
type failure struct {
	category wire.Category
	answered bool     // of Connection: a head of an answer had come
	begins   string   // what our message begins with
	code     int      // 0: none
	chain    []string // the first is the type
	text     string   // of the first cause; "": our message
}

// brokenChunk is what Python's aiohttp says of a body that ends inside a chunk.
const brokenChunk = `<TransferEncodingError: 400, message='Not enough data to satisfy transfer length header.'>`

// failures are the kinds of failures without an error status; the first that fits decides.
var failures = []failure{
	{category: wire.NoContent, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamPayload, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamTruncated, chain: []string{"InvalidInferenceResultError"}},
	{category: wire.StreamEvent, code: 502, chain: []string{"SSEResponseError"}},
	{category: wire.Stalled, chain: []string{"TimeoutError", "CancelledError"}},
	{category: wire.Timeout, chain: []string{"TimeoutError", "CancelledError"}},
	{category: wire.Cancelled, code: 499, chain: []string{"RequestCancellationError"}},
	{category: wire.Internal, begins: "dial ", chain: []string{"ClientConnectorError", "OSError"}}, // a limit of this machine
	{category: wire.Internal, begins: "write ", chain: []string{"ClientOSError", "OSError"}},
	{category: wire.Connection, answered: true, chain: []string{"ClientPayloadError", "TransferEncodingError"}, text: brokenChunk},
	{category: wire.Connection, begins: "lookup ", chain: []string{"ClientConnectorDNSError", "gaierror"}},
	{category: wire.Connection, begins: "tls: ", chain: []string{"ClientConnectorSSLError", "SSLError"}},
	{category: wire.Connection, begins: "dial ", chain: []string{"ClientConnectorError", "ConnectionRefusedError"}},
	{category: wire.Connection, begins: "the server closed the connection", chain: []string{"ServerDisconnectedError"}},
	{category: wire.Connection, begins: "response ", chain: []string{"ClientResponseError", "HttpProcessingError", "BadHttpMessage"}},
	{category: wire.Connection, chain: []string{"ClientOSError", "ConnectionResetError"}},
}

// statusErrors are the categories that tell an error status.
var statusErrors = map[wire.Category]bool{wire.HTTPStatus: true, wire.Overload: true, wire.ContextOverflow: true}

// harnessError returns a failure as the harness has it. The message of an error status is the body of the answer; that of another
// failure is ours, where the harness has the text of an exception.
func harnessError(e *measure.Error) *Error {
	if statusErrors[e.Category] && isErrorStatus(e.Code) {
		phrase, body, _ := strings.Cut(strings.TrimPrefix(e.Message, strconv.Itoa(e.Code)+" "), ": ")
		return &Error{Type: phrase, Code: e.Code, Message: body}
	}
	for _, f := range failures {
		if f.category == e.Category && f.answered == (f.category == wire.Connection && e.Code != 0) && strings.HasPrefix(e.Message, f.begins) {
			out := &Error{Type: f.chain[0], Code: f.code, Message: e.Message, CauseChain: f.chain}
			if len(f.chain) > 1 {
				out.Cause = e.Message
			}
			if f.text != "" {
				out.Message, out.Cause = fmt.Sprintf("%s(%q)", out.Type, "Response payload is not completed: "+f.text), f.text
			}
			return out
		}
	}
	return &Error{Type: string(e.Category), Message: e.Message} // the fault is on this side
}
