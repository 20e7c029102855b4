package claude

import (
	"fmt"
	"maps"

	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
)

// written is a row of session s, second sec. more replaces and adds members: the last of a key counts.
func written(kind, id, parent string, sec int, more string) string {
	up := "null"
	if parent != "" {
		up = strconv.Quote(parent)
	}
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":false,"sessionId":"s","type":%q,"uuid":%q,"timestamp":"2026-01-02T15:%02d:%02d.000Z"%s}`, up, kind, id, sec/60, sec%60, more)
}

// says is a row of the user with a text, got one with results of calls: "c1=text".
func says(id, parent string, sec int, words string, more ...string) string {
	return written("user", id, parent, sec, strings.Join(append([]string{fmt.Sprintf(`"message":{"role":"user","content":%q}`, words)}, more...), ","))
}

func got(id, parent string, sec int, results string, more ...string) string {
	var blocks []string
	for _, r := range strings.Fields(results) {
		call, words, _ := strings.Cut(r, "=")
		blocks = append(blocks, fmt.Sprintf(`{"tool_use_id":%q,"type":"tool_result","content":%q}`, call, words))
	}
	return written("user", id, parent, sec, strings.Join(append([]string{`"message":{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`}, more...), ","))
}

// answers is a row of reply msg: a word is a text, !c1 a call, ?word thinking. in is the recorded size of the prompt.
func answers(id, parent string, sec int, msg, words string, in int, more ...string) string {
	var blocks []string
	for _, w := range strings.Fields(words) {
		switch w[0] {
		case '!':
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"Sh","input":{"a": 1}}`, w[1:]))
		case '?':
			blocks = append(blocks, fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":"x"}`, w[1:]))
		default:
			blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%q}`, w))
		}
	}
	message := fmt.Sprintf(`"message":{"model":"m","id":%q,"role":"assistant","content":[%s],"stop_reason":null,"usage":{"input_tokens":%d,"output_tokens":9}}`, msg, strings.Join(blocks, ","), in)
	return written("assistant", id, parent, sec, strings.Join(append([]string{message}, more...), ","))
}

// logs are files by their paths; a name's file holds rows.
type logs map[string][]string

// read reads files in the order of their names, or in another one.
func (l logs) read(t testing.TB, o Options, reach int, order ...string) *text.Dataset {
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := New(d, o)
	r.reach = reach
	if order == nil {
		order = slices.Sorted(maps.Keys(l))
	}
	n := 0
	for k, path := range order {
		for line, data := range l[path] {
			n++
			require.NoError(t, r.Row([]byte(data), text.Place{File: k, Path: path, Line: line + 1, Number: n}), data)
		}
	}
	require.NoError(t, r.End())
	if err := d.Finish(); err != nil {
		d.Traces = nil
	}
	return d
}

// shown is a dataset as lines: a session, and its turns with their prompts.
func shown(d *text.Dataset) (lines []string) {
	for _, t := range d.Traces {
		for k := range t.Sessions {
			s := &t.Sessions[k]
			line := s.ID
			if s.Kind != text.Main {
				line = fmt.Sprintf("%s of %s from %d to %d", s.ID, t.Sessions[s.Parent].ID, s.SpawnTurn, s.JoinTurn)
			}
			lines = append(lines, line)
			for i := range s.Turns {
				turn := &s.Turns[i]
				var b strings.Builder
				fmt.Fprintf(&b, "  %d-%d", (turn.At-t.Start)/1000, (turn.End-t.Start)/1000)
				if turn.Gap != text.None {
					fmt.Fprintf(&b, " gap %d tool %d", turn.Gap/1000, turn.ToolTime/1000)
				}
				for _, n := range t.Path(nil, turn.Last) {
					b.WriteString(" " + message(d, t.Nodes[n].Message))
				}
				for _, m := range turn.Output {
					b.WriteString(" > " + message(d, m))
				}
				lines = append(lines, b.String())
			}
		}
	}
	return lines
}

func message(d *text.Dataset, n int32) string {
	m := &d.Messages[n]
	words := []string{}
	for _, p := range m.Parts {
		word := d.Store.String(p.Text)
		switch p.Kind {
		case text.Call:
			word = "!" + d.Store.String(p.ID)
		case text.Thinking:
			word = "?" + word
		case text.Result:
			word = d.Store.String(p.ID) + "="
			for _, inner := range p.Parts {
				word += d.Store.String(inner.Text)
			}
		}
		words = append(words, word)
	}
	return string("sduat?"[m.Role]) + "(" + strings.Join(words, " ") + ")"
}

func counts(d *text.Dataset) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(d.Warnings)) {
		list = append(list, fmt.Sprintf("%s %d", name, d.Warnings[name]))
	}
	return strings.Join(list, ", ")
}

const far = maxNear

// Each rule of doc/spec/text.md 4 that says which rows a prompt has.
func TestPrompts(t *testing.T) {
	for _, c := range []struct {
		name     string
		rows     []string
		want     []string
		warnings string
	}{
		{"rows of every kind are links", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), written("progress", "3", "2", 2, `"data":{"type":"bash_progress"}`), written("attachment", "4", "3", 2, ""),
			written("of-tomorrow", "5", "4", 2, ""), got("6", "5", 3, "c1=x"), written("system", "7", "6", 3, `"subtype":"local_command"`), answers("8", "7", 5, "m2", "done", 9)},
			[]string{"s", "  0-1 u(a) > a(!c1)", "  3-5 gap 2 tool 2 u(a) a(!c1) u(c1=x) > a(done)"},
			"ignored:attachment 1, ignored:progress 1, ignored:system/local_command 1, unknown_type:of-tomorrow 1"},
		{"results of parallel calls are complete, in the order of the calls, and those behind the next reply are not in it", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), answers("3", "2", 1, "m1", "!c2", 9), got("4", "3", 2, "c2=y"), answers("5", "3", 2, "m1", "!c3", 9),
			got("6", "2", 3, "c1=x"), answers("7", "4", 5, "m2", "go", 9), got("8", "5", 7, "c3=z"), answers("9", "7", 9, "m3", "on", 9)},
			[]string{"s", "  0-2 u(a) > a(!c1 !c2 !c3)", "  3-5 gap 1 tool 1 u(a) a(!c1 !c2 !c3) u(c1=x c2=y) > a(go)",
				"  9-9 gap 4 tool 0 u(a) a(!c1 !c2 !c3) u(c1=x c2=y c3=z) a(go) > a(on)"}, ""},
		{"a result on the path goes before another of its call", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), got("3", "2", 2, "c1=x"), answers("4", "3", 3, "m2", "one", 9),
			got("5", "2", 5, "c1=y"), answers("6", "5", 6, "m3", "two", 9)},
			[]string{"s", "  0-1 u(a) > a(!c1)", "  2-3 gap 1 tool 1 u(a) a(!c1) u(c1=x) > a(one)", "  5-6 gap 4 tool 4 u(a) a(!c1) u(c1=y) > a(two)"}, "rewind 1"},
		{"a parent that is nowhere is the row before", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "x", 4, "c"), answers("4", "3", 5, "m2", "d", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  4-5 gap 3 tool 0 u(a) a(b) u(c) > a(d)"}, "missing_parent 1"},
		{"a session without links is a list", []string{
			says("1", "", 0, "a"), answers("2", "", 1, "m1", "b", 9), says("3", "x", 4, "c"), answers("4", "", 5, "m2", "d", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  4-5 gap 3 tool 0 u(a) a(b) u(c) > a(d)"}, "flat_session 1"},
		{"a circle ends a prompt", []string{
			says("1", "3", 0, "a"), says("2", "1", 1, "b"), says("3", "2", 2, "c"), answers("4", "3", 3, "m1", "d", 9), says("5", "4", 4, "e"), answers("6", "5", 5, "m2", "f", 9)},
			[]string{"s", "  0-1 u(a b c) > a(d)", "  2-3 gap 1 tool 0 u(a b c) a(d) u(e) > a(f)"}, "cycle 2"},
		{"rows that are no replies are left out", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "x", "sorry", 0, `"isApiErrorMessage":true`), written("assistant", "3", "2", 2, `"message":{"model":"<synthetic>","content":[]}`),
			written("user", "4", "3", 2, ""), answers("5", "4", 3, "m1", "b", 9)},
			[]string{"s", "  0-3 u(a) > a(b)"}, "api_error 2, no_message 1"},
		{"a row that repeats its reply so far replaces it", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "?he", 9), answers("3", "2", 1, "m1", "?hello wor", 9), answers("4", "3", 2, "m1", "?hello world !c1", 9), answers("5", "4", 2, "m1", "!c2", 9)},
			[]string{"s", "  0-2 u(a) > a(?hello world !c1 !c2)"}, "snapshot_rows 2"},
		{"rows without an id of their message are of one request, or alone", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "", "b", 9, `"requestId":"r"`), answers("3", "2", 1, "", "c", 9, `"requestId":"r"`), answers("4", "3", 1, "", "d", 9), answers("5", "4", 2, "", "e", 9)},
			[]string{"s", "  0-1 u(a) > a(b c)", "  1-1 gap 0 tool 0 u(a) a(b c) > a(d)", "  2-2 gap 1 tool 0 u(a) a(b c) a(d) > a(e)"}, ""},
		{"a compaction is a new beginning, with its summary", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), written("system", "3", "", 2, `"subtype":"compact_boundary"`), says("4", "3", 2, "sum", `"isCompactSummary":true`),
			says("5", "3", 3, "c"), answers("6", "5", 4, "m2", "d", 9), says("7", "4", 6, "e"), answers("8", "7", 7, "m3", "f", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  3-4 gap 2 tool 0 u(sum c) > a(d)", "  6-7 gap 2 tool 0 u(sum e) > a(f)"}, ""},
		{"a segment is kept behind the summary, for rows behind its end and behind the summary", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "2", 2, "c"), answers("4", "3", 3, "m2", "d", 9),
			written("system", "5", "", 4, `"subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"3","anchorUuid":"6","tailUuid":"4"}}`), says("6", "5", 4, "sum", `"isCompactSummary":true`),
			says("7", "4", 5, "e"), answers("8", "7", 6, "m3", "f", 9), says("9", "6", 8, "g"), answers("10", "9", 9, "m4", "h", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  2-3 gap 1 tool 0 u(a) a(b) u(c) > a(d)", "  5-6 gap 2 tool 0 u(sum c) a(d) u(e) > a(f)", "  8-9 gap 5 tool 0 u(sum c) a(d) u(g) > a(h)"}, "rewind 1"},
		{"messages are kept behind the summary", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "2", 2, "c"), answers("4", "3", 3, "m2", "d", 9),
			written("system", "5", "", 4, `"subtype":"compact_boundary","compactMetadata":{"preservedMessages":{"anchorUuid":"6","uuids":["1","4"]}}`), says("6", "5", 4, "sum", `"isCompactSummary":true`),
			says("7", "4", 5, "e"), answers("8", "7", 6, "m3", "f", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  2-3 gap 1 tool 0 u(a) a(b) u(c) > a(d)", "  5-6 gap 2 tool 0 u(sum a) a(d) u(e) > a(f)"}, ""},
		{"cleared results are cleared from then on", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), got("3", "2", 2, "c1=x"), answers("4", "3", 3, "m2", "!c2", 9), got("5", "4", 4, "c2=y"),
			written("system", "6", "5", 4, `"subtype":"microcompact_boundary","microcompactMetadata":{"compactedToolIds":["c1"]}`), answers("7", "6", 6, "m3", "b", 9), says("8", "7", 7, "c"), answers("9", "8", 8, "m4", "d", 9)},
			[]string{"s", "  0-1 u(a) > a(!c1)", "  2-3 gap 1 tool 1 u(a) a(!c1) u(c1=x) > a(!c2)",
				"  4-6 gap 1 tool 1 u(a) a(!c1) u(c1=[Old tool result content cleared]) a(!c2) u(c2=y) > a(b)",
				"  7-8 gap 1 tool 0 u(a) a(!c1) u(c1=[Old tool result content cleared]) a(!c2) u(c2=y) a(b) u(c) > a(d)"}, "microcompact 1"},
		{"a prompt that grew and was recorded as smaller", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9000), says("3", "2", 2, "c"), answers("4", "3", 3, "m2", "d", 7999), says("5", "4", 4, "e"), answers("6", "5", 5, "m3", "f", 6999)},
			[]string{"s", "  0-1 u(a) > a(b)", "  2-3 gap 1 tool 0 u(a) a(b) u(c) > a(d)", "  4-5 gap 1 tool 0 u(a) a(b) u(c) a(d) u(e) > a(f)"}, "shrunk 1"},
		{"turns are in the order of their instants", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "2", 20, "c"), answers("4", "3", 21, "m2", "d", 9), says("5", "2", 5, "e"), answers("6", "5", 6, "m3", "f", 9)},
			[]string{"s", "  0-1 u(a) > a(b)", "  5-6 gap 4 tool 0 u(a) a(b) u(e) > a(f)", "  20-21 gap 19 tool 0 u(a) a(b) u(c) > a(d)"}, "rewind 1"},
		{"an end before its beginning moves, and the gap is from where it was", []string{
			says("1", "", 9, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "2", 11, "c"), answers("4", "3", 12, "m2", "d", 9)},
			[]string{"s", "  0-0 u(a) > a(b)", "  2-3 gap 10 tool 0 u(a) a(b) u(c) > a(d)"}, "clock 1"},
		{"rows without a time have that of the row before, rows without a uuid are no links", []string{
			says("1", "", 0, "a"), answers("2", "1", 1, "m1", "b", 9), says("3", "2", 0, "c", `"timestamp":"noon"`), answers("4", "3", 5, "m2", "d", 9), says("5", "4", 6, "e", `"uuid":null`), `{"type":"mode"}`, `{}`, `[1]`},
			[]string{"s", "  0-1 u(a) > a(b)", "  1-5 gap 0 tool 0 u(a) a(b) u(c) > a(d)"}, "ignored:mode 1, no_timestamp 1, no_uuid 1, not_object 1, unknown_type:line 1"},
		{"a reply without sizes, or without a prompt", []string{
			answers("1", "", 1, "m1", "b", 0)},
			[]string{"s", "  0-0 > a(b)"}, "empty_prompt 1, no_usage 1"},
		{"a session without a reply", []string{says("1", "", 0, "a"), written("user", "2", "1", 1, `"sessionId":"t","message":{"content":"b"}`), answers("3", "2", 2, "m1", "c", 9, `"sessionId":"t"`)},
			[]string{"t", "  0-1 u(a b) > a(c)"}, "no_turn 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, reach := range []int{far, 0} {
				d := logs{"s.jsonl": c.rows}.read(t, Options{}, reach)
				assert.Equal(t, c.want, shown(d))
				assert.Equal(t, c.warnings, counts(d))
			}
		})
	}
}

