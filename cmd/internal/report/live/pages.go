package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/html"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// Requests is how many requests the page of a run has while it is played. The finished page has more.
const Requests = 10_000

// Pages makes the page of a run while it is played, and what it adds to itself. Its methods may be called by many goroutines at once.
type Pages struct {
	state *State
	about html.About
	shell []byte // the page before it has asked for its data

	mu       sync.Mutex
	builder  *html.Builder
	first    int       // position of mark 0 of the builder: no other run has the positions that follow
	position int       // grows where there was something new
	fresh    bool      // there were records since the last look
	rest     time.Time // until then nothing is packed
	packed   [2]packed // a whole page, and the last growth
	finished *finished // nil: the run is not over
	broken   []string  // why records are not on the page
}

// packed is what a page adds that has what there was after a position. At position 0 it is a whole page.
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

// look ends what belongs to one position.
func (p *Pages) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
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

// html returns the page. While the run is played it has no data, and asks for them.
func (p *Pages) html() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished != nil {
		return p.finished.html
	}
	return p.shell
}

// data returns what is new after a position, in pieces, and whether that is the finished page.
func (p *Pages) data(after int) (text [][]byte, over bool, err error) {
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
	return [][]byte{bytes.TrimSuffix(about, []byte("}")), []byte(`,"page":`), now.data, []byte("}")}, over, err
}

// rests is for how many times as long as packing took nothing is packed: on a busy machine there is less of it.
const rests = 20

// since returns what is new after a position. What several ask for is packed once. While packing rests, those who have nothing get the
// last whole page, and others nothing.
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

// pack packs what is new after a position, which will be about as large as is said; at 0 everything, and the facts of the run, which do
// not change.
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
