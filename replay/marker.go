package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/agentx/agentx/mmapcache"
)

// marker is a cache-bust marker: twelve hex digits that a tree puts before its first user message, so that a trace
// played again does not find its own prefix in the server's cache. "" is none.
type marker string

// newMarker returns the marker of a tree.
func newMarker(benchmark string, pass, lane int, trace string) marker {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%d:%s", benchmark, pass, lane, baseOf(trace)))
	return marker(hex.EncodeToString(sum[:6]))
}

// baseOf is the trace that a session's name begins with.
func baseOf(trace string) string {
	base, _, _ := strings.Cut(trace, "::")
	return base
}

// ledger hands out markers: one for each tree, from its start to its end, and never the same twice. It lives as long as a
// run. Section 5 of the specification of the replay, M-3 to M-7.
type ledger struct {
	benchmark string
	passes    map[string]int // by trace: markers that were minted for it
	live      map[int]marker // by tree that is open
}

func newLedger(benchmark string) *ledger {
	return &ledger{benchmark: benchmark, passes: map[string]int{}, live: map[int]marker{}}
}

// mint returns the marker of a tree that plays a trace on a lane: the one that it has, or a new one. With off it has none.
func (l *ledger) mint(tree, lane int, trace string, off bool) marker {
	m, ok := l.live[tree]
	if !ok && !off {
		base := baseOf(trace)
		m = newMarker(l.benchmark, l.passes[base], lane, base)
		l.passes[base]++
	}
	l.live[tree] = m
	return m
}

// drop forgets a tree that is over. Its pass stays counted.
func (l *ledger) drop(tree int) { delete(l.live, tree) }

// text returns the marker as it stands before a message, escaped for JSON.
func (m marker) text() string {
	if m == "" {
		return ""
	}
	return "[rid:" + string(m) + `]\n\n`
}

// ids returns the marker as token ids in decimal, each with a comma after it.
func (m marker) ids(pieces mmapcache.MarkerPieces) string {
	if m == "" {
		return ""
	}
	var out []byte
	put := func(ids []uint32) {
		for _, id := range ids {
			out = append(strconv.AppendUint(out, uint64(id), 10), ',')
		}
	}
	put(pieces.Open)
	for _, c := range m {
		k, _ := strconv.ParseUint(string(c), 16, 8) // hex digits only
		put(pieces.Hex[k])
	}
	put(pieces.Close)
	put(pieces.Newlines)
	return string(out)
}
