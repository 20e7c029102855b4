// Package scrape reads the metrics pages of inference servers beside a run: doc/spec/replay.md 8.12.
//
// A Collector has a goroutine and a connection for each page. It asks every 0.333 s, notes which values have changed since the
// answer before, and appends that to a file of the run. Nothing of it can delay or fail the run: an answer is bounded in its time,
// its bytes and its series, and failures are counted.
//
// # The file
//
// server_metrics.jsonl has one JSON object in a line, of three kinds:
//
//	{"endpoint":0,"url":"http://h/metrics","default":true}
//	{"series":7,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{"engine":"0"},"help":"Prompt tokens."}
//	{"series":8,"endpoint":0,"name":"vllm:ttft_seconds","type":"histogram","labels":{},"bounds":["0.1","+Inf"]}
//	{"endpoint":0,"at":1700000000123456789,"took":1234567,"values":[[7,130],[8,2,0.3,1,2]],"gone":[5]}
//
// An endpoint is a page, numbered from 0; its URL has no user, password or query. Before its first answer another line of its number
// may give it another URL. A series is numbered from 0 over all
// endpoints, and its line stands before its first value. The last line is an answer: the wall clock at which it had arrived and
// how long it took, in nanoseconds; the series whose values differ from those of the answer before, each with its values; and the
// series that the answer before had and this one lacks. A counter and a gauge have one value; a summary has its count and sum; a
// histogram has its count, its sum and the cumulative count of each bucket. A killed run leaves whole lines, and maybe a part of
// one more.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// Collector reads pages of metrics until it is closed. Its methods may be called by several goroutines, and none but Ready, Boundary,
// Linger and Close waits for anything.
type Collector struct {
	log    log
	pages  []*page
	cancel context.CancelFunc
	first  sync.WaitGroup // the first answers
	ready  chan struct{}  // closed when every page has answered, or failed, once
	ended  sync.WaitGroup
}

// Start begins to ask every page, at once and then at every Interval. The caller must call Close.
func Start(o Options) (*Collector, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		start := time.Now()
		o.Now = func() time.Time { return start.Add(time.Since(start)) }
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Collector{log: log{limit: maxFile}, cancel: cancel, ready: make(chan struct{})}
	for k, p := range o.Pages {
		c.log.addEndpoint(k, p)
		c.pages = append(c.pages, newPage(k, p, o, &c.log))
	}
	for _, p := range c.pages {
		c.first.Add(1)
		c.ended.Go(func() { p.run(ctx, c.first.Done) })
	}
	c.ended.Go(func() {
		c.first.Wait()
		close(c.ready)
	})
	return c, nil
}

// Open makes a file the one of the run: what is known so far is written to it, and all that follows. Close closes it.
func (c *Collector) Open(file io.WriteCloser) { c.log.open(file) }

