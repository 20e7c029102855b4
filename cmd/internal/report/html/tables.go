package html

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// tables returns the tables of the records that were added, and the values that sparse columns leave out.
func (b *Builder) tables() (list []page.Table, common map[string]int64) {
	trees, treeRow := b.treeTable()
	sessions, sessionRow := b.sessionTable(treeRow)
	requests := slices.Clone(b.requests)
	for k := range requests {
		requests[k].session = sessionRow[requests[k].session]
	}
	slices.SortStableFunc(requests, func(x, y request) int {
		phase := 0
		if x.warmup() != y.warmup() {
			if phase = 1; x.warmup() {
				phase = -1
			}
		}
		return cmp.Or(cmp.Compare(x.session, y.session), phase, cmp.Compare(x.Sent, y.Sent), cmp.Compare(x.credit, y.credit))
	})
	c := b.requestColumns(requests)
	list = append([]page.Table{trees, sessions, {Name: "requests", Columns: c.dense}}, c.sparse...)
	list = append(list, b.failureTable(0))
	if b.stride > 1 {
		list = append(list, b.bins.table(0), b.bins.failureTable(0))
	}
	return list, c.common
}

// treeTable returns the trees by their ordinals, and the row of each.
func (b *Builder) treeTable() (page.Table, map[int]int64) {
	rows := map[int]int64{}
	var ordinal, lane, pass []int64
	var trace []string
	for _, k := range slices.Sorted(maps.Keys(b.trees)) {
		t := b.trees[k]
		rows[k] = int64(len(ordinal))
		ordinal, lane, pass, trace = append(ordinal, int64(t.ordinal)), append(lane, int64(t.lane)), append(pass, int64(t.pass)), append(trace, t.trace)
	}
	return page.Table{Name: "trees", Columns: []page.Column{
		page.Ints("ordinal", "", ordinal), page.Ints("lane", "", lane), page.Ints("pass", "", pass), page.Texts("trace", trace),
	}}, rows
}

// sessionTable returns the sessions by tree, by depth and by their first requests, and the row of each.
func (b *Builder) sessionTable(treeRow map[int]int64) (page.Table, []int32) {
	first, requests := make([]int64, len(b.sessions)), make([]int64, len(b.sessions))
	for k := range b.requests {
		x := &b.requests[k]
		if n := &requests[x.session]; *n == 0 || int64(x.Sent) < first[x.session] {
			first[x.session] = int64(x.Sent)
		}
		requests[x.session]++
	}
	order := make([]int32, len(b.sessions))
	for k := range order {
		order[k] = int32(k)
	}
	slices.SortStableFunc(order, func(x, y int32) int {
		s, t := &b.sessions[x], &b.sessions[y]
		return cmp.Or(cmp.Compare(s.id.tree, t.id.tree), cmp.Compare(s.depth, t.depth), cmp.Compare(first[x], first[y]), cmp.Compare(s.id.name, t.id.name))
	})
	rows := make([]int32, len(b.sessions))
	for row, k := range order {
		rows[k] = int32(row)
	}
	var tree, parent, depth, whole, n []int64
	var label []string
	for _, k := range order {
		s := &b.sessions[k]
		above := page.Missing
		if s.above >= 0 && b.numbers.position[s.above] >= 0 {
			above = int64(rows[b.numbers.position[s.above]])
		}
		tree, parent, depth, n = append(tree, treeRow[s.id.tree]), append(parent, above), append(depth, int64(s.depth)), append(n, requests[k])
		whole, label = append(whole, flag(s.whole)), append(label, s.label)
	}
	return page.Table{Name: "sessions", Columns: []page.Column{
		page.Ints("tree", "", tree), page.Ints("parent", "", parent), page.Ints("depth", "", depth), page.Ints("requests", "", n),
		page.Ints("whole", "", whole), page.Texts("label", label),
	}}, rows
}

// requestColumns returns the columns of requests. A column of sumsOfColumns is packed as its excess over the sum of others.
func (b *Builder) requestColumns(list []request) *columns {
	c := &columns{}
	for _, of := range numbersOfRequests {
		values, value := make([]int64, len(list)), b.packed(of)
		for k := range list {
			values[k] = value(&list[k])
		}
		c.add(of.name, of.unit, values)
	}
	c.add("turn_step", "", steps(list, func(x *request) int32 { return x.turn }))
	c.add("outer_step", "", steps(list, func(x *request) int32 { return x.outer }))
	return c
}

