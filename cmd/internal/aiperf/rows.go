package aiperf

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
)

// flushAt is how many bytes of rows are kept before they are written.
const flushAt = 1 << 18

// rowFile is a row file under construction.
type rowFile struct {
	file *durable.File
	text bytes.Buffer
	rows int
}

// add appends a row.
func (f *rowFile) add(row *Row) error {
	f.rows++
	if err := row.appendTo(&f.text); err != nil {
		return err
	}
	if f.text.Len() < flushAt {
		return nil
	}
	return f.flush()
}

func (f *rowFile) flush() error {
	_, err := f.text.WriteTo(f.file)
	return err
}

// publish makes the file appear.
func (f *rowFile) publish() error {
	if err := f.flush(); err != nil {
		return errors.Join(err, f.file.Discard())
	}
	return f.file.Publish()
}

// writeRows reads the records once more and writes a row for each. The file of the excluded rows exists only when it has some.
func (w *writer) writeRows(ctx context.Context) (err error) {
	var files [2]rowFile // of the headline, and of what is excluded
	names := []string{w.names.Rows, w.names.excluded}
	for k, name := range names {
		if files[k].file, err = durable.NewFile(w.path(name), w.disk); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[k].file.Discard()) }()
	}
	if err := w.eachRecord(ctx, func(r *measure.Record) error {
		if w.slim && rowless(r) {
			return nil
		}
		row := w.dialect.row(r, w.run.Origin(r.Phase), w.run.RowMetrics(r))
		if excluded(r) {
			return files[1].add(&row)
		}
		return files[0].add(&row)
	}); err != nil {
		return err
	}
	w.written.Rows, w.written.Excluded = files[0].rows, files[1].rows
	for k, name := range names {
		if k > 0 && files[k].rows == 0 {
			return w.remove(name)
		}
		if err := files[k].publish(); err != nil {
			return err
		}
		w.written.Files = append(w.written.Files, name)
	}
	return nil
}

// eachRecord calls use with every record of the run.
func (w *writer) eachRecord(ctx context.Context, use func(*measure.Record) error) error {
	reader, err := w.run.Files.Records()
	if err != nil {
		return err
	}
	defer reader.Close()
	for r, err := range measure.All(reader) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = use(r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.run.Dir, err)
		}
	}
	return nil
}