// Ready waits until every page has answered or failed once, for a time at most or until ctx ends.
func (c *Collector) Ready(ctx context.Context, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-c.ready:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Mark asks every page now, because a phase ends. A page that is being asked is asked again as soon as it has answered.
func (c *Collector) Mark() {
	for _, p := range c.pages {
		p.askNow()
	}
}

// Boundary asks every page at once, and waits for the answers of these requests, for a time at most or until ctx ends. A request that
// runs is given up for that, unless it is the first of its page: its answer would be of a time before. It returns
// the URLs of the pages that have not answered, without user, password and query: none if ctx has ended, and none of those that are left
// alone.
func (c *Collector) Boundary(ctx context.Context, atMost time.Duration) (silent []string) {
	late, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	next := make([]<-chan bool, len(c.pages))
	for k, p := range c.pages {
		next[k] = p.next()
	}
	for k, p := range c.pages {
		answered, asked := false, true
		select {
		case answered, asked = <-next[k]:
		case <-ctx.Done():
			return nil
		case <-late.Done():
			select {
			case answered, asked = <-next[k]: // before that
			default:
			}
		}
		if asked && !answered {
			silent = append(silent, p.facts().URL)
		}
	}
	return silent
}

// Linger waits for a time, or until ctx ends, while the pages are asked on. If no page has ever answered it does not wait.
func (c *Collector) Linger(ctx context.Context, d time.Duration) {
	if !slices.ContainsFunc(c.pages, func(p *page) bool { return p.facts().Fetches > 0 }) {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Close ends every request at once, closes the file, and says what became of the pages. It may be called again. The error says that the file
// could not be written.
func (c *Collector) Close() (*measure.ServerMetrics, error) {
	c.cancel()
	c.ended.Wait()
	c.log.close()
	m := &measure.ServerMetrics{File: File, Full: c.log.full}
	for _, p := range c.pages {
		m.Pages = append(m.Pages, p.facts())
	}
	return m, c.log.err
}

// page asks for one page in a goroutine of its own.
type page struct {
	number  int
	fetcher *fetcher
	log     *log
	now     func() time.Time
	notice  func(string)
	mark    chan struct{} // it is to be asked now
	series  map[string]*known
	last    int64  // wall clock of the latest answer
	instead string // asked where the page is JSON; "": it is then left alone
	isJSON  bool   // it is left alone

	mu      sync.Mutex
	seen    measure.MetricsPage
	waiting []chan bool // that the next request is over, and whether it was answered
	giveUp  func()      // the request that runs, or ran last; nil: it is the first
	over    bool        // no request comes any more
}

// newPage returns a page that has not been read.
func newPage(number int, p Page, o Options, l *log) *page {
	var transport http.RoundTripper
	if o.Transport != nil {
		transport = o.Transport()
	} else {
		transport = newTransport(p)
	}
	return &page{
		number: number, fetcher: newFetcher(p, transport), log: l, now: o.Now, notice: o.Notice,
		mark: make(chan struct{}, 1), series: map[string]*known{}, seen: measure.MetricsPage{URL: p.Name(), Default: p.Default},
		instead: p.Instead,
	}
}

// facts returns what is known of the page so far.
func (p *page) facts() measure.MetricsPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen
}

// askNow has the page asked as soon as no request runs.
func (p *page) askNow() {
	select {
	case p.mark <- struct{}{}:
	default: // one is waiting
	}
}

// next has the page asked, and returns what gets whether that request was answered. It is closed if no request comes any more.
func (p *page) next() <-chan bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	answered := make(chan bool, 1)
	if p.over {
		close(answered)
		return answered
	}
	p.waiting = append(p.waiting, answered)
	if p.giveUp != nil {
		p.giveUp()
	}
	p.askNow()
	return answered
}

// begin returns what waits for the request that begins, and notes how that is given up; nil: none comes any more.
func (p *page) begin(giveUp func()) (list []chan bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, p.waiting, p.over, p.giveUp = p.waiting, nil, giveUp == nil, giveUp
	return list
}

// run asks until ctx ends. begun is called after the first request.
func (p *page) run(ctx context.Context, begun func()) {
	defer p.fetcher.close()
	defer func() {
		for _, w := range p.begin(nil) {
			close(w)
		}
	}()
	start := time.Now()
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	answered := p.fetch(ctx, ctx)
	begun()
	p.skip(tick, start, start)
	for (answered || !p.seen.Default) && !p.isJSON { // else it is left alone
		select {
		case <-ctx.Done():
			return
		case <-p.mark:
		case <-tick.C:
		}
		if ctx.Err() != nil { // several of them may have come at once
			return
		}
		begin := time.Now()
		answered = p.ask(ctx) || answered
		if ctx.Err() == nil {
			p.skip(tick, start, begin)
		}
	}
}

// skip leaves out the requests that were due while one ran that has begun at an instant.
func (p *page) skip(tick *time.Ticker, start, begin time.Time) {
	missed := int(time.Since(start)/Interval) - int(begin.Sub(start)/Interval)
	if missed <= 0 {
		return
	}
	select {
	case <-tick.C:
	default:
	}
	p.count(func(f *measure.MetricsPage) { f.Skipped += missed })
}

// count changes what is known of the page.
func (p *page) count(change func(*measure.MetricsPage)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.seen)
}

// ask asks once, and tells what waits for that.
func (p *page) ask(ctx context.Context) (answered bool) {
	request, giveUp := context.WithCancel(ctx)
	defer giveUp()
	waiting := p.begin(giveUp)
	answered = p.fetch(ctx, request)
	for _, w := range waiting {
		w <- answered
	}
	return answered
}

