package replay

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
)

// The numbers of the parts of a load are those of the load, each once.
func TestPartsDivideNumbers(t *testing.T) {
	for of := 1; of <= 9; of++ {
		for n := range 40 {
			seen := map[int]int{}
			for number := range of {
				p := Part{number, of}
				require.NoError(t, p.Validate())
				for own := range p.Share(n) {
					whole := p.whole(own)
					require.Equal(t, own, p.own(whole))
					require.True(t, p.has(whole))
					require.Less(t, whole, n)
					seen[whole]++
				}
				require.LessOrEqual(t, p.Share(n), Part{0, of}.Share(n), "remainders go to the first parts")
				require.GreaterOrEqual(t, p.Share(n), n/of)
			}
			require.Len(t, seen, n)
		}
	}
	require.Equal(t, 7, Part{}.Share(7))
	require.Equal(t, "part-00003-of-00016", Part{3, 16}.Dir())
	for _, p := range []Part{{1, 0}, {-1, 3}, {3, 3}, {0, -1}, {0, maxParts + 1}} {
		require.Error(t, p.Validate(), "%v", p)
	}
}

// playedTurns plays options against a server that takes a second, and describes each turn by its lane. trees counts the trees by trace.
func playedTurns(t *testing.T, o Options) (byLane map[int][]string, trees map[int]int) {
	t.Helper()
	p, err := NewPlayer(o)
	require.NoError(t, err, "part %v", o.Part)
	turns, at := playedOn(t, p, aSecond)
	byLane, trees = map[int][]string{}, map[int]int{}
	seen := map[int]bool{} // trees
	for k, u := range turns {
		byLane[u.Lane] = append(byLane[u.Lane], fmt.Sprint(u.Trace, u.Session, u.Turn, u.Due, at[k]))
		if !seen[u.Tree] {
			seen[u.Tree] = true
			trees[u.Trace]++
		}
	}
	return byLane, trees
}

// playedParts plays all parts of a load, and returns what they play together.
func playedParts(t *testing.T, o Options, of int) (byLane map[int][]string, trees map[int]int) {
	t.Helper()
	byLane, trees = map[int][]string{}, map[int]int{}
	for number := range of {
		o.Part = Part{number, of}
		lanes, n := playedTurns(t, o)
		for lane, turns := range lanes {
			require.Empty(t, byLane[lane], "lane %d is of two parts", lane)
			require.Equal(t, number, lane%of)
			byLane[lane] = turns
		}
		for trace, k := range n {
			trees[trace] += k
		}
	}
	return byLane, trees
}

// eachDivision calls f with the numbers of parts and lanes of D-7: with all of them under make test-long, else with multiples of 8, with
// one more, and, but for a short test, with all up to 16 lanes.
func eachDivision(f func(of, lanes int)) {
	all := os.Getenv("AGENTX_LONG") != ""
	for _, of := range []int{1, 2, 3, 7} {
		for lanes := of; lanes <= 64; lanes++ {
			if all || lanes <= 16 && !testing.Short() || lanes%8 <= 1 {
				f(of, lanes)
			}
		}
	}
}

// The lanes of N parts play the trees that those of one client begin with: the same turns, at the same instants.
//
// Covers D-7.
func TestPartsBeginAsOneClient(t *testing.T) {
	demo := cachetest.Demo(t)
	for name, set := range map[string]func(*Options){
		"first turns":         func(*Options) {},
		"sampled":             func(o *Options) { o.Start = Start{Sampled: true} },
		"sampled, as AIPerf":  func(o *Options) { o.Start, o.Preset = Start{Sampled: true}, preset.AIPerf },
		"a burst":             func(o *Options) { o.Start = Start{Sampled: true, Burst: true} },
		"sampled, shuffled":   func(o *Options) { o.Start, o.Order = Start{Sampled: true}, Shuffle },
		"random":              func(o *Options) { o.Order = Random },
		"ramp":                func(o *Options) { o.Arrivals.Ramp = 900 * time.Millisecond },
		"some of the traces":  func(o *Options) { o.Start, o.MaxContext = Start{Sampled: true}, 20000 },
		"guarded":             func(o *Options) { o.MaxLivePerTrace = true },
		"first in, first out": func(o *Options) { o.Recycle = RecycleFIFOGuarded },
	} {
		t.Run(name, func(t *testing.T) {
			eachDivision(func(of, lanes int) {
				o := Options{Cache: demo, Concurrency: lanes, Trees: lanes, AllowWrap: true, Seed: "7"}
				set(&o)
				want, trees := playedTurns(t, o)
				got, parts := playedParts(t, o, of)
				require.Len(t, want, lanes)
				require.Equal(t, want, got, "%d parts of %d lanes", of, lanes)
				require.Equal(t, trees, parts)
			})
		})
	}
}

