package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Every list of messages comes back as it was added.
func TestContentsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOf(rapid.Int64Range(0, int64(time.Hour))).Draw(t, "gaps")
		var c Contents
		var at time.Duration
		type message struct {
			at     time.Duration
			tokens int64
		}
		var want, got []message
		for _, gap := range gaps {
			at += time.Duration(gap)
			tokens := rapid.Int64Range(Unknown, 1<<40).Draw(t, "tokens")
			c.Add(at, tokens)
			want = append(want, message{at, tokens})
		}
		back, err := UnpackContents(c.Packed())
		require.NoError(t, err)
		require.Equal(t, c.last, back.last)
		require.Equal(t, len(gaps), c.Len())
		require.Equal(t, len(gaps), back.Len())
		for at, tokens := range back.All() {
			got = append(got, message{at, tokens})
		}
		require.Equal(t, want, got)
	})
}

// FuzzUnpackContents never panics, and what it accepts can be read to its end.
func FuzzUnpackContents(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{3, 4, 0x80})
	f.Fuzz(func(t *testing.T, packed []byte) {
		c, err := UnpackContents(packed)
		if err != nil {
			return
		}
		for range c.All() {
		}
	})
}
