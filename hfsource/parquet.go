package hfsource

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/hfsource/parquet"
	"github.com/agentx/agentx/internal/foreign"
)

// readParquet yields the rows of a Parquet file, which it reads out of order. Afterwards it hashes the file through the same
// descriptor, to notice a change during the read.
func (r *fileReader) readParquet(raw io.Reader) error {
	at, ok := raw.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("input %s: Parquet is read out of order, which this input does not allow: give the path of a file", r.Path)
	}
	reported := int64(0)
	progress := func(n int64) {
		if n = min(n, r.Size-reported); n > 0 {
			reported += n
			r.progress(n)
		}
	}
	last, damage := r.parquetRows(at, progress)
	var stop *parquet.YieldError
	if errors.As(damage, &stop) {
		return stop.Err
	}
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	sum := sha256.New()
	if err := r.readAll(progressReader{r.ctx, io.NewSectionReader(at, 0, 1<<62), func(int64) {}}, sum); err != nil {
		return err
	}
	progress(r.Size)
	return r.finish(sum, damage, last, "row")
}

// parquetRows yields the rows. It returns how many it yielded, and what is wrong with the file.
func (r *fileReader) parquetRows(at io.ReaderAt, progress func(int64)) (last int, damage error) {
	first := make([]byte, min(foreign.HeadBytes, r.Size))
	if _, err := at.ReadAt(first, 0); err == nil && len(first) == 0 {
		return 0, errEmpty
	} else if f := foreign.OfBytes(first, r.Path); f != nil {
		return 0, f
	}
	p, err := parquet.Open(at, r.Size)
	if err != nil {
		return 0, err
	}
	next := Row{File: r.Path, FileIndex: r.number, reservation: r.memory.Reserve()}
	defer func() { next.reservation.Release() }()
	p.Progress = progress
	p.Reserve = func(n int64) error {
		next.own += n
		return next.reservation.Grow(n)
	}
	_, err = p.Rows(r.ctx, r.columns, func(c *column.Row, free func()) error {
		next.Line++
		row := next
		row.Columns, row.free = c, free
		next.reservation, next.own = r.memory.Reserve(), 0
		return r.yield(row)
	})
	r.LacksChecksums = p.LacksChecksums()
	return next.Line, err
}
