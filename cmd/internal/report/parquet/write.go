// Package parquet writes the records of a run as a Parquet file, one row for each request, for pandas, polars and DuckDB.
//
//	import polars; polars.read_parquet("results/records.parquet")
//
// Its columns are the keys of records.jsonl (doc/spec/results.md 2), with two more: sent_ns, the wall clock of sent,
// and content_times, the seconds from sent to each content message.
package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// File is the name of the file.
const File = "records.parquet"

// groupRows is how many rows a group has: what is kept in memory.
const groupRows = 16 << 10

// Write writes the records of a run to a file, which appears whole by a rename. ctx carries the options of package durable.
func Write(ctx context.Context, run *report.Run, path string) (err error) {
	reader, err := run.Files.Records()
	if err != nil {
		return err
	}
	defer reader.Close()
	file, err := durable.NewFile(path, durable.OptionsOf(ctx))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := writeRows(ctx, run, reader, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Publish()
}

// writeRows writes the records in groups of rows.
func writeRows(ctx context.Context, run *report.Run, reader measure.Records, to io.Writer) error {
	w, err := newWriter(to)
	for err == nil {
		var r *measure.Record
		if r, err = reader.Next(); errors.Is(err, io.EOF) {
			return w.close(fmt.Sprintf("agentx version %s(build %s)", run.Info.Version, run.Info.Commit))
		}
		if err == nil {
			err = errors.Join(ctx.Err(), w.add(newRow(r, run.Origin(r.Phase))))
		}
	}
	return err
}
