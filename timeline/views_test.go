package timeline

import (
	"encoding/json"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Covers P15.
func TestWarpMapVectors(t *testing.T) {
	type in struct {
		Starts []float64
		Cap    float64 `json:"cap_s"`
	}
	type want struct {
		Map  [][2]float64
		Gaps [][4]float64
	}
	fixtures.EachWeka(t, "warp_map", func(t *testing.T, in in, want want) {
		w := NewWarp(in.Starts, in.Cap)
		gaps := [][4]float64{}
		for _, g := range w.gaps {
			gaps = append(gaps, [4]float64{g.from, g.to, g.before, g.excess})
		}
		assert.Equal(t, want.Gaps, gaps)
		for _, m := range want.Map {
			assert.InDelta(t, m[1], w.Map(m[0]), 1e-9, "%g", m[0])
		}
	})
}

// Covers P15.
func TestWarpTimingVectors(t *testing.T) {
	type in struct {
		Requests []struct {
			T   float64
			API float64 `json:"api_time"`
		}
		Cap float64 `json:"cap_s"`
	}
	fixtures.EachWeka(t, "warp_timing", func(t *testing.T, in in, want struct{ Turns [][3]*float64 }) {
		var turns []Recorded
		var starts []float64
		for _, q := range in.Requests {
			turns = append(turns, Recorded{q.T, q.API, Missing})
			starts = append(starts, q.T)
		}
		got, err := View{}.TurnTimes(Rules{}, turns, false, NewWarp(starts, in.Cap))
		require.NoError(t, err)
		for k, w := range want.Turns {
			assertTime(t, orMissing(w[0]), got[k].Start, "start")
			assertTime(t, orMissing(w[1]), got[k].Delay, "delay")
			assertTime(t, orMissing(w[2]), got[k].API, "duration")
		}
	})
}

// Covers P18.
func TestPredecessorVectors(t *testing.T) {
	type ref struct {
		Session string
		Turn    int
	}
	type in struct{ Streams map[string][][2]*float64 }
	type want struct {
		Turns []struct {
			Session string
			Turn    int
			After   []ref
		}
	}
	fixtures.EachWeka(t, "predecessors", func(t *testing.T, in in, want want) {
		var streams []Stream
		number := map[string]int{}
		for id, list := range in.Streams {
			s := Stream{ID: id}
			for _, i := range list {
				start, api := orMissing(i[0]), 0.0
				if i[1] != nil {
					api = *i[1] / 1000
				}
				s.Intervals = append(s.Intervals, Interval{start, start + Duration(api)})
			}
			streams = append(streams, s)
		}
		sort.Slice(streams, func(i, j int) bool { return streams[i].ID > streams[j].ID }) // the order given does not count
		for k, s := range streams {
			number[s.ID] = k
		}
		got := Predecessors(streams)
		for _, w := range want.Turns {
			after := []ref{}
			for _, r := range got[number[w.Session]][w.Turn] {
				after = append(after, ref{streams[r.Stream].ID, r.Turn})
			}
			assert.Equal(t, w.After, after, "%s#%d", w.Session, w.Turn)
		}
	})
}

// The replay vectors give intervals one by one, and want the turns that wait for something.
func TestPredecessorsOfReplayVectors(t *testing.T) {
	type in struct {
		Intervals []struct {
			Conv, Stream string
			Turn         int
			Start        *float64 `json:"start_ms"`
			API          *float64 `json:"api_ms"`
		}
	}
	type want struct {
		Edges []json.RawMessage
	}
	for _, v := range replayVectors[in, want](t, "predecessors") {
		t.Run(v.Name, func(t *testing.T) {
			// A stream of these vectors may hold several conversations: it is ordered by conversation and turn.
			intervals := v.In.Intervals
			sort.SliceStable(intervals, func(i, j int) bool {
				a, b := intervals[i], intervals[j]
				return a.Conv < b.Conv || a.Conv == b.Conv && a.Turn < b.Turn
			})
			var streams []Stream
			var names [][]string
			number := map[string]int{}
			for _, i := range intervals {
				k, ok := number[i.Stream]
				if !ok {
					k = len(streams)
					number[i.Stream] = k
					streams, names = append(streams, Stream{ID: i.Conv}), append(names, nil)
				}
				api := Missing
				if i.API != nil {
					api = *i.API / 1000
				}
				start := orMissing(i.Start)
				streams[k].Intervals = append(streams[k].Intervals, Interval{start, start + Duration(api)})
				names[k] = append(names[k], refText(i.Conv, i.Turn))
			}
			got := map[string][]string{}
			for x, turns := range Predecessors(streams) {
				for k, list := range turns {
					for _, r := range list {
						got[names[x][k]] = append(got[names[x][k]], names[r.Stream][r.Turn])
					}
				}
			}
			wanted := map[string][]string{}
			for _, raw := range v.Want.Edges {
				var edge [2]json.RawMessage
				require.NoError(t, json.Unmarshal(raw, &edge))
				var after []json.RawMessage
				require.NoError(t, json.Unmarshal(edge[1], &after))
				for _, a := range after {
					wanted[decodeRef(t, edge[0])] = append(wanted[decodeRef(t, edge[0])], decodeRef(t, a))
				}
			}
			assert.Equal(t, wanted, got)
		})
	}
}

func refText(id string, turn int) string {
	text, _ := json.Marshal([]any{id, turn})
	return string(text)
}

func decodeRef(t *testing.T, raw json.RawMessage) string {
	var pair []any
	require.NoError(t, json.Unmarshal(raw, &pair))
	return refText(pair[0].(string), int(pair[1].(float64)))
}
