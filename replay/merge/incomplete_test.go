package merge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
)

// change rewrites a file of a part.
func change(t *testing.T, path string, by func(text string) string) {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte(by(string(text))), 0o600))
}

// changeInfo rewrites run.json of a part.
func changeInfo(t *testing.T, dir string, by func(info *measure.RunInfo)) {
	info, err := measure.ReadInfo(dir)
	require.NoError(t, err)
	by(&info)
	put(t, filepath.Join(dir, measure.RunFile), info)
}

// Parts that are missing, cut off, damaged or not of the load are named, each with why. A report of the others says so.
func TestPartsThatAreNotWhole(t *testing.T) {
	w := newWorld(5, 8)
	of := 4
	for name, c := range map[string]struct {
		do   func(t *testing.T, dir, part string)
		says string // about part 2
		used int    // of the others and it
	}{
		"missing": {func(t *testing.T, _, part string) { require.NoError(t, os.RemoveAll(part)) }, "part 2 is missing: there is no part-00002-of-00004", 3},
		"empty": {func(t *testing.T, _, part string) {
			require.NoError(t, os.RemoveAll(part))
			require.NoError(t, os.Mkdir(part, 0o777))
		}, "part 2 cannot be used: it has no run.json, so its load is unknown", 3},
		"no records": {func(t *testing.T, _, part string) {
			require.NoError(t, os.Remove(filepath.Join(part, measure.RecordsFile)))
		}, "part 2 cannot be used: not the results of a run: ", 3},
		"killed": {func(t *testing.T, _, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Facts, i.End, i.Phases = nil, nil, nil })
		}, "part 2 is not whole: it was killed, or has not ended", 4},
		"cut off": {func(t *testing.T, _, part string) {
			change(t, filepath.Join(part, measure.RecordsFile), func(s string) string { return s[:len(s)-20] })
		}, "part 2 is not whole: the last line of ", 4},
		"shorter": {func(t *testing.T, _, part string) {
			change(t, filepath.Join(part, measure.RecordsFile), func(s string) string { return s[:strings.LastIndexByte(s[:len(s)-1], '\n')+1] })
		}, "lanes.jsonl counts ", 4},
		"not counted": {func(t *testing.T, _, part string) {
			require.NoError(t, os.Remove(filepath.Join(part, measure.LanesFile)))
			change(t, filepath.Join(part, measure.RecordsFile), func(s string) string { return s[:strings.LastIndexByte(s[:len(s)-1], '\n')+1] })
		}, "part 2 is not whole: it has no lanes.jsonl", 4},
		"damaged": {func(t *testing.T, _, part string) {
			change(t, filepath.Join(part, measure.RecordsFile), func(s string) string { return strings.Replace(s, `"lane":2`, `"lane":-2`, 1) })
		}, "part 2 cannot be used: DIR/part-00002-of-00004/records.jsonl: line 7: lane: -2", 3},
		"another's": {func(t *testing.T, dir, part string) {
			change(t, filepath.Join(part, measure.RecordsFile), func(s string) string { return strings.Replace(s, `"lane":6`, `"lane":5`, 1) })
		}, "lane: 5: it is of part 1, and this is part 2 of 4", 3},
		"another number": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Part.Number = 3 })
		}, "part 2 cannot be used: its run.json describes part 3 of 4", 3},
		"no part": {func(t *testing.T, dir, part string) { changeInfo(t, part, func(i *measure.RunInfo) { i.Part = nil }) }, "part 2 cannot be used: its run.json describes a run that is no part", 3},
		"meeting": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Part.Meeting = "ffffffffffffffff" })
			line := measure.ClockReading{}.AppendLine(nil)
			require.NoError(t, os.WriteFile(filepath.Join(part, measure.ClockFile), line, 0o600))
		}, "part 2 cannot be used: it is of another load than part 0: meeting ffffffffffffffff, and none there", 3},
		"dataset": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Dataset.Key = "other" })
		}, "it is of another load than part 0: dataset other, and key there", 3},
		"version": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Version = "2" })
		}, "it is of another load than part 0: version 2, and 1 there", 3},
		"option": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Options[1].Value = json.RawMessage("7") })
		}, "it is of another load than part 0: option seed 7, and 42 there", 3},
		"load": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Part.Lanes = 96 })
		}, "load concurrency 96, requests 0, trees 0, and concurrency 48, requests 0, trees 0 there", 3},
		"no json": {func(t *testing.T, dir, part string) {
			change(t, filepath.Join(part, measure.RunFile), func(s string) string { return s[:40] })
		}, "part 2 cannot be used: DIR/part-00002-of-00004/run.json: line 1: ", 3},
		"no clock": {func(t *testing.T, dir, part string) {
			require.NoError(t, os.WriteFile(filepath.Join(part, measure.ClockFile), []byte("{}\n"), 0o600))
		}, "part 2 cannot be used: DIR/part-00002-of-00004/clock.jsonl: line 1: ", 3},
		"clock that is gone": {func(t *testing.T, dir, part string) {
			changeInfo(t, part, func(i *measure.RunInfo) { i.Part.Meeting = "ffffffffffffffff" })
		}, "part 2 cannot be used: it has no clock.jsonl, which every part of a meeting writes", 3},
		"no rule": {func(t *testing.T, dir, part string) { changeInfo(t, part, func(i *measure.RunInfo) { i.Preset = "x" }) }, "part 2 cannot be used: DIR/part-00002-of-00004/run.json: preset", 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := load{world: w, of: of}.write(t)
			c.do(t, dir, filepath.Join(dir, measure.PartDir(2, of)))
			_, err := merge.Open(dir, merge.Options{})
			var incomplete *merge.IncompleteError
			require.ErrorAs(t, err, &incomplete)
			require.Len(t, incomplete.Problems, 1)
			says := strings.ReplaceAll(c.says, "DIR", dir)
			require.ErrorContains(t, err, says)
			run, err := merge.Open(dir, merge.Options{Partial: true})
			require.NoError(t, err)
			requirePartial(t, run, w, c.used)
		})
	}
}