// Where every trace is played once, N parts play each once, whatever their lanes begin with.
//
// Covers D-7.
func TestPartsPlayEachTraceOnce(t *testing.T) {
	demo := cachetest.Demo(t)
	once := map[int]int{}
	for k := range demo.Traces() {
		once[k] = 1
	}
	for name, set := range map[string]func(*Options){
		"sequential": func(*Options) {},
		"sampled":    func(o *Options) { o.Start = Start{Sampled: true} },
		"shuffled":   func(o *Options) { o.Order = Shuffle },
		"guarded":    func(o *Options) { o.MaxLivePerTrace = true },
		"fifo":       func(o *Options) { o.Recycle = RecycleFIFOGuarded },
	} {
		t.Run(name, func(t *testing.T) {
			eachDivision(func(of, lanes int) {
				o := Options{Cache: demo, Concurrency: lanes, Seed: "7", Once: true}
				set(&o)
				_, trees := playedParts(t, o, of)
				require.Equal(t, once, trees, "%d parts of %d lanes", of, lanes)
			})
		})
	}
}

// The trees that arrive at N parts are those that arrive at one client, at the same instants.
//
// Covers D-7.
func TestPartsDivideArrivals(t *testing.T) {
	for name, o := range map[string]Options{
		"drawn":    {Cache: cachetest.Demo(t), Arrivals: Arrivals{Mode: RateArrivals, Rate: 0.2}, Requests: 200, AllowWrap: true},
		"a ramp":   {Cache: cachetest.Demo(t), Arrivals: Arrivals{Mode: RateArrivals, Rate: 0.2, Law: arrivals.Constant, Ramp: time.Minute}},
		"random":   {Cache: cachetest.Demo(t), Arrivals: Arrivals{Mode: RateArrivals, Rate: 0.2}, Trees: 40, Order: Random, AllowWrap: true},
		"recorded": {Cache: mooncake(t, 0, 1500, 1500, 4000, 90000, 91000, 95000), Arrivals: Arrivals{Mode: RecordedArrivals}},
	} {
		opened := func(o Options) (list []string) {
			p, err := NewPlayer(o)
			require.NoError(t, err)
			turns, _ := playedOn(t, p, aSecond)
			seen := map[int]bool{}
			for _, u := range turns {
				if !seen[u.Tree] {
					seen[u.Tree] = true
					list = append(list, fmt.Sprint(u.Due, u.Trace))
				}
			}
			return list
		}
		want := opened(o)
		if o.Requests > 0 { // which a part reaches at another instant
			want = want[:3]
		}
		for _, of := range []int{1, 2, 3, 7} {
			var got []string
			for number := range of {
				o.Part = Part{number, of}
				got = append(got, opened(o)...)
			}
			if o.Requests > 0 {
				require.Subset(t, got, want, "%s in %d parts", name, of)
				continue
			}
			require.ElementsMatch(t, want, got, "%s in %d parts", name, of)
		}
	}
}

