package weka

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/agentx/agentx/trace"
)

// Recording is a trace to be written: doc/spec/reconstruction.md 1 with every key, in the order of doc/spec/capture.md 9.3. Its
// hash_id_scope is local, or global. models and totals are computed.
type Recording struct {
	ID           string
	BlockSize    int
	Global       bool // numbers of blocks are those of all traces that were made with it
	ToolTokens   int
	SystemTokens int
	Entries      []RecordedEntry
}

// RecordedEntry is a request, or a subagent.
type RecordedEntry struct {
	RecordedRequest
	Subagent *RecordedSubagent // nil for a request
}

// RecordedRequest is a request of a Recording.
type RecordedRequest struct {
	T           Millis
	Streamed    bool
	Model       string
	In, Out     int
	IDs         trace.IDs
	InputTypes  []string
	OutputTypes []string
	Stop        string
	APITime     Millis // Unknown where it is left out
	TTFT        Millis // likewise
	ThinkTime   Millis // likewise
}

// RecordedSubagent is a subagent of a Recording.
type RecordedSubagent struct {
	T            Millis
	AgentID      string
	Type         string
	Status       string
	Duration     Millis // Unknown is written as null, and so in the next two
	TotalTokens  int64
	ToolUses     int64
	ToolTokens   int
	SystemTokens int
	Requests     []RecordedRequest
}

// Millis is a time or a number of milliseconds, which is written in seconds.
type Millis int64

// Unknown stands for a number that a recording does not have.
const Unknown = -1

// AppendJSON appends the trace as one JSON object and LF.
func (r *Recording) AppendJSON(dst []byte) []byte {
	w := recordingWriter{text: append(dst, '{')}
	w.value("id", r.ID)
	w.value("models", asList(r.Models()))
	w.value("block_size", r.BlockSize)
	w.value("hash_id_scope", map[bool]string{false: "local", true: "global"}[r.Global])
	w.value("tool_tokens", r.ToolTokens)
	w.value("system_tokens", r.SystemTokens)
	w.key("requests")
	w.text = append(w.text, '[')
	for k, e := range r.Entries {
		w.separate(k)
		if e.Subagent != nil {
			w.subagent(e.Subagent)
		} else {
			w.request(&e.RecordedRequest)
		}
	}
	w.text = append(w.text, ']')
	w.value("totals", r.Totals())
	return append(w.text, '}', '\n')
}

// Models lists the models of all requests in the order of first use.
func (r *Recording) Models() []string {
	var names []string
	for _, e := range r.Entries {
		if e.Subagent == nil {
			names = addName(names, e.Model)
			continue
		}
		for _, name := range e.Subagent.Models() {
			names = addName(names, name)
		}
	}
	return names
}

// Models lists the models of the subagent in the order of first use.
func (s *RecordedSubagent) Models() (names []string) {
	for _, q := range s.Requests {
		names = addName(names, q.Model)
	}
	return names
}

// addName appends a name, unless the list has it.
func addName(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// Totals are the sums that a trace states.
type Totals struct {
	Parent    TokenTotals `json:"parent_tokens"`
	Subagents TokenTotals `json:"subagent_tokens"`
	Combined  TokenTotals `json:"combined_tokens"`
	Count     int         `json:"subagent_count"`
}

// TokenTotals are sums of tokens.
type TokenTotals struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
}

// add adds a request, of a subagent or not.
func (t *Totals) add(ofSubagent bool, in, out int64) {
	own := &t.Parent
	if ofSubagent {
		own = &t.Subagents
	}
	for _, sum := range []*TokenTotals{own, &t.Combined} {
		sum.Input += in
		sum.Output += out
	}
}

// Totals returns the sums of the recording.
func (r *Recording) Totals() (t Totals) {
	for _, e := range r.Entries {
		if e.Subagent == nil {
			t.add(false, int64(e.In), int64(e.Out))
			continue
		}
		t.Count++
		for _, q := range e.Subagent.Requests {
			t.add(true, int64(q.In), int64(q.Out))
		}
	}
	return t
}

// recordingWriter writes the objects of a recording.
type recordingWriter struct {
	text     []byte
	digits   []byte // ids 0, 1, 2, ... below digitsOf, with a comma after each
	digitsOf int64
}

// separate writes a comma before all but the first.
func (w *recordingWriter) separate(k int) {
	if k > 0 {
		w.text = append(w.text, ',')
	}
}

