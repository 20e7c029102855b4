package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The warning about a lane that sent nothing says where it began, and whether its first request was still to come.
func TestDescribeSilence(t *testing.T) {
	l := LaneReport{Lane: 7, Trace: "a", TStar: Missing}
	require.Equal(t, `lane 7 sent nothing: it played trace "a"`, l.DescribeSilence())
	l.TStar, l.FirstDue = 12.5, 214.25
	require.Equal(t, `lane 7 sent nothing: it played trace "a" from t* = 12.500 s, and its first request is due after 214 s (--lane-start-cap bounds that)`, l.DescribeSilence())
}
