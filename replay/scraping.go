package replay

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/wire"
)

// Scrape says which pages of metrics are read beside a run that has a directory for its results: doc/spec/replay.md 8.12. The zero
// value reads /metrics of each server, if there is such a page.
type Scrape struct {
	Off   bool     // none is read
	Pages []string // their URLs, also with user, password and query; one without a path is that of /metrics; none: those of the servers
}

// Validate returns an error that names the first page that cannot be read, without user, password and query.
func (s Scrape) Validate() error {
	if s.Off || len(s.Pages) == 0 {
		return nil
	}
	return scrape.Options{Pages: s.pages(nil, nil, "")}.Validate()
}

// pages returns the pages of a run with some servers. Those that are on a server get the header fields of its requests, and the API
// key; no other does.
func (s Scrape) pages(servers []string, header []wire.HeaderField, apiKey string) (list []scrape.Page) {
	for _, page := range s.Pages {
		list = append(list, scrape.Page{URL: withPath(page)})
	}
	if len(list) == 0 {
		for _, server := range servers {
			page, err := wire.PageURL(server, "/metrics")
			if err == nil { // Validate has looked at the servers
				list = append(list, scrape.Page{URL: page, Default: true})
			}
		}
		list = distinctPages(list)
	}
	fields := http.Header{}
	if apiKey != "" {
		fields.Set("Authorization", "Bearer "+apiKey)
	}
	for _, f := range header {
		fields.Set(f.Name, f.Value)
	}
	for k := range list {
		list[k].Instead = insteadOf(list[k].URL)
		for _, server := range servers {
			if wire.SameServer(server, list[k].URL) {
				list[k].Header = fields
			}
		}
	}
	return list
}

// withPath returns a URL with the path /metrics, if it is one of HTTP that has none.
func withPath(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || !strings.HasPrefix(u.Scheme, "http") || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return raw
	}
	u.Path = "/metrics"
	return u.String()
}

// insteadOf returns where the metrics of TensorRT-LLM are whose page is JSON, "" where that cannot be.
func insteadOf(page string) string {
	u, err := url.Parse(page)
	if err != nil {
		return ""
	}
	root, ok := strings.CutSuffix(u.Path, "/metrics")
	if !ok || strings.HasSuffix(root, "/prometheus") {
		return ""
	}
	u.Path = root + "/prometheus/metrics"
	return u.String()
}

// distinctPages returns the pages without repetitions: several URLs may be of one server.
func distinctPages(pages []scrape.Page) (list []scrape.Page) {
	seen := map[string]bool{}
	for _, p := range pages {
		if !seen[p.URL] && len(list) < scrape.MaxPages {
			list = append(list, p)
		}
		seen[p.URL] = true
	}
	return list
}

// scraping reads the pages of metrics beside a run. A nil scraping reads none.
type scraping struct {
	collector *scrape.Collector
	warn      func(string)
	began     time.Time // from which its clock counts
}

// startScraping begins to read the pages of metrics. What they say is in memory until open.
func (r *run) startScraping() error {
	pages := r.Scrape.pages(r.URLs, r.Header, r.APIKey)
	for k := range pages {
		if pages[k].Header != nil { // it is on a server of the run
			pages[k].TLS, _ = r.TLS.config() // Validate has read it
		}
	}
	if r.Scrape.Off || r.Out == "" || len(pages) == 0 {
		return nil
	}
	began := time.Now()
	c, err := scrape.Start(scrape.Options{Pages: pages, Notice: r.reporter.notice, Now: func() time.Time { return began.Add(time.Since(began)) }})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	r.scraping = &scraping{c, r.reporter.warn, began}
	return nil
}

// now returns the time of the clock of the samples, which no step of the clock of the machine moves: a phase that begins after an answer
// has a later instant than this. The clock of a load of several parts is its own.
func (s *scraping) now(t *together) time.Time {
	if s == nil || t.meeting != nil {
		return t.now()
	}
	return s.began.Add(time.Since(s.began))
}

// firstScrape is how long a run waits for the first answers before its clock starts: what its servers have counted until then is the
// reference of the first phase.
const firstScrape = time.Second

// open makes the file of the samples, and waits for the first of them. A run goes on without the file.
func (s *scraping) open(ctx context.Context, path string) {
	if s == nil {
		return
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		s.warn(fmt.Sprintf("server metrics: %v: they are not kept", err))
		return
	}
	s.collector.Open(file)
	s.collector.Ready(ctx, firstScrape)
}

// boundaryWait is how long a phase waits for the answers of its beginning.
const boundaryWait = 2 * time.Second

// begin reads every page because a phase begins, and waits for the answers: what the servers have counted until then is its reference.
func (s *scraping) begin(ctx context.Context, phase string) {
	if s == nil {
		return
	}
	for _, url := range s.collector.Boundary(ctx, boundaryWait) {
		s.warn(fmt.Sprintf("server metrics: %s: no answer before the first request of the phase %s: its counters count from the answer before that", url, phase))
	}
}

// mark reads every page now, because a phase has ended.
func (s *scraping) mark() {
	if s != nil {
		s.collector.Mark()
	}
}

// said returns what the pages said last.
func (s *scraping) said() scrape.Now {
	if s == nil {
		return scrape.Now{}
	}
	return s.collector.Now()
}

// lastWait is how long a run that was interrupted waits for the answers of its end.
const lastWait = 250 * time.Millisecond

// end ends the reading and returns what became of it. With tail set it goes on for scrape.Tail before, or until ctx ends; else the pages are
// asked once more.
func (s *scraping) end(ctx context.Context, tail bool) *measure.ServerMetrics {
	if s == nil {
		return nil
	}
	if tail {
		s.collector.Linger(ctx, scrape.Tail)
	} else {
		s.collector.Boundary(context.Background(), lastWait)
	}
	m, err := s.collector.Close()
	if err != nil {
		s.warn(fmt.Sprintf("server metrics: %v: %s lacks what came later", err, scrape.File))
	}
	for _, p := range m.Pages {
		if p.Cut {
			s.warn(fmt.Sprintf("server metrics: %s: %s", p.URL, p.LastError))
		}
	}
	return m
}

// close ends the reading of a run that was not played.
func (s *scraping) close() {
	if s != nil {
		_, _ = s.collector.Close()
	}
}
