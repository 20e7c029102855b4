package measure

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestReadClock(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) (Clock, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ClockFile), []byte(text), 0o600))
		return ReadClock(dir)
	}
	want := Clock{{1_700_000_000_000_000_000, -5_000_000_000, 120}, {1_700_000_010_000_000_000, -5_000_100_000, 95}}
	var text []byte
	for _, r := range want {
		text = r.AppendLine(text)
	}
	require.Equal(t, `{"unix_ns":1700000000000000000,"offset_ns":-5000000000,"uncertainty_ns":120}`, strings.Split(string(text), "\n")[0])
	c, err := read(string(text))
	require.NoError(t, err)
	require.Equal(t, want, c)
	c, err = read(string(text) + `{"unix_ns":17000`)
	require.NoError(t, err, "a part that was killed")
	require.Equal(t, want, c)

	for text, says := range map[string]string{
		"":             "no reading of the clock",
		`{"unix_ns":1`: "no reading of the clock",
		"\n":           "line 1: unexpected end of JSON input",
		"[]\n":         "line 1: ",
		`{"unix_ns":1.5,` + `"offset_ns":0,"uncertainty_ns":0}` + "\n":                 "line 1: ",
		`{"unix_ns":1,"offset_ns":0}` + "\n":                                           "line 1: want unix_ns, offset_ns and uncertainty_ns",
		`{"unix_ns":-1,"offset_ns":0,"uncertainty_ns":0}` + "\n":                       "line 1: unix_ns: -1: want no negative value",
		`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":-1}` + "\n":                       "line 1: uncertainty_ns: -1",
		`{"unix_ns":1,"offset_ns":9223372036854775807,"uncertainty_ns":0}` + "\n":      "line 1: offset_ns: 9223372036854775807",
		strings.Repeat(`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":0}`+"\n", 2):       "line 2: unix_ns: 1: want a later instant",
		`{"unix_ns":1,"offset_ns":0,"uncertainty_ns":0}` + "\n" + `{"unix_ns":` + "\n": "line 2: unexpected end of JSON input",
	} {
		_, err := read(text)
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, ClockFile, text)
	}
	_, err = ReadClock(t.TempDir())
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestClockMoves(t *testing.T) {
	c := Clock{{1e9, 100, 10}, {2e9, 300, 20}, {4e9, 200, 5}}
	for at, want := range map[int64][2]int64{
		1e9: {100, 10}, 2e9: {300, 20}, 4e9: {200, 5},
		1.5e9: {200, 20 + 200}, 3e9: {250, 20 + 100},
		0: {100, 10 + 500_000}, 6e9: {200, 5 + 1_000_000},
	} {
		moved, uncertainty := c.Move(time.Unix(0, at).UTC())
		require.Equal(t, at+want[0], moved.UnixNano(), at)
		require.EqualValues(t, want[1], uncertainty, at)
	}
	moved, uncertainty := (Clock{{1e9, 0, 0}}).Move(time.Unix(0, 7e9))
	require.Equal(t, int64(7e9), moved.UnixNano())
	require.Zero(t, uncertainty, "part 0 itself")
}

// Instants are right within their uncertainty, whatever a clock does between readings that are right within theirs: it drifts by up to
// 500 ppm, and steps one way.
func TestClockIsRightWithinItsUncertainty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(-5e9, 5e9).Draw(t, "offset")
		drift := rapid.Float64Range(-MaxDrift, MaxDrift).Draw(t, "drift")
		truth := func(ns int64) int64 { return offset + int64(drift*float64(ns)) }
		var c Clock
		for at := int64(0); len(c) < 5; at += rapid.Int64Range(1e6, 20e9).Draw(t, "gap") {
			u := rapid.Int64Range(1, 1e6).Draw(t, "uncertainty")
			c = append(c, ClockReading{at, truth(at) + rapid.Int64Range(-u, u).Draw(t, "error"), u})
		}
		at := rapid.Int64Range(-10e9, c[4].Unix+10e9).Draw(t, "at")
		moved, uncertainty := c.Move(time.Unix(0, at))
		require.InDelta(t, at+truth(at), moved.UnixNano(), float64(uncertainty)+2, "in whole nanoseconds")
	})
}

func FuzzReadClock(f *testing.F) {
	f.Add([]byte(`{"unix_ns":1,"offset_ns":2,"uncertainty_ns":3}` + "\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ClockFile), text, 0o600))
		c, err := ReadClock(dir)
		if err != nil {
			return
		}
		for _, r := range c {
			moved, _ := c.Move(time.Unix(0, r.Unix))
			require.Equal(t, r.Unix+r.Offset, moved.UnixNano())
		}
	})
}
