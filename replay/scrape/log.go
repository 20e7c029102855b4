package scrape

import (
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of what a run keeps.
const (
	maxSeries = 100_000   // of all pages
	maxFile   = 256 << 20 // bytes
)

// log is the file of a run. Until it has been opened it is in memory.
type log struct {
	mu     sync.Mutex
	file   io.WriteCloser // nil: not opened yet
	buf    []byte         // whole lines that are not in the file
	size   int            // bytes of all lines
	series int
	limit  int   // of size
	full   bool  // something did not fit
	err    error // the first error; nothing is written after it
}

// known is a series that the file has.
type known struct {
	id     int
	name   string
	kind   Type
	labels map[string]string // of a metric that tells labels alone: its name ends in _info; nil: of another one
	values []float64         // those of the last answer; nil: it lacked the series
	seen   bool              // the answer that is written has it
}

// open makes a file that of the log.
func (l *log) open(file io.WriteCloser) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.file = file
	l.flush()
}

// flush writes the buffered lines with one call, so that a killed run leaves whole lines.
func (l *log) flush() {
	if l.file == nil {
		return
	}
	if len(l.buf) > 0 && l.err == nil {
		_, l.err = l.file.Write(l.buf)
	}
	l.buf = l.buf[:0]
}

// close writes what is left and closes the file.
func (l *log) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flush()
	if l.file != nil {
		if err := l.file.Close(); l.err == nil {
			l.err = err
		}
	}
	l.file, l.buf = nil, nil
}

// addEndpoint writes the line of a page.
func (l *log) addEndpoint(number int, p Page) {
	text, _ := json.Marshal(struct { // texts always marshal
		Endpoint int    `json:"endpoint"`
		URL      string `json:"url"`
		Default  bool   `json:"default,omitempty"`
	}{number, p.Name(), p.Default})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.append(append(text, '\n'))
}

// append adds lines, unless the file is full. Once it is, nothing is added any more: a change that is left out would make the next
// ones wrong.
func (l *log) append(lines []byte) {
	l.full = l.full || l.size+len(lines) > l.limit
	if !l.full {
		l.size += len(lines)
		l.buf = append(l.buf, lines...)
	}
}

// addAnswer writes an answer of an endpoint, and the lines of the series that are new. Samples are those of the page; series are the
// ones that the file has, by key. It returns how many samples did not fit.
func (l *log) addAnswer(endpoint int, at, took int64, samples []sample, series map[string]*known) (leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.flush()
	var head, changes []byte // lines of new series; values
	for k := range samples {
		s := &samples[k]
		have := series[s.key]
		if have == nil {
			if l.series == maxSeries {
				leftOut++
				continue
			}
			have = &known{id: l.series, name: s.series.Name, kind: s.series.Type}
			if strings.HasSuffix(have.name, "_info") {
				have.labels = s.series.Labels
			}
			series[s.key] = have
			l.series++
			s.series.Endpoint = endpoint
			head = appendSeries(head, have.id, s.series)
		}
		if have.seen { // the page has it twice: the first counts
			continue
		}
		have.seen = true
		if !slices.Equal(have.values, s.values) {
			have.values = s.values
			changes = appendValues(changes, have.id, s.values)
		}
	}
	l.append(appendAnswer(head, endpoint, at, took, changes, gone(series)))
	return leftOut
}

// gone returns the numbers of the series that the answer before had and this one lacks, in their order.
func gone(series map[string]*known) (list []int) {
	for _, have := range series {
		if !have.seen && have.values != nil {
			have.values = nil
			list = append(list, have.id)
		}
		have.seen = false
	}
	slices.Sort(list)
	return list
}

// appendSeries appends the line of a series that is new.
func appendSeries(b []byte, id int, s Series) []byte {
	text, _ := json.Marshal(struct { // texts always marshal
		Number int `json:"series"`
		Series
	}{id, s})
	return append(append(b, text...), '\n')
}

// appendValues appends [id,value,...], and a comma.
func appendValues(b []byte, id int, values []float64) []byte {
	b = strconv.AppendInt(append(b, '['), int64(id), 10)
	for _, v := range values {
		b = strconv.AppendFloat(append(b, ','), v, 'g', -1, 64)
	}
	return append(b, ']', ',')
}

// appendAnswer appends the line of an answer: its instant and how long it took, in nanoseconds, the changed values, and the series that are gone.
func appendAnswer(b []byte, endpoint int, at, took int64, changes []byte, gone []int) []byte {
	b = strconv.AppendInt(append(b, `{"endpoint":`...), int64(endpoint), 10)
	b = strconv.AppendInt(append(b, `,"at":`...), at, 10)
	b = strconv.AppendInt(append(b, `,"took":`...), took, 10)
	if n := len(changes); n > 0 {
		b = append(append(append(b, `,"values":[`...), changes[:n-1]...), ']')
	}
	if len(gone) > 0 {
		text, _ := json.Marshal(gone) // numbers always marshal
		b = append(append(b, `,"gone":`...), text...)
	}
	return append(b, '}', '\n')
}
