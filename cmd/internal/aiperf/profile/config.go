package profile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/regular"
)

// maxConfig bounds how much of a file of settings is read, in bytes.
const maxConfig = 1 << 20

// configFlags maps the keys of a file, as paths, to flags. "" is a key that changes nothing here; !FLAG is a key with the opposite meaning; =WORDS
// is a key that must have one of these values.
var configFlags = map[string]string{
	"schema_version": "", "random_seed": "--random-seed", "scenario": "--scenario", "unsafe_override": "--unsafe-override",
	"models": "--model-names", "models.items": "--model-names", "models.items.name": "--model-names", "models.strategy": "--model-selection-strategy",

	"endpoint.url": "--url", "endpoint.urls": "--url", "endpoint.url_strategy": "--url-strategy", "endpoint.type": "--endpoint-type",
	"endpoint.path": "--custom-endpoint", "endpoint.api_key": "--api-key", "endpoint.timeout": "--request-timeout-seconds",
	"endpoint.streaming": "--streaming", "endpoint.transport": "--transport", "endpoint.connection_reuse": "--connection-reuse-strategy",
	"endpoint.use_legacy_max_tokens": "--use-legacy-max-tokens", "endpoint.use_server_token_count": "--use-server-token-count",
	"endpoint.headers": "--header", "endpoint.extra": "--extra-inputs", "endpoint.request_content_type": "--request-content-type",
	"endpoint.session_header": "--session-header", "endpoint.wait_for_model_timeout": "--wait-for-model-timeout",
	"endpoint.wait_for_model_interval": "--wait-for-model-interval", "endpoint.wait_for_model_mode": "--wait-for-model-mode",

	"datasets.name": "", "datasets.type": "=file public", "datasets.path": "--input-file", "datasets.format": "--custom-dataset-type",
	"datasets.dataset": "--public-dataset", "datasets.hf_weka_dataset": "--hf-weka-dataset", "datasets.entries": "--num-dataset-entries",
	"datasets.random_seed": "--random-seed", "datasets.sampling": "--dataset-sampling-strategy", "datasets.block_size": "--isl-block-size",
	"datasets.inter_turn_delay_cap_seconds": "--inter-turn-delay-cap-seconds", "datasets.trace_idle_gap_cap_seconds": "--trace-idle-gap-cap-seconds",
	"datasets.ignore_trace_delays": "--ignore-trace-delays", "datasets.use_think_time_only": "--use-think-time-only",
	"datasets.max_context_length": "--max-context-length", "datasets.cache_bust.target": "--cache-bust", "datasets.prompts.corpus": "--prompt-corpus",
	"datasets.synthesis.max_isl": "--synthesis-max-isl", "datasets.synthesis.max_osl": "--synthesis-max-osl",

	"phases.name": "", "phases.kind": "=profiling", "phases.type": "=concurrency", "phases.timing_mode": "=agentic_replay",
	"phases.duration": "--benchmark-duration", "phases.grace_period": "--benchmark-grace-period", "phases.requests": "--request-count",
	"phases.sessions": "--num-conversations", "phases.concurrency": "--concurrency", "phases.prefill_concurrency": "--prefill-concurrency",
	"phases.failed_request_threshold": "--failed-request-threshold", "phases.burst_phase_starts": "--burst-phase-starts",
	"phases.trajectory_start_min_ratio": "--trajectory-start-min-ratio", "phases.trajectory_start_max_ratio": "--trajectory-start-max-ratio",
	"phases.system_idle_gap_cap_seconds": "--system-idle-gap-cap-seconds", "phases.warmup_requests_per_lane": "--warmup-requests-per-lane",
	"phases.agentic_cache_warmup_duration": "--agentic-cache-warmup-duration", "phases.agentic_warmup_grace_period": "--agentic-warmup-grace-period",

	"artifacts.dir": "--output-artifact-dir", "artifacts.prefix": "--profile-export-prefix", "artifacts.slice_duration": "--slice-duration",
	"artifacts.summary": "", "artifacts.records": "", "artifacts.raw": "=false", "artifacts.trace": "--export-http-trace",
	"artifacts.show_trace_timing": "--show-trace-timing", "artifacts.auto_plot": "", "artifacts.plot_required": "=false", "artifacts.export_outputs_json": "=false",

	"tokenizer.name": "--tokenizer", "tokenizer.revision": "--tokenizer-revision", "tokenizer.trust_remote_code": "--tokenizer-trust-remote-code",
	"tokenizer.apply_chat_template": "--apply-chat-template",
	"gpu_telemetry.enabled":         "=false", "network_latency.enabled": "=false",
	"server_metrics.enabled": "!--no-server-metrics", "server_metrics.urls": "--server-metrics", "server_metrics.formats": "--server-metrics-formats",
	"runtime.ui": "--ui-type", "runtime.stats_interval": "--stats-interval", "runtime.workers": "--workers-max", "runtime.record_processors": "--record-processors",
}

