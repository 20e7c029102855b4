package report

import (
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// row has the numbers of one record. Of a run that was played as the harness plays, End is when its last message came.
type row struct {
	measure.Numbers
	measure.Transfer

	rowEnd measure.Time // when it ends in a row of the harness, of a run that was played as that plays
	done   measure.Time // when the client was done with it

	contents int64 // where the packed instants of the content messages begin in their file
	packed   int32 // bytes of these; 0: there are none

	failed bool
	good   bool // it meets the service levels
	apart  bool // it failed, and is counted apart: cancelled, or it did not fit the context

	noContent bool // it failed because its answer was complete and had no content
}

const (
	never   = 0 // instants of a record are 0 where they did not happen
	unknown = measure.Unknown
)

// newRow returns the numbers of a record.
func newRow(r *measure.Record) row {
	x := row{Numbers: r.Numbers, Transfer: r.Transfer, done: r.End, failed: r.Error != nil}
	if x.failed {
		x.apart = r.Error.Category == wire.Cancelled || r.Error.Category == wire.ContextOverflow
		x.noContent = r.Error.Category == wire.NoContent
	}
	return x
}

// rows are the numbers of many records. They grow without a copy.
type rows struct {
	blocks [][]row
	n      int
}

const rowsOfBlock = 4096

func (r *rows) add(x row) {
	if r.n%rowsOfBlock == 0 {
		r.blocks = append(r.blocks, make([]row, 0, rowsOfBlock))
	}
	last := len(r.blocks) - 1
	r.blocks[last] = append(r.blocks[last], x)
	r.n++
}

// each calls visit for every row of several sets.
func each(sets []*rows, visit func(r *row)) {
	for _, s := range sets {
		for _, block := range s.blocks {
			for k := range block {
				visit(&block[k])
			}
		}
	}
}
