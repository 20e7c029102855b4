package text

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Names that could be text are counted together where anyone may see them.
func TestPublicCounts(t *testing.T) {
	counts := map[string]int{"copied_row": 1, "ignored:summary": 2, "ignored:system/turn_duration": 3, "ignored:system/canary": 4, "unknown_type:canary": 5, "unknown_type:line": 6, "unknown_type:other": 7}
	require.Equal(t, map[string]int{"copied_row": 1, "ignored:summary": 2, "ignored:system/turn_duration": 3, "ignored:other": 4, "unknown_type:other": 12, "unknown_type:line": 6}, Public(counts))
}