// configuration is a file of settings that is being read.
type configuration struct {
	*translation
	file string
	said map[string]given // flags that the file has given, by their first names

	inside bool // the key benchmark was seen
}

// readConfig reads the file of --config, if there is one. Flags of the command line have precedence. It returns false if it could not read it.
func (t *translation) readConfig() bool {
	g, ok := t.given["--config"]
	if !ok {
		return true
	}
	c := configuration{translation: t, file: g.value(), said: map[string]given{}}
	text, err := regular.Read(c.file, maxConfig)
	if err != nil {
		t.add("%s: %w", g.name, err)
		return false
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.add("%s: %w", g.shown(), err)
		return false
	}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		t.add("%s: want a mapping: keys with values", g.shown())
		return false
	}
	c.walk("", document.Content[0])
	t.override(c.said)
	return true
}

// override adds the flags of a file, without those that the command line gives or excludes.
func (t *translation) override(said map[string]given) {
	typed := t.given
	t.given = said
	for name, g := range typed {
		for other := range said {
			if slices.Contains(flagNamed(name).against, other) || slices.Contains(flagNamed(other).against, name) {
				delete(said, other)
			}
		}
		said[name] = g
	}
}

var capital = lazyregexp.New(`[A-Z]`)

// walk reads the node of the file at a path of keys.
func (c *configuration) walk(place string, n *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	_, known := configFlags[place]
	switch {
	case n.Tag == "!!null" || n.Kind == yaml.MappingNode && len(n.Content) == 0: // not set
	case n.Kind == yaml.MappingNode && hasKeys(place):
		c.walkMapping(place, n)
	case n.Kind == yaml.SequenceNode && slices.Contains([]string{"datasets", "phases", "models.items"}, place) && (len(n.Content) != 1 || n.Content[0].Kind != yaml.ScalarNode):
		if len(n.Content) != 1 {
			c.wrong(n, place, errors.New("want one: agentx plays one load of one model and one recording"))
			return
		}
		c.walk(place, n.Content[0])
	case !known:
		c.wrong(n, place, errors.New("agentx does not know this key: leave it out, or give its flag"))
	default:
		c.read(place, n)
	}
}

// hasKeys reports whether the path of keys is a mapping with known keys.
func hasKeys(place string) bool {
	for key := range configFlags {
		if place == "" || strings.HasPrefix(key, place+".") {
			return true
		}
	}
	return false
}

// walkMapping reads the keys of a mapping. Settings are below the key benchmark, or, as in files of results, at the top.
func (c *configuration) walkMapping(place string, n *yaml.Node) {
	seen := map[string]bool{}
	for k := 0; k+1 < len(n.Content); k += 2 {
		key, below := capital().ReplaceAllStringFunc(n.Content[k].Value, func(s string) string { return "_" + strings.ToLower(s) }), place
		if place != "" {
			below += "."
		}
		if below += key; seen[key] {
			c.wrong(n.Content[k], below, errors.New("given twice"))
		}
		seen[key] = true
		if below == "benchmark" && !c.inside {
			below, c.inside = "", true
		}
		c.walk(below, n.Content[k+1])
	}
}

