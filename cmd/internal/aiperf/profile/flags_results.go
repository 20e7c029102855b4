package profile

import (
	"slices"
	"strconv"
	"strings"
)

// resultFlags say which files are written, and what is shown.
var resultFlags = []flag{
	mapped("--output-artifact-dir --artifact-dir", func(*translation, given) {}), // addDefaults passes it on
	mapped("--profile-export-prefix --profile-export-file", func(t *translation, g given) { t.set("prefix", g.value()) }),
	{names: []string{"--export-level", "--profile-export-level"}, takes: oneValue, class: classRefused,
		about: "agentx keeps no texts of requests and answers: want summary or records",
		unless: func(t *translation, g given) bool {
			if oneSpelling(g.value()) == "summary" {
				t.note("%s: the rows of requests are written as well", g.shown())
			}
			return slices.Contains([]string{"summary", "records"}, oneSpelling(g.value()))
		}},
	mapped("--goodput", (*translation).goodput),
	mapped("--slice-duration", func(t *translation, g given) { t.seconds(g, "slice-duration") }),
	meaningless("--export-http-trace", noValue, "the rows of requests have the phases of the connection"),
	meaningless("--show-trace-timing", noValue, "profile_export_aiperf.json has the phases of the connection"),
	mappedList("--server-metrics", (*translation).scrape).conflict("--no-server-metrics"),
	mappedSwitch("--no-server-metrics", whenOn("scrape", "off")),
	{names: []string{"--server-metrics-formats"}, takes: severalValues, class: classRefused, about: "agentx writes json and csv",
		unless: func(_ *translation, g given) bool {
			return !slices.ContainsFunc(parts(g.values), func(s string) bool { return s != "json" && s != "csv" })
		}},
	mapped("--stats-interval", func(t *translation, g given) { t.seconds(g, "stats-interval") }),
	mapped("--ui-type --ui", func(t *translation, g given) {
		switch t.word(g, "dashboard", "simple", "none") {
		case "dashboard":
			t.note("%s: agentx shows one line, and a block of figures at the end", g.shown())
		case "none":
			t.quiet()
		}
	}),
	mapped("--log-level", func(t *translation, g given) {
		switch t.word(g, "trace", "debug", "info", "notice", "success", "warning", "error", "critical") {
		case "warning", "error", "critical":
			t.quiet()
		case "trace", "debug":
			t.note("%s: agentx has no more to tell than it does", g.shown())
		}
	}),
	meaningless("--verbose -v", noValue, "agentx has no more to tell than it does"),
	meaningless("--extra-verbose -vv", noValue, "agentx has no more to tell than it does"),
	meaningless("--no-gpu-telemetry", noValue, "agentx collects none"),
	meaningless("--no-sweep-table", noValue, "a list of concurrencies prints one table at its end"),
	meaningless("--auto-plot --no-auto-plot", noValue, "agentx draws nothing after a run"),
	meaningless("--workers-max --max-workers", oneValue, "one process sends all requests"),
	meaningless("--record-processor-service-count --record-processors", oneValue, "one process reads all answers"),
	meaningless("--zmq-host", oneValue, "there are no processes to connect"),
	meaningless("--zmq-ipc-path", oneValue, "there are no processes to connect"),
	meaningless("--zmq-dual-bind", noValue, "there are no processes to connect"),
}

// scrape passes on the pages of metrics, with the pages of the servers themselves, which AIPerf reads as well.
func (t *translation) scrape(g given) {
	var pages []string
	for _, server := range t.serverURLs() {
		pages = append(pages, strings.TrimSuffix(strings.TrimRight(server, "/"), "/v1")+"/metrics")
	}
	for _, page := range parts(g.values) {
		pages = append(pages, withScheme(page))
	}
	for k, page := range pages {
		t.url("scrape", page, numbered("AIPERF_METRICS_URL", k))
	}
}

// quiet switches progress and notes off. Several flags may ask for it.
func (t *translation) quiet() {
	if !t.silent {
		t.silent = true
		t.set("quiet", true)
	}
}

// maxSeconds bounds the seconds that a flag of agentx replay takes.
const maxSeconds = 1e9

// levels maps the metrics that --goodput may name, in ms, to their names in agentx.
var levels = map[string]string{
	"time_to_first_token": "ttft", "inter_token_latency": "itl", "request_latency": "latency",
	"ttft": "ttft", "itl": "itl", "latency": "latency",
}

// goodput translates --goodput "NAME:MS NAME:MS" into service levels. In AIPerf a value that equals its limit is good.
func (t *translation) goodput(g given) {
	pairs := strings.Fields(g.value())
	if len(pairs) == 0 {
		t.add("%s: want NAME:MS, with blanks between several", g.shown())
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, ":")
		metric, ok := levels[name]
		ms, err := strconv.ParseFloat(value, 64)
		switch {
		case !ok:
			t.add("%s: %s: agentx judges time_to_first_token, inter_token_latency and request_latency", g.name, name)
		case err != nil || !(ms > 0 && ms < maxSeconds*1000):
			t.add("%s: %s: want a number of ms above 0", g.name, pair)
		default:
			t.set("slo", metric+"<="+strconv.FormatFloat(ms, 'f', -1, 64)+"ms")
		}
	}
}
