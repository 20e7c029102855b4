package mmapcache

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/timeline"
)

func TestTimesRefusesCapsThatAreNoLengths(t *testing.T) {
	p := plainToy(20).plans[0]
	_, err := p.Times(TimeRules{}, View{})
	require.NoError(t, err)
	for want, v := range map[string]View{
		"view: trace cap -1 s: want 0 or more":  {Warped: true, TraceCap: -1},
		"view: trace cap NaN s: want 0 or more": {TraceCap: math.NaN()},
		"view: turn cap -2 s: want 0 or more":   {View: timeline.View{TurnCap: -2}},
	} {
		_, err := p.Times(TimeRules{}, v)
		assert.EqualError(t, err, want)
	}
}
