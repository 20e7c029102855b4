package profile

import (
	"strconv"
	"strings"
)

// maxSeconds is what flags of agentx replay take less than.
const maxSeconds = 1e9

// levels are the metrics of AIPerf that --goodput may name, in ms, by their names there and here.
var levels = map[string]string{
	"time_to_first_token": "ttft", "inter_token_latency": "itl", "request_latency": "latency",
	"ttft": "ttft", "itl": "itl", "latency": "latency",
}

// goodput translates --goodput "NAME:MS NAME:MS". AIPerf lets a value that equals its limit pass.
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