// steps returns by how much a number of each request differs from that of the request before in its session; of the first, from -1.
func steps(list []request, of func(*request) int32) []int64 {
	values := make([]int64, len(list))
	for k := range list {
		before := int32(-1)
		if k > 0 && list[k-1].session == list[k].session {
			before = of(&list[k-1])
		}
		values[k] = int64(of(&list[k]) - before)
	}
	return values
}

// failureTable returns the failures from a position on. The column failure of a request is the position plus 1.
func (b *Builder) failureTable(first int) page.Table {
	var code []int64
	var category, message []string
	for _, f := range b.failures[first:] {
		code, category, message = append(code, int64(f.code)), append(category, f.category), append(message, f.message)
	}
	return page.Table{Name: "failures", Columns: []page.Column{page.Texts("category", category), page.Ints("code", "", code), page.Texts("message", message)}}
}

// table returns the bins from a position on. Bin 0 begins at the start of the phase.
func (b *bins) table(first int) page.Table {
	b.integrate()
	var sent, ended, cached, miss []int64
	var output []float64
	for k := first; k < len(b.list); k++ {
		x := &b.list[k]
		sent, ended, cached, miss = append(sent, x.sent), append(ended, x.ended), append(cached, x.cached), append(miss, x.miss)
		output = append(output, x.output)
	}
	return page.Table{Name: "bins", Columns: []page.Column{
		page.Ints("sent", "", sent), page.Ints("ended", "", ended), page.Ints("cached", "tokens", cached), page.Ints("miss", "tokens", miss),
		page.Floats("output", "tokens", output),
	}}
}

// failureTable returns how many requests failed in each bin, from a position on, with a row for each bin and failure.
func (b *bins) failureTable(first int) page.Table {
	var at, failure, n []int64
	for k := first; k < len(b.list); k++ {
		for _, f := range slices.Sorted(maps.Keys(b.list[k].failed)) {
			at, failure, n = append(at, int64(k)), append(failure, int64(f)), append(n, b.list[k].failed[f])
		}
	}
	return page.Table{Name: "bins.failures", Columns: []page.Column{page.Ints("bin", "", at), page.Ints("failure", "", failure), page.Ints("n", "", n)}}
}

// columns are the columns of requests. If three quarters of the rows have the same value, a column is sparse: a table with the other rows.
type columns struct {
	dense  []page.Column
	sparse []page.Table
	common map[string]int64 // the value of the rows that a sparse column leaves out
}

// add adds a column.
func (c *columns) add(name, unit string, values []int64) {
	common, n := mode(values)
	if 4*n < 3*len(values) {
		c.dense = append(c.dense, page.Ints(name, unit, values))
		return
	}
	if c.common == nil {
		c.common = map[string]int64{}
	}
	if common != page.Missing {
		c.common[name] = common
	}
	var rows, others []int64
	for k, v := range values {
		if v != common {
			rows, others = append(rows, int64(k)), append(others, v)
		}
	}
	c.sparse = append(c.sparse, page.Table{Name: "requests." + name, Columns: []page.Column{page.Ints("row", "", rows), page.Ints("value", unit, others)}})
}

// mode returns the most frequent value, and how often it occurs.
func mode(values []int64) (value int64, n int) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if j-i > n {
			value, n = sorted[i], j-i
		}
		i = j
	}
	return value, n
}

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

// listMetrics returns the metrics of requests, and the ratios of a run.
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

// sumsOfColumns are columns that are packed as their excess over the sum of others, which is mostly 0.
var sumsOfColumns = sums{"latency": {"ttft", "decode"}, "tpot": {"itl"}, "asked": {"output_tokens"}, "prompt_tokens": {"uncached", "cached"}, "recorded": {"uncached", "cached"}, "blocks": {"hits", "new_blocks"}}

// number is a column whose values each follow from one request.
type number struct {
	name, unit string
	value      func(x *request, rules measure.Rules) int64 // measure.Unknown: it has none
}

// numbersOfRequests are the columns of the table of requests: what charts need, and the metrics.
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
	{"hits", "blocks", func(x *request, _ measure.Rules) int64 { return x.HitBlocks() }},
	{"new_blocks", "blocks", func(x *request, _ measure.Rules) int64 { return x.RecordedBlocks - x.HitBlocks() }},
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