// fetch asks once, and notes the answer or the failure. A request that was given up is one that was skipped.
func (p *page) fetch(ctx, request context.Context) (answered bool) {
	begin := time.Now()
	text, err := p.fetcher.get(request)
	took, at := time.Since(begin), p.now().UnixNano()
	if ctx.Err() == nil && request.Err() != nil {
		p.count(func(f *measure.MetricsPage) { f.Skipped++ })
		return false
	}
	if ctx.Err() != nil { // the run is over
		p.cut(took)
		return false
	}
	var samples []sample
	leftOut, odd := 0, 0
	if err == nil {
		samples, leftOut, odd, err = parsePage(text)
	}
	if errors.Is(err, errJSON) {
		if p.instead != "" {
			p.moveOn()
			return p.fetch(ctx, request)
		}
		p.isJSON = true
	}
	if err != nil {
		p.fail(err)
		return false
	}
	p.last = max(p.last, at)
	leftOut += p.log.addAnswer(p.number, p.last, took.Nanoseconds(), samples, p.series)
	p.count(func(f *measure.MetricsPage) {
		f.Fetches++
		if f.LeftOut == 0 && leftOut > 0 {
			p.notice(fmt.Sprintf("server metrics: %s: %d series are too large, or too many, and left out", f.URL, leftOut))
		}
		f.LeftOut = max(f.LeftOut, leftOut)
		if f.OddLines == 0 && odd > 0 {
			p.notice(fmt.Sprintf("server metrics: %s: lines that are not understood are left out: %d", f.URL, odd))
		}
		f.OddLines = max(f.OddLines, odd)
	})
	return true
}

// moveOn asks another page from now on.
func (p *page) moveOn() {
	other := Page{URL: p.instead, Default: p.seen.Default}
	p.instead = ""
	p.fetcher.moveTo(other.URL)
	p.log.addEndpoint(p.number, other)
	p.count(func(f *measure.MetricsPage) {
		p.notice(fmt.Sprintf("server metrics: %s is JSON, as TensorRT-LLM answers: %s is read instead", f.URL, other.Name()))
		f.URL = other.Name()
	})
}

// cut notes that Close has ended a request that ran for a time. That is a failure where the page has never answered, or has taken
// longer than a run waits for it at its end: the samples lack more than the last moment.
func (p *page) cut(took time.Duration) {
	p.count(func(f *measure.MetricsPage) {
		if f.Fetches == 0 || took > Tail {
			f.Failures++
			f.Cut, f.LastError = true, fmt.Sprintf("no whole answer within %v, when the run ended", max(took.Round(time.Millisecond), time.Millisecond))
		}
	})
}

// fail counts a failure. The first is told.
func (p *page) fail(err error) {
	p.count(func(f *measure.MetricsPage) {
		if f.Failures++; f.Failures == 1 {
			what := "the page is asked again"
			if p.isJSON {
				what = "it is left alone"
			} else if f.Default && f.Fetches == 0 {
				what = preset.Text("it is left alone ({scrape} URL names another page, {scrape} off none)").String()
			}
			p.notice(fmt.Sprintf("server metrics: %s: %v: %s", f.URL, err, what))
		}
		f.LastError = err.Error()
	})
}

// Now is what the pages said last, by the name of a metric: of counters the sum of all series, of gauges the largest. Histograms and
// summaries are left out.
type Now struct {
	Counters, Gauges map[string]float64
}

// Since returns what counters have gained since another instant. One that was not there then had 0; one that is less now, because its
// server began anew, has gained nothing.
func (n Now) Since(before Now) Now {
	counters := maps.Clone(n.Counters)
	for name := range counters {
		counters[name] = max(counters[name]-before.Counters[name], 0)
	}
	return Now{counters, n.Gauges}
}

// Now returns what the pages said last.
func (c *Collector) Now() Now {
	n := Now{map[string]float64{}, map[string]float64{}}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, p := range c.pages {
		for _, s := range p.series {
			if len(s.values) != 1 {
				continue
			}
			switch v := s.values[0]; s.kind {
			case Counter:
				n.Counters[s.name] += v
			case Gauge:
				if most, ok := n.Gauges[s.name]; !ok || v > most {
					n.Gauges[s.name] = v
				}
			}
		}
	}
	return n
}

// Labels returns which values a label of a metric had that tells labels alone, whose name ends in _info: by page, without user, password and
// query. Values that are gone are left out.
func (c *Collector) Labels(metric, label string) map[string][]string {
	values := map[string][]string{}
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for _, p := range c.pages {
		for _, s := range p.series {
			if v := s.labels[label]; s.name == metric && s.values != nil && v != "" {
				url := p.facts().URL
				values[url] = append(values[url], v)
			}
		}
	}
	return values
}