// read gives the flag of a key the values of its node.
func (c *configuration) read(place string, n *yaml.Node) {
	values, err := c.values(place, n)
	name := configFlags[place]
	if isSwitch(name) && err == nil {
		values, err = truth(values)
	}
	switch {
	case err != nil:
		c.wrong(n, place, err)
	case len(values) == 0 || name == "":
	case name[0] == '=':
		if words := strings.Fields(name[1:]); !slices.Contains(words, oneSpelling(values[0])) {
			c.wrong(n, place, fmt.Errorf("%s: want %s", values[0], strings.Join(words, " or ")))
		}
	case name[0] == '!':
		c.say(place, n, name[1:], []string{strconv.FormatBool(values[0] != "true")})
	default:
		c.say(place, n, name, values)
	}
}

// isSwitch reports whether an entry of configFlags takes true or false.
func isSwitch(name string) bool {
	f := flagNamed(strings.TrimPrefix(name, "!"))
	return name == "=false" || f != nil && f.takes == noValue
}

// truth returns true or false for a value that means it to the harness, such as yes or 0.
func truth(values []string) ([]string, error) {
	if len(values) == 1 {
		switch word := strings.ToLower(values[0]); {
		case isTrue(word):
			return []string{"true"}, nil
		case slices.Contains([]string{"0", "false", "no", "off", "f", "n"}, word):
			return []string{"false"}, nil
		}
	}
	return nil, errors.New("want true or false")
}

// say gives a flag its values. Two keys may map to the same flag, if their values are equal.
func (c *configuration) say(place string, n *yaml.Node, name string, values []string) {
	f := flagNamed(name)
	if before, twice := c.said[f.names[0]]; twice && !slices.Equal(before.values, values) {
		c.wrong(n, place, fmt.Errorf("%s here and %s elsewhere contradict each other: leave one of them out", values[0], before.value()))
	}
	c.said[f.names[0]] = given{name, values}
}

// wrong adds an error about a key, with file and line.
func (c *configuration) wrong(n *yaml.Node, place string, err error) {
	c.add("%s:%d: %s: %w", c.file, n.Line, place, err)
}

