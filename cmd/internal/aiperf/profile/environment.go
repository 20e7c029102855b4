package profile

import (
	"maps"
	"slices"
	"strings"
)

// environmentReaders are the variables of AIPerf that agentx reads, with what they mean.
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

// sessionHeader returns what a variable does that switches on a header with the id of a session.
func sessionHeader(header string) func(t *translation, name, value string) {
	return func(t *translation, _, value string) {
		if isTrue(value) && !slices.Contains(t.sessionHeaders, header) {
			t.sessionHeaders = append(t.sessionHeaders, header)
		}
	}
}

// quickly notes a timeout of something that takes AIPerf minutes.
func quickly(t *translation, name, value string) {
	t.note("%s=%s: nothing here takes that long", name, value)
}

// isTrue reports whether AIPerf takes the value of a variable for true.
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on", "t", "y"}, strings.ToLower(value))
}

// readEnvironment reads the variables of AIPerf. Those that mean nothing here are named in one note.
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
