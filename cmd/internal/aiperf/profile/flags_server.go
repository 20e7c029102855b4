package profile

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/payload"
)

// serverFlags say which servers are asked, and how a request looks.
var serverFlags = []flag{
	mappedList("--url -u", (*translation).servers),
	{names: []string{"--model-names", "--model", "-m"}, takes: repeatedValue, class: classMapped, apply: func(t *translation, g given) {
		if list := parts(g.values); len(list) != 1 {
			t.add("not supported: %s: several models: the recorded models become one here: want one name", g.name)
		} else {
			t.set("model", list[0])
		}
	}},
	mapped("--url-strategy", func(t *translation, g given) { t.word(g, "round_robin") }),
	mapped("--custom-endpoint --endpoint", (*translation).checkEndpoint), // servers passes it on
	mapped("--endpoint-type", func(t *translation, g given) {
		var words []string
		for _, e := range payload.Endpoints() {
			if e.AIPerf() != "" {
				words = append(words, e.AIPerf())
			}
		}
		t.word(g, words...)
		if e := t.endpoint(); e != payload.ChatCompletions {
			t.set("payload", e.String())
		}
	}),
	mappedSwitch("--streaming", func(*translation, given) {}), // addDefaults refuses a run without it
	mapped("--request-timeout-seconds", func(t *translation, g given) { t.seconds(g, "timeout") }),
	mapped("--wait-for-model-timeout", func(t *translation, g given) { t.seconds(g, "wait-ready") }),
	mapped("--wait-for-model-mode", func(t *translation, g given) {
		t.set("wait-ready-mode", t.word(g, "inference", "models", "both"))
	}),
	mapped("--wait-for-model-interval", func(t *translation, g given) { t.seconds(g, "wait-ready-interval") }),
	mappedSwitch("--reset-kv-cache", func(t *translation, g given) { t.reset(g) }),
	mapped("--reset-kv-cache-timeout-seconds", func(t *translation, g given) { t.reset(g); t.seconds(g, "reset-cache-timeout") }),
	mapped("--reset-kv-cache-path", func(t *translation, g given) {
		t.reset(g)
		t.set("reset-cache-path", strings.TrimPrefix(g.value(), "/"))
	}),
	mapped("--api-key", (*translation).apiKey),
	mappedList("--header -H", (*translation).header),
	mapped("--session-header", func(t *translation, g given) { t.set("correlation-header", g.value()) }),
	mappedList("--extra-inputs", func(t *translation, g given) {
		pairs, err := pairsOf(g.values)
		if err != nil {
			t.add("%s: %w", g.name, err)
			return
		}
		t.extra = append(t.extra, pairs...) // addDefaults passes it on
	}),
	mappedSwitch("--use-legacy-max-tokens", whenOn("max-tokens-field", "max_tokens")),
	mappedSwitch("--use-server-token-count", func(*translation, given) {}), // addDefaults tells of a run without it
	mappedSwitch("--per-chunk-usage", whenOn("per-chunk-usage", true)),
	mapped("--connection-reuse-strategy", func(t *translation, g given) {
		t.set("connection-reuse", strings.ReplaceAll(t.word(g, "pooled", "never", "sticky_user_sessions"), "_", "-"))
	}),
	meaningless("--model-selection-strategy", oneValue, "there is one model"),
	meaningless("--transport --transport-type", oneValue, "HTTP is the only one"),
	{names: []string{"--request-content-type"}, takes: oneValue, class: classRefused,
		about: "bodies are JSON: leave it out",
		unless: func(_ *translation, g given) bool {
			return oneSpelling(g.value()) == "application_json" || g.value() == "application/json"
		}},
}

// keyVariable is the variable that stands for the value of --api-key in the printed command.
const keyVariable = "AIPERF_API_KEY"

