package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/html"
	"github.com/agentx/agentx/report/page"
)

// Requests is how many requests the page of a run has while it is played: packing them takes 35 ms. The
// finished page has more.
const Requests = 10_000

// Pages makes the page of a run while it is played. Its methods may be called by many goroutines at once.
type Pages struct {
	state *State
	about html.About

	mu       sync.Mutex
	builder  *html.Builder
	position int       // how often there was something new
	fresh    bool      // there were records since the last look
	rest     time.Time // until then no page is packed
	made     made      // of the position
	finished *made     // nil: the run is not over
	broken   []string  // why records are not on the page
}

// made is a page, packed for those who open it, and for those who have it open.
type made struct {
	position   int
	html, data []byte
}

// NewPages returns the pages of a run whose results are open in a directory, before its first request.
func NewPages(state *State, dir string) (*Pages, error) {
	run, err := report.Open(dir)
	if err != nil {
		return nil, err
	}
	p := &Pages{state: state, builder: html.NewBuilder(run.Rules()), about: html.About{Info: run.Info, Live: true}, position: 1}
	p.builder.Limit(Requests)
	return p, nil
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

// Look ends what belongs to one position.
func (p *Pages) Look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh {
		p.position++
		p.fresh = false
	}
}

// Finish makes the page of the finished run, from the files of its directory.
func (p *Pages) Finish(dir string) error {
	run, err := report.Open(dir)
	if err != nil {
		return err
	}
	made := new(made)
	var finished *page.Page
	if finished, made.html, err = html.Make(run); err != nil {
		return err
	}
	if made.data, err = json.Marshal(finished); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.position++
	made.position = p.position
	p.finished = made
	return nil
}

// HTML returns the page.
func (p *Pages) HTML() ([]byte, error) {
	now, err := p.now()
	return now.html, err
}

// answer is the object of /data.
type answer struct {
	Position int             `json:"position"` // to ask from the next time
	Line     string          `json:"line"`     // what the run is like
	Ended    bool            `json:"ended"`    // the page is that of the finished run
	Page     json.RawMessage `json:"page"`     // null: there is nothing new
}

// Data returns what is new after a position, and whether that is the finished page.
func (p *Pages) Data(after int) (text []byte, finished bool, err error) {
	status := p.state.Status()
	now, err := p.now()
	if err != nil {
		return nil, false, err
	}
	a := answer{Position: now.position, Line: status.Log()}
	if now.position > after {
		p.mu.Lock()
		a.Ended = p.finished != nil
		p.mu.Unlock()
		a.Page = now.data
	}
	text, err = json.Marshal(a)
	return text, a.Ended, err
}

// rests is for how many times as long as packing a page took none is packed: on a busy machine there are fewer of them.
const rests = 20

// now returns the page of the last look, or an older one where packing takes long. It is packed once, however many ask for it.
func (p *Pages) now() (made, error) {
	status := p.state.Status()
	summary, progress := p.state.summary(&p.about.Info), p.state.progressTable()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.finished != nil:
		return *p.finished, nil
	case p.made.position == p.position, time.Now().Before(p.rest):
		return p.made, nil
	}
	begin := time.Now()
	defer func() { p.rest = time.Now().Add(rests * time.Since(begin)) }()
	about := p.about
	about.Summary, about.Notes = summary, append([]string{"This run is being played. Percentiles of the whole run are good to 1 %."}, p.broken...)
	run := p.builder.Page(&about)
	run.Kind, run.Tables = "live", append(run.Tables, progress)
	run.Head = head{run.Head, p.position, status.Log()}
	var file bytes.Buffer
	if err := page.Write(&file, run); err != nil {
		return made{}, err
	}
	data, err := json.Marshal(run)
	if err != nil {
		return made{}, err
	}
	p.made = made{p.position, file.Bytes(), data}
	return p.made, nil
}

// head is the head of the page of a run with what a live page needs.
type head struct {
	run      any
	position int
	line     string
}

// MarshalJSON adds keys to the object of the run.
func (h head) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(h.run)
	if err != nil {
		return nil, err
	}
	own, err := json.Marshal(struct {
		Position int    `json:"position"`
		Line     string `json:"line"`
	}{h.position, h.line})
	return append(append(bytes.TrimSuffix(text, []byte("}")), ','), own[1:]...), err
}
