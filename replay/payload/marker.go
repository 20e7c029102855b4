package payload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/mmapcache"
)

// MarkerTarget is the place of the cache-bust marker of a tree in its prompts: doc/spec/replay.md 5.
type MarkerTarget uint8

// The targets.
const (
	AutoMarker      MarkerTarget = iota // NoMarker for a cache whose traces share blocks, else FirstTurnPrefix: see Resolve
	NoMarker                            // bodies have no marker
	FirstTurnPrefix                     // before the first user message: trees still share a common system prompt before it
	SystemPrefix                        // before the system prompt, or the first user message if there is none: trees share nothing
	FirstTurnSuffix                     // after the first user message: trees share it and what stands before it
	SystemSuffix                        // after the system prompt, or the first user message if there is none: trees share it
)

var markerTargets = [...]string{"auto", "off", "first_turn_prefix", "system_prefix", "first_turn_suffix", "system_suffix"}

// isolationTargets are targets of AIPerf that mark the requests of a warmup alone.
var isolationTargets = []string{"warmup_isolation_system", "warmup_isolation_first_turn"}

// String returns the name that ParseMarkerTarget reads.
func (t MarkerTarget) String() string {
	if int(t) < len(markerTargets) {
		return markerTargets[t]
	}
	return fmt.Sprintf("MarkerTarget(%d)", t)
}

// ParseMarkerTarget reads the name of a target other than AutoMarker.
func ParseMarkerTarget(name string) (MarkerTarget, error) {
	names := markerTargets[NoMarker:]
	if k := slices.Index(names, name); k >= 0 {
		return NoMarker + MarkerTarget(k), nil
	}
	last := len(names) - 1
	want := "want " + strings.Join(names[:last], ", ") + " or " + names[last]
	if slices.Contains(isolationTargets, name) {
		want = "the requests of a warmup alone would carry it, so the measured phase would find nothing of what they left in the prefix cache: " + want
	}
	return AutoMarker, errors.New(want)
}

// Validate returns an error for a number that is no target.
func (t MarkerTarget) Validate() error {
	if int(t) < len(markerTargets) {
		return nil
	}
	return fmt.Errorf("marker target %d: want %d to %d", t, AutoMarker, SystemSuffix)
}

// Resolve returns the target that AutoMarker stands for with a cache, and any other target as it is. Traces that share
// blocks get no marker, because it would end the sharing.
func (t MarkerTarget) Resolve(c *mmapcache.Cache) MarkerTarget {
	switch {
	case t != AutoMarker:
		return t
	case c.SharedTraces() > 0:
		return NoMarker
	}
	return FirstTurnPrefix
}

// Place returns the place of the marker in a prompt. It is of no use for NoMarker.
func (t MarkerTarget) Place() mmapcache.MarkerPlace {
	return mmapcache.MarkerPlace{System: t == SystemPrefix || t == SystemSuffix, After: t == FirstTurnSuffix || t == SystemSuffix}
}

// index returns the message that the marker stands at, -1 for none.
func (t MarkerTarget) index(messages []mmapcache.Message) int {
	if t == NoMarker {
		return -1
	}
	if t.Place().System {
		for k := range messages {
			if messages[k].Role == mmapcache.System {
				return k
			}
		}
	}
	for k := range messages {
		if messages[k].Role == mmapcache.User && messages[k].Kind() != mmapcache.ToolResultMessage {
			return k
		}
	}
	return -1
}

// Marker is a cache-bust marker: twelve hex digits that differ from tree to tree, so that a trace that is played again
// does not find its earlier prompts in the server's prefix cache. "" is no marker.
type Marker string

const markerDigits = 12

// NewMarker derives the marker of a tree from the id of the run, the number of earlier markers for the trace, the lane,
// and the trace. Only the part of the trace's name before "::" counts.
func NewMarker(benchmark string, pass, lane int, trace string) Marker {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s:%d:%d:%s", benchmark, pass, lane, BaseTrace(trace)))
	return Marker(hex.EncodeToString(sum[:markerDigits/2]))
}

// BaseTrace returns the trace that the name of a session begins with.
func BaseTrace(session string) string {
	base, _, _ := strings.Cut(session, "::")
	return base
}

// newlines are two newlines, escaped for JSON.
const newlines = `\n\n`

// appendText appends the marker as text, escaped for JSON, with a seam between it and the content that it stands before, or
// after.
func (m Marker) appendText(b []byte, after bool, seam string) []byte {
	if m == "" {
		return b
	}
	if after {
		b = append(b, seam...)
	}
	b = append(append(append(b, "[rid:"...), m...), ']')
	if !after {
		b = append(b, seam...)
	}
	return b
}

// appendIDs appends the marker and its newlines as token ids in decimal, each followed by a comma.
func (m Marker) appendIDs(b []byte, pieces *mmapcache.MarkerPieces, after bool) []byte {
	if m == "" {
		return b
	}
	if after {
		b = appendIDs(b, pieces.Newlines)
	}
	b = appendIDs(b, pieces.Open)
	for k := range len(m) {
		digit, _ := strconv.ParseUint(string(m[k]), 16, 8) // hex digits only
		b = appendIDs(b, pieces.Hex[digit])
	}
	b = appendIDs(b, pieces.Close)
	if !after {
		b = appendIDs(b, pieces.Newlines)
	}
	return b
}

func appendIDs(b []byte, ids []uint32) []byte {
	for _, id := range ids {
		b = append(strconv.AppendUint(b, uint64(id), 10), ',')
	}
	return b
}

// MarkerTokens returns the largest number of tokens that a marker can have.
func MarkerTokens(pieces mmapcache.MarkerPieces) int {
	digit := 0
	for _, ids := range pieces.Hex {
		digit = max(digit, len(ids))
	}
	return len(pieces.Open) + markerDigits*digit + len(pieces.Close) + len(pieces.Newlines)
}