// endpoint returns the endpoint that --endpoint-type chooses; chats by default.
func (t *translation) endpoint() payload.Endpoint {
	list := payload.Endpoints()
	k := slices.IndexFunc(list, func(e payload.Endpoint) bool {
		return e.AIPerf() != "" && e.AIPerf() == oneSpelling(t.value("--endpoint-type"))
	})
	return list[max(k, 0)]
}

// serverURLs returns the values of --url, or AIPerf's default.
func (t *translation) serverURLs() (list []string) {
	for _, text := range parts(t.given["--url"].values) {
		list = append(list, withScheme(text))
	}
	if len(list) == 0 {
		list = []string{"http://localhost:8000"}
	}
	return list
}

// withScheme returns a URL with http:// before it, unless it has a scheme.
func withScheme(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	return "http://" + text
}

// servers passes on --url, with the path of --custom-endpoint.
func (t *translation) servers(g given) {
	list := t.serverURLs()
	if len(list) > 1 {
		t.note("%s: %d servers: all requests of a tree go to the same one, for its prefix cache; AIPerf spreads requests", g.name, len(list))
	}
	for k, server := range list {
		t.url("url", t.atEndpoint(server), numbered("AIPERF_URL", k))
	}
}

// url gives a setting a URL. The printed command has a variable instead of a URL that may have a secret.
func (t *translation) url(setting, text, variable string) {
	if u, err := url.Parse(text); err == nil && u.User == nil && u.RawQuery == "" {
		t.set(setting, text)
		return
	}
	t.secret(setting, "", text, variable)
}

// atEndpoint returns the URL of a server with the path of --custom-endpoint.
func (t *translation) atEndpoint(server string) string {
	path := t.value("--custom-endpoint")
	if path == "" {
		return server
	}
	server, path = strings.TrimRight(server, "/"), "/"+strings.Trim(path, "/")
	if strings.HasSuffix(server, "/v1") {
		path = strings.TrimPrefix(path, "/v1")
	}
	return server + path
}

// checkEndpoint refuses a path that agentx cannot send to: the path must end as that of the endpoint usually does.
func (t *translation) checkEndpoint(g given) {
	usual := strings.TrimPrefix(t.endpoint().Path(), "/v1")
	if !strings.HasSuffix(strings.TrimRight(g.value(), "/"), strings.TrimPrefix(usual, "/")) {
		t.add("not supported: %s: agentx sends to a path that ends in %s", g.shown(), usual)
	}
}

// apiKey passes on --api-key in the header field of the endpoint, unless --header has that field: doc/spec/replay.md 9.1. As in AIPerf, an empty
// key is none.
func (t *translation) apiKey(g given) {
	field := headerField{"Authorization", "Bearer "}
	if t.endpoint() == payload.Messages {
		field = headerField{"x-api-key", ""}
	}
	pairs, _ := pairsOf(t.given["--header"].values) // header tells what is wrong
	switch {
	case g.value() == "":
	case slices.ContainsFunc(pairs, func(p pair) bool { return strings.EqualFold(p.name, field.name) }):
		t.note("%s: %s of --header takes its place; AIPerf sends the key", g.name, field.name)
	default:
		t.secret("header", field.name+": "+field.scheme, g.value(), keyVariable)
	}
}

// headerField is the name of a header field for a key, and what precedes the key in its value.
type headerField struct{ name, scheme string }

// header passes on --header. The values may be secrets.
func (t *translation) header(g given) {
	pairs, err := pairsOf(g.values)
	if err != nil {
		t.add("%s: %w", g.name, err)
		return
	}
	for _, p := range pairs {
		value := string(p.value)
		_ = json.Unmarshal(p.value, &value) // of a number the digits stay
		t.secret("header", p.name+": ", value, "AIPERF_HEADER_"+variableName(p.name))
	}
}

// reset lets the run empty prefix caches. Several flags may ask for it.
func (t *translation) reset(g given) {
	if g.value() != "false" && !t.resets {
		t.resets = true
		t.set("reset-cache", true)
	}
}
