package compare

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
)

// Names of the files of a comparison.
const (
	pageFile = "compare.html"
	jsonFile = "compare.json"
	csvFile  = "compare.csv"
)

// Write writes the page, compare.json and compare.csv to a directory, which it makes if it is missing. Each appears whole by a rename,
// and replaces an older one. It returns their names.
func (c *Comparison) Write(ctx context.Context, dir string) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	for _, file := range []struct {
		name string
		text func() ([]byte, error)
	}{{csvFile, c.csv}, {jsonFile, c.json}, {pageFile, c.html}} {
		if err := ctx.Err(); err != nil {
			return names, err
		}
		data, err := file.text()
		if err == nil {
			err = durable.WriteFile(filepath.Join(dir, file.name), data)
		}
		if err != nil {
			return names, fmt.Errorf("%s: %w", filepath.Join(dir, file.name), err)
		}
		names = append(names, file.name)
	}
	return names, nil
}

// json returns the text of compare.json.
func (c *Comparison) json() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(c)
	return text.Bytes(), err
}

// csvHeader are the columns of compare.csv: a line for each figure of each run.
var csvHeader = []string{
	"run", "metric", "unit", "value", "low", "high", "difference", "difference_percent", "difference_percent_low",
	"difference_percent_high", "method", "overlap", "beyond", "differs", "marks",
}

// csv returns the text of compare.csv.
func (c *Comparison) csv() ([]byte, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write(csvHeader) // a buffer always takes it
	for k := range c.Runs {
		r := &c.Runs[k]
		for _, f := range figures {
			x := r.Figures[f.String()]
			if x.Value.IsMissing() {
				continue
			}
			line := []string{r.Name, f.String(), string(f.Unit), exact(x.Value)}
			line = append(line, cellsOf(x.Interval, 1)...)
			line = append(line, x.Difference.cells()...)
			_ = w.Write(append(line, joined(r.Marks)))
		}
	}
	w.Flush()
	return text.Bytes(), w.Error()
}

// cellsOf returns an interval, multiplied, as two cells; empty ones where there is none.
func cellsOf(i *interval.Interval, by float64) []string {
	if i == nil {
		return []string{"", ""}
	}
	return []string{exact(measure.Number(by * i.Low)), exact(measure.Number(by * i.High))}
}

func (d *Difference) cells() []string {
	if d == nil {
		return []string{"", "", "", "", "", "", "", ""}
	}
	overlap := ""
	if d.Overlap != nil {
		overlap = strconv.FormatBool(*d.Overlap)
	}
	list := append([]string{exact(d.Absolute), exact(100 * d.Ratio)}, cellsOf(d.Interval, 100)...)
	return append(list, string(d.Method), overlap, strconv.FormatBool(d.Beyond), strconv.FormatBool(d.Differs))
}

// exact writes a number in the shortest form that reads back as the same; "" where it is missing.
func exact(v measure.Number) string {
	if v.IsMissing() {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'g', -1, 64)
}
