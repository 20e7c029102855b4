package slo

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// Metric is what a condition may be about.
type Metric struct {
	Name   string // as users write it: ttft
	Unit   Unit
	OfEach bool // every request has a value, of which a run has statistics; false: a run has one value

	MoreIsBetter bool
}

// Statistics are the statistics of a metric that every request has.
var Statistics = []string{"mean", "p50", "p75", "p90", "p95", "p99", "max"}

// Figure is one number of a run, such as ttft.p95 or request_rate.
type Figure struct {
	Metric
	Statistic string // one of Statistics; "": the metric has one value, or the values of each request are meant
}

// String returns the name as users write it.
func (f Figure) String() string {
	if f.Statistic == "" {
		return f.Name
	}
	return f.Name + "." + f.Statistic
}

// Quantile returns the place in the sorted values, 0 to 100, of a statistic such as p95 or max; false for the mean and for other words.
func Quantile(statistic string) (q float64, ok bool) {
	if statistic == "max" {
		return 100, true
	}
	number, ok := strings.CutPrefix(statistic, "p")
	q, err := strconv.ParseFloat(number, 64)
	return q, ok && err == nil && q >= 0 && q <= 100
}

// ParseFigure reads the name of a number of a run. Of a metric that every request has it wants a statistic.
func ParseFigure(text string, known []Metric) (Figure, error) {
	f, err := parseName(text, known)
	if err == nil && f.OfEach && f.Statistic == "" {
		err = fmt.Errorf("%s: want a statistic of it, such as %s.p95", text, text)
	}
	return f, err
}

// parseName reads the name of a metric, maybe with a statistic.
func parseName(text string, known []Metric) (Figure, error) {
	name, statistic, dotted := strings.Cut(text, ".")
	k := slices.IndexFunc(known, func(m Metric) bool { return m.Name == name })
	if k < 0 {
		return Figure{}, unknownMetric(name, names(known))
	}
	f := Figure{known[k], statistic}
	switch {
	case dotted && !f.OfEach:
		return Figure{}, fmt.Errorf("%s: a run has one %s: leave out .%s", text, name, statistic)
	case dotted && !slices.Contains(Statistics, statistic):
		return Figure{}, fmt.Errorf("no statistic %.40q: want one of %s", statistic, strings.Join(Statistics, ", "))
	}
	return f, nil
}

func names(known []Metric) (list []string) {
	for _, m := range known {
		list = append(list, m.Name)
	}
	return list
}

// unknownMetric refuses a name with the nearest one, or else with all of them.
func unknownMetric(name string, list []string) error {
	if near := suggest.Closest(name, list); near != "" {
		return fmt.Errorf("no metric %.40q: did you mean %s?", name, near)
	}
	return fmt.Errorf("no metric %.40q: want one of %s", name, strings.Join(list, ", "))
}

// errNoSign says how a condition is written.
var errNoSign = errors.New("want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s")