// The primers of N parts are sent as those of one client, and the results of a part name its lanes as the whole load does.
//
// Covers D-7.
func TestPartsRunAsOneClient(t *testing.T) {
	const of, lanes = 3, 7
	sent := func(part Part) (v *virtualRun, list []string) {
		o := optionsFor(t, cachetest.Demo(t), unreachable)
		o.Pace, o.Concurrency, o.Trees, o.Start, o.Warmup.Primers, o.Part = Pace{}, lanes, lanes, Start{Sampled: true}, true, part
		v, err := virtually(t, o, second)
		require.NoError(t, err)
		for _, r := range v.records {
			list = append(list, fmt.Sprint(r.Phase, r.Lane, r.Trace, r.Session, r.Turn, math.Round(1e3*r.Due.Seconds()), r.Pass))
		}
		return v, list
	}
	_, want := sent(Part{})
	var got []string
	for number := range of {
		v, list := sent(Part{number, of})
		got = append(got, list...)
		dir := v.results.dir.path
		require.Equal(t, Part{number, of}.Dir(), filepath.Base(dir))
		info, err := measure.ReadInfo(dir)
		require.NoError(t, err)
		require.Equal(t, &measure.PartInfo{Number: number, Of: of, Lanes: lanes, Trees: lanes}, info.Part)
		require.Equal(t, v.part().Share(lanes), info.Lanes)
		for own, l := range v.results.lanes {
			require.Equal(t, number+own*of, l.Lane)
			require.Positive(t, l.Requests)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(t, want, got)
}

func (v *virtualRun) part() Part { return v.run.Part }

// Markers have the lane of the whole load.
//
// Covers D-7.
func TestPartsMarkLanesOfTheLoad(t *testing.T) {
	markers := func(part Part) map[int]string {
		o := optionsFor(t, cachetest.Demo(t), unreachable)
		o.Marker, o.Concurrency, o.Trees, o.Part = payload.FirstTurnPrefix, 7, 7, part
		v, err := virtually(t, o, second)
		require.NoError(t, err)
		byLane := map[int]string{}
		for _, s := range v.sent {
			byLane[s.lane] = string(s.marker)
		}
		return byLane
	}
	want, got := markers(Part{}), map[int]string{}
	for number := range 3 {
		for lane, marker := range markers(Part{number, 3}) {
			got[lane] = marker
		}
	}
	require.Len(t, want, 7)
	require.Equal(t, want, got)
}

// What parts cannot divide is refused by each of them, before anything is sent.
func TestPartsRefuse(t *testing.T) {
	at := time.Now().Add(time.Hour)
	for want, set := range map[string]func(*Options){
		"number 3: want 0 to 2": func(o *Options) { o.Part.Number = 3 },
		"--part and --concurrency 2: this number is shared by all parts": func(o *Options) { o.Concurrency = 2 },
		"--part and --requests 2: this number is":                        func(o *Options) { o.Requests = 2 },
		"--part and --trees 1: this number is":                           func(o *Options) { o.Trees = 1 },
		"--part: say --out, the directory that all parts share":          func(o *Options) { o.UniqueOut = true },
		"--part and --reset-cache: the reset could hit":                  func(o *Options) { o.CacheReset.Enabled = true },
		"want at most 2 parts, or ":                                      func(o *Options) { o.Traces = 2 },
		"the results of a whole run: choose":                             func(o *Options) { o.Overwrite = true; writeFile(t, o.Out, RunFile) },
		"it holds part-00000-of-00002, and this is part 1/3":             func(o *Options) { o.Overwrite = true; writeFile(t, o.Out, "part-00000-of-00002/"+RunFile) },
	} {
		o := optionsFor(t, cachetest.Demo(t), unreachable)
		o.Part = Part{1, 3}
		set(&o)
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, want)
		require.NoDirExists(t, filepath.Join(o.Out, o.Part.Dir()))
	}
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Part, o.CacheReset.Enabled, o.StartAt = Part{1, 3}, true, at
	require.NoError(t, o.Validate())
	_, err := RunList(t.Context(), o, List{Concurrencies: []int{4}})
	require.ErrorContains(t, err, "want one run")
}

// A run that is no part, and a list of runs, neither mix with parts nor remove them.
func TestRunsLeavePartsAlone(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Overwrite = true
	writeFile(t, o.Out, "part-00000-of-00002/"+RunFile)
	_, err := Run(t.Context(), o)
	require.EqualError(t, err, "results: "+o.Out+": it holds part-00000-of-00002, a part of a load: choose a different directory, or remove the parts")
	_, err = RunList(t.Context(), o, List{Concurrencies: []int{4}})
	require.ErrorContains(t, err, "it holds part-00000-of-00002, a part of a load")
}

// writeFile writes an empty object to a file below a directory.
func writeFile(t *testing.T, dir, name string) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o666))
}

// A run begins at its instant, or not at all when that is over. An interrupt ends the wait.
func TestRunStartsAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		notice := func(text string) { told = append(told, text) }
		begun := time.Now()
		at := begun.Add(90500 * time.Millisecond)
		require.NoError(t, nearStart(t.Context(), at, notice))
		require.Equal(t, 88500*time.Millisecond, time.Since(begun), "what is made ready takes as long at most")
		awaitStart(t.Context(), at)
		require.Equal(t, 90500*time.Millisecond, time.Since(begun))
		require.Len(t, told, 1)
		require.True(t, strings.HasSuffix(told[0], "1m30.5s from now"), told[0])

		err := nearStart(t.Context(), begun, notice)
		require.ErrorContains(t, err, "the preparation ended 1m30.5s later, so nothing was sent: want a later time")

		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		begun = time.Now()
		require.NoError(t, nearStart(ctx, begun.Add(time.Hour), notice))
		require.Equal(t, 2500*time.Millisecond, time.Since(begun))
		require.NoError(t, nearStart(t.Context(), time.Time{}, notice))
		require.Len(t, told, 2)
	})
}
