package aiperf

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/lines"
	"github.com/agentx/agentx/report"
)

// readCSV reads the two tables of a CSV as it was written by agentx or by AIPerf: lines that end with LF or CRLF, counts as 39 or
// 39.00. It stops at the header of a third table. Blocks have no tags, and their units stand in their names. The error names the
// line.
func readCSV(data []byte) (t report.Table, err error) {
	var header []string
	blank := false // the line before was
	for line, err := range lines.Each(bytes.NewReader(data)) {
		if err != nil {
			return nil, err
		}
		after := blank
		blank = len(bytes.TrimSpace(line.Text)) == 0
		cells := strings.Split(string(line.Text), ",")
		switch {
		case blank:
			continue
		case cells[0] == "Metric":
			header = cells
			continue
		case after && len(header) == 2: // of a third table, such as that of GPUs
			return t, nil
		case len(cells) != len(header):
			return nil, fmt.Errorf("line %d: %d cells: want %d, as in the header", line.Number, len(cells), len(header))
		}
		b, err := readBlock(header, cells)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
		t = append(t, b)
	}
	if header == nil {
		return nil, fmt.Errorf("there is no header: want a line that begins with Metric")
	}
	return t, nil
}

// readBlock reads one line of a table. A table of two columns has scalars.
func readBlock(header, cells []string) (report.Block, error) {
	b := report.Block{Name: cells[0], Kind: report.Scalar}
	if len(header) > 2 {
		b.Kind = report.Distribution
	}
	for k, text := range cells[1:] {
		if text == "" {
			continue
		}
		n, err := report.ParseNumber(text)
		if err != nil {
			return b, fmt.Errorf("%s: %w", cells[0], err)
		}
		name := header[k+1]
		if name == "Value" {
			name = "avg"
		}
		b.Stats = append(b.Stats, report.Stat{Name: name, Value: n})
	}
	return b, nil
}
