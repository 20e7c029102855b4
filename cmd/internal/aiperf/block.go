package aiperf

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/report"
)

// blockObject returns a block of a table as JSON has it: its unit, then its statistics.
func blockObject(b *report.Block) object {
	o := object{{"unit", b.Unit}}
	for _, s := range b.Stats {
		o.add(s.Name, s.Value)
	}
	return o
}

// addTable adds the blocks of a table, each under its tag.
func (o *object) addTable(t report.Table) {
	for k := range t {
		o.add(t[k].Tag, blockObject(&t[k]))
	}
}

// Blocks returns the blocks of a table as the aggregate has them: a JSON object by tag.
func Blocks(t report.Table) json.Marshaler { return tableObject(t) }

// tableObject returns the blocks of a table by tag.
func tableObject(t report.Table) object {
	o := object{}
	o.addTable(t)
	return o
}

// rowName is the name of a block in a table for people: with its unit in parentheses, unless that is a count or requests.
func rowName(b *report.Block) string {
	if b.Unit == "" || b.Unit == "count" || b.Unit == "requests" {
		return b.Name
	}
	return fmt.Sprintf("%s (%s)", b.Name, b.Unit)
}

// cell is a statistic of a block in a table for people: an integer as it is, another number with two decimals. It is empty if the
// block does not have the statistic.
func cell(b *report.Block, stat string) string {
	n, ok := b.Find(stat)
	switch {
	case !ok:
		return ""
	case n.IsInt():
		return strconv.FormatInt(n.Int64(), 10)
	}
	return strconv.FormatFloat(n.Float64(), 'f', 2, 64)
}

// checkName returns an error for a name that a reader which splits lines at commas would misread.
func checkName(name string) error {
	if strings.ContainsAny(name, ",\"\r\n") {
		return fmt.Errorf("metric %q: want a name without comma, quote or line end", name)
	}
	return nil
}
