package aiperf

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/agentx/agentx/report"
)

// writeSlices writes the two files of the slices of time, if slices were asked for.
func (w *writer) writeSlices() error {
	if w.Slice == 0 || w.slim && len(w.shown.Slices) == 0 {
		return w.remove(w.names.slices, w.names.slicesCSV)
	}
	text, err := indented(object{{"timeslices", sliceObjects(w.shown.Slices)}, {"input_config", w.input(w)}}, w.jsonEnd)
	if err := w.put(w.names.slices, text, err); err != nil {
		return err
	}
	return w.put(w.names.slicesCSV, w.slicesCSV(w.shown.Slices), nil)
}

// sliceObjects returns the slices as JSON has them.
func sliceObjects(slices []report.Slice) []object {
	list := []object{}
	for _, s := range slices {
		o := object{{"start_ns", s.Start}, {"end_ns", s.End}}
		if !s.Complete {
			o.add("is_complete", false)
		}
		o.addTable(s.Table)
		list = append(list, o)
	}
	return list
}

// slicesCSV returns the slices as a table with one row for each value.
func (d *dialect) slicesCSV(list []report.Slice) []byte {
	var text bytes.Buffer
	text.WriteString("Timeslice,Start_NS,End_NS,Metric,Unit,Stat,Value" + d.lineEnd)
	for n, s := range list {
		at := []string{strconv.Itoa(n), strconv.FormatInt(s.Start, 10), strconv.FormatInt(s.End, 10)}
		t := sorted(s.Table)
		for k := range t {
			b := &t[k]
			for _, stat := range d.listed(b) {
				row := append(at[:3:3], b.Name, b.Unit, stat, cell(b, stat))
				text.WriteString(strings.Join(row, ",") + d.lineEnd)
			}
		}
	}
	return text.Bytes()
}