// requirePartial looks at what is reported of the parts that there are.
func requirePartial(t *testing.T, run *merge.Run, w *world, used int) {
	require.Equal(t, used, run.Info.Parts.Used)
	require.Contains(t, run.Missing[0], "part 2 ")
	s, _, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	all, others := 0, 0
	for k := range w.turns {
		if r := &w.turns[k]; r.Phase == measure.ProfilingPhase {
			all++
			if r.Lane%4 != 2 {
				others++
			}
		}
	}
	if used == 3 {
		require.Equal(t, others, s.Requests)
		require.Equal(t, lanes/4*3, s.Concurrency)
	} else {
		require.InDelta(t, all, s.Requests, 1, "a lost part has what it had written")
		require.Greater(t, s.Requests, others)
	}
	require.Equal(t, used == 3, run.Info.Parts.List[2].TTFT.P50.IsMissing())
	require.False(t, *s.Valid)
	require.Equal(t, []string{measure.PartLost}, s.Reasons)
	require.Equal(t, 2, run.Info.Facts.LostParts[0].Number)
	var text strings.Builder
	require.NoError(t, s.WriteTable(&text, 0))
	require.Regexp(t, `^parts       NOT THE WHOLE LOAD: [34] of 4 parts`, text.String())
}

// What is of no one load is refused, also with Partial.
func TestWhatIsNoLoad(t *testing.T) {
	w := newWorld(6, 4)
	for says, do := range map[string]func(dir string){
		"belong to loads of different numbers of parts":  func(dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "part-00000-of-00003"), 0o777)) },
		"are both part 1: leave one of them out":         func(dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "part-000001-of-00002"), 0o777)) },
		"no load has this part: want part 0 to N-1 of N": func(dir string) { require.NoError(t, os.Mkdir(filepath.Join(dir, "part-00002-of-00002"), 0o777)) },
		"this is not a whole load: part 0 cannot be used: it has no run.json": func(dir string) {
			require.NoError(t, os.Remove(filepath.Join(dir, measure.PartDir(0, 2), measure.RunFile)))
			require.NoError(t, os.Remove(filepath.Join(dir, measure.PartDir(1, 2), measure.RunFile)))
		},
	} {
		dir := load{world: w, of: 2}.write(t)
		do(dir)
		for _, partial := range []bool{false, true} {
			_, err := merge.Open(dir, merge.Options{Partial: partial})
			require.ErrorContains(t, err, says)
			require.ErrorContains(t, err, dir)
		}
	}
	require.False(t, merge.IsLoad(t.TempDir()))
	dir := load{world: w, of: 2}.write(t)
	require.True(t, merge.IsLoad(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), nil, 0o600))
	require.False(t, merge.IsLoad(dir), "a run of its own")
}

// The parts that most agree with are the load. A thousand that are missing take a few lines.
func TestForeignPartsAreTheFewer(t *testing.T) {
	w := newWorld(6, 4)
	dir := load{world: w, of: 3}.write(t)
	changeInfo(t, filepath.Join(dir, measure.PartDir(0, 3)), func(i *measure.RunInfo) { i.Version = "0" })
	_, err := merge.Open(dir, merge.Options{})
	require.ErrorContains(t, err, "part 0 cannot be used: it is of another load than part 1: version 0, and 1 there")
	dir = load{world: w, of: 1}.write(t)
	require.NoError(t, os.Rename(filepath.Join(dir, measure.PartDir(0, 1)), filepath.Join(dir, measure.PartDir(0, 1000))))
	changeInfo(t, filepath.Join(dir, measure.PartDir(0, 1000)), func(i *measure.RunInfo) { i.Part.Of = 1000 })
	_, err = merge.Open(dir, merge.Options{})
	require.ErrorContains(t, err, "part 8 is missing: ")
	require.ErrorContains(t, err, "and 990 more parts")
	require.Less(t, len(err.Error()), 2000)
}

// A part that was killed does not know when its phases began: its records lie where those of the load began, by its clock.
func TestKilledPartIsPlaced(t *testing.T) {
	const of = 3
	l := load{world: newWorld(7, 8), of: of, skews: []skew{{}, {offset: 4 * time.Second, error: 1000}, {offset: -time.Second, error: 1000}}, meeting: "m"}
	whole := map[string]float64{}
	each(t, open(t, l.write(t)), func(r *measure.Record) { whole[r.RequestID] = r.Sent.Seconds() })
	l.change = func(number int, info *measure.RunInfo) {
		if number == 1 {
			info.Facts, info.Phases, info.End = nil, nil, nil
		}
	}
	run, err := merge.Open(l.write(t), merge.Options{Partial: true})
	require.NoError(t, err)
	each(t, run, func(r *measure.Record) {
		require.InDelta(t, whole[r.RequestID], r.Sent.Seconds(), 1e-4, "part %d", r.Lane%of)
	})
	require.Contains(t, run.Missing[1], "part 1: when its phases began is not known: with those of the load")
	require.Nil(t, run.Info.End)

	l.change = func(_ int, info *measure.RunInfo) { info.Facts, info.Phases, info.End = nil, nil, nil }
	run, err = merge.Open(l.write(t), merge.Options{Partial: true})
	require.NoError(t, err)
	s, missing, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	require.Contains(t, missing[len(missing)-1], "figures known only at its end are null")
	require.Equal(t, len(whole), s.Requests+s.Warmup.Requests)
	require.True(t, s.PhaseDuration.IsMissing())
}