// numbersOfMetrics returns a column for each metric of requests.
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

// packed returns a function for the values of a column as the page has them: without the sum of the columns in sumsOfColumns.
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

// serverMetrics are the metrics that a page shows of a server, with the names that servers give them. The first name that a server has counts,
// because a worker of Dynamo shows the metrics of its engine beside its own. vLLM under Ray has another prefix.
var serverMetrics = []serverMetric{
	{"kv", "%", []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization",
		"dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent"}, true, false},
	{"running", "", []string{"vllm:num_requests_running", "sglang:num_running_reqs", "trtllm_num_requests_running", "dynamo_frontend_inflight_requests", "dynamo_component_inflight_requests"}, false, false},
	{"waiting", "", []string{"vllm:num_requests_waiting", "sglang:num_queue_reqs", "trtllm_num_requests_waiting", "dynamo_frontend_queued_requests"}, false, false},
	{"hit_rate", "%", []string{"sglang:cache_hit_rate", "trtllm_kv_cache_hit_rate", "dynamo_component_kvstats_gpu_prefix_cache_hit_rate", "lmcache:retrieve_hit_rate"}, true, false},
	{"hits", "tokens", []string{"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits", "lmcache:num_hit_tokens"}, false, true},
	{"queries", "tokens", []string{"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries", "lmcache:num_requested_tokens"}, false, true},
}

type serverMetric struct {
	column, unit string
	names        []string
	share        bool // several series of a server, such as those of its engines, are averaged, else added up
	counter      bool // it only grows, from 0 when the server starts
}

const (
	maxAnswers = 2000 // of one server on the page
	maxServers = 8    // on the page
)

// ServerMetric reports whether the page shows a metric of a server by its name.
func ServerMetric(name string) bool {
	return slices.ContainsFunc(serverMetrics, func(m serverMetric) bool { return slices.Contains(m.names, vllmName(name)) })
}

// serverTables returns a table for each server that answered, and the list of their URLs. Instants are ns since origin, the start of profiling in
// ns since 1970; later ones than end are left out. A reader may have the rows of the first answers of each server: first says how many of these
// rows stay, and the tables lack them.
func serverTables(d *scrape.Data, origin, end int64, had []int) (tables []page.Table, first []int) {
	var urls []string
	var numbers []int64
	for k := range d.Endpoints {
		stays := 0
		if k < len(had) && answerStep(had[k]) == answerStep(len(d.Endpoints[k].Answers)) {
			stays = (had[k] + answerStep(had[k]) - 1) / answerStep(had[k])
		}
		first = append(first, stays)
		columns := serverColumns(d, k, origin, end, stays)
		if len(columns) < 2 { // the instants alone
			continue
		}
		if len(urls) < maxServers {
			tables = append(tables, page.Table{Name: fmt.Sprintf("server.%d", k), Columns: columns})
		}
		urls, numbers = append(urls, cut(d.Endpoints[k].URL)), append(numbers, int64(k))
	}
	return append(tables, page.Table{Name: "servers", Columns: []page.Column{page.Texts("url", urls), page.Ints("number", "", numbers)}}), first
}

// answerStep returns of how many answers a page has one, where a server gave so many.
func answerStep(answers int) int { return max(1, (answers+maxAnswers-1)/maxAnswers) }

// serverColumns returns the instants of at most maxAnswers answers of a server, and the metrics then, from a row on.
func serverColumns(d *scrape.Data, endpoint int, origin, end int64, first int) []page.Column {
	answers := d.Endpoints[endpoint].Answers
	var kept []int
	var at []int64
	step := answerStep(len(answers))
	for k := first * step; k < len(answers); k += step {
		if t := answers[k].At - origin; t <= end {
			kept, at = append(kept, k), append(at, t)
		}
	}
	list := []page.Column{page.Ints("at", "ns", at)}
	for _, m := range serverMetrics {
		all := m.of(d, endpoint)
		if all == nil || len(answers) == 0 {
			continue
		}
		values := make([]float64, len(kept))
		for i, k := range kept {
			values[i] = all[k]
		}
		list = append(list, page.Floats(m.column, m.unit, values))
	}
	return list
}