var (
	variableText = lazyregexp.New(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:([^}]*))?\}`)
	timeText     = lazyregexp.New(`^(\d+(?:\.\d+)?)\s*([smh])(?:ec|in|r|our)?$`)
)

// values returns a scalar, a list of scalars, or a mapping as JSON, as a flag takes it.
func (c *configuration) values(place string, n *yaml.Node) (values []string, err error) {
	switch n.Kind {
	case yaml.MappingNode:
		text, err := c.object(n)
		return []string{text}, err
	case yaml.SequenceNode:
		for _, item := range n.Content {
			text, err := c.scalar(item)
			if err != nil {
				return nil, err
			}
			values = append(values, text)
		}
		return values, nil
	}
	text, err := c.scalar(n)
	if m := timeText().FindStringSubmatch(strings.ToLower(text)); m != nil && strings.HasPrefix(place, "phases.") { // 30s, 5 min, 2h
		x, _ := number(m[1])
		text = numberText(x * map[string]float64{"s": 1, "m": 60, "h": 3600}[m[2]])
	}
	return []string{text}, err
}

// scalar returns a scalar with the variables of the environment filled in.
func (c *configuration) scalar(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode {
		return "", errors.New("want a value, or a list of values")
	}
	if strings.Contains(n.Value, "{{") {
		return "", errors.New("agentx does not fill in templates: write the value")
	}
	var err error
	text := variableText().ReplaceAllStringFunc(n.Value, func(text string) string {
		m := variableText().FindStringSubmatch(text)
		value, ok := c.Environ[m[1]]
		if !ok && m[2] == "" {
			err = fmt.Errorf("the variable %s is not set", m[1])
		}
		if !ok {
			value = m[3]
		}
		return value
	})
	if n.Tag == "!!bool" {
		text = strings.ToLower(text)
	}
	return text, err
}

// object returns a mapping as a JSON object with its keys in order.
func (c *configuration) object(n *yaml.Node) (string, error) {
	var b bytes.Buffer
	for k := 0; k+1 < len(n.Content); k += 2 {
		value := n.Content[k+1]
		text := ""
		var err error
		switch {
		case value.Kind == yaml.MappingNode:
			text, err = c.object(value)
		case value.Kind == yaml.SequenceNode:
			var list any
			if err = value.Decode(&list); err == nil {
				text = string(quoted(list))
			}
		case value.Tag == "!!str":
			text, err = c.scalar(value)
			text = string(quoted(text))
		default:
			text, err = c.scalar(value)
		}
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, ",%s:%s", quoted(n.Content[k].Value), text)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}", nil
}

// environmentReaders are the variables of AIPerf that agentx reads, with functions that translate them.
var environmentReaders = map[string]func(t *translation, name, value string){
	"AIPERF_DATASET_WEKA_LIVE_ASSISTANT_RESPONSES": func(t *translation, name, value string) {
		if isTrue(value) {
			t.add("not supported: %s=%s: recorded answers are what makes runs comparable: set it to 0", name, value)
		}
	},
	"AIPERF_DATASET_CONFIGURATION_TIMEOUT":     quickly,
	"AIPERF_SERVICE_PROFILE_CONFIGURE_TIMEOUT": quickly,
	"AIPERF_DATASET_MMAP_CACHE_DIR": func(t *translation, name, value string) {
		if t.Environ["AGENTX_CACHE"] == "" {
			t.set("cache", value)
		}
	},
	"AIPERF_UI_REALTIME_METRICS_ENABLED": func(t *translation, _, value string) {
		switch on := isTrue(value); {
		case t.has("--stats-interval") || on && t.presumed():
		case on:
			t.set("stats-interval", "30s")
		case t.presumed():
			t.set("stats-interval", "0")
		}
	},
	"AIPERF_HTTP_KEEPALIVE_TIMEOUT": func(t *translation, name, value string) {
		t.seconds(given{name, []string{value}}, "keep-alive")
	},
	"AIPERF_HTTP_TCP_USER_TIMEOUT": func(t *translation, name, value string) {
		if ms, err := number(value); err != nil {
			t.add("%s=%s: want milliseconds", name, value)
		} else {
			t.set("tcp-user-timeout", numberText(ms/1000)+"s")
		}
	},
	"AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS": overflowTexts,
	"AIPERF_AGENTX_CONTEXT_OVERFLOW_RATE_LIMIT": overflowLimit,
	"AIPERF_HTTP_CONNECTION_LIMIT": func(t *translation, name, value string) {
		t.note("%s=%s: agentx has a connection for every request in flight, and no limit", name, value)
	},
	"AIPERF_HTTP_X_SESSION_AFFINITY_FROM_CORRELATION_ID": func(t *translation, name, value string) {
		t.set("affinity-header", isTrue(value))
	},
	"AIPERF_HTTP_X_SESSION_ID_FROM_CORRELATION_ID":        sessionHeader("X-Session-ID"),
	"AIPERF_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID":   sessionHeader("X-SMG-Routing-Key"),
	"AIPERF_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID": sessionHeader(dynamoHeader),
}

// Variables lists the variables of AIPerf that agentx reads.
func Variables() []string { return slices.Sorted(maps.Keys(environmentReaders)) }

// sessionHeader returns a function for a variable that switches on a header with the id of a session.
func sessionHeader(header string) func(t *translation, name, value string) {
	return func(t *translation, _, value string) {
		if isTrue(value) && !slices.Contains(t.sessionHeaders, header) {
			t.sessionHeaders = append(t.sessionHeaders, header)
		}
	}
}

// quickly notes that a timeout is not needed here: what it bounds takes minutes only in AIPerf.
func quickly(t *translation, name, value string) {
	t.note("%s=%s: not needed: nothing in agentx takes that long", name, value)
}

// isTrue reports whether the value of a variable means true to AIPerf.
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on", "t", "y"}, strings.ToLower(value))
}

// readEnvironment translates the variables of AIPerf. One note names those that agentx does not read.
func (t *translation) readEnvironment() {
	var others []string
	for _, name := range slices.Sorted(maps.Keys(t.Environ)) {
		switch read := environmentReaders[name]; {
		case !strings.HasPrefix(name, "AIPERF_") || name == keyVariable || t.Environ[name] == "":
		case read != nil:
			read(t, name, t.Environ[name])
		default:
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		t.note("not read: %s", strings.Join(others, ", "))
	}
}
