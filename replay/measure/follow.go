package measure

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// Follow reads the records in the directory of a run that is still writing them, in the order of its lines. After the last record that
// is whole it yields nil, and reads on at the next tick; the part of a line waits for its rest. When ctx ends it reads what the file has by
// then, yields nil and ends. A record is valid until the next one, and has no instants of content messages. An error ends it, too; so
// does one of a directory that has no RecordsFile yet.
//
// A Writer writes at least four times a second, so ticks closer than that find nothing new.
func Follow(ctx context.Context, dir string, tick <-chan time.Time) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		r, err := OpenLines(dir, recordBuffer)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.Close()
		for {
			ended := ctx.Err() != nil // before the read: what was written until then is read
			if !r.each(yield) || ended {
				return
			}
			select {
			case <-tick:
			case <-ctx.Done():
			}
		}
	}
}

// each yields the records up to the end of the file, then nil. It is false after an error, and when yield is.
func (r *RecordReader) each(yield func(*Record, error) bool) bool {
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return yield(nil, nil)
		}
		if !yield(record, err) || err != nil {
			return false
		}
	}
}