// of returns the metric at each answer of a server, nil if the server does not have it.
func (m *serverMetric) of(d *scrape.Data, endpoint int) []float64 {
	for _, name := range m.names {
		total, n := make([]float64, len(d.Endpoints[endpoint].Answers)), 0
		for s := range d.Series {
			if one := &d.Series[s]; one.Endpoint == endpoint && vllmName(one.Name) == name {
				addSeries(total, one, m.counter)
				n++
			}
		}
		for k := range total {
			if m.share && n > 0 {
				total[k] /= float64(n)
			}
		}
		if n > 0 {
			return total
		}
	}
	return nil
}

// vllmName returns a name of vLLM without the prefix of Ray, another name as it is.
func vllmName(name string) string {
	if rest, ok := strings.CutPrefix(name, "ray_vllm_"); ok {
		return "vllm:" + rest
	}
	return name
}

// addSeries adds to total the value of a series at each answer of its server, 0 where the server does not show the series. A counter that falls
// has begun again at 0: its growth is added up.
func addSeries(total []float64, s *scrape.Series, counter bool) {
	next, value, base := 0, 0.0, 0.0
	for k := range total {
		for next < s.Len() {
			at, values := s.Change(next)
			if at > k {
				break
			}
			now := 0.0
			if len(values) > 0 && !math.IsInf(values[0], 0) {
				now = values[0]
			}
			if counter && now < value {
				base += value
			}
			value = now
			next++
		}
		total[k] += base + value
	}
}

// intervals are the intervals of the figures of the whole run.
type intervals struct {
	Why string `json:"why"` // why there are none; "": there are some

	// By metric and statistic, such as ttft and p95: from and to. What has none is left out.
	Of map[string]map[string][2]float64 `json:"of"`
}

// named returns the interval of a figure such as ttft.p95; Missing where there is none.
func (i *intervals) named(figure string) (low, high measure.Number) {
	metric, statistic, _ := strings.Cut(figure, ".")
	if i == nil {
		return measure.Missing, measure.Missing
	}
	if of, ok := i.Of[metric][statistic]; ok {
		return measure.Number(of[0]), measure.Number(of[1])
	}
	return measure.Missing, measure.Missing
}

// intervals computes the intervals of the metrics of requests.
func (b *Builder) intervals(run *report.Run, samples *interval.Run) (*intervals, error) {
	if n := b.sent + b.warmup; n > maxRequests {
		return &intervals{Why: fmt.Sprintf("There are no intervals: they are computed of at most %d requests, and the run has %d.", maxRequests, n)}, nil
	}
	var err error
	if samples.Seed, err = interval.SeedOf(run.Files.RecordFiles()...); err != nil {
		return nil, err
	}
	list := &intervals{Of: map[string]map[string][2]float64{}}
	for _, m := range measure.MetricList {
		if m.Of == nil {
			continue
		}
		found, err := samples.Of(m.Name, interval.Statistics())
		if err != nil {
			list.Why = "There are no intervals: " + err.Error() + "."
			continue
		}
		of := map[string][2]float64{}
		for k, i := range found {
			if i.Known() {
				of[slo.Statistics[k]] = [2]float64{i.Low, i.High}
			}
		}
		list.Of[m.Name] = of
	}
	return list, nil
}

// mark is how much a page had at one look at a run that is played.
type mark struct {
	stride, requests, sessions, failures int
	touched                              int   // the first bin that has changed since the mark before
	answers                              []int // of each server
	warmup                               int64 // its end, from which instants of servers count
}

// maxMarks is how many marks are kept: a page that has not asked for two minutes gets everything anew.
const maxMarks = 128

// Mark remembers how much the page has now, and returns the number of the mark: 1, 2 and so on.
func (b *Builder) Mark() int {
	var answers []int
	for _, e := range b.Servers.Endpoints {
		answers = append(answers, len(e.Answers))
	}
	b.marks[b.marked%maxMarks] = mark{b.stride, len(b.requests), len(b.sessions), len(b.failures), b.bins.touched, answers, b.end[0]}
	b.bins.touched = len(b.bins.list)
	b.marked++
	return b.marked
}

// Has reports whether Since can bring a page up to date that a reader got at a mark: the builder still knows the mark, and has not thinned the
// page since.
func (b *Builder) Has(number int) bool {
	return number > 0 && number <= b.marked && number > b.marked-maxMarks && b.marks[(number-1)%maxMarks].stride == b.stride
}

// growth is the head of a page that adds rows to those of an earlier one.
type growth struct {
	head
	From from `json:"from"`
}

