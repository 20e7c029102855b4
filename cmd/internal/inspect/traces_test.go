package inspect

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The span of a trace is readable at any length.
func TestSpanText(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0s", 9.87: "9.9s", 14.357: "14s", 90061: "25h1m1s", 2e15: "63376176 years"} {
		assert.Equal(t, want, spanText(seconds))
	}
}
