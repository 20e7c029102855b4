package mmapcache

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The windows of the segments of a prompt, one after another, are its tokens.
func TestWindowsAreThePrompt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawToy(t)
		root, err := os.MkdirTemp("", "agentx-window-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		c := open(t, root, y.build(t, root, ""))
		for i := range y.plans {
			tree, err := c.Render(i, IDs)
			require.NoError(t, err)
			for turn := range tree.Turns {
				var p Prompt
				tree.Prompt(turn, &p)
				var want, got []uint32
				for k := range p.Messages {
					want = p.AppendTokenIDs(want, k)
				}
				for _, s := range p.path {
					windows, err := c.AppendWindows(nil, i, tree.Plan, int(s))
					require.NoError(t, err)
					for _, w := range windows {
						got = append(got, y.tokens(w.Start, w.Tokens)...)
					}
				}
				require.Equal(t, want, got)
			}
		}
	})
}
