package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// randomLog returns rows in which links lead anywhere: prompts that go on, go back, are compacted and cleared, calls of which results come
// late or never, agents, and circles where circles is set.
func randomLog(r *rand.Rand, circles bool) (rows []string) {
	sessions := []string{"s", "t"}
	var ids, calls []string
	msgs := map[string]int{}
	pick := func(list []string) string {
		switch {
		case len(list) == 0:
			return ""
		case r.IntN(4) > 0:
			return list[len(list)-1]
		}
		return list[r.IntN(len(list))]
	}
	for k := range 10 + r.IntN(60) {
		id, parent, sec := fmt.Sprint("u", k), pick(ids), k*2+r.IntN(4)
		more := fmt.Sprintf(`"sessionId":%q`, sessions[min(r.IntN(8), 1)^1])
		if r.IntN(5) == 0 {
			more += `,"isSidechain":true,"agentId":"k"`
		}
		if circles && r.IntN(6) == 0 {
			parent = fmt.Sprint("u", r.IntN(60))
		}
		switch r.IntN(12) {
		case 0, 1, 2:
			rows = append(rows, says(id, parent, sec, fmt.Sprint("w", r.IntN(6)), more))
		case 3, 4, 5:
			call := pick(calls) + "=" + fmt.Sprint(k)
			if r.IntN(5) == 0 {
				call += " " + pick(calls) + "=y"
			}
			rows = append(rows, got(id, parent, sec, call, more))
		case 6, 7, 8, 9:
			msg := fmt.Sprint("m", r.IntN(k+1))
			words := fmt.Sprint("a", k)
			if r.IntN(2) == 0 {
				call := fmt.Sprint("c", k)
				words, calls = words+" !"+call, append(calls, call)
			}
			rows = append(rows, answers(id, parent, sec, msg, words, 5000*r.IntN(5), more))
			msgs[msg]++
		case 10:
			kept := fmt.Sprintf(`"compactMetadata":{"preservedSegment":{"headUuid":%q,"anchorUuid":%q,"tailUuid":%q}}`, pick(ids), fmt.Sprint("u", k+1), pick(ids))
			if r.IntN(2) == 0 {
				kept = fmt.Sprintf(`"compactMetadata":{"preservedMessages":{"uuids":[%q,%q],"anchorUuid":%q}}`, pick(ids), pick(ids), fmt.Sprint("u", k+1))
			}
			rows = append(rows, written("system", id, "", sec, `"subtype":"compact_boundary",`+kept+","+more), says(id+"s", id, sec, "sum", `"isCompactSummary":true`, more))
		case 11:
			rows = append(rows, written("system", id, parent, sec, fmt.Sprintf(`"subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":[%q]},%s`, pick(calls), more)))
		}
		ids = append(ids, id)
	}
	return rows
}

// Prompts that begin with the one before, and those whose paths are walked to their ends, are the same.
func TestNearIsFar(t *testing.T) {
	for seed := range uint64(400) {
		rows := logs{"s.jsonl": randomLog(rand.New(rand.NewPCG(seed, 1)), seed%4 == 0)}
		near, walked := rows.read(t, Options{}, far), rows.read(t, Options{}, 0)
		require.Equal(t, shown(walked), shown(near), "seed %d", seed)
		require.Equal(t, counts(walked), counts(near), "seed %d", seed)
	}
}

// Lines in any order that keeps parents first, and rows of one reply in theirs, are the same sessions.
func TestOrderOfLines(t *testing.T) {
	rows := []string{
		says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), answers("3", "2", 1, "m1", "!c2", 9), got("4", "2", 2, "c1=x"), got("5", "3", 3, "c2=y"), answers("6", "5", 5, "m2", "b", 9),
		says("7", "6", 7, "c"), answers("8", "7", 8, "m3", "d", 9), says("9", "6", 10, "e"), answers("10", "9", 11, "m4", "f", 9), written("progress", "11", "10", 12, ""), answers("12", "11", 13, "m5", "g", 9)}
	want := logs{"s.jsonl": rows}.read(t, Options{}, far)
	parents := map[string]string{"2": "1", "3": "2", "4": "2", "5": "3", "6": "5", "7": "6", "8": "7", "9": "6", "10": "9", "11": "10", "12": "11"}
	id := func(row string) string {
		_, rest, _ := strings.Cut(row, `"uuid":"`)
		n, _, _ := strings.Cut(rest, `"`)
		return n
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		var order []string
		placed := map[string]bool{"": true}
		for left := slices.Clone(rows); len(left) > 0; {
			k := r.IntN(len(left))
			if n := id(left[k]); placed[parents[n]] {
				order, placed[n] = append(order, left[k]), true
				left = slices.Delete(left, k, k+1)
			}
		}
		got := logs{"s.jsonl": order}.read(t, Options{}, far)
		require.Equal(t, shown(want), shown(got), order)
		require.Equal(t, counts(want), counts(got), order)
	}
}

