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
	base, _, _ := strings.Cut(trace, "::")
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%d:%s", benchmark, pass, lane, base))
	return marker(hex.EncodeToString(sum[:6]))
}

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
