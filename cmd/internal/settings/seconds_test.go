package settings

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// Pages have the unit of each option that is a time.
func TestSecondsOfPages(t *testing.T) {
	var names []string
	for _, row := range Replay(new(replay.Options)) {
		if InSeconds(row.Name) {
			names = append(names, row.Name)
		}
	}
	require.Subset(t, measure.TimeOptions, names)
}