// key writes the name of a member of the open object.
func (w *recordingWriter) key(name string) {
	if w.text[len(w.text)-1] != '{' {
		w.text = append(w.text, ',')
	}
	w.text = append(append(append(w.text, '"'), name...), '"', ':')
}

// value writes a value that encoding/json marshals whatever it is.
func (w *recordingWriter) value(name string, v any) {
	w.key(name)
	text, _ := json.Marshal(v)
	w.text = append(w.text, text...)
}

// unlessUnknown returns a number as it is written: null where it is unknown.
func unlessUnknown(v int64) any {
	if v == Unknown {
		return nil
	}
	return v
}

// asList returns a list that is written as one, even without words.
func asList(list []string) []string { return append([]string{}, list...) }

// seconds writes milliseconds as seconds, with at most three decimals and no trailing zeros.
func (w *recordingWriter) seconds(name string, v Millis) {
	w.key(name)
	w.text = strconv.AppendInt(w.text, int64(v/1000), 10)
	if rest := v % 1000; rest != 0 {
		digits := strconv.AppendInt(nil, int64(rest+1000), 10)[1:]
		for digits[len(digits)-1] == '0' {
			digits = digits[:len(digits)-1]
		}
		w.text = append(append(w.text, '.'), digits...)
	}
}

// ids writes the member hash_ids, with its runs spelled out.
func (w *recordingWriter) ids(list trace.IDs) {
	w.key("hash_ids")
	w.text = append(w.text, '[')
	for _, run := range list.Runs {
		w.run(run)
	}
	if list.Len > 0 {
		w.text = w.text[:len(w.text)-1]
	}
	w.text = append(w.text, ']')
}

// maxDigits bounds the ids of which a writer keeps the digits.
const maxDigits = 1 << 20

// run writes the ids of a run with a comma after each. Requests repeat the ids of those before them, so it writes 0,1,2,... once
// and copies from there.
func (w *recordingWriter) run(r trace.Run) {
	end := r.First + int64(r.N)
	if r.First < 0 || end > maxDigits {
		for k := range r.N {
			w.text = append(strconv.AppendInt(w.text, r.First+int64(k), 10), ',')
		}
		return
	}
	for ; w.digitsOf < end; w.digitsOf++ {
		w.digits = append(strconv.AppendInt(w.digits, w.digitsOf, 10), ',')
	}
	begin := textLen(trace.Run{N: int(r.First)})
	w.text = append(w.text, w.digits[begin:begin+textLen(r)]...)
}

// request writes a request as a JSON object.
func (w *recordingWriter) request(r *RecordedRequest) {
	w.text = append(w.text, '{')
	w.seconds("t", r.T)
	w.value("type", map[bool]string{false: "n", true: "s"}[r.Streamed])
	w.value("model", r.Model)
	w.value("in", r.In)
	w.value("out", r.Out)
	w.ids(r.IDs)
	w.value("input_types", asList(r.InputTypes))
	w.value("output_types", asList(r.OutputTypes))
	w.value("stop", r.Stop)
	if r.APITime != Unknown {
		w.seconds("api_time", r.APITime)
	}
	if r.Streamed && r.TTFT != Unknown {
		w.seconds("ttft", r.TTFT)
	}
	if r.ThinkTime != Unknown {
		w.seconds("think_time", r.ThinkTime)
	}
	w.text = append(w.text, '}')
}

// subagent writes a subagent with its requests as a JSON object.
func (w *recordingWriter) subagent(s *RecordedSubagent) {
	w.text = append(w.text, '{')
	w.seconds("t", s.T)
	w.value("type", "subagent")
	w.value("agent_id", s.AgentID)
	w.value("subagent_type", s.Type)
	w.value("duration_ms", unlessUnknown(int64(s.Duration)))
	w.value("total_tokens", unlessUnknown(s.TotalTokens))
	w.value("tool_use_count", unlessUnknown(s.ToolUses))
	w.value("status", s.Status)
	w.value("models", asList(s.Models()))
	w.value("tool_tokens", s.ToolTokens)
	w.value("system_tokens", s.SystemTokens)
	w.key("requests")
	w.text = append(w.text, '[')
	for k := range s.Requests {
		w.separate(k)
		w.request(&s.Requests[k])
	}
	w.text = append(w.text, ']', '}')
}
