package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/text"
)

// What --dry-run --json prints of turns that lie in a file is what it would print of turns in memory.
func TestDryRunPrintsTurnsOfAFile(t *testing.T) {
	for _, turns := range [][]int{nil, {0}, {2}, {1, 0, 3}, {0, 0, 2, 0}} {
		d := &dryRun{Fidelity: &convert.Fidelity{Turns: 1}}
		d.Answer = text.NewAnswer(d.turn)
		whole := text.NewAnswer(nil)
		for _, a := range []*text.Answer{d.Answer, whole} {
			a.Warnings["list:[]"] = 1
			for k, n := range turns {
				a.List = append(a.List, text.AnswerSession{ID: "<" + string(rune('a'+k)) + `"list":[]`, Turns: []text.AnswerTurn{}})
				for i := range n {
					a.Add(text.AnswerTurn{N: i, Model: `{"turns":[]}`, HashIDs: []int64{1, 2}})
				}
			}
		}
		var want, got bytes.Buffer
		require.NoError(t, printJSON(&want, &dryRun{Answer: whole, Fidelity: d.Fidelity}))
		require.NoError(t, d.writeJSON(&got))
		require.Equal(t, want.String(), got.String())
	}
}