// agentRows are the rows of an agent that a call started: its task at second sec, and an answer.
func agentRows(id, task string, sec int, more string) []string {
	return []string{
		written("user", id+"-1", "", sec, fmt.Sprintf(`"isSidechain":true,"agentId":%q,"message":{"content":%q}%s`, id, task, more)),
		answers(id+"-2", id+"-1", sec+1, "msg-"+id, "found-"+id, 9, fmt.Sprintf(`"isSidechain":true,"agentId":%q%s`, id, more)),
	}
}

// progress is a row of a session that has a row of an agent.
func progress(id, parent string, sec int, agent, call, inner string) string {
	return written("progress", id, parent, sec, fmt.Sprintf(`"parentToolUseID":%q,"data":{"type":"agent_progress","agentId":%q,"message":%s}`, call, agent, inner))
}

// Which call started an agent, and which turn waits for it.
func TestAgents(t *testing.T) {
	begin := []string{says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1 !c2", 9)}
	end := func(result1, result2 string) []string {
		return []string{got("3", "2", 10, "c1=x", result1), got("4", "3", 11, "c2=y", result2), answers("5", "4", 12, "m2", "b", 9)}
	}
	main := []string{"  0-1 u(a) > a(!c1 !c2)", "  11-12 gap 10 tool 10 u(a) a(!c1 !c2) u(c1=x c2=y) > a(b)"}
	inner := []string{
		`{"type":"user","timestamp":"2026-01-02T15:00:03.000Z","uuid":"p1","message":{"content":"task"}}`,
		`{"type":"assistant","uuid":"p2","message":{"id":"mp","content":[{"type":"text","text":"found"}],"usage":{"input_tokens":9}}}`}
	for _, c := range []struct {
		name     string
		files    logs
		want     []string
		warnings string
	}{
		{"a result names its agent", logs{"s.jsonl": slices.Concat(begin, end(`"toolUseResult":{"agentId":"k"}`, `"toolUseResult":"text"`)), "s/subagents/agent-k.jsonl": agentRows("k", "task", 4, "")},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  4-5 u(task) > a(found-k)"), ""},
		{"a file beside the agent's names the call", logs{"s.jsonl": slices.Concat(begin, end(`"x":1`, `"x":1`)), "s/agent-k.jsonl": agentRows("k", "task", 4, ""), "s/agent-k.meta.json": {`{"agentType":"Explore","toolUseId":"c2"}`}},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  4-5 u(task) > a(found-k)"), ""},
		{"nothing names the call", logs{"s.jsonl": slices.Concat(begin, end(`"x":1`, `"x":1`)), "s/agent-k.jsonl": agentRows("k", "task", 4, "")},
			append(append([]string{"s"}, main...), "k of s from -1 to -1", "  4-5 u(task) > a(found-k)"), "subagent_without_call 1"},
		{"nothing waits for an agent in the background", logs{"s.jsonl": slices.Concat(begin, end(`"toolUseResult":{"agentId":"k","status":"async_launched"}`, `"toolUseResult":{"isAsync":true,"agentId":"l"}`)),
			"s/agent-k.jsonl": agentRows("k", "task", 4, ""), "s/agent-l.jsonl": agentRows("l", "more", 3, "")},
			append(append([]string{"s"}, main...), "l of s from 0 to -1", "  3-4 u(more) > a(found-l)", "k of s from 0 to -1", "  4-5 u(task) > a(found-k)"), ""},
		{"rows in progress rows, each behind the one before", logs{"s.jsonl": slices.Concat(begin, []string{progress("6", "2", 4, "k", "c2", inner[0]), progress("7", "6", 5, "k", "c2", inner[1])}, end(`"x":1`, `"x":1`))},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  3-5 u(task) > a(found)"), "agent_progress 2"},
		{"rows of its own go before those in progress rows", logs{"s.jsonl": slices.Concat(begin, []string{progress("6", "2", 4, "k", "c2", inner[0]), progress("7", "6", 5, "k", "c2", inner[1])}, end(`"x":1`, `"x":1`)), "s/agent-k.jsonl": agentRows("k", "task", 4, "")},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  4-5 u(task) > a(found-k)"), "agent_progress 2"},
		{"an agent that an agent started", logs{"s.jsonl": slices.Concat(begin, end(`"toolUseResult":{"agentId":"k"}`, `"x":1`)), "s/agent-l.jsonl": agentRows("l", "deeper", 4, ""),
			"s/agent-k.jsonl": {written("user", "k1", "", 3, `"isSidechain":true,"agentId":"k","message":{"content":"task"}`), answers("k2", "k1", 4, "mk", "!d1", 9, `"isSidechain":true,"agentId":"k"`),
				got("k3", "k2", 7, "d1=z", `"isSidechain":true,"agentId":"k","toolUseResult":{"agentId":"l"}`), answers("k4", "k3", 8, "mk2", "e", 9, `"isSidechain":true,"agentId":"k"`)}},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  3-4 u(task) > a(!d1)", "  7-8 gap 3 tool 3 u(task) a(!d1) u(d1=z) > a(e)", "l of k from 0 to 1", "  4-5 u(deeper) > a(found-l)"), ""},
		{"agents that started each other", logs{"s.jsonl": slices.Concat(begin, end(`"x":1`, `"x":1`)),
			"s/agent-k.jsonl": {written("user", "k1", "", 3, `"message":{"content":"task"}`), answers("k2", "k1", 4, "mk", "!d1", 9), got("k3", "k2", 7, "d1=z", `"toolUseResult":{"agentId":"l"}`)},
			"s/agent-l.jsonl": {written("user", "l1", "", 5, `"message":{"content":"task"}`), answers("l2", "l1", 6, "ml", "!d2", 9), got("l3", "l2", 7, "d2=z", `"toolUseResult":{"agentId":"k"}`)}},
			append(append([]string{"s"}, main...), "k of s from -1 to -1", "  3-4 u(task) > a(!d1)", "l of s from -1 to -1", "  5-6 u(task) > a(!d2)"), "subagent_without_call 2"},
		{"a sidechain in the file of its session", logs{"s.jsonl": slices.Concat(begin, []string{says("x1", "", 3, "task", `"isSidechain":true`), answers("x2", "x1", 4, "mx", "found", 9, `"isSidechain":true`)}, end(`"x":1`, `"x":1`))},
			append(append([]string{"s"}, main...), "x1 of s from -1 to -1", "  3-4 u(task) > a(found)"), "subagent_without_call 1"},
		{"an agent that goes on from copies of its session's rows", logs{"s.jsonl": slices.Concat(begin, end(`"toolUseResult":{"agentId":"k"}`, `"x":1`)), "s/agent-k.jsonl": {
			written("user", "k1", "", 0, `"isSidechain":true,"agentId":"k","message":{"content":"a"}`), answers("k2", "k1", 1, "m1", "!c1 !c2", 9, `"isSidechain":true,"agentId":"k"`),
			says("k3", "k2", 3, "task", `"isSidechain":true,"agentId":"k"`), answers("k4", "k3", 5, "mk", "found", 9, `"isSidechain":true,"agentId":"k"`)}},
			append(append([]string{"s"}, main...), "k of s from 0 to 1", "  3-5 u(a) a(!c1 !c2) u(task) > a(found)"), "copied_row 1"},
		{"an agent whose session is not there", logs{"s/agent-k.jsonl": agentRows("k", "task", 4, "")}, []string{"k", "  0-1 u(task) > a(found-k)"}, "parent_missing 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, reach := range []int{far, 0} {
				d := c.files.read(t, Options{}, reach)
				assert.Equal(t, c.want, shown(d))
				assert.Equal(t, c.warnings, counts(d))
			}
		})
	}
}

// A session that was resumed has its own rows alone, and the rows before them in its prompts, whatever the order of the files.
func TestResumed(t *testing.T) {
	old := []string{says("1", "", 0, "a"), answers("2", "1", 1, "m1", "!c1", 9), got("3", "2", 2, "c1=x"), answers("4", "3", 3, "m2", "b", 9),
		written("system", "5", "", 4, `"subtype":"compact_boundary","compactMetadata":{"preservedSegment":{"headUuid":"3","anchorUuid":"6","tailUuid":"4"}}`), says("6", "5", 4, "sum", `"isCompactSummary":true`)}
	fork := slices.Concat(old[:4], []string{says("f1", "4", 8, "c", `"sessionId":"fork"`), answers("f2", "f1", 9, "m3", "d", 9, `"sessionId":"fork"`)})
	resumed := slices.Concat(old, []string{says("r1", "6", 10, "e", `"sessionId":"resumed"`), answers("r2", "r1", 11, "m4", "f", 9, `"sessionId":"resumed"`)})
	old = append(old, says("7", "4", 5, "g"), answers("8", "7", 6, "m5", "h", 9))
	files := logs{"c/old.jsonl": old, "b/fork.jsonl": fork, "a/resumed.jsonl": resumed}
	want := []string{"s", "  0-1 u(a) > a(!c1)", "  2-3 gap 1 tool 1 u(a) a(!c1) u(c1=x) > a(b)", "  5-6 gap 2 tool 0 u(sum c1=x) a(b) u(g) > a(h)",
		"fork", "  0-1 u(a) a(!c1) u(c1=x) a(b) u(c) > a(d)",
		"resumed", "  0-1 u(sum c1=x) a(b) u(e) > a(f)"}
	for _, order := range [][]string{{"a/resumed.jsonl", "b/fork.jsonl", "c/old.jsonl"}, {"c/old.jsonl", "b/fork.jsonl", "a/resumed.jsonl"}, {"b/fork.jsonl", "c/old.jsonl", "a/resumed.jsonl"}} {
		d := files.read(t, Options{}, far, order...)
		assert.Equal(t, want, shown(d))
		assert.Equal(t, "copied_row 10", counts(d))
	}
}

// What prompts do not have, on request.
func TestOptions(t *testing.T) {
	rows := logs{"s.jsonl": {says("0", "", 0, "caveat", `"isMeta":true`), says("1", "0", 0, "a"), answers("2", "1", 1, "m1", "?why b", 9), says("3", "2", 2, "c"), answers("4", "3", 3, "m2", "?how", 9), says("5", "4", 4, "d"), answers("6", "5", 5, "m3", "e", 9)}}
	assert.Equal(t, []string{"s", "  0-1 u(caveat a) > a(?why b)", "  2-3 gap 1 tool 0 u(caveat a) a(?why b) u(c) > a(?how)", "  4-5 gap 1 tool 0 u(caveat a) a(?why b) u(c) a(?how) u(d) > a(e)"}, shown(rows.read(t, Options{}, far)))
	assert.Equal(t, []string{"s", "  0-1 u(a) > a(?why b)", "  2-3 gap 1 tool 0 u(a) a(?why b) u(c) > a(?how)", "  4-5 gap 1 tool 0 u(a) a(?why b) u(c) a(?how) u(d) > a(e)"}, shown(rows.read(t, Options{DropMeta: true}, far)))
	assert.Equal(t, []string{"s", "  0-1 u(caveat a) > a(?why b)", "  2-3 gap 1 tool 0 u(caveat a) a(b) u(c) > a(?how)", "  4-5 gap 1 tool 0 u(caveat a) a(b) u(c) u(d) > a(e)"}, shown(rows.read(t, Options{DropThinking: true}, far)))
}
