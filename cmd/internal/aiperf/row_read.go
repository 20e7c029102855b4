package aiperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentx/agentx/internal/lines"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/report"
)

// ParseRow reads a line of a row file of agentx or of AIPerf, which also writes defaults, and further keys. A metric is an object
// with a value and a unit, or a bare number. Null in the place of metadata or metrics is an error.
func ParseRow(line []byte) (Row, error) {
	var text struct {
		Metadata json.RawMessage
		Metrics  json.RawMessage
		Error    json.RawMessage
		Agentx   *Agentx
	}
	var row Row
	if err := json.Unmarshal(line, &text); err != nil {
		return row, err
	}
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"metadata", text.Metadata}, {"metrics", text.Metrics}} {
		if len(part.text) == 0 || part.text[0] != '{' {
			return row, fmt.Errorf("%s is %.20q: want an object", part.name, part.text)
		}
	}
	if err := json.Unmarshal(text.Metadata, &row.Metadata); err != nil {
		return row, fmt.Errorf("metadata: %w", err)
	}
	row.Agentx = text.Agentx
	if err := row.readError(text.Error); err != nil {
		return row, fmt.Errorf("error: %w", err)
	}
	return row, row.readMetrics(text.Metrics)
}

// readError reads an error: an object, or a text. Null and an empty object are none.
func (row *Row) readError(text json.RawMessage) error {
	if s := string(bytes.Join(bytes.Fields(text), nil)); s == "" || s == "null" || s == "{}" {
		return nil
	}
	row.Error = &Error{}
	if text[0] == '"' {
		return json.Unmarshal(text, &row.Error.Message)
	}
	return json.Unmarshal(text, row.Error)
}

// readMetrics reads the metrics in their order.
func (row *Row) readMetrics(text json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(text))
	_, err := d.Token()
	for err == nil && d.More() {
		var tag json.Token
		if tag, err = d.Token(); err != nil {
			break
		}
		var value json.RawMessage
		if err = d.Decode(&value); err != nil {
			break
		}
		m := report.RowMetric{Tag: tag.(string)} // keys are texts
		if err = readMetric(&m, value); err != nil {
			return fmt.Errorf("metrics: %s: %w", m.Tag, err)
		}
		row.Metrics = append(row.Metrics, m)
	}
	return err
}

// readMetric reads a number, an object, or a list in an object.
func readMetric(m *report.RowMetric, text json.RawMessage) error {
	if text[0] != '{' {
		return json.Unmarshal(text, &m.Value)
	}
	var o struct {
		Value json.RawMessage
		Unit  string
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	m.Unit = o.Unit
	switch {
	case len(o.Value) == 0:
		return errors.New("there is no value")
	case o.Value[0] == '[':
		m.List = []report.Number{}
		return json.Unmarshal(o.Value, &m.List)
	}
	return json.Unmarshal(o.Value, &m.Value)
}

// EachRow calls use with every row of a row file, and stops at its first error. Blank lines are skipped. An error names the file and
// the line.
func EachRow(path string, use func(*Row) error) error {
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for line, err := range lines.Each(file) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(bytes.TrimSpace(line.Text)) == 0 {
			continue
		}
		row, err := ParseRow(line.Text)
		if err != nil && !line.Whole {
			err = fmt.Errorf("cut off after %d bytes: %w", len(line.Text), err)
		}
		if err == nil {
			err = use(&row)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, line.Number, err)
		}
	}
	return nil
}
