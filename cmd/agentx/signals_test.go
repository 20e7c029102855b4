package main

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Signals within half a second of the first count as the same; a later one exits at once.
func TestWatchSignals(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		at    []time.Duration
		leave int // at which it leaves; 0: at none
	}{
		"none":               {nil, 0},
		"one":                {[]time.Duration{0}, 0},
		"timeout's two":      {[]time.Duration{0, ms(1)}, 0},
		"within the moment":  {[]time.Duration{0, ms(100), ms(499)}, 0},
		"after it":           {[]time.Duration{0, ms(500)}, 2},
		"two, then a second": {[]time.Duration{ms(7), ms(8), ms(507)}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			signals, heard, cancelled, left := make(chan os.Signal, len(c.at)), 0, 0, 0
			for range c.at {
				signals <- syscall.SIGTERM
			}
			close(signals)
			now := func() time.Time { heard++; return time.Unix(1e9, 0).Add(c.at[heard-1]) }
			watchSignals(signals, now, func() { cancelled++ }, func() { left = heard })
			require.Equal(t, min(1, len(c.at)), cancelled)
			require.Equal(t, c.leave, left)
		})
	}
}
