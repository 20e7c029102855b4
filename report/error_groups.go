package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// errorGroups counts failures by what they say. It keeps maxErrorGroups of them; further messages are counted by category and code.
type errorGroups map[measure.Error]*ErrorGroup

const (
	maxErrorGroups = 1000
	otherMessages  = "other messages"
)

func (g errorGroups) add(e *measure.Error) {
	key := *e
	if _, ok := g[key]; !ok && len(g) >= maxErrorGroups {
		key.Message = otherMessages
	}
	if g[key] == nil {
		g[key] = &ErrorGroup{Error: key, First: len(g)}
	}
	g[key].Count++
}

// sorted returns the groups, the commonest first.
func (g errorGroups) sorted() (list []ErrorGroup) {
	for group := range maps.Values(g) {
		list = append(list, *group)
	}
	slices.SortFunc(list, func(x, y ErrorGroup) int {
		return cmp.Or(y.Count-x.Count, strings.Compare(string(x.Category), string(y.Category)), x.Code-y.Code, strings.Compare(x.Message, y.Message))
	})
	return list
}
