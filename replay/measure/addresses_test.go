package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The summary says how many requests each address of a server got, whatever became of them, and nothing without a choice.
//
// Covers T-154.
func TestAddresses(t *testing.T) {
	a := NewAggregate(Rules{})
	second := 1
	for k, of := range []struct {
		url     *int
		address string
	}{{nil, "10.0.0.2"}, {nil, "10.0.0.1"}, {&second, "10.0.0.1"}, {nil, "10.0.0.2"}, {nil, ""}} {
		r := good(k, 1, 0, 0.5, 2, 5)
		r.URL, r.Address = of.url, of.address
		if k == 3 {
			r.Error = &Error{Category: "timeout"}
		}
		a.Add(r)
	}
	warm := good(0, 1, 0, 0.5, 2, 5)
	warm.Phase, warm.Address = WarmupPhase, "10.0.0.3"
	a.Add(warm)
	s := a.Summary(RunInfo{})
	require.Equal(t, []AddressCount{{0, "10.0.0.1", 1}, {0, "10.0.0.2", 2}, {1, "10.0.0.1", 1}}, s.Addresses)
	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "addresses   requests each: 10.0.0.1 1, 10.0.0.2 2, 10.0.0.1 1\n")
	require.Nil(t, NewAggregate(Rules{}).Summary(RunInfo{}).Addresses)
}
