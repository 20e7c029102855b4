package merge_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/wire"
)

// begun is when the warmup of every load begins, and profiling when its measured phase does, on the clock of part 0: nanoseconds since 1970.
const (
	begun     = 1_700_000_000_311_000_123
	profiling = begun + 3_000_000_123
	lanes     = 48
)

// turn is a request as it happened: its record on the clock of part 0.
type turn struct {
	measure.Record
	tree int // of all, in the order in which lanes begin them
}

// world is what N clients play, on the clock of part 0.
type world struct {
	draw  *rand.Rand
	turns []turn
	trees int
}

// newWorld returns requests of all lanes, over about so many seconds.
func newWorld(seed uint64, length float64) *world {
	w := &world{draw: rand.New(rand.NewPCG(seed, 7))}
	for lane := range lanes {
		at := w.between(0, 20*time.Millisecond)
		for at.Seconds() < length {
			at = w.tree(lane, at)
		}
	}
	slices.SortFunc(w.turns, func(a, b turn) int { return cmp.Compare(w.end(&a.Record), w.end(&b.Record)) })
	return w
}

func (w *world) between(from, to time.Duration) time.Duration {
	return from + time.Duration(w.draw.Int64N(int64(to-from)+1))
}

// end returns when a request ended, nanoseconds since 1970.
func (w *world) end(r *measure.Record) int64 { return origin(r.Phase) + int64(r.End) }

func origin(phase string) int64 {
	if phase == measure.WarmupPhase {
		return begun
	}
	return profiling
}

// tree adds the requests of a tree that a lane begins at an instant since begun, and returns when it is over.
func (w *world) tree(lane int, at time.Duration) time.Duration {
	number := w.trees
	w.trees++
	trace := fmt.Sprintf("trace-%02d", w.draw.IntN(30))
	for n := range 1 + w.draw.IntN(6) {
		r := measure.Record{
			Lane: lane, Trace: trace, Session: trace, Turn: n, SourceKind: "weka_main", SourceOuter: n,
			RequestID: fmt.Sprintf("q-%d-%d", number, n), RootID: fmt.Sprint("root-", number), CorrelationID: fmt.Sprint("root-", number),
			Numbers: measure.Numbers{RecordedISL: 500 + w.draw.Int64N(9000), Status: 200}, Transfer: measure.Transfer{BytesSent: 3000, BytesReceived: 900, Reused: n > 0},
		}
		at = w.request(&r, at) + w.between(0, 200*time.Millisecond)
		w.turns = append(w.turns, turn{r, number})
	}
	return at
}

// request fills a record in that is due at an instant since begun, and returns when it is over.
func (w *world) request(r *measure.Record, due time.Duration) time.Duration {
	phase, clock := measure.ProfilingPhase, due-(profiling-begun)*time.Nanosecond
	r.Bucket = measure.Profiling
	if clock < 0 {
		phase, clock, r.Bucket = measure.WarmupPhase, due, measure.WarmupBucket
	}
	r.Phase = phase
	sent := clock + w.between(0, 3*time.Millisecond)
	first := sent + w.between(5*time.Millisecond, 800*time.Millisecond)
	last := first
	r.RecordedBlocks, r.MaxTokens = r.RecordedISL/64, 2+w.draw.Int64N(300)
	r.RecordedHits = w.draw.Int64N(r.RecordedBlocks + 1)
	r.Due, r.Admitted, r.Sent = measure.At(clock.Seconds()), measure.At(clock.Seconds()), measure.At(sent.Seconds())
	for range 1 + w.draw.IntN(4) {
		r.Contents.Add(last-sent, wire.Unknown)
		r.Chunks++
		last += w.between(time.Millisecond, time.Second)
	}
	last -= time.Microsecond // the last content came before
	end := last + w.between(1, time.Millisecond)
	r.End = measure.At(end.Seconds())
	if kind := w.draw.IntN(16); kind == 0 {
		r.Contents, r.Chunks = wire.Contents{}, 0
		w.fail(r)
		return due + end - clock
	} else if kind == 1 && phase == measure.ProfilingPhase {
		r.Bucket = measure.Cooldown
	}
	r.FirstToken, r.LastToken = measure.At(first.Seconds()), measure.At(last.Seconds())
	prompt, output, cached := r.RecordedISL+w.draw.Int64N(50), r.MaxTokens, w.draw.Int64N(r.RecordedISL)
	r.PromptTokens, r.OutputTokens, r.CachedTokens = measure.Tokens(prompt), measure.Tokens(output), measure.Tokens(cached)
	return due + end - clock
}