// A row that is cut anywhere, and one with a value of another kind at any key, is read or malformed; no error says what it says.
func TestDamagedRows(t *testing.T) {
	const canary = "Canary"
	rows := []string{
		says("1", "", 0, canary), answers("2", "1", 1, "m1", canary+" !"+canary+" ?"+canary, 9), got("3", "2", 2, canary+"="+canary, `"toolUseResult":{"agentId":"Canary","status":"Canary"}`),
		written("system", "4", "", 3, `"subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"Canary","anchorUuid":"5","tailUuid":"2"}}`),
		written("system", "4", "", 3, `"subtype":"compact_boundary","compactMetadata":{"preservedMessages":{"anchorUuid":"Canary","uuids":["1","2"]}}`),
		written("system", "5", "4", 3, `"subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":["Canary"]}`),
		progress("6", "5", 4, canary, canary, `{"type":"user","uuid":"Canary","message":{"content":[{"type":"Canary","Canary":["Canary"]}]}}`)}
	check := func(data []byte) {
		d := text.NewDataset(text.NewStore(""))
		r := New(d, Options{})
		for _, row := range [][]byte{[]byte(rows[0]), []byte(rows[1]), data, []byte(rows[1]), []byte(rows[2])} {
			if err := r.Row(row, text.Place{Path: "Canary.jsonl"}); err != nil {
				require.ErrorIs(t, err, content.ErrMalformed)
				require.NotContains(t, err.Error(), canary)
			}
		}
		require.NoError(t, r.End())
		require.NoError(t, d.Finish())
	}
	for _, row := range rows {
		for k := range row {
			check([]byte(row[:k]))
		}
		for k := range row {
			check([]byte(row[:k] + row[k+1:]))
		}
		var all map[string]any
		require.NoError(t, json.Unmarshal([]byte(row), &all))
		eachMember(all, func(set func(any)) {
			for _, v := range []any{nil, true, 7, -1e9, json.Number("1e999"), json.Number("0.5"), "", "\ufffd", []any{}, []any{nil, 1, "x", []any{}}, map[string]any{}, map[string]any{"type": 1, "id": []any{}}, json.RawMessage(strings.Repeat("[", 2000) + strings.Repeat("]", 2000))} {
				set(v)
				data, err := json.Marshal(all)
				require.NoError(t, err)
				check(data)
			}
		})
	}
}

// eachMember calls f for each member of an object and those inside, with what sets it. It puts the value back.
func eachMember(v any, f func(set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			f(func(other any) { v[key] = other })
			v[key] = value
			eachMember(value, f)
		}
	case []any:
		for k, value := range v {
			f(func(other any) { v[k] = other })
			v[k] = value
			eachMember(value, f)
		}
	}
}

func FuzzReader(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(strings.Join(randomLog(rand.New(rand.NewPCG(seed, 3)), true), "\n"))
	}
	f.Add(strings.Join(append(agentRows("k", "task", 4, ""), progress("6", "2", 4, "k", "c", `{"type":"user","message":{"content":"a"}}`)), "\r\n"))
	f.Fuzz(func(t *testing.T, data string) {
		d := text.NewDataset(text.NewStore(""))
		r := New(d, Options{DropThinking: len(data)%2 == 0})
		for k, row := range strings.Split(data, "\n") {
			if err := r.Row([]byte(row), text.Place{File: k % 2, Path: []string{"s.jsonl", "agent-k.jsonl"}[k%2]}); err != nil && !errors.Is(err, content.ErrMalformed) {
				t.Fatal(err)
			}
		}
		if err := r.End(); err != nil {
			t.Fatal(err)
		}
		if d.Finish() == nil {
			shown(d)
		}
	})
}
