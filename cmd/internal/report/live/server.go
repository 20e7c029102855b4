package live

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/html"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// Server serves the run that is shown: / is the page, /data what the page adds to itself, /metrics the metrics for Prometheus, and /status the
// Status as JSON.
type Server struct {
	*Site

	shown    atomic.Pointer[View]
	watchers watchers
}

// View is what a server shows of a run.
type View struct {
	State *State
	Pages *Pages // nil: the results are not open yet
}

// Listen begins to serve on an address of Address, to those who have the token; "": one is drawn if the address is beyond this machine.
// The caller must call Close.
func Listen(address, token string) (*Server, error) {
	s := newServer()
	var err error
	if s.Site, err = Serve("--listen", address, token, s.handler()); err != nil {
		return nil, err
	}
	return s, nil
}

func newServer() *Server { return &Server{watchers: watchers{at: map[string]time.Time{}}} }

// handler answers about the run that is shown.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.page)
	mux.HandleFunc("/data", s.data)
	mux.HandleFunc("/metrics", s.metrics)
	mux.HandleFunc("/status", s.status)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.shown.Load() == nil {
			http.Error(w, "the run has not begun", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Show replaces what is shown.
func (s *Server) Show(v *View) { s.shown.Store(v) }

// Readers returns how many pages are open in browsers.
func (s *Server) Readers() int { return s.watchers.open() }

// Close ends the serving. Those who watch the page may fetch the finished one, until ctx ends.
func (s *Server) Close(ctx context.Context) error {
	s.watchers.wait(ctx)
	return s.Site.Close()
}

// page answers with the page of the run.
func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	pages := s.shown.Load().Pages
	if pages == nil {
		w.Header().Set("Refresh", "1")
		http.Error(w, "The run is being prepared.", http.StatusServiceUnavailable)
		return
	}
	send(w, "text/html; charset=utf-8", nil, pages.html())
}

// data answers with what is new on the page after a position.
func (s *Server) data(w http.ResponseWriter, r *http.Request) {
	pages, query := s.shown.Load().Pages, r.URL.Query()
	reader := query.Get("reader")
	if query.Has("left") {
		s.watchers.asked(reader, true)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	after, err := strconv.Atoi(query.Get("after"))
	if err != nil || after < 0 {
		http.Error(w, "after: want a whole number, 0 or more", http.StatusBadRequest)
		return
	}
	if pages == nil {
		http.Error(w, "the run is being prepared", http.StatusServiceUnavailable)
		return
	}
	text, has, err := pages.data(after)
	send(w, "application/json", err, text...)
	s.watchers.asked(reader, has)
}

// metrics answers with the metrics for Prometheus.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	text, err := s.shown.Load().State.Metrics()
	send(w, "text/plain; version=0.0.4; charset=utf-8", err, text)
}

// status answers with the status as JSON.
func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	status := s.shown.Load().State.Status()
	text, err := json.MarshalIndent(status, "", "  ")
	send(w, "application/json", err, text, []byte{'\n'})
}

// send answers with a text in pieces, or with err. It holds no lock that a run needs.
func send(w http.ResponseWriter, kind string, err error, text ...[]byte) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	length := 0
	for _, piece := range text {
		length += len(piece)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(length))
	for _, piece := range text {
		if _, err := w.Write(piece); err != nil {
			return // the reader is gone
		}
	}
}

// watchers are the pages that are open in browsers.
type watchers struct {
	mu   sync.Mutex
	at   map[string]time.Time // by the name that a page has drawn: when it last asked for data
	left chan struct{}        // closed when all have the finished page; nil: Close does not wait
}

// watching is how long after it has asked for data a page counts as open: a slow machine draws for seconds.
const watching = 15 * time.Second

// longestName bounds the name of a page.
const longestName = 32

// asked notes that a page asked for data, or that it needs none any more, because it has the finished page or is closed.
func (w *watchers) asked(page string, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	_, known := w.at[page]
	switch {
	case done:
		delete(w.at, page)
	case known, page != "" && len(page) <= longestName && len(w.at) < maxConnections:
		w.at[page] = time.Now()
	}
	if len(w.at) == 0 && w.left != nil {
		close(w.left)
		w.left = nil
	}
}

// forget removes the pages that have not asked for long.
func (w *watchers) forget() {
	maps.DeleteFunc(w.at, func(_ string, at time.Time) bool { return time.Since(at) > watching })
}

// open counts the pages that are open.
func (w *watchers) open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	return len(w.at)
}

// wait returns when all watchers have the finished page, and when ctx ends.
func (w *watchers) wait(ctx context.Context) {
	w.mu.Lock()
	w.forget()
	left := make(chan struct{})
	if len(w.at) == 0 {
		close(left)
	} else {
		w.left = left
	}
	w.mu.Unlock()
	select {
	case <-left:
	case <-ctx.Done():
	}
}

// Requests is how many requests the page of a run has while it is played. The finished page has more.
const Requests = 10_000

// Pages makes the page of a run while it is played, and what it adds to itself. Its methods may be called by many goroutines at once.
type Pages struct {
	state *State
	about html.About
	shell []byte // the page before it has asked for its data

	mu       sync.Mutex
	builder  *html.Builder
	servers  *scrape.Growing // nil: its file cannot be read
	first    int             // position of mark 0 of the builder: no other run has the positions that follow
	position int             // grows where there was something new
	fresh    bool            // there were records since the last look
	rest     time.Time       // until then nothing is packed
	packed   [2]packed       // the last whole page, and the last growth
	finished *finished       // nil: the run is not over
	broken   []string        // why records are not on the page
}

