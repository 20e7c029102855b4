package messages

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/convert/text/content"
)

// dynamo reads request traces of Dynamo with request_payload, as a log of requests: doc/spec/text.md 8. A request is a payload and the row that
// tells its times and its session, which are in any order.
type dynamo struct {
	waiting map[string]*dynamoHalf // by request_id
	done    map[string]bool
}

// dynamoHalf is what is known of a request.
type dynamoHalf struct {
	number            int // of its first row
	request, response []byte
	session           string
	start, took       float64 // milliseconds
	out               []byte  // tokens
	ended             bool
}

// dynamoRow returns a row of a request trace, which may stand below event, and whether it is one.
func dynamoRow(v content.Raw) (content.Raw, bool) {
	if inner := member(v, "event"); inner.IsObject() {
		v = inner
	}
	return v, strings.HasPrefix(member(v, "schema").String(), "dynamo.")
}

// dynamoRow reads a row of a request trace.
func (r *Reader) dynamoRow(v content.Raw, number int) error {
	if r.dynamo.waiting == nil {
		r.dynamo = dynamo{map[string]*dynamoHalf{}, map[string]bool{}}
	}
	switch kind := member(v, "event_type").String(); kind {
	case "request_payload":
		return r.payload(member(v, "payload"), number)
	case "request_end":
		return r.ended(v, number)
	case "tool_start", "tool_end", "tool_error":
		r.Data.Warn("ignored:" + kind)
	default:
		r.Data.Warn("ignored:other")
	}
	return nil
}

// half returns what is known of a request, nil where it was read whole.
func (r *Reader) half(id string, number int) *dynamoHalf {
	if id == "" {
		id = fmt.Sprint("\x00", number)
	}
	h := r.dynamo.waiting[id]
	if h == nil {
		h = &dynamoHalf{number: number}
		r.dynamo.waiting[id] = h
	}
	return h
}

// payload reads a payload.
func (r *Reader) payload(v content.Raw, number int) error {
	request, id := member(v, "request"), member(v, "request_id").String()
	if !member(request, "messages").IsArray() {
		r.Data.Warn("no_content")
		return nil
	}
	if r.dynamo.done[id] {
		r.Data.Warn("copied_request")
		return nil
	}
	h := r.half(id, number)
	h.request, h.response = slices.Clone(request), slices.Clone(member(v, "response"))
	return r.send(id, h)
}

// ended reads the end of a request.
func (r *Reader) ended(v content.Raw, number int) error {
	q, agent := member(v, "request"), member(v, "agent_context")
	id := member(q, "request_id").String()
	if h := r.dynamo.waiting[id]; r.dynamo.done[id] || h != nil && h.ended {
		r.Data.Warn("copied_request")
		return nil
	}
	h := r.half(id, number)
	h.ended = true
	if h.session = member(agent, "trajectory_id").String(); h.session == "" {
		h.session = member(agent, "session_id").String()
	}
	if out := member(q, "output_tokens"); out.IsNumber() {
		h.out = slices.Clone(out)
	}
	var hasTook, hasStart bool
	h.took, hasTook = number64(member(q, "total_time_ms"))
	if h.start, hasStart = number64(member(q, "request_received_ms")); !hasStart {
		h.start, hasStart = number64(member(v, "event_time_unix_ms"))
		h.start -= h.took
	}
	if !hasTook || !hasStart {
		return errors.New("request: want total_time_ms, and request_received_ms or event_time_unix_ms")
	}
	if parent := member(agent, "parent_session_id"); !parent.IsNull() {
		r.Data.Warn("ignored:parent_session_id")
	}
	return r.send(id, h)
}

// send reads a request of which both rows are read.
func (r *Reader) send(id string, h *dynamoHalf) error {
	if h.request == nil || !h.ended {
		return nil
	}
	delete(r.dynamo.waiting, id)
	r.dynamo.done[id] = true
	return r.paired(h)
}

// paired reads a request as a row of a log of requests.
func (r *Reader) paired(h *dynamoHalf) error {
	row := append([]byte(`{"request":`), h.request...)
	if h.out != nil { // counts where the response has no usage
		row = append(append(row, `,"output_length":`...), h.out...)
	}
	if h.response != nil {
		row = append(append(row, `,"response":`...), h.response...)
	}
	if h.session != "" {
		quoted, _ := json.Marshal(h.session)
		row = append(append(row, `,"session_id":`...), quoted...)
	}
	if h.ended {
		row = fmt.Appendf(row, `,"timestamp":%s,"duration_ms":%s`, strconv.FormatFloat(h.start, 'f', -1, 64), strconv.FormatFloat(h.took, 'f', -1, 64))
	}
	v, err := content.Value(append(row, '}'))
	if err != nil {
		return err
	}
	var x record
	if err := x.read(v, true); err != nil {
		return content.Malformed(err)
	}
	list, err := r.messages(&x)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		r.Data.Warn("empty_prompt")
		return nil
	}
	return r.requested(&x, list, h.number)
}

// endDynamo reads payloads whose requests the log does not end, and counts requests without a payload.
func (r *Reader) endDynamo() error {
	for _, id := range slices.SortedFunc(maps.Keys(r.dynamo.waiting), func(a, b string) int { return r.dynamo.waiting[a].number - r.dynamo.waiting[b].number }) {
		if h := r.dynamo.waiting[id]; h.request == nil {
			r.Data.Warn("no_content")
		} else if err := r.paired(h); err != nil {
			return err
		}
	}
	return nil
}

// member returns a member of an object, nil where it has none.
func member(v content.Raw, name string) (found content.Raw) {
	_ = v.Object(func(key []byte, v content.Raw) error {
		if string(key) == name {
			found = v
		}
		return nil
	})
	return found
}