// from is how many rows of each table of the earlier page stay; later rows are replaced, and so are tables that it does not name.
type from struct {
	Whole    bool `json:"whole"` // there is no earlier page
	Requests int  `json:"requests"`
	Sessions int  `json:"sessions"`
	Failures int  `json:"failures"`
	Bins     int  `json:"bins"`

	Servers []int `json:"servers"` // of the table of each server
}

// Since returns what is new since a mark, or a whole page if Has is false. Its rows are in the order in which records were added, unlike those of
// the finished page. It lets other goroutines run after each column.
func (b *Builder) Since(number int, a *About) *page.Page {
	g := growth{head: b.head(a), From: from{Whole: !b.Has(number)}}
	var had []int
	if !g.From.Whole {
		m := &b.marks[(number-1)%maxMarks]
		g.From.Requests, g.From.Sessions, g.From.Failures, g.From.Bins = m.requests, m.sessions, m.failures, b.touchedSince(number)
		if m.warmup == b.end[0] {
			had = m.answers
		}
	}
	servers, stay := serverTables(&b.Servers, b.origin(&a.Info), math.MaxInt64, had)
	g.From.Servers = append([]int{}, stay...)
	p := &page.Page{Kind: "live", Title: title(&a.Info), Live: true, Head: &g, Tables: []page.Table{
		b.newSessions(g.From.Sessions), b.newRequests(g.From.Requests), b.failureTable(g.From.Failures),
	}}
	p.Tables = append(p.Tables, servers...)
	if b.stride > 1 {
		p.Tables = append(p.Tables, b.bins.table(g.From.Bins), b.bins.failureTable(g.From.Bins))
	}
	return p
}

// touchedSince returns the position of the first bin that has changed since a mark that the builder still knows.
func (b *Builder) touchedSince(number int) int {
	first := b.bins.touched
	for k := number; k < b.marked; k++ {
		first = min(first, b.marks[k%maxMarks].touched)
	}
	return min(first, len(b.bins.list))
}

// newSessions returns the sessions from a position on, with their trees. It names a parent by number, because the parent may come later.
func (b *Builder) newSessions(first int) page.Table {
	list := b.sessions[first:]
	t := page.Table{Name: "sessions"}
	column := func(name string, of func(*session) int64) {
		t.Columns = append(t.Columns, page.Ints(name, "", b.valuesOf(len(list), func(k int) int64 { return of(&list[k]) })))
	}
	column("tree", func(s *session) int64 { return int64(s.id.tree) })
	column("lane", func(s *session) int64 { return int64(b.trees[s.id.tree].lane) })
	column("pass", func(s *session) int64 { return int64(b.trees[s.id.tree].pass) })
	column("number", func(s *session) int64 { return int64(s.number) })
	column("parent", func(s *session) int64 { return int64(s.above) })
	column("depth", func(s *session) int64 { return int64(s.depth) })
	column("whole", func(s *session) int64 { return flag(s.whole) })
	labels, traces := make([]string, len(list)), make([]string, len(list))
	for k := range list {
		labels[k], traces[k] = list[k].label, b.trees[list[k].id.tree].trace
	}
	t.Columns = append(t.Columns, page.Texts("label", labels), page.Texts("trace", traces))
	return t
}

// newRequests returns the table of the requests from position first on, in the order in which they were added, each with the position of its session.
func (b *Builder) newRequests(first int) page.Table {
	list := b.requests[first:]
	t := page.Table{Name: "requests"}
	column := func(name, unit string, of func(*request) int64) {
		t.Columns = append(t.Columns, page.Ints(name, unit, b.valuesOf(len(list), func(k int) int64 { return of(&list[k]) })))
	}
	for _, of := range numbersOfRequests {
		column(of.name, of.unit, b.packed(of))
	}
	column("session", "", func(x *request) int64 { return int64(x.session) })
	column("turn", "", func(x *request) int64 { return int64(x.turn) })
	column("outer", "", func(x *request) int64 { return int64(x.outer) })
	return t
}

// valuesOf returns n values, which are valid until the next call, after it has let other goroutines run.
func (b *Builder) valuesOf(n int, of func(k int) int64) []int64 {
	runtime.Gosched()
	b.values = b.values[:0]
	for k := range n {
		b.values = append(b.values, of(k))
	}
	return b.values
}
