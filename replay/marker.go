package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/mmapcache"
)

// Target is where the cache-bust marker of a tree stands.
type Target uint8

// The targets.
const (
	NoMarker        Target = iota
	FirstTurnPrefix        // before the first user message: trees still share what stands before it, a common system prompt
	SystemPrefix           // before the system prompt, or the first user message where there is none: trees share nothing
)

var targets = [...]string{"off", "first_turn_prefix", "system_prefix"}

func (t Target) String() string { return targets[t] }

// ParseTarget reads the name of a target.
func ParseTarget(name string) (Target, error) {
	if k := slices.Index(targets[:], name); k >= 0 {
		return Target(k), nil
	}
	return NoMarker, fmt.Errorf("want %s", strings.Join(targets[:], ", "))
}

// DefaultTarget is the target for a cache: none where traces share blocks with one another, for a marker would end that.
func DefaultTarget(c *mmapcache.Cache) Target {
	if c.SharedTraces() > 0 {
		return NoMarker
	}
	return FirstTurnPrefix
}

// cost says what a marker costs where traces share blocks with one another; "" where none do.
func (t Target) cost(c *mmapcache.Cache) (string, error) {
	n := c.SharedTraces()
	if t == NoMarker || n == 0 {
		return "", nil
	}
	r, err := c.Reuse(t == SystemPrefix)
	if err != nil || r.Hits == 0 {
		return "", err
	}
	return fmt.Sprintf("%d traces share blocks: the marker %s costs %.1f %% of the recorded prefix hits (of the blocks %.1f %% without it, %.1f %% with it): --marker off keeps them",
		n, t, 100*r.LostToMarker(), 100*r.Rate(r.Hits), 100*r.Rate(r.HitsWithMarker)), nil
}

// at returns the message that the marker stands before, -1 for none.
func (t Target) at(messages []mmapcache.Message) int {
	first := func(role mmapcache.Role) int {
		return slices.IndexFunc(messages, func(m mmapcache.Message) bool { return m.Role == role })
	}
	if k := first(mmapcache.System); t == SystemPrefix && k >= 0 {
		return k
	}
	return first(mmapcache.User)
}

// marker is a cache-bust marker: twelve hex digits that a tree puts before a message, so that a trace played again
// does not find what follows in the server's cache. "" is none.
type marker string

const markerDigits = 12

// newMarker returns the marker of a tree.
func newMarker(benchmark string, pass, lane int, trace string) marker {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%d:%s", benchmark, pass, lane, baseOf(trace)))
	return marker(hex.EncodeToString(sum[:markerDigits/2]))
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

// markerTokens is how many tokens a marker has at most.
func markerTokens(pieces mmapcache.MarkerPieces) int {
	digit := 0
	for _, ids := range pieces.Hex {
		digit = max(digit, len(ids))
	}
	return len(pieces.Open) + markerDigits*digit + len(pieces.Close) + len(pieces.Newlines)
}
