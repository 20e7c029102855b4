package resume

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
)

// Alignment says which instant of a lane becomes the start of the phase: doc/spec/replay.md 4.1.
type Alignment uint8

// The alignments.
const (
	Spread  Alignment = iota // the first request of all lanes: lanes keep their distances, and one starts at once
	Burst                    // the first request of each lane: all lanes start at once
	AsDrawn                  // t*
)

// Align moves the due times of lanes, which count from t*, to the start of the phase. untimed says that a lane plays a
// trace without times: it starts at once, so with Spread the others keep their due times. The first request of a lane is
// due after at most limit; 0 is no limit. Align returns, by lane, how much earlier that made its requests.
func (a Alignment) Align(lanes []*conductor.StartState, untimed bool, limit time.Duration) (skipped []time.Duration) {
	skipped = make([]time.Duration, len(lanes))
	shared, shares := time.Duration(0), false
	for _, lane := range lanes {
		if first, ok := FirstDue(lane); ok && (!shares || first < shared) {
			shared, shares = first, true
		}
	}
	for n, lane := range lanes {
		first, ok := FirstDue(lane)
		shift := time.Duration(0)
		switch {
		case a == Spread && !untimed:
			shift = shared
		case a == Burst:
			shift = first
		}
		if ok && limit > 0 {
			skipped[n] = max(0, first-shift-limit)
		}
		advance(lane, shift+skipped[n])
	}
	return skipped
}

// FirstDue returns when the first request of a lane is due. ok is false if all its sessions wait for others.
func FirstDue(lane *conductor.StartState) (first time.Duration, ok bool) {
	for _, s := range lane.Live {
		if !s.Parked && (!ok || s.Due < first) {
			first, ok = s.Due, true
		}
	}
	return first, ok
}

// advance makes the sessions of a lane due earlier, but not before the start of the phase.
func advance(lane *conductor.StartState, by time.Duration) {
	for k := range lane.Live {
		lane.Live[k].Due = max(0, lane.Live[k].Due-by)
	}
}

// Ratios bound the part of a trace in which lanes begin, as shares of its duration, or of its turns if it has no times.
type Ratios struct{ Min, Max float64 }

// between returns the first and last instant at which a lane may begin in a trace that lasts from first to last, all in
// milliseconds: doc/spec/replay.md 2.4, step 2. The conversions keep the compiler from fusing product and sum, which
// would change the last bit.
func (r Ratios) between(first, last float64) (lo, hi float64) {
	return first + float64(r.Min*(last-first)), first + float64(r.Max*(last-first))
}

// Instant draws t* for a trace that lasts from first to last, all in milliseconds: doc/spec/replay.md 2.4, step 2.
func (r Ratios) Instant(first, last float64, seed uint64) float64 {
	lo, hi := r.between(first, last)
	if lo == hi {
		return lo
	}
	return pyrand.NewPCG64(seed).Uniform(lo, hi)
}

// ErrNoTraces is the error of a run that has no trace to play.
var ErrNoTraces = errors.New("no trace to play: the cache or the selection from it has no trace that a lane can begin in")

// WrapPolicy decides whether a run may have more lanes than traces, so that lanes share a trace.
type WrapPolicy struct {
	Lanes             int
	Traces            int  // distinct traces to play
	AllowWrap         bool // lanes may share traces
	Marked            bool // every tree has a cache-bust marker, so lanes that share a trace share no prefix
	MarkerPermitsWrap bool // and that is permission
	OnePass           bool // every trace is played once, so surplus lanes stay empty
	Trees             int  // most trees that the run plays; 0: no limit
}

// Check returns an error if there are too many lanes: doc/spec/replay.md 2.1. shared is true if lanes share traces only
// because their trees have markers; the caller warns of that.
func (p WrapPolicy) Check() (shared bool, err error) {
	switch {
	case p.Traces < 1:
		return false, ErrNoTraces
	case p.Lanes <= p.Traces, p.AllowWrap, p.OnePass, p.Trees > 0 && p.Trees <= p.Traces:
		return false, nil
	case p.Marked && p.MarkerPermitsWrap:
		return true, nil
	}
	return false, preset.Text(fmt.Sprintf("%d lanes, but %d distinct traces, and without a marker no two lanes may play one trace: give {concurrency} %[2]d or less, {trees} %[2]d or less, a {marker}, or {allow-wrap}, with which lanes find in the prefix cache what another has sent",
		p.Lanes, p.Traces))
}

// candidates returns the turns after which a lane may begin in a trace without times: doc/spec/replay.md 2.5. canOpen
// says of every turn of the root whether a session can begin with it. A candidate, which warmup sends, and the turn after
// it, with which profiling goes on, can both open one.
func (r Ratios) candidates(canOpen []bool) []int {
	n := len(canOpen)
	turn := func(ratio float64) int { return min(int(math.Floor(ratio*float64(n))), n-2) }
	var list []int
	for k := max(0, turn(r.Min)); k <= turn(r.Max); k++ {
		if canOpen[k] && canOpen[k+1] {
			list = append(list, k)
		}
	}
	return list
}

// Split draws one of the candidates of a trace without times. Warmup sends that turn, and profiling goes on with the next.
// ok is false if there is no candidate.
func (r Ratios) Split(canOpen []bool, seed uint64) (turn int, ok bool) {
	list := r.candidates(canOpen)
	if len(list) == 0 {
		return 0, false
	}
	return list[pyrand.NewPCG64(seed).Bounded(uint32(len(list)))], true
}

// From returns the state of a trace whose root goes on with a turn, due at once, whatever its times say. Sessions that
// earlier turns spawned are over.
func (t *Trace) From(turn int) *conductor.StartState {
	state := &conductor.StartState{}
	if len(t.Sessions) > 0 && turn < len(t.Sessions[0].Turns) {
		state.Live = []conductor.LiveSession{{Turn: turn}}
	}
	t.finish(state, make([]int, len(t.Sessions)))
	return state
}

// LaneSeed returns the seed of a lane that plays a trace: doc/spec/replay.md 2.3. base is the operator's seed in decimal.
// It depends on nothing else, so what other lanes play does not change it.
func LaneSeed(base, trace string, lane int) uint64 {
	return hashSeed(base + ":" + trace + ":" + strconv.Itoa(lane))
}

// hashSeed returns the first 8 bytes of the SHA-256 of a text as a number.
func hashSeed(text string) uint64 {
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}
