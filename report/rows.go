package report

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