// packed is the packed data that brings a page from the position after to position; after 0 it is a whole page.
type packed struct {
	after, position int
	data            []byte // nil: nothing
}

// finished is the page of a run that is over.
type finished struct{ html, data []byte }

// NewPages returns the pages of a run whose results are open in a directory, before its first request.
func NewPages(state *State, dir string) (*Pages, error) {
	run, err := report.Open(dir)
	if err != nil {
		return nil, err
	}
	p := &Pages{state: state, builder: html.NewBuilder(run.Rules(), run.Info.SLO...), about: html.About{Info: run.Info, Live: true}}
	p.builder.Limit(Requests)
	p.servers = scrape.NewGrowing(dir, html.ServerMetric)
	p.first = int(max(0, run.Info.Start.UnixMilli()))
	p.position = p.first + p.builder.Mark()
	var shell bytes.Buffer
	err = page.Write(&shell, &page.Page{Kind: "live", Title: "agentx run", Live: true})
	p.shell = shell.Bytes()
	return p, err
}

// Add adds a request that is over. It does not keep the record.
func (p *Pages) Add(r *measure.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fresh = true
	if err := p.builder.Add(r); err != nil && len(p.broken) == 0 {
		p.broken = []string{fmt.Sprintf("A record is not on this page: %v.", err)}
	}
}

// look begins a new position if there were records since the last look.
func (p *Pages) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.servers != nil {
		if err := p.servers.Read(); err != nil {
			p.servers, p.broken = nil, append(p.broken, fmt.Sprintf("What the servers say of themselves is not shown from here on: %v.", err))
		} else {
			p.builder.Servers = p.servers.Data
		}
	}
	if p.fresh {
		p.position = p.first + p.builder.Mark()
		p.fresh = false
	}
}

// Finish makes the page of the finished run, from the files of its directory.
func (p *Pages) Finish(dir string) error {
	run, err := report.Open(dir)
	if err != nil {
		return err
	}
	made, text, err := html.Make(run)
	if err != nil {
		return err
	}
	data, err := made.AppendJSON(nil)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.position++
	p.finished = &finished{text, data}
	return nil
}

// html returns the page. While the run is played it is a shell that asks for its data.
func (p *Pages) html() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished != nil {
		return p.finished.html
	}
	return p.shell
}

// data returns what is new after a position, in pieces, and whether who asks has the finished page.
func (p *Pages) data(after int) (text [][]byte, has bool, err error) {
	now, over, err := p.since(after)
	if err != nil {
		return nil, false, err
	}
	if now.data == nil {
		now.data = []byte("null") // there is nothing new
	}
	status := p.state.Status()
	about, err := json.Marshal(struct {
		Position int    `json:"position"` // to ask from the next time
		Line     string `json:"line"`     // what the run is like
		Ended    bool   `json:"ended"`    // the page is that of the finished run
	}{now.position, status.Log(), over})
	return [][]byte{bytes.TrimSuffix(about, []byte("}")), []byte(`,"page":`), now.data, []byte("}")}, p.has(after), err
}

// has reports whether a position is that of the finished page.
func (p *Pages) has(position int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.finished != nil && position >= p.position
}

// rests is how many times as long as packing took nothing more is packed, so that a busy machine packs less.
const rests = 20

// since returns what is new after a position. What several pages ask for is packed once. While packing rests, a page that has nothing gets the
// last whole page, and others get nothing.
func (p *Pages) since(after int) (now packed, over bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	nothing := packed{position: after}
	switch {
	case p.finished != nil && after < p.position:
		return packed{position: p.position, data: p.finished.data}, true, nil
	case p.finished != nil:
		return nothing, false, nil
	}
	kind := 1
	if !p.builder.Has(after - p.first) {
		after, kind = 0, 0
	}
	last := &p.packed[kind]
	switch {
	case after == p.position:
		return nothing, false, nil
	case last.data != nil && last.after == after && last.position == p.position:
		return *last, false, nil
	case time.Now().Before(p.rest):
		if kind == 0 && last.data != nil {
			return *last, false, nil
		}
		return nothing, false, nil
	}
	begin := time.Now()
	defer func() { p.rest = time.Now().Add(rests * time.Since(begin)) }()
	*last, err = p.pack(after, len(last.data))
	return *last, false, err
}

// pack packs what is new after a position, at 0 everything and the facts of the run, which do not change. size estimates the bytes.
func (p *Pages) pack(after, size int) (packed, error) {
	about := p.about
	summary := p.state.summary(&about.Info)
	if about.Summary = summary; after > 0 {
		summary.Run = measure.Run{}
	}
	about.Notes = append([]string{"This run is being played. Percentiles of the whole run are good to 1 %."}, p.broken...)
	if p.state.shared() {
		about.Notes = append(about.Notes, "The line at the top and the summary are of all parts of the load. The charts have the requests of part 0 alone.")
	}
	grown := p.builder.Since(after-p.first, &about)
	grown.Tables = append(grown.Tables, p.state.progressTable())
	data, err := grown.AppendJSON(make([]byte, 0, size+size/8))
	return packed{after, p.position, data}, err
}
