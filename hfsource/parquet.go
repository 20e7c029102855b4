package hfsource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
)

// parquetRows is rows for a Parquet file, which is read out of order. So it is hashed apart from that, through the same
// descriptor and after the last row: what changed while rows were read is noticed.
func (f *File) parquetRows(ctx context.Context, number int, columns []string, memory *MemoryBudget, progress func(int64), yield func(Row) error) error {
	raw, err := f.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer raw.Close()
	at, ok := raw.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("input %s: Parquet is read out of order, which this input does not allow: give the path of a file", f.Path)
	}
	reported := int64(0)
	row := Row{File: f.Path, Number: number, share: memory.Reserve()}
	defer func() { row.share.Release() }()
	damage := f.parquetFile(ctx, at, columns, func(n int64) {
		if n = min(n, f.Size-reported); progress != nil && n > 0 {
			reported += n
			progress(n)
		}
	}, func(n int64) error {
		row.own += n
		return row.share.Grow(n)
	}, func(c *column.Row, free func()) error {
		row.Line++
		r := row
		r.Columns, r.free = c, free
		row.share, row.own = memory.Reserve(), 0
		return yield(r)
	})
	var stop *parquet.YieldError
	if errors.As(damage, &stop) {
		return stop.Err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, meter{ctx, io.NewSectionReader(at, 0, 1<<62), nil}); err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 { // before damage: what changed under the reader is not damaged
		return f.changedError()
	}
	if progress != nil {
		progress(f.Size - reported)
	}
	if damage != nil {
		return yield(f.unreadable(number, row.Line, "row", damage))
	}
	return nil
}

// parquetFile reads the rows. The error says what is wrong with the file.
func (f *File) parquetFile(ctx context.Context, at io.ReaderAt, columns []string, progress func(int64), take func(int64) error, yield func(*column.Row, func()) error) error {
	first := make([]byte, min(startBytes, f.Size))
	if _, err := at.ReadAt(first, 0); err == nil && len(first) == 0 {
		return errEmpty
	} else if m := foreign(first, f.Path); m != nil {
		return m
	}
	p, err := parquet.Open(at, f.Size)
	if err != nil {
		return err
	}
	p.Progress, p.Reserve = progress, take
	_, err = p.Rows(ctx, columns, yield)
	f.LacksChecksums = p.LacksChecksums()
	return err
}
