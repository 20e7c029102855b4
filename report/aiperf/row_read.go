package aiperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentx/agentx/report"
)

// ParseRow reads a line of a row file of agentx or of AIPerf, which also writes defaults, and further keys. A metric is an object
// with a value and a unit, or a bare number. Null in the place of metadata or metrics is an error.
func ParseRow(line []byte) (Row, error) {
	var text struct {
		Metadata json.RawMessage
		Metrics  json.RawMessage
		Error    *Error
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
	row.Error, row.Agentx = text.Error, text.Agentx
	if row.Error != nil && *row.Error == (Error{}) {
		row.Error = nil // an empty object is no error
	}
	return row, row.readMetrics(text.Metrics)
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
