package weka

import (
	"bytes"
	"slices"

	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// Keys of a trace, and those of them that no rules let a writer leave out: doc/spec/reconstruction.md 1.1.
var (
	traceKeys     = []string{"id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "totals", "requests"}
	traceRequires = []string{"id", "models", "block_size", "requests"}
)

// readTrace reads the whole text as a trace.
func (s *scanner) readTrace() {
	if s.lex.AtEnd() {
		s.fail(trace.NotJSON, "not JSON: it is empty")
		s.err.Hint = "fetch or copy the file again"
		return
	}
	if s.lex.Kind() == jsonlex.Array {
		s.refuseForeign(foreign.OfText(s.lex.Data[s.lex.Pos:]))
	}
	if !s.want(jsonlex.Object) {
		return
	}
	given := map[string]bool{}
	var unknown []member
	s.object(func(name string) {
		if slices.Contains(traceKeys, name) {
			given[name] = true
			s.assignTrace(name, s)
			return
		}
		from := s.lex.Pos
		s.skip()
		s.need(trace.NameBytes + len(name))
		unknown = append(unknown, member{name, shortText(s.lex.Data[from:s.lex.Pos])})
	})
	s.end()
	s.finishTrace(given, unknown)
}

// member is a key of a row that the schema of traces does not have, with its value where that is a short string.
type member struct{ name, text string }

// maxText bounds the bytes of a value by which a row is recognized.
const maxText = 64

// shortText returns the string that a JSON text is, its escapes as they stand; "" for a longer text and for any other value.
func shortText(text []byte) string {
	text = bytes.TrimSpace(text)
	if n := len(text); n >= 2 && n <= maxText && text[0] == '"' {
		return string(text[1 : n-1])
	}
	return ""
}

// finishTrace checks the keys of a trace: those that are given, and those that the schema does not have.
func (s *scanner) finishTrace(given map[string]bool, unknown []member) {
	if !given["requests"] {
		s.refuseForeign(foreignOf(unknown))
	}
	for _, m := range unknown {
		s.unknown(m.name)
	}
	s.requireTraceKeys(given)
}

// assignTrace reads the value of a key of the trace itself from a source.
func (s *scanner) assignTrace(name string, from source) {
	switch name {
	case "id":
		s.tr.ID = from.text()
	case "models":
		from.texts("")
	case "block_size":
		s.tr.BlockSize = from.whole()
	case "hash_id_scope":
		s.assignScope(from)
	case "tool_tokens":
		s.tr.ToolTokens = s.declared(from)
	case "system_tokens":
		s.tr.SystemTokens = s.declared(from)
	case "requests":
		s.tr.Entries, s.tr.Models, s.tr.Unknown = s.tr.Entries[:0], nil, nil
		from.elements(false, func(e trace.Entry) { s.tr.Entries = append(s.tr.Entries, e) })
	case "totals":
		if s.tr.HasTotals = !from.null(); s.tr.HasTotals {
			from.skipObject()
		}
	}
}

// refuseForeign refuses a row of a format that is known; nil is none.
func (s *scanner) refuseForeign(f *foreign.Format) {
	if f != nil && s.err == nil {
		s.fail(trace.MissingField, "this is %s", f.Name())
		s.err.Hint = f.Hint()
	}
}

// foreignOf recognizes what another program wrote by the members of a row that has no requests.
func foreignOf(row []member) *foreign.Format {
	find := func(name string) (string, bool) {
		k := slices.IndexFunc(row, func(m member) bool { return m.name == name })
		if k < 0 {
			return "", false
		}
		return row[k].text, true
	}
	if _, has := find("hash_ids"); has {
		return nil
	}
	return foreign.OfRow(find)
}

// requireTraceKeys refuses a trace that lacks a required key.
func (s *scanner) requireTraceKeys(given map[string]bool) {
	if s.err != nil {
		return
	}
	switch {
	case !given["id"]:
		s.missing("id")
	case !given["models"]:
		s.missing("models")
	case !given["block_size"]:
		s.missing("block_size")
	case !given["hash_id_scope"] && s.strict:
		s.missing("hash_id_scope")
	case !given["requests"]:
		s.missing("requests")
	}
	if (!given["id"] || !given["models"]) && !given["block_size"] && !given["requests"] {
		s.err.Hint = hintForm
	}
}

// end fails unless the text ends here.
func (s *scanner) end() {
	if s.err == nil && !s.lex.AtEnd() {
		s.fail(trace.NotJSON, "not JSON: byte %d: data after the value: a file has one, or one on each line", s.lex.Pos)
		s.err.Hint = hintLines
	}
}

// declared reads a declared count of tokens, 0 where it is left out.
func (s *scanner) declared(from source) int64 {
	if !s.strict && from.null() {
		return 0
	}
	return from.whole()
}

// assignScope reads hash_id_scope.
func (s *scanner) assignScope(from source) {
	s.tr.Scope = trace.ScopeAbsent
	if !from.null() {
		s.setScope(from.text())
	} else if s.strict {
		s.fail(trace.BadScope, "hash_id_scope null: want \"local\"")
		s.err.Hint = hintNull
	}
}

func (s *scanner) setScope(name string) {
	switch {
	case s.err != nil:
	case name == "local":
		s.tr.Scope = trace.ScopeLocal
	case name == "global" && !s.strict:
		s.tr.Scope = trace.ScopeGlobal
	case name == "global":
		s.fail(trace.BadScope, "hash_id_scope \"global\": strict rules (--profile aiperf, unknown_keys=reject) take \"local\" only")
		s.err.Hint = hintDefault
	case s.strict:
		s.fail(trace.BadScope, "hash_id_scope %q: want \"local\"", trace.Clip([]byte(name)))
	default:
		s.fail(trace.BadScope, "hash_id_scope %q: want \"local\" or \"global\"", trace.Clip([]byte(name)))
	}
}
