package scrape

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"

	"github.com/agentx/agentx/internal/lines"
	"github.com/agentx/agentx/internal/regular"
)

// Data is what the file of a run has.
type Data struct {
	Endpoints []Endpoint
	Series    []Series
	Torn      bool // the last line is cut off and left out

	wanted func(name string) bool // of series whose values are kept; nil: of all
}

// Endpoint is a page and its answers.
type Endpoint struct {
	URL     string // without user, password and query
	Default bool   // not asked for: it belongs to a server of the run
	Answers []Answer
}

// Answer is one answer of a page, without its values.
type Answer struct {
	At      int64 // when it had arrived, nanoseconds since 1970
	Took    int64 // nanoseconds
	Changed bool  // something differs from the answer before
}

// ReadFile reads the file of a run. An error names the file and the line, or wraps fs.ErrNotExist.
func ReadFile(path string) (*Data, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Read reads what a Collector wrote. An error names the line.
func Read(r io.Reader) (*Data, error) {
	d := &Data{}
	for l, err := range lines.Each(r) {
		switch {
		case err != nil:
			return nil, err
		case !l.Whole:
			d.Torn = true
			continue
		}
		if err := d.addLine(l.Text); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.Number, err)
		}
	}
	return d, nil
}

// A Growing reads the file of a run while it is written.
type Growing struct {
	Data // what was read so far; the last line of the file is never Torn

	path   string
	offset int64 // of the first line that was not read
}

// NewGrowing returns a reader of the file in the directory of a run. It keeps the values of the series that are wanted.
func NewGrowing(dir string, wanted func(name string) bool) *Growing {
	return &Growing{Data: Data{wanted: wanted}, path: filepath.Join(dir, File)}
}

// Read reads the lines that are new. Without a file there are none. After an error that names the file and the place nothing more can be read.
func (t *Growing) Read() error {
	f, err := regular.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.offset, io.SeekStart); err != nil {
		return err
	}
	for l, err := range lines.Each(f) {
		if err == nil && !l.Whole {
			return nil
		}
		if err == nil {
			err = t.addLine(l.Text)
		}
		if err != nil {
			return fmt.Errorf("%s: at byte %d: %w", t.path, t.offset, err)
		}
		t.offset += int64(len(l.Text)) + 1 // a run ends its lines with LF
	}
	return nil
}

// line is a line of any kind.
type line struct {
	URL     *string `json:"url"`
	Default bool    `json:"default"`

	Number *int `json:"series"`
	Series

	At     *int64      `json:"at"`
	Took   int64       `json:"took"`
	Values [][]float64 `json:"values"`
	Gone   []int       `json:"gone"`
}

// addLine adds what a line says. The error says what no run writes.
func (d *Data) addLine(text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	switch {
	case l.URL != nil:
		return d.addEndpoint(&l)
	case l.Endpoint < 0 || l.Endpoint >= len(d.Endpoints):
		return fmt.Errorf("endpoint %d: want one of the %d before", l.Endpoint, len(d.Endpoints))
	case l.Number != nil:
		return d.addSeries(&l)
	case l.At != nil:
		return d.addAnswer(&l)
	}
	return errors.New("it is none of the lines that a run writes: want one with url, series or at")
}

// addEndpoint adds an endpoint, or takes another URL for one without answers.
func (d *Data) addEndpoint(l *line) error {
	e := Endpoint{URL: *l.URL, Default: l.Default}
	switch n := len(d.Endpoints); {
	case l.Endpoint == n:
		d.Endpoints = append(d.Endpoints, e)
	case l.Endpoint >= 0 && l.Endpoint < n && len(d.Endpoints[l.Endpoint].Answers) == 0:
		d.Endpoints[l.Endpoint] = e
	default:
		return fmt.Errorf("endpoint %d: want %d", l.Endpoint, n)
	}
	return nil
}

// addSeries adds a series, whose number must be the next.
func (d *Data) addSeries(l *line) error {
	if *l.Number != len(d.Series) {
		return fmt.Errorf("series %d: want %d", *l.Number, len(d.Series))
	}
	d.Series = append(d.Series, l.Series)
	return l.Series.validate()
}

// addAnswer adds an answer, which must not be earlier than the one before.
func (d *Data) addAnswer(l *line) error {
	e := &d.Endpoints[l.Endpoint]
	n := len(e.Answers)
	if n == math.MaxInt32 || n > 0 && *l.At < e.Answers[n-1].At {
		return fmt.Errorf("answer at %d: want one after that at %d", *l.At, e.Answers[n-1].At)
	}
	e.Answers = append(e.Answers, Answer{At: *l.At, Took: l.Took, Changed: len(l.Values)+len(l.Gone) > 0})
	for _, v := range l.Values {
		if len(v) == 0 {
			return errors.New("values without a series")
		}
		s, err := d.seriesOf(l.Endpoint, v[0])
		if err != nil {
			return err
		}
		if d.wanted != nil && !d.wanted(s.Name) {
			continue
		}
		if err := s.add(n, v[1:]); err != nil {
			return err
		}
	}
	for _, id := range l.Gone {
		s, err := d.seriesOf(l.Endpoint, float64(id))
		if err != nil {
			return err
		}
		_ = s.add(n, nil) // cannot have the wrong length
	}
	return nil
}

// seriesOf returns a series of an endpoint by its number.
func (d *Data) seriesOf(endpoint int, number float64) (*Series, error) {
	if number < 0 || number >= float64(len(d.Series)) || number != math.Trunc(number) || d.Series[int(number)].Endpoint != endpoint {
		return nil, fmt.Errorf("series %v of endpoint %d: it has no such series", number, endpoint)
	}
	return &d.Series[int(number)], nil
}