// fail makes a request one that failed in one of the ways.
func (w *world) fail(r *measure.Record) {
	kinds := []wire.Category{wire.HTTPStatus, wire.Timeout, wire.Cancelled, wire.ContextOverflow}
	r.Error = &measure.Error{Category: kinds[w.draw.IntN(len(kinds))], Code: 503, Message: fmt.Sprint("no ", w.draw.IntN(5))}
	if r.Phase == measure.ProfilingPhase {
		r.Bucket = map[wire.Category]measure.Bucket{wire.Cancelled: measure.CancelledAtEnd, wire.ContextOverflow: measure.ContextOverflow}[r.Error.Category]
		r.Bucket = cmp.Or(r.Bucket, measure.Profiling)
	}
}

// skew says how the clock of a part goes beside that of part 0: its instant is that of part 0 and offset, and drift of the time since begun.
type skew struct {
	offset time.Duration
	drift  float64
	error  int64 // of a reading at most, ns: its uncertainty
	every  int64 // ns from one reading to the next; 0: ten seconds
}

// own returns the instant of the part's clock, and its inverse, for instants since 1970.
func (s skew) own(at int64) int64 { return at + int64(s.offset) + int64(s.drift*float64(at-begun)) }

// read makes the instants of a record those that the part's clock shows.
func (s skew) read(r *measure.Record) {
	from := origin(r.Phase)
	for _, at := range []*measure.Time{&r.Due, &r.Admitted, &r.Sent, &r.FirstToken, &r.LastToken, &r.End} {
		if *at > 0 {
			*at = measure.Time(s.own(from+int64(*at)) - s.own(from))
		}
	}
}

// load says how a world is written as parts.
type load struct {
	*world
	of      int
	skews   []skew // of each part; fewer: the clock of part 0, read without an error
	meeting string
	change  func(number int, info *measure.RunInfo) // of one part; nil: nothing
}

func (l load) skew(number int) skew {
	if number < len(l.skews) {
		return l.skews[number]
	}
	return skew{}
}

// write writes the parts below a new directory.
func (l load) write(t testing.TB) string {
	dir := t.TempDir()
	for number := range l.of {
		l.writePart(t, filepath.Join(dir, measure.PartDir(number, l.of)), number)
	}
	return dir
}

// writePart writes one part: records with instants of its own clock, and numbers of its own.
func (l load) writePart(t testing.TB, dir string, number int) {
	require.NoError(t, os.MkdirAll(dir, 0o777))
	s := l.skew(number)
	trees, credits, last, sent := map[int]int{}, map[string]int{}, map[string]int64{}, map[int]int{}
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range l.turns {
		r := l.turns[k].Record
		if r.Lane%l.of != number {
			continue
		}
		tree, ok := trees[l.turns[k].tree]
		if !ok {
			tree = len(trees)
			trees[l.turns[k].tree] = tree
		}
		r.Tree, r.Credit = tree, credits[r.Phase]
		credits[r.Phase]++
		s.read(&r)
		last[r.Phase] = max(last[r.Phase], int64(r.End))
		if r.Phase == measure.ProfilingPhase {
			sent[r.Lane]++
		}
		require.NoError(t, w.Write(&r))
	}
	require.NoError(t, w.Close())
	info := l.info(number, last)
	put(t, filepath.Join(dir, measure.RunFile), info)
	var text []byte
	for lane := number; lane < lanes; lane += l.of {
		line, err := json.Marshal(measure.LaneReport{Lane: lane, Requests: sent[lane], TStar: measure.Missing, Finished: measure.Missing, FirstRequest: measure.Missing})
		require.NoError(t, err)
		text = append(append(text, line...), '\n')
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.LanesFile), text, 0o600))
	if l.meeting != "" {
		l.writeClock(t, dir, s, profiling+last[measure.ProfilingPhase])
	}
}

