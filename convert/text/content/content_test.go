package content

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The fast way to read an instant is that of package time.
func TestInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, to int) int { return rapid.IntRange(0, to).Draw(t, name) }
		s := fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", 1890+n("year", 320), n("month", 13), n("day", 32), n("hour", 25), n("minute", 61), n("second", 61), n("ms", 999))
		at, ok := Instant(Raw(`"` + s + `"`))
		want, err := time.Parse(time.RFC3339Nano, s)
		require.Equal(t, err == nil && want.Year() > 1900 && want.Year() < 2200, ok, s)
		if ok {
			require.Equal(t, want.UnixMilli(), at, s)
		}
	})
	for _, s := range []string{`"2026-01-02T15:00:00.000X"`, `"2026x01-02T15:00:00.000Z"`, `"0000-00-00T00:00:00.000Z"`, `2026`, ``, `null`} {
		_, ok := Instant(Raw(s))
		assert.False(t, ok, s)
	}
}

// A count may be any value in a log.
func TestInt(t *testing.T) {
	for _, of := range [...]struct {
		raw string
		n   int64
		ok  bool
	}{
		{"12", 12, true}, {"-3", -3, true}, {"1.5e1", 15, true}, {"0", 0, true}, {"-0", 0, true},
		{"1.5", 0, false}, {"1e400", 0, false}, {"12345678901234567890", 0, false},
		{"true", 0, false}, {"false", 0, false}, {"null", 0, false}, {`"12"`, 0, false}, {`"e"`, 0, false}, {"{}", 0, false}, {"[1]", 0, false}, {"", 0, false},
	} {
		n, ok := Raw(of.raw).Int()
		assert.Equal(t, of.ok, ok, of.raw)
		if ok {
			assert.Equal(t, of.n, n, of.raw)
		}
	}
}
