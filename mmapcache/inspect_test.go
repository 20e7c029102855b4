package mmapcache

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The zero selection visits every turn; others visit what they name, or fail.
func TestSelection(t *testing.T) {
	root := t.TempDir()
	c := open(t, root, plainToy(20).build(t, root, ""))
	visit := func(sel Selection) (turns []int, err error) {
		err = c.EachTurn(t.Context(), sel, Text, func(_ *RenderedTrace, _, turn int) error {
			turns = append(turns, turn)
			return nil
		})
		return turns, err
	}
	turns, err := visit(Selection{})
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1}, turns)
	for turn := range 2 {
		turns, err := visit(Selection{Trace: "t", Session: "t", Turn: &turn})
		require.NoError(t, err)
		assert.Equal(t, []int{turn}, turns)
	}
	missing, negative := 2, -1
	for want, sel := range map[string]Selection{
		"no turn 2 in this cache: its longest session has 2, from 0 to 1": {Turn: &missing},
		`no turn of a trace "u" in this cache`:                            {Trace: "u"},
		`no turn of a session "u" of a trace "t" in this cache`:           {Trace: "t", Session: "u"},
		"selection: turn -1: want 0 or more":                              {Turn: &negative},
	} {
		_, err := visit(sel)
		assert.EqualError(t, err, want)
	}
}
