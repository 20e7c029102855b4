package index

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/html"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/report"
)

// Limits of a server.
const (
	lookAgain   = time.Second      // after which the directory is read again
	playing     = 15 * time.Second // since the last record of a run that goes on
	makeLimit   = 5 * time.Minute  // to make a page and send it
	mostCompare = 10               // runs
)

// Server answers about the runs below a directory: / is the index, /data its data, /runs/N the page of a run, /compare?runs=N,M a comparison.
// Runs have numbers in the order in which the server has seen them, so that no name of a file comes from an address.
type Server struct {
	root string
	now  func() time.Time

	mu     sync.Mutex
	known  map[string]int  // the number of a run, by its path
	paths  []string        // of the runs, by their numbers less 1
	read   map[string]read // by the path of a run
	list   []Run
	err    error
	looked time.Time

	making sync.Mutex // one page at a time: making one takes a core
}

// read is a run, and the files that it was read from.
type read struct {
	of  [3]file
	run Run
}

// file is what tells that a file has changed; zero: there is none.
type file struct {
	changed, size int64
}

// filesOf returns what tells that a run has changed: its summary, what was run, and its records.
func filesOf(dir string) (list [3]file) {
	for k, name := range []string{summaryFile, measure.RunFile, measure.RecordsFile} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			list[k] = file{info.ModTime().UnixNano(), info.Size()}
		}
	}
	return list
}

// readRun reads a run if it has changed since it was read. Of one that is played it reads no records; nor of a load of several parts.
func (s *Server) readRun(path, dir string) Run {
	of := filesOf(path)
	records := of[2]
	if of[0] == (file{}) && (records == (file{}) || s.now().UnixNano()-records.changed < int64(playing)) {
		r := readRun(path, dir, false)
		if records != (file{}) {
			r.State, r.Verdict = Playing, "It is being played."
		}
		return r
	}
	known, ok := s.read[path]
	if !ok || known.of != of {
		known = read{of, readRun(path, dir, true)}
		if known.run.State == Open {
			known.run.State = Killed
		}
		s.read[path] = known
	}
	return known.run
}

// NewServer returns a server of the runs below a directory.
func NewServer(root string, now func() time.Time) *Server {
	return &Server{root: root, now: now, known: map[string]int{}, read: map[string]read{}}
}

// Handler answers requests, without a guard.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		list, err := s.runs()
		var text []byte
		if err == nil {
			text, err = pageOf(s.root, list, true)
		}
		send(w, "text/html; charset=utf-8", text, err)
	})
	mux.HandleFunc("/data", func(w http.ResponseWriter, _ *http.Request) {
		list, err := s.runs()
		var text []byte
		if err == nil {
			text, err = json.Marshal(list)
		}
		send(w, "application/json", text, err)
	})
	mux.HandleFunc("/runs/{number}", s.run)
	mux.HandleFunc("/compare", s.compare)
	return mux
}

// errUnknown is about a number that no run has.
var errUnknown = errors.New("no run has this number: open the index again")

// send answers with a text, or with an error.
func send(w http.ResponseWriter, kind string, text []byte, err error) {
	switch {
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // the reader may be gone
	}
}

// runs returns the runs with their numbers. It reads the directory at most once a second.
func (s *Server) runs() ([]Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if !s.looked.IsZero() && now.Sub(s.looked) < lookAgain {
		return s.list, s.err
	}
	s.list, s.err = readAll(s.root, s.readRun)
	s.looked = now
	lists := map[string][]string{} // of runs, the numbers
	for k := range s.list {
		r := &s.list[k]
		if s.known[r.path] == 0 {
			s.paths = append(s.paths, r.path)
			s.known[r.path] = len(s.paths)
		}
		r.Number = s.known[r.path]
		r.Page = fmt.Sprintf("runs/%d", r.Number)
		if above := filepath.Dir(r.path); hasFile(above, listFile) {
			lists[above] = append(lists[above], strconv.Itoa(r.Number))
		}
	}
	for k := range s.list {
		r := &s.list[k]
		if of := lists[filepath.Dir(r.path)]; len(of) > 1 && len(of) <= mostCompare {
			r.Comparison = "compare?runs=" + strings.Join(of, ",")
		}
	}
	return s.list, s.err
}

// path returns the path of a run by its number.
func (s *Server) path(number string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > len(s.paths) {
		return "", errUnknown
	}
	return s.paths[n-1], nil
}

// answer makes a page and sends it, which holds up no other page.
func (s *Server) answer(w http.ResponseWriter, make func() ([]byte, error)) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(makeLimit)) // else the limit of the server holds
	text, err := s.alone(make)
	send(w, "text/html; charset=utf-8", text, err)
}

// alone makes a page when no other is being made.
func (s *Server) alone(make func() ([]byte, error)) ([]byte, error) {
	s.making.Lock()
	defer s.making.Unlock()
	return make()
}

// run answers with the page of a run, as far as it has been played.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	path, err := s.path(r.PathValue("number"))
	if err != nil {
		send(w, "", nil, err)
		return
	}
	s.answer(w, func() ([]byte, error) { return pageOfRun(path) })
}

// pageOfRun makes the page of a run.
func pageOfRun(path string) ([]byte, error) {
	opened, err := merge.Open(path, merge.Options{Partial: true})
	if err != nil {
		return nil, err
	}
	run, err := report.Of(opened)
	if err != nil {
		return nil, err
	}
	_, text, err := html.Make(run)
	return text, err
}

// compare answers with the comparison of runs.
func (s *Server) compare(w http.ResponseWriter, r *http.Request) {
	numbers := strings.Split(r.URL.Query().Get("runs"), ",")
	if len(numbers) < 2 || len(numbers) > mostCompare {
		http.Error(w, fmt.Sprintf("runs: want 2 to %d numbers of runs with commas between", mostCompare), http.StatusBadRequest)
		return
	}
	var list []compare.Source
	for _, n := range numbers {
		path, err := s.path(n)
		if err != nil {
			send(w, "", nil, err)
			return
		}
		list = append(list, compare.Source{Dir: path, Page: "runs/" + n, Partial: true, Series: seriesOf(path)})
	}
	if slices.ContainsFunc(list, func(one compare.Source) bool { return one.Series == "" }) {
		for k := range list {
			list[k].Series = ""
		}
	}
	s.answer(w, func() ([]byte, error) {
		c, err := compare.Make(r.Context(), list, compare.Options{})
		if err != nil {
			return nil, err
		}
		return c.HTML()
	})
}

// seriesOf returns the name of the list of runs to which a run belongs; "": to none.
func seriesOf(path string) string {
	if above := filepath.Dir(path); hasFile(above, listFile) {
		return filepath.Base(above)
	}
	return ""
}
