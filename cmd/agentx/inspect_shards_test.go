package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// inspect says of a dataset of shards what it says of one shard with the same traces.
func TestInspectShards(t *testing.T) {
	t.Cleanup(cachetest.RemoveRoot)
	demo := cachetest.Demo(t)
	shards := cachetest.Shards(t, demo, 0, 3, 3, 10, 16)
	said := func(c *mmapcache.Cache) (text string) {
		for _, f := range []inspectFlags{
			{}, {asJSON: true}, {stats: true}, {stats: true, asJSON: true}, {digest: true, model: "-"}, {all: true},
			{digest: true, model: "m", sel: mmapcache.Selection{Trace: "demo-01-append"}}, {messages: true, sel: mmapcache.Selection{Trace: "demo-01-append"}},
		} {
			var out bytes.Buffer
			w := bufio.NewWriter(&out)
			require.NoError(t, f.write(t.Context(), w, c))
			require.NoError(t, w.Flush())
			require.NotEmpty(t, out.String())
			text += out.String()
		}
		for _, sel := range []mmapcache.Selection{{Trace: "demo-01-append"}, {Trace: "demo-1-append"}, {Session: "demo-01"}} {
			err := checkSelection(c, "CACHE", sel)
			var hint hintError
			text += fmt.Sprintln(err, errors.As(err, &hint), hint)
		}
		return text
	}
	require.Equal(t, said(demo), said(shards))
	require.NoError(t, checkSelection(shards, "CACHE", mmapcache.Selection{Trace: "demo-01-append"}))

	file := cachetest.DamageShard(t, shards, 3)
	damaged := cachetest.Open(t, shards.Root, shards.Manifest.Key)
	for _, f := range []inspectFlags{{}, {stats: true}, {digest: true}, {all: true}} {
		err := f.write(t.Context(), bufio.NewWriter(&bytes.Buffer{}), damaged)
		require.ErrorIs(t, err, mmapcache.ErrDamaged)
		require.ErrorContains(t, err, file)
	}
	require.NoError(t, checkSelection(damaged, "CACHE", mmapcache.Selection{}))
	require.ErrorContains(t, checkSelection(damaged, "CACHE", mmapcache.Selection{Trace: "demo-01-append"}), file)
}
