package scrape

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Pages of servers have odd lines: what joins the pages of several processes repeats HELP and TYPE; OpenMetrics has types, instants and
// exemplars of its own; a library writes a name or a number that no other reads. Prometheus' parser takes a page as a whole or not at all,
// so a tidier leaves such lines out before.

// tidier makes of a page what the parser takes, a line of a line.
type tidier struct {
	clean       []byte
	samples     int               // lines of clean that have one
	odd         int               // lines that are left out
	oddSamples  int               // of these, those that are no comment
	first       int               // number of the first of these
	helped      map[string]bool   // names with a HELP
	types       map[string]string // by name
	sampled     map[string]bool   // names of samples
	clashing    map[string]bool   // names of parts of a histogram that have a HELP or TYPE of their own: whose samples these are is not known
	lineNumbers int
}

// familiesOf returns the metrics of a page, and how many of its lines are odd. A text is no page if more of its samples are odd than not.
func familiesOf(text []byte) (families map[string]*dto.MetricFamily, odd int, err error) {
	t := tidier{helped: map[string]bool{}, types: map[string]string{}, sampled: map[string]bool{}, clashing: map[string]bool{}}
	for line := range bytes.Lines(text) {
		t.add(bytes.TrimSpace(line))
	}
	if families, err = parseText(t.clean); err != nil {
		t.takeSingly()
		families, err = parseText(t.clean)
	}
	if t.oddSamples > t.samples {
		return nil, 0, fmt.Errorf("%w: line %d", errFormat, t.first)
	}
	var wrong expfmt.ParseError
	if errors.As(err, &wrong) { // its text may repeat the page
		return nil, 0, fmt.Errorf("%w: line %d", errFormat, wrong.Line)
	}
	if err != nil {
		return nil, 0, errFormat
	}
	t.typeTotals(families)
	return families, t.odd, nil
}

// parseText parses a page by the parser of Prometheus.
func parseText(text []byte) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// add adds a line, an empty one in place of one that is left out.
func (t *tidier) add(line []byte) {
	t.lineNumbers++
	before, isComment := len(t.clean), len(line) == 0 || line[0] == '#'
	ok := true
	if isComment {
		ok = t.addComment(line)
	} else if ok = t.addSample(line); ok {
		t.samples++
	}
	if !ok {
		t.clean = t.clean[:before]
		t.leaveOut(t.lineNumbers, isComment)
	}
	t.clean = append(t.clean, '\n')
}

// leaveOut counts a line that is left out, and notes the number of the first that is no comment.
func (t *tidier) leaveOut(number int, isComment bool) {
	t.odd++
	if isComment {
		return
	}
	if t.oddSamples++; t.oddSamples == 1 {
		t.first = number
	}
}

// addComment adds a HELP or TYPE, unless there was one for the name. Other comments say nothing.
func (t *tidier) addComment(line []byte) bool {
	kind, rest := cutBlank(bytes.TrimLeft(line, "# \t"))
	name, text := cutBlank(rest)
	isHelp := string(kind) == "HELP"
	if !isHelp && string(kind) != "TYPE" {
		return true
	}
	if t.isPart(string(name)) {
		t.clashing[string(name)] = true
		return false
	}
	if isHelp {
		if t.helped[string(name)] {
			return false
		}
		t.helped[string(name)] = true
		t.clean = append(t.clean, line...)
		return true
	}
	what := strings.ToLower(string(text))
	if what == "unknown" { // of OpenMetrics
		what = "untyped"
	}
	switch what {
	case "counter", "gauge", "histogram", "summary", "untyped":
	default: // info, stateset, gaugehistogram: what has such a type is untyped
		return false
	}
	if t.types[string(name)] != "" || t.sampled[string(name)] {
		return false
	}
	t.types[string(name)] = what
	t.clean = append(fmt.Appendf(t.clean, "# TYPE %s ", name), what...)
	return true
}

