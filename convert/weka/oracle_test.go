package weka

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/trace"
)

// This file is the oracle of Scan: slow and plain. encoding/json reads a tree of maps, and the schema of
// doc/spec/reconstruction.md 1 is applied to that.

// plainTrace is the result of a scan, written out: ids one by one, models by name.
type plainTrace struct {
	ID                      string
	BlockSize, Tool, System int64
	Scope                   trace.Scope
	Entries                 []plainEntry
	Unknown                 map[string]int
}

type plainEntry struct {
	T            float64
	Marker       bool
	Model        string
	In, Out      int64
	IDs          []int64
	Input        trace.InputTypes
	Stop         trace.StopReason
	API, Think   trace.Seconds
	Agent        string
	Completed    bool
	Duration     trace.Seconds // milliseconds here
	Tool, System int64
	Inner        []plainEntry
}

// plainOf writes out the result of Scan.
func plainOf(tr *trace.Trace) plainTrace {
	p := plainTrace{ID: tr.ID, BlockSize: tr.BlockSize, Tool: tr.ToolTokens, System: tr.SystemTokens, Scope: tr.Scope, Unknown: map[string]int{}}
	for name, n := range tr.Unknown {
		p.Unknown[name] = n
	}
	request := func(r trace.Request) plainEntry {
		return plainEntry{T: r.T, Model: tr.Models[r.Model], In: r.In, Out: r.Out, IDs: expandIDs(r.IDs),
			Input: r.Input, Stop: r.Stop, API: r.APITime, Think: r.ThinkTime}
	}
	for _, e := range tr.Entries {
		m := e.Subagent
		if m == nil {
			p.Entries = append(p.Entries, request(e.Request))
			continue
		}
		x := plainEntry{T: m.T, Marker: true, Agent: m.AgentID, Completed: m.Completed, Tool: m.ToolTokens, System: m.SystemTokens}
		if m.HasDuration {
			x.Duration = trace.Seconds{V: float64(m.DurationMS), OK: true}
		}
		for _, r := range m.Requests {
			x.Inner = append(x.Inner, request(r))
		}
		p.Entries = append(p.Entries, x)
	}
	return p
}

// expandIDs writes out a list of ids.
func expandIDs(l trace.IDs) (list []int64) {
	for _, r := range l.Runs {
		for k := range r.N {
			list = append(list, r.First+int64(k))
		}
	}
	return list
}

// oracle reads a trace. It panics with the reason why a trace is invalid.
type oracle struct {
	strict  bool
	unknown map[string]int
}

func scanSlowly(data []byte, strict bool) (p plainTrace, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return p, err
	}
	if _, err := d.Token(); err != io.EOF {
		return p, fmt.Errorf("data after the trace")
	}
	o := oracle{strict, map[string]int{}}
	return o.trace(tree), nil
}

func as[T any](v any) T {
	t, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("%v is a %T", v, v))
	}
	return t
}

func need(ok bool, why string) {
	if !ok {
		panic(why)
	}
}

func (o oracle) known(m map[string]any, keys ...string) {
	for key := range m {
		if !slices.Contains(keys, key) {
			need(!o.strict, "unknown "+key)
			o.unknown[key]++
		}
	}
}

// leaveOut deletes keys of some names that are null, unless the rules are strict.
func (o oracle) leaveOut(m map[string]any, names ...string) {
	for _, name := range names {
		if v, ok := m[name]; ok && v == nil && !o.strict {
			delete(m, name)
		}
	}
}

func whole64(v any) int64 {
	text := string(as[json.Number](v))
	if k := strings.IndexAny(text, "eE"); k >= 0 { // an exponent that big.Rat could not hold decides by itself
		e, err := strconv.Atoi(text[k+1:])
		if err != nil || e > 10_000 || e < -10_000 {
			need(strings.Trim(text[:k], "-0.") == "", "out of range")
			return 0
		}
	}
	r, ok := new(big.Rat).SetString(text)
	need(ok && r.IsInt() && r.Num().IsInt64(), "no whole number of 64 bits")
	return r.Num().Int64()
}

func bounded(v any, most int64) int64 {
	n := whole64(v)
	need(n <= most && n >= -most, "too large")
	return n
}

func timeOf(v any) float64 {
	f, err := strconv.ParseFloat(string(as[json.Number](v)), 64)
	need(err == nil && math.Abs(f) <= trace.MaxSeconds, "no time")
	return f
}

func words(v any) (list []string) {
	for _, w := range as[[]any](v) {
		list = append(list, as[string](w))
	}
	return list
}

func orNull[T any](v any, read func(any) T) (t T, ok bool) {
	if v == nil {
		return t, false
	}
	return read(v), true
}

