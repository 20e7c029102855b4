package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What lanes and parts want is held against what the machine lets them have, before anything is sent.
//
// Covers T-91.
func TestLanesAgainstTheMachine(t *testing.T) {
	one, two := []string{"http://a:8000/v1"}, []string{"http://a:8000", "http://b:8000"}
	for _, c := range []struct {
		machine     machine
		lanes, part int
		urls        []string
		want        []string
	}{
		{machine{}, 60000, 0, one, nil},
		{machine{files: 1024, ports: 28232}, 960, 0, one, nil},
		{machine{files: 1024, ports: 28232}, 961, 0, one, []string{"961 lanes want a connection each, with other files 1025, and this process may open 1024: requests will fail on this machine; raise its limit (ulimit -n 1025, also the hard one)"}},
		{machine{files: 1024, ports: 28232}, 1900, 2, one, nil},
		{machine{ports: 28232}, 28232, 0, one, nil},
		{machine{ports: 28232}, 28233, 0, one, []string{"28233 lanes want a connection each to a:8000, and this machine has 28232 ports for one address"}},
		{machine{ports: 28232}, 56464, 0, two, nil},
		{machine{ports: 28232}, 56465, 0, two, []string{"28233 lanes want a connection each to a:8000"}},
		{machine{ports: 28232}, 28233, 0, []string{"http://a:8000/x", "http://a:8000/y"}, []string{"28233 lanes want a connection each to a:8000"}},
		{machine{ports: 28232}, 40000, 2, one, []string{"the 2 parts of this load want 40000 connections to a:8000, and this machine has 28232 ports for one address: if they share it"}},
		{machine{ports: 28232}, 28000, 2, one, nil},
		{machine{files: 100, ports: 100}, 200, 0, one, []string{"ulimit -n 264", "100 ports"}},
		{machine{files: 100, ports: 100}, 0, 0, one, nil}, // trees that arrive, any number
	} {
		whole := Options{Concurrency: c.lanes, URLs: c.urls, Part: Part{Of: c.part}}
		part := whole.ofPart()
		got := c.machine.shortfalls(&part, &whole)
		require.Len(t, got, len(c.want), "%+v", c)
		for k := range got {
			require.Contains(t, got[k], c.want[k])
		}
	}
}

func TestPortsIn(t *testing.T) {
	for text, want := range map[string]int{"32768\t60999\n": 28232, "1 65535": 65535, "5 5": 1, "": 0, "x": 0, "9 8": 0, "0 9": 0, "1 99999": 0, "1": 0} {
		require.Equal(t, want, portsIn(text), text)
	}
}