// info returns what the part says of itself. last are the ends of its phases.
func (l load) info(number int, last map[string]int64) measure.RunInfo {
	s := l.skew(number)
	wall := func(at int64) time.Time { return time.Unix(0, s.own(at)).UTC() }
	end := wall(profiling + last[measure.ProfilingPhase])
	info := measure.RunInfo{
		Run: measure.Run{
			Version: "1", Host: fmt.Sprint("host-", number/2), Start: wall(begun - 5e8), End: &end, Dataset: measure.Dataset{Key: "key"}, Preset: "default", Model: "m",
			Options: []measure.Option{{Name: "part", Value: json.RawMessage(fmt.Sprintf("%q", fmt.Sprintf("%d/%d", number, l.of))), From: "flag"}, {Name: "seed", Value: json.RawMessage("42"), From: "default"}},
		},
		Part: &measure.PartInfo{Number: number, Of: l.of, Lanes: lanes, Meeting: l.meeting}, Lanes: lanes / l.of,
		Phases: []measure.PhaseSpan{
			{Name: measure.WarmupPhase, Start: wall(begun), Duration: float64(last[measure.WarmupPhase]) / 1e9},
			{Name: measure.ProfilingPhase, Start: wall(profiling), Offset: float64(profiling-begun) / 1e9, Duration: float64(last[measure.ProfilingPhase]) / 1e9},
		},
		Facts: &measure.Facts{
			PhaseDuration: float64(last[measure.ProfilingPhase]) / 1e9, Warmup: &measure.WarmupFacts{Duration: measure.Number(last[measure.WarmupPhase]) / 1e9, Primers: 2},
			CPU: 1.5, PeakRSS: 1000, Cores: 4, Branches: measure.BranchCounts{Branches: conductor.Branches{TreesOpened: 3}, IdleSkipped: 0.5}, Prompts: &measure.Prompts{Tokens: 100, Reused: 60},
			Load: &measure.Load{Seconds: 1, Playing: 1, InFlight: 1, Requests: 1, MaxRequests: 1},
		},
	}
	if l.change != nil {
		l.change(number, &info)
	}
	return info
}

// writeClock writes readings of a part's clock again and again, and at the end, each off by less than its uncertainty.
func (l load) writeClock(t testing.TB, dir string, s skew, until int64) {
	var text []byte
	for at, last := int64(begun-2e8), false; !last; at += cmp.Or(s.every, 10e9) {
		if last = at >= until; last {
			at = until
		}
		r := measure.ClockReading{Unix: s.own(at), Offset: at - s.own(at)}
		if s.error > 0 {
			r.Offset, r.Uncertainty = r.Offset+l.draw.Int64N(2*s.error+1)-s.error, s.error
		}
		text = r.AppendLine(text)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.ClockFile), text, 0o600))
}

func put(t testing.TB, path string, v any) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

// open opens a whole load.
func open(t testing.TB, dir string) *merge.Run {
	run, err := merge.Open(dir, merge.Options{})
	require.NoError(t, err)
	return run
}

// skewed are clocks of parts that are up to 5 s off, and drift by up to 100 ppm. That of part 0 is right.
func skewed(of int) (list []skew) {
	list = append(list, skew{})
	for k := 1; k < of; k++ {
		share := 2*float64(k-1)/float64(max(1, of-2)) - 1 // -1 to 1
		s := skew{offset: time.Duration(share * 5e9), drift: -share * 100e-6, error: 50_000 + int64(k)*10_000}
		if k%2 == 1 { // it knows well, again and again: what a request takes is more than what a reading is off
			s.error, s.every = 5_000, 200e6
		}
		list = append(list, s)
	}
	return list
}