func (o oracle) trace(v any) plainTrace {
	m := as[map[string]any](v)
	o.leaveOut(m, "hash_id_scope", "tool_tokens", "system_tokens")
	o.known(m, "id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "requests", "totals")
	p := plainTrace{ID: as[string](m["id"]), BlockSize: whole64(m["block_size"]), Unknown: o.unknown}
	words(m["models"])
	need(p.BlockSize > 0 && p.BlockSize <= trace.MaxBlockSize, "block size")
	if scope, ok := m["hash_id_scope"]; ok {
		p.Scope = map[string]trace.Scope{"local": trace.ScopeLocal, "global": trace.ScopeGlobal}[as[string](scope)]
		need(p.Scope == trace.ScopeLocal || p.Scope == trace.ScopeGlobal && !o.strict, "scope")
	}
	need(p.Scope != trace.ScopeAbsent || !o.strict, "no scope")
	p.Tool, p.System = o.declared(m)
	if m["totals"] != nil {
		as[map[string]any](m["totals"])
	}
	for _, e := range as[[]any](m["requests"]) {
		p.Entries = append(p.Entries, o.entry(as[map[string]any](e), false))
	}
	return p
}

func (o oracle) declared(m map[string]any) (tool, system int64) {
	if v, ok := m["tool_tokens"]; ok {
		tool = bounded(v, trace.MaxTokens)
	}
	if v, ok := m["system_tokens"]; ok {
		system = bounded(v, trace.MaxTokens)
	}
	return tool, system
}

// The keys of both types: null counts as a key left out.
var (
	requestNames  = []string{"t", "type", "model", "in", "input_length", "out", "output_length", "hash_ids", "input_types", "output_types", "stop", "api_time", "think_time", "ttft"}
	subagentNames = []string{"t", "type", "agent_id", "subagent_type", "duration_ms", "total_tokens", "tool_use_count", "status", "requests", "models", "tool_tokens", "system_tokens"}
)

func (o oracle) entry(m map[string]any, inside bool) (e plainEntry) {
	o.leaveOut(m, append(slices.Clone(requestNames), subagentNames...)...)
	kind := as[string](m["type"])
	e.T = timeOf(m["t"])
	if kind == "subagent" {
		need(!inside, "nested")
		return o.subagent(m, e)
	}
	keys := slices.DeleteFunc(slices.Clone(requestNames), func(name string) bool { return name == "ttft" })
	switch kind {
	case "n":
	case "s":
		keys = append(keys, "ttft")
		orNull(m["ttft"], timeOf)
	default:
		need(!o.strict, "type")
		o.unknown["type "+strconv.Quote(trace.Clip([]byte(kind)))]++
	}
	o.known(m, keys...)
	e.Model = as[string](m["model"])
	e.In, e.Out = o.either(m, "in", "input_length"), o.either(m, "out", "output_length")
	need(e.In >= 0 && e.In <= trace.MaxTokens && e.Out <= trace.MaxTokens && e.Out >= -trace.MaxTokens, "length")
	if v, ok := m["hash_ids"]; ok {
		for _, id := range as[[]any](v) {
			e.IDs = append(e.IDs, whole64(id))
		}
	}
	if v, ok := m["input_types"]; ok {
		if list := words(v); slices.Contains(list, "tool_result") {
			e.Input = trace.InputTool
		} else if len(list) > 0 {
			e.Input = trace.InputUser
		}
	}
	if v, ok := m["output_types"]; ok {
		words(v)
	}
	if v, ok := m["stop"]; ok {
		switch as[string](v) {
		case "":
		case "tool_use":
			e.Stop = trace.StopTool
		default:
			e.Stop = trace.StopOther
		}
	}
	e.API.V, e.API.OK = orNull(m["api_time"], timeOf)
	e.Think.V, e.Think.OK = orNull(m["think_time"], timeOf)
	return e
}

func (o oracle) either(m map[string]any, short, long string) int64 {
	a, hasA := m[short]
	b, hasB := m[long]
	switch {
	case hasA && hasB:
		need(!o.strict && whole64(a) == whole64(b), "both")
		return whole64(a)
	case hasB:
		return whole64(b)
	}
	return whole64(a)
}

func (o oracle) subagent(m map[string]any, e plainEntry) plainEntry {
	o.known(m, subagentNames...)
	e.Marker, e.Agent = true, as[string](m["agent_id"])
	for _, key := range []string{"subagent_type", "status"} {
		if v := m[key]; v != nil || o.strict {
			as[string](v)
		}
	}
	e.Completed = m["status"] == "completed"
	if v, ok := m["models"]; ok || o.strict {
		words(v)
	}
	n, ok := orNull(m["duration_ms"], whole64)
	e.Duration = trace.Seconds{V: float64(n), OK: ok}
	orNull(m["total_tokens"], whole64)
	orNull(m["tool_use_count"], whole64)
	e.Tool, e.System = o.declared(m)
	for _, r := range as[[]any](m["requests"]) {
		e.Inner = append(e.Inner, o.entry(as[map[string]any](r), true))
	}
	return e
}

var surrogate = regexp.MustCompile(`(?i)\\u(d[89ab]..(\\u)?|d[c-f])`)

// oddity names where Scan and its oracle differ on purpose, "" where they must agree:
//
//	bad UTF-8      encoding/json replaces it, Scan refuses it: ids of traces salt hashes
//	surrogates     the same, for \ud800 without its other half
//	key twice      encoding/json keeps the last value; so does Scan, but it reads all of them, and counts unknown ones twice
//	deep nesting   Scan stops at 512, encoding/json at 10,000
//
// The case of keys is no difference: the tree of maps has keys as they are.
func oddity(data []byte) string {
	if !utf8.Valid(data) {
		return "bad UTF-8"
	}
	if surrogate.Match(data) {
		return "surrogates"
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type open struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []open
	for {
		tok, err := d.Token()
		if err != nil {
			return ""
		}
		top := len(stack) - 1
		switch delim, _ := tok.(json.Delim); {
		case delim == '}' || delim == ']':
			stack = stack[:top]
			top--
			if top >= 0 {
				stack[top].key = true
			}
			continue
		case top >= 0 && stack[top].keys != nil && stack[top].key:
			if stack[top].keys[tok.(string)] {
				return "key twice"
			}
			stack[top].keys[tok.(string)] = true
			stack[top].key = false
			continue
		case delim == '{':
			stack = append(stack, open{map[string]bool{}, true})
		case delim == '[':
			stack = append(stack, open{})
		case top >= 0:
			stack[top].key = true
		}
		if len(stack) > maxDepth {
			return "deep nesting"
		}
	}
}