// isPart reports whether a name is that of a part of a histogram or summary.
func (t *tidier) isPart(name string) bool { return t.familyOf(name) != name }

// familyOf returns the name of the histogram or summary that a name is a part of, else the name.
func (t *tidier) familyOf(name string) string {
	for _, suffix := range []string{"_count", "_sum", "_bucket"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && (t.types[base] == "histogram" || t.types[base] == "summary") {
			return base
		}
	}
	return name
}

// addSample adds a sample without its instant and its exemplar, which nothing here needs.
func (t *tidier) addSample(line []byte) bool {
	end := bytes.IndexAny(line, "{ \t")
	if end < 0 || t.clashing[string(line[:end])] || end > 0 && !isName(line[:end]) {
		return false
	}
	name := line[:end]
	labels := end + len(line[end:]) - len(bytes.TrimLeft(line[end:], " \t"))
	if line[labels] == '{' {
		if end = labelsEnd(line, labels); end < 0 {
			return false
		}
	}
	value, rest := cutBlank(line[end:])
	if _, err := strconv.ParseFloat(string(value), 64); err != nil || bytes.ContainsAny(value, "_pP") {
		return false
	}
	instant, rest := cutBlank(rest)
	if len(instant) > 0 && instant[0] != '#' {
		if _, err := strconv.ParseFloat(string(instant), 64); err != nil || len(rest) > 0 && rest[0] != '#' {
			return false
		}
	}
	if !t.sampled[string(name)] {
		t.sampled[string(name)] = true
	}
	t.clean = append(append(append(t.clean, line[:end]...), ' '), value...)
	return true
}

// labelsEnd returns the position behind the brace that closes labels, -1 without one.
func labelsEnd(line []byte, at int) int {
	quoted := false
	for ; at < len(line); at++ {
		switch c := line[at]; {
		case c == '\\' && quoted:
			at++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return at + 1
		}
	}
	return -1
}

// isName reports whether a text is a name that needs no quotes.
func isName(name []byte) bool {
	for i, c := range name {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == ':'; !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// cutBlank returns the first word of a text, and what is behind the blanks after it.
func cutBlank(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	if i := bytes.IndexAny(text, " \t"); i >= 0 {
		return text[:i], bytes.TrimLeft(text[i:], " \t")
	}
	return text, nil
}

// takeSingly leaves out the lines that the parser does not take alone, behind the type of their family. It is for what add does not
// look at, such as the labels, and ten times as slow as the parser.
func (t *tidier) takeSingly() {
	clean := t.clean
	t.clean = make([]byte, 0, len(clean))
	number := 0
	for line := range bytes.Lines(clean) {
		number++
		if len(line) == 1 || bytes.HasPrefix(line, []byte("# TYPE")) {
			t.clean = append(t.clean, line...)
			continue
		}
		head, isComment := "", line[0] == '#'
		if end := bytes.IndexAny(line, "{ \t"); end > 0 && !isComment {
			if family := t.familyOf(string(line[:end])); t.types[family] != "" {
				head = "# TYPE " + family + " " + t.types[family] + "\n"
			}
		}
		if _, err := parseText(append([]byte(head), line...)); err == nil {
			t.clean = append(t.clean, line...)
			continue
		}
		t.clean = append(t.clean, '\n')
		t.leaveOut(number, isComment)
		if !isComment {
			t.samples--
		}
	}
}

// typeTotals makes counters of what OpenMetrics declares without the _total that its samples have.
func (t *tidier) typeTotals(families map[string]*dto.MetricFamily) {
	for name, f := range families {
		base, ok := strings.CutSuffix(name, "_total")
		if !ok || t.types[base] != "counter" || f.GetType() != dto.MetricType_UNTYPED {
			continue
		}
		f.Type = dto.MetricType_COUNTER.Enum()
		for _, m := range f.GetMetric() {
			m.Counter = &dto.Counter{Value: m.GetUntyped().Value}
		}
	}
}
