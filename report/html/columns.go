package html

import (
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/page"
)

// columns are those of the table of requests. A column most of whose rows have one value has only the others, in a table of its own.
type columns struct {
	dense  []page.Column
	sparse []page.Table
	common map[string]int64 // the value of the rows that a sparse column leaves out
}

// add adds a column. unknown numbers are missing ones on the page.
func (c *columns) add(name, unit string, values []int64) {
	for k, v := range values {
		if v == measure.Unknown {
			values[k] = page.Missing
		}
	}
	common, n := mode(values)
	if 4*n < 3*len(values) {
		c.dense = append(c.dense, page.Ints(name, unit, values))
		return
	}
	if c.common == nil {
		c.common = map[string]int64{}
	}
	if common != page.Missing {
		c.common[name] = common
	}
	var rows, others []int64
	for k, v := range values {
		if v != common {
			rows, others = append(rows, int64(k)), append(others, v)
		}
	}
	c.sparse = append(c.sparse, page.Table{Name: "requests." + name, Columns: []page.Column{page.Ints("row", "", rows), page.Ints("value", unit, others)}})
}

// mode returns the most frequent value, and how often it is there.
func mode(values []int64) (value int64, n int) {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	for i := 0; i < len(sorted); {
		j := i
		for j < len(sorted) && sorted[j] == sorted[i] {
			j++
		}
		if j-i > n {
			value, n = sorted[i], j-i
		}
		i = j
	}
	return value, n
}
