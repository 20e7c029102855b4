package mmapcache

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A dataset of shards answers everything as the dataset of one shard with the same traces does.
func TestShardsAnswerAsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y, cuts := drawLocalToy(t)
		root, err := os.MkdirTemp("", "agentx-shards-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		one, several := open(t, root, y.build(t, root, "one")), open(t, root, y.buildShards(t, root, "several", cuts))
		require.Nil(t, several.Structure)
		require.Equal(t, one.Facts, several.Facts)
		require.Equal(t, one.Arenas, several.Arenas)
		require.Equal(t, one.CorpusTokens(), several.CorpusTokens())
		for _, i := range rapid.Permutation(numbersTo(len(y.plans))).Draw(t, "order") {
			requireSameTrace(t, one, several, i)
		}
		requireSameWhole(t, one, several)
		tables, err := OpenTables(root, several.Manifest.Key)
		require.NoError(t, err)
		for i, p := range y.plans {
			got, err := tables.Plan(i)
			require.NoError(t, err)
			require.Equal(t, asAppended(p), asAppended(got))
			_, err = tables.Render(i, IDs)
			require.ErrorContains(t, err, "opened without prompts")
		}
		require.NoError(t, tables.Close())
		v, err := Verify(contextOf(t), root, several.Manifest.Key)
		require.NoError(t, err)
		require.Empty(t, v.Damages)
		require.Empty(t, v.Notes)
		require.Equal(t, 1+8+len(cuts)*(7+2), v.Files, "dataset, arenas, and seven and two files of each shard")
	})
}

func numbersTo(n int) (list []int) {
	for k := range n {
		list = append(list, k)
	}
	return list
}

// requireSameTrace compares what two caches say of a trace.
func requireSameTrace(t *rapid.T, one, several *Cache, i int) {
	want, got := new(Plan), new(Plan)
	for c, p := range map[*Cache]**Plan{one: &want, several: &got} {
		var err error
		*p, err = c.Plan(i)
		require.NoError(t, err)
		row, err := c.Trace(i)
		require.NoError(t, err)
		require.Equal(t, (*p).Trace, row)
	}
	require.Equal(t, asAppended(want), asAppended(got))
	require.Equal(t, one.RenderedBytes(i), several.RenderedBytes(i))
	said := func(c *Cache) string {
		first, err := c.FirstSession(i)
		require.NoError(t, err)
		ms, ok, err := c.RecordedStart(i)
		require.NoError(t, err)
		digest, err := c.Digest(i, "-")
		require.NoError(t, err)
		text := fmt.Sprintln(first, ms, ok, digest)
		for _, encoding := range []Encoding{Text, IDs} {
			r, err := c.Render(i, encoding)
			require.NoError(t, err)
			var prompt Prompt
			for turn := range r.Turns {
				r.Prompt(turn, &prompt)
				for k := range prompt.Messages {
					text += fmt.Sprintf("%q %v\n", prompt.AppendContent(nil, k), prompt.AppendTokenIDs(nil, k))
				}
			}
		}
		p, err := c.Plan(i)
		require.NoError(t, err)
		for k := range p.Segments {
			windows, err := c.AppendWindows(nil, i, p, k)
			require.NoError(t, err)
			text += fmt.Sprintln(windows)
		}
		return text
	}
	require.Equal(t, said(one), said(several))
}

// requireSameWhole compares what two caches say of all their traces.
func requireSameWhole(t *rapid.T, one, several *Cache) {
	number := rapid.IntRange(0, 2).Draw(t, "turn")
	said := func(c *Cache) string {
		blocks, tokens, err := c.HitRates()
		require.NoError(t, err)
		sharing, err := c.Sharing()
		require.NoError(t, err)
		piece, sampled, err := c.Sample(Text, 5)
		require.NoError(t, err)
		text := fmt.Sprintln(c.Traces(), c.RecordedStarts(), c.SharedTraces(), blocks, tokens, sharing, piece, sampled)
		for _, place := range []MarkerPlace{{}, {System: true}, {After: true}, {true, true}} {
			reuse, err := c.Reuse(place)
			require.NoError(t, err)
			text += fmt.Sprintln(reuse)
		}
		for _, sel := range []Selection{{}, {Trace: "trace 1"}, {Session: "trace 1::0"}, {Turn: &number}, {Trace: "absent"}} {
			var written bytes.Buffer
			err := c.WriteText(context.Background(), &written, sel, true)
			text += fmt.Sprintln(written.String(), err)
		}
		for _, i := range []int{-1, c.Traces()} {
			_, err := c.Plan(i)
			text += fmt.Sprintln(err, c.RenderedBytes(i))
		}
		require.NoError(t, c.Prefault(context.Background(), nil))
		return text
	}
	require.Equal(t, said(one), said(several))
}
