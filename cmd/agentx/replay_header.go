package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay"
)

const requestGroup = "Bodies and headers"

// requestSettings say how requests are written.
var requestSettings = []setting{
	{name: "ContentParts", group: requestGroup, kind: yesOrNo, value: false,
		about: "contents of messages are lists of one text part, not strings; the marker is a part of its own",
		apply: func(o *replay.Options, v any) { o.Parts = v.(bool) }},
	{name: "CorrelationHeader", group: requestGroup, kind: headerName, value: replay.DefaultCorrelationHeader,
		about: "header with the id of the session",
		apply: func(o *replay.Options, v any) { o.SessionHeader.Correlation = v.(string) }},
	{name: "SessionHeaders", alias: "session-header", group: requestGroup, kind: headerNames.orOff(),
		about: "NAME, a further header with the id of the session, such as X-Session-ID, X-SMG-Routing-Key or X-Dynamo-Session-ID, which brings X-Dynamo-Parent-Session-ID (repeatable, or with commas)",
		apply: func(o *replay.Options, v any) { o.SessionHeader.More = headerList(v) }},
}

// headerPattern is the name of a header.
const headerPattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// headerName is the name of a header that has the id of a session.
var headerName = kind{
	want: "the name of a header that requests do not have already", flag: "string", tags: []string{yamlText},
	schema: map[string]any{"type": "string", "pattern": "^" + headerPattern + "$"},
	parse: func(text string) (any, bool) {
		return text, text != "" && replay.SessionHeader{Correlation: text}.Validate() == nil
	},
}

// headerNames are names of headers with commas between them.
var headerNames = kind{
	want: "names of headers with commas between, none twice and none that requests have already", flag: "strings", list: true, tags: []string{yamlText},
	schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": headerName.schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^ *" + headerPattern + "( *, *" + headerPattern + ")* *$"},
	}},
	parse: func(text string) (any, bool) {
		list := headerList(text)
		return strings.Join(list, ","), len(list) > 0 && !slices.Contains(list, "") && replay.SessionHeader{More: list}.Validate() == nil
	},
}

// headerList returns the names in a value of headerNames.
func headerList(v any) (list []string) {
	text, _ := v.(string)
	if text == "" {
		return nil
	}
	for name := range strings.SplitSeq(text, ",") {
		list = append(list, strings.TrimSpace(name))
	}
	return list
}

// sessionVariables are variables of the environment that switch a header on. They are those of AIPerf but for the first word.
var sessionVariables = []struct{ variable, header string }{
	{"AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "X-Session-ID"},
	{"AGENTX_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "X-SMG-Routing-Key"},
	{"AGENTX_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID", "X-Dynamo-Session-ID"},
}

// readSessionVariables gives SessionHeaders what the environment says: the twin of its flag, and the variables that switch one
// header on.
func (r *resolution) readSessionVariables(alias *setting) {
	names, from, shown := []string{}, []string{}, []string{}
	if text := os.Getenv(twin(alias.alias)); text != "" {
		from, shown = append(from, twin(alias.alias)), append(shown, twin(alias.alias)+"="+text)
		if text != "off" {
			names = append(names, text)
		}
	}
	for _, v := range sessionVariables {
		text := os.Getenv(v.variable)
		on, err := strconv.ParseBool(text)
		switch {
		case text == "":
			continue
		case err != nil:
			r.add("%s=%s: want true or false", v.variable, text)
			continue
		case !on:
			continue
		}
		from, shown = append(from, v.variable), append(shown, v.variable+"="+text)
		if !slices.ContainsFunc(headerList(strings.Join(names, ",")), func(name string) bool { return strings.EqualFold(name, v.header) }) {
			names = append(names, v.header)
		}
	}
	if len(from) == 0 {
		return
	}
	text := strings.Join(names, ",")
	if text == "" {
		text = "off"
	}
	r.give(given{alias, text, strings.Join(shown, " "), origin{fromEnvironment, strings.Join(from, ", ")}})
}
