package measure

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FinishReasons count requests that ended well by the finish reasons of their answers, those without one as "none".
type FinishReasons map[string]int

// contentFilter is the finish reason of an answer that the server's filter has cut or replaced.
const contentFilter = "content_filter"

// Bounds of what is kept of the texts of a server.
const (
	maxReasons = 16 // different ones: all others are "other"
	maxReason  = 40 // bytes
)

func (f FinishReasons) add(reason string) {
	if reason = oneLine(reason); reason == "" {
		reason = "none"
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	if _, known := f[reason]; !known && len(f) >= maxReasons {
		reason = "other"
	}
	f[reason]++
}

// allFiltered reports whether every answer has been ended by a filter.
func (f FinishReasons) allFiltered() bool { return len(f) == 1 && f[contentFilter] > 0 }

// row writes the counts, the commonest first, where there are several.
func (f FinishReasons) row(b *strings.Builder) {
	if len(f) <= 1 {
		return
	}
	reasons := slices.SortedFunc(maps.Keys(f), func(x, y string) int { return cmp.Or(f[y]-f[x], strings.Compare(x, y)) })
	for k, reason := range reasons {
		reasons[k] = fmt.Sprintf("%d %s", f[reason], reason)
	}
	row(b, "finished", "%s", strings.Join(reasons, ", "))
}
