package settings

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/wire"
)

// What is wrong with a word, in the same words everywhere.
var wrongWord, meant = suggest.Wrong, suggest.Meant

// serverURLs reads servers with commas between; HOST:PORT is http://HOST:PORT. Errors leave them out: they may hold a password.
func serverURLs(text string) (list []string, err error) {
	if text == "" {
		return nil, nil
	}
	list = strings.Split(text, ",")
	for k, server := range list {
		if !strings.Contains(server, "://") {
			if u, err := url.Parse("http://" + server); err == nil && u.Port() != "" {
				server = "http://" + server
				list[k] = server
			}
		}
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, errors.New("want http://HOST:PORT, HOST:PORT or https://HOST")
		}
		if _, err := wire.New(server, wire.Options{}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// redactedURLs returns URLs without secrets: one as a text, several as a list.
func redactedURLs(v any) any {
	list := slices.Clone(v.([]string))
	for k := range list {
		list[k] = replay.RedactURL(list[k])
	}
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// scrapePages reads pages of metrics with commas between, or off.
func scrapePages(text string) (list []string, err error) {
	for page := range strings.SplitSeq(text, ",") {
		if page != "" {
			list = append(list, page)
		}
	}
	return list, replay.Scrape{Pages: scrapeOf(list).Pages}.Validate()
}

func scrapeOf(v any) (s replay.Scrape) {
	list, _ := v.([]string)
	s.Off = slices.Contains(list, "off")
	s.Pages = slices.DeleteFunc(slices.Clone(list), func(page string) bool { return page == "off" })
	return s
}

// headerField reads NAME:VALUE, which may be a secret.
func headerField(text string) ([]wire.HeaderField, error) {
	name, value, ok := strings.Cut(text, ":")
	field := wire.HeaderField{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
	if !ok {
		return nil, errors.New("a field without a colon: want NAME:VALUE")
	}
	return []wire.HeaderField{field}, field.Validate()
}

func headerFieldNames(v any) any {
	var names []string
	for _, field := range v.([]wire.HeaderField) {
		names = append(names, field.Name)
	}
	return names
}

// overflowPattern reads a regular expression, which matches in any letter case.
func overflowPattern(text string) ([]*regexp.Regexp, error) {
	pattern, err := regexp.Compile("(?i)" + text)
	if _, own := regexp.Compile(text); own != nil {
		return nil, own
	}
	if err == nil && pattern.MatchString("") {
		err = errors.New("the pattern matches every text: want one that only messages about overflows match")
	}
	return []*regexp.Regexp{pattern}, err
}

func patternTexts(v any) any {
	var texts []string
	for _, pattern := range v.([]*regexp.Regexp) {
		texts = append(texts, strings.TrimPrefix(pattern.String(), "(?i)"))
	}
	return texts
}

// headerPattern is the name of a header.
const headerPattern = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

// headerName is the name of a header that has the id of a session.
var headerName = Kind{
	Want: "the name of a header that requests do not have already", Type: "string", Tags: []string{Text},
	Schema: map[string]any{"type": "string", "pattern": "^" + headerPattern + "$"},
	Read: func(text string) (any, bool) {
		return text, text != "" && replay.SessionHeader{Correlation: text}.Validate() == nil
	},
}

// headerNames are names of headers with commas between them.
var headerNames = Kind{
	Want: "names of headers with commas between, none twice and none that requests have already", Type: "strings", Commas: true, Joins: true, Tags: []string{Text},
	Schema: map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": headerName.Schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^ *" + headerPattern + "( *, *" + headerPattern + ")* *$"},
	}},
	Read: func(text string) (any, bool) {
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

// switching are variables of the environment that switch a header on. They are those of AIPerf but for the first word.
var switching = []struct{ variable, header string }{
	{"AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "X-Session-ID"},
	{"AGENTX_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "X-SMG-Routing-Key"},
	{"AGENTX_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID", "X-Dynamo-Session-ID"},
}

// sessionVariables gives --session-header what the environment says: its own variable, and those that switch one header on.
func sessionVariables(give func(text, shown, at string)) (wrong error) {
	var names, from, shown []string
	own := Variable("session-header")
	if text := os.Getenv(own); text != "" {
		from, shown = append(from, own), append(shown, own+"="+text)
		if text != "off" {
			names = append(names, text)
		}
	}
	for _, v := range switching {
		text := os.Getenv(v.variable)
		on, err := strconv.ParseBool(text)
		switch {
		case text == "" || err == nil && !on:
			continue
		case err != nil:
			wrong = fmt.Errorf("%s=%s: want true or false", v.variable, text)
			continue
		}
		from, shown = append(from, v.variable), append(shown, fmt.Sprintf("%s=%s", v.variable, text))
		if !slices.ContainsFunc(headerList(strings.Join(names, ",")), func(name string) bool { return strings.EqualFold(name, v.header) }) {
			names = append(names, v.header)
		}
	}
	switch {
	case len(from) == 0:
	case len(names) == 0:
		give("off", strings.Join(shown, " "), strings.Join(from, ", "))
	default:
		give(strings.Join(names, ","), strings.Join(shown, " "), strings.Join(from, ", "))
	}
	return wrong
}
