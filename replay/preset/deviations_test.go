package preset

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the results say of the switches of a run gives them back.
//
// Covers T-44.
func TestDeviations(t *testing.T) {
	for _, from := range Names {
		for _, to := range Names {
			s, _ := Named(to)
			list := s.Deviations(from)
			require.Equal(t, from == to, len(list) == 0, "%s from %s", to, from)
			require.NotNil(t, list)
			back, err := Recorded(from, list)
			require.NoError(t, err)
			require.Equal(t, s, back, "%s from %s", to, from)
		}
	}
	s, _ := Named(Default)
	s.TreeIdleCap, s.CountGrace, s.ITLOverAllButOne = nil, false, true
	require.Equal(t, Deviations{
		"tree-idle-cap": json.RawMessage("null"), "count-grace": json.RawMessage("false"), "itl-divisor": json.RawMessage(`"osl-1"`),
	}, s.Deviations(Default))

	s, err := Recorded("", nil)
	require.NoError(t, err)
	require.Empty(t, s.Deviations(Default))
	_, err = Recorded("aiperf", nil)
	require.EqualError(t, err, `preset "aiperf": want one of default, aiperf-0.13, agentx-1.0.12`)
	_, err = Recorded(Default, map[string]json.RawMessage{"CountGrce": json.RawMessage("true")})
	require.ErrorContains(t, err, `switches of preset default: json: unknown field "CountGrce"`)
}
