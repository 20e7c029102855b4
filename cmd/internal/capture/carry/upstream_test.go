package carry

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrefixesAreCutOff(t *testing.T) {
	long := strings.Repeat("n", 128)
	for path, want := range map[string][3]string{
		"/s/me/v1/messages":        {"me", "", "/v1/messages"},
		"/s/me/":                   {"me", "", "/"},
		"/s/me/a/b.C-9_/v1/x":      {"me", "b.C-9_", "/v1/x"},
		"/s/me/a/b/":               {"me", "b", "/"},
		"/s/me/a/b":                {"me", "", "/a/b"},
		"/s/me/a/b%20/v1":          {"me", "", "/a/b%20/v1"},
		"/s/me/s/you/v1":           {"me", "", "/s/you/v1"},
		"/s/" + long + "/v1":       {long, "", "/v1"},
		"/s/" + long + "n/v1":      {"", "", "/s/" + long + "n/v1"},
		"/s/me":                    {"", "", "/s/me"},
		"/s//v1":                   {"", "", "/s//v1"},
		"/s/m%65/v1":               {"", "", "/s/m%65/v1"},
		"/s/me\x00/v1":             {"", "", "/s/me\x00/v1"},
		"/s/né/v1":                 {"", "", "/s/né/v1"},
		"/v1/s/me/x":               {"", "", "/v1/s/me/x"},
		"":                         {"", "", ""},
		"*":                        {"", "", "*"},
		"/s/me//a/b/v1/a//":        {"me", "", "//a/b/v1/a//"},
		"/s/../v1":                 {"..", "", "/v1"},
		"/s/me/a/" + long + "x/v1": {"me", "", "/a/" + long + "x/v1"},
	} {
		session, agent, rest := CutPrefix(path)
		require.Equal(t, want, [3]string{session, agent, rest}, path)
	}
}

func TestUpstreamsAreChosenByPath(t *testing.T) {
	openai, anthropic, bare := Upstream{OpenAI, "http", "o", ""}, Upstream{Anthropic, "http", "a", ""}, Upstream{Any, "http", "b", ""}
	header := http.Header{"Anthropic-Version": {"2023-06-01"}}
	for _, c := range []struct {
		list   []Upstream
		path   string
		header http.Header
		want   string
	}{
		{[]Upstream{openai, anthropic, bare}, "/v1/messages", nil, "a"},
		{[]Upstream{openai, anthropic, bare}, "/v1/messages/count_tokens", nil, "a"},
		{[]Upstream{openai, anthropic, bare}, "/v1/chat/completions", header, "o"},
		{[]Upstream{openai, anthropic, bare}, "/x/v1/responses/resp_1", nil, "o"},
		{[]Upstream{openai, anthropic, bare}, "/v1/completions", nil, "o"},
		{[]Upstream{openai, anthropic, bare}, "/v1/models", header, "b"},
		{[]Upstream{openai, anthropic}, "/v1/models", header, "a"},
		{[]Upstream{anthropic, openai}, "/v1/models", nil, "o"},
		{[]Upstream{anthropic}, "/v1/chat/completions", nil, "a"},
		{[]Upstream{bare}, "/v1/messages", nil, "b"},
	} {
		require.Equal(t, c.want, choose(c.list, c.path, c.header).Host, "%s of %v", c.path, c.list)
	}
}

func TestUpstreamsAreRead(t *testing.T) {
	for text, want := range map[string]Upstream{
		"http://h":                      {Any, "http", "h", ""},
		"openai=https://h:8/a/":         {OpenAI, "https", "h:8", "/a"},
		"anthropic=http://[::1]:9/a%2F": {Anthropic, "http", "[::1]:9", "/a%2F"},
		"http://h/a=b":                  {Any, "http", "h", "/a=b"},
		"http://[::1]":                  {Any, "http", "[::1]", ""},
		"http://h:65535":                {Any, "http", "h:65535", ""},
	} {
		got, err := ParseUpstream(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"":                        `upstream "": scheme "": use http or https`,
		"h:80":                    `upstream "h:80": scheme "h": use http or https`,
		"http://":                 `upstream "http://": no host: give a URL such as http://localhost:8000`,
		"http://:80":              `upstream "http://:80": no host: give a URL such as http://localhost:8000`,
		"antropic=http://h":       `upstream "antropic=http://h": kind "antropic": use openai or anthropic, or a URL alone`,
		"http://me:word@h":        `upstream "...@h": a URL with a user name or password: clients send their own credentials`,
		"x=http://me:word@h":      `upstream "...@h": kind "x": use openai or anthropic, or a URL alone`,
		"http://me:wo rd@h:x":     `upstream "...@h:x": not a URL: give one such as http://localhost:8000`,
		"http://h?a=b":            `upstream "http://h?a=b": a URL with a query or fragment: give scheme, host and path alone`,
		"http://h#a":              `upstream "http://h#a": a URL with a query or fragment: give scheme, host and path alone`,
		"http://127.0.0.1:":       `upstream "http://127.0.0.1:": the port is missing or invalid: give one from 1 to 65535, or leave the colon out`,
		"http://[::1]:":           `upstream "http://[::1]:": the port is missing or invalid: give one from 1 to 65535, or leave the colon out`,
		"http://h:0":              `upstream "http://h:0": the port is missing or invalid: give one from 1 to 65535, or leave the colon out`,
		"http://h:65536":          `upstream "http://h:65536": the port is missing or invalid: give one from 1 to 65535, or leave the colon out`,
		"openai=ftp://h":          `upstream "openai=ftp://h": scheme "ftp": use http or https`,
		"http://h/\x7f":           "upstream \"http://h/\\x7f\": not a URL: give one such as http://localhost:8000",
		"openai=anthropic=http:/": `upstream "openai=anthropic=http:/": not a URL: give one such as http://localhost:8000`,
	} {
		_, err := ParseUpstream(text)
		require.EqualError(t, err, want)
	}
}

// New names everything that is wrong, at once.
func TestOptionsAreValidated(t *testing.T) {
	up := Upstream{Scheme: "http", Host: "h"}
	require.NoError(t, ValidateUpstreams([]Upstream{up}))
	_, err := New(Options{})
	require.EqualError(t, err, "no upstream: give at least one")
	_, err = New(Options{Upstreams: []Upstream{up, up, {Kind: "x", Scheme: "http", Host: "h"}, {Kind: OpenAI, Scheme: "http", Host: "h", Base: "a"}}})
	require.EqualError(t, err, strings.Join([]string{
		`two upstreams of kind "": give one of each kind, and one without`,
		`upstream http://h: kind "x": use openai or anthropic`,
		`upstream http://h: base path "a": must begin with a slash and must not end with one`,
	}, "\n"))
}
