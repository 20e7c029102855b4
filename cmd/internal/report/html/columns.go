package html

import (
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// pageMetric is a metric of measure.MetricList as the page has it.
type pageMetric struct {
	Name  string  `json:"name"`
	Key   string  `json:"key"` // in the summary
	Label string  `json:"label"`
	Unit  string  `json:"unit"`
	Scale float64 `json:"scale"` // numbers of its column are divided by it

	of func(*measure.Numbers, measure.Rules) (float64, bool)
}

type (
	ratios map[string][2]string
	sums   map[string][]string
)

// metrics are those that every request has. ratiosOfRun are those that a run has as the ratio of two columns.
var metrics, ratiosOfRun = listMetrics()

func listMetrics() (each []pageMetric, one ratios) {
	one = ratios{}
	for _, m := range measure.MetricList {
		switch {
		case m.Ratio[0] != "":
			one[m.Name] = m.Ratio
		case m.Of != nil:
			p := pageMetric{Name: m.Name, Key: m.Key(), Label: strings.ToUpper(m.Title[:1]) + m.Title[1:], Unit: strings.TrimPrefix(string(m.Unit), string(slo.Tokens)), Scale: m.Unit.Steps(), of: m.Of}
			each = append(each, p)
		}
	}
	return each, one
}

// sumsOfColumns are the columns that are packed as what they have above the sum of others: mostly nothing.
var sumsOfColumns = sums{"latency": {"ttft", "decode"}, "tpot": {"itl"}, "asked": {"output_tokens"}, "prompt_tokens": {"uncached", "cached"}, "recorded": {"uncached", "cached"}, "blocks": {"hits", "new_blocks"}}

// number is a column of requests that needs no other request.
type number struct {
	name, unit string
	value      func(x *request, rules measure.Rules) int64 // measure.Unknown: it has none
}

// numbersOfRequests are the columns that charts need, and the metrics.
var numbersOfRequests = slices.Concat([]number{
	{"sent", "ns", func(x *request, _ measure.Rules) int64 { return int64(x.Sent) }},
	{"queued", "ns", func(x *request, _ measure.Rules) int64 { return int64(x.Queued) }},
	{"decode", "ns", func(x *request, _ measure.Rules) int64 {
		if l, ok := x.Decode(); ok {
			return int64(l.To - l.From)
		}
		return measure.Unknown
	}},
	{"tail", "ns", func(x *request, _ measure.Rules) int64 { return x.tail() }},
	{"cached", "tokens", func(x *request, _ measure.Rules) int64 { return x.CachedTokens.N() }},
	{"uncached", "tokens", func(x *request, _ measure.Rules) int64 { return x.uncached() }},
	{"asked", "tokens", func(x *request, _ measure.Rules) int64 { return x.MaxTokens }},
	{"recorded", "tokens", func(x *request, _ measure.Rules) int64 { return x.RecordedISL }},
	{"blocks", "blocks", func(x *request, _ measure.Rules) int64 { return x.RecordedBlocks }},
	{"hits", "blocks", func(x *request, _ measure.Rules) int64 { return x.hits() }},
	{"new_blocks", "blocks", func(x *request, _ measure.Rules) int64 { return x.RecordedBlocks - x.hits() }},
	{"inner", "", func(x *request, _ measure.Rules) int64 {
		if x.inner < 0 {
			return measure.Unknown
		}
		return int64(x.inner)
	}},
	{"server", "", func(x *request, _ measure.Rules) int64 { return int64(x.server) }},
	{"bucket", "", func(x *request, _ measure.Rules) int64 { return int64(x.bucket) }},
	{"failure", "", func(x *request, _ measure.Rules) int64 { return int64(x.failure) }},
	{"judged", "", func(x *request, _ measure.Rules) int64 { return flag(x.judged()) }},
	{"measured", "", func(x *request, _ measure.Rules) int64 { return flag(x.measured()) }},
	{"failed", "", func(x *request, _ measure.Rules) int64 { return flag(x.ended() && x.failure > 0) }},
	{"ended", "", func(x *request, _ measure.Rules) int64 { return flag(x.ended()) }},
	{"good", "", func(x *request, _ measure.Rules) int64 { return flag(x.measured() && x.good) }},
}, numbersOfMetrics())

func numbersOfMetrics() (list []number) {
	for _, m := range metrics {
		list = append(list, number{m.Name, m.Unit, func(x *request, rules measure.Rules) int64 {
			v, ok := m.of(&x.Numbers, rules)
			if !ok {
				return measure.Unknown
			}
			return int64(math.Round(v * m.Scale))
		}})
	}
	return list
}

// packed returns the values of a column as they are packed.
func (b *Builder) packed(of number) func(x *request) int64 {
	var others []number
	for _, name := range sumsOfColumns[of.name] {
		others = append(others, numbersOfRequests[slices.IndexFunc(numbersOfRequests, func(n number) bool { return n.name == name })])
	}
	return func(x *request) int64 {
		v := of.value(x, b.rules)
		if v == measure.Unknown {
			return page.Missing
		}
		for _, other := range others {
			if o := other.value(x, b.rules); o != measure.Unknown {
				v -= o
			}
		}
		return v
	}
}

// flag returns 1 for true.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
