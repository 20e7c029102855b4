package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/mmapcache"
)

// memory is a Writer in memory.
type memory struct {
	data     []byte
	messages []mmapcache.RecordedMessage
	pieces   [2][][]mmapcache.Piece
}

func (m *memory) Write(b []byte) (mmapcache.Piece, error) {
	p := mmapcache.Piece{At: uint64(len(m.data)), N: uint32(len(b))}
	m.data = append(m.data, b...)
	return p, nil
}

func (m *memory) Message(role mmapcache.Role, lead uint8, chat, anthropic []mmapcache.Piece) (uint32, error) {
	m.messages = append(m.messages, mmapcache.RecordedMessage{Role: role, Lead: lead})
	m.pieces[0], m.pieces[1] = append(m.pieces[0], slices.Clone(chat)), append(m.pieces[1], slices.Clone(anthropic))
	return uint32(len(m.messages) - 1), nil
}

func (m *memory) text(form int, message uint32) (s string) {
	for _, p := range m.pieces[form][message] {
		s += string(m.data[p.At : p.At+uint64(p.N)])
	}
	return s
}

type byteTokens struct{}

func (byteTokens) AppendIDs(ids []uint32, s string) []uint32 {
	return append(ids, make([]uint32, len(s))...)
}

// drawn is a dataset of one session whose messages are drawn: calls and results in any order, odd texts, every role and part.
func drawn(t *rapid.T) (*text.Dataset, *text.Trace) {
	d := text.NewDataset(text.NewStore(""))
	add := func(s string) text.Text {
		id, err := d.Store.Add([]byte(s))
		require.NoError(t, err)
		return id
	}
	words := rapid.SampledFrom([]string{"", "a", "two words", "\"quoted\" \\ \n\t\x01", "é😀\u2028", `{"a": [1, "b"]}`, "{not json"})
	goesOn := rapid.Bool().Draw(t, "items") // of Responses, where every call has an id
	names := []string{"x", "y", "z"}
	if !goesOn {
		names = append(names, "")
	}
	ids := rapid.SampledFrom(names)
	var part func(kinds []text.PartKind) text.Part
	part = func(kinds []text.PartKind) text.Part {
		p := text.Part{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Text: add(words.Draw(t, "text"))}
		switch p.Kind {
		case text.Call:
			p.ID, p.Name = add(ids.Draw(t, "id")), add("tool")
		case text.Result:
			p.ID, p.Failed, p.Text = add(ids.Draw(t, "id")), rapid.Bool().Draw(t, "failed"), 0
			for range rapid.IntRange(0, 2).Draw(t, "results") {
				p.Parts = append(p.Parts, part([]text.PartKind{text.Plain, text.Image}))
			}
		case text.Image, text.Redacted:
			p.Tokens = 3
		}
		return p
	}
	tr := d.NewTrace("t")
	last := int32(text.None)
	for n := range rapid.IntRange(1, 8).Draw(t, "messages") {
		m := text.Message{Role: text.Role(rapid.IntRange(0, int(text.OtherRole)).Draw(t, "role"))}
		kinds := []text.PartKind{text.Plain, text.Other, text.Image, text.Result}
		switch m.Role {
		case text.Assistant:
			kinds = []text.PartKind{text.Plain, text.Thinking, text.Redacted, text.Call, text.Call}
		case text.OtherRole:
			m.Name = add("critic")
		case text.System, text.Developer:
			kinds = kinds[:1]
		}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			m.Parts = append(m.Parts, part(kinds))
		}
		if goesOn && last != text.None && m.Role == text.Assistant && d.Messages[tr.Nodes[last].Message].Role == text.Assistant {
			m.Continues = rapid.Bool().Draw(t, "continues")
		}
		last = tr.Child(last, d.Message(m))
		turn := text.NewTurn()
		turn.Last, turn.At, turn.End = last, int64(n)*1000, int64(n)*1000
		tr.Sessions[0].Turns = append(tr.Sessions[0].Turns, turn)
	}
	require.NoError(t, d.Finish())
	return d, tr
}

// What is written of a prompt, decoded as JSON, is what a plain reading of the model gives, in both forms; calls and results pair in it.
func TestPlainReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d, tr := drawn(t)
		w := &memory{}
		plan, err := New(d, text.NewSizes(d, byteTokens{}), w, 0).Plan(tr, "s1")
		require.NoError(t, err)
		for k, u := range plan.Turns {
			path := tr.Path(nil, tr.Sessions[0].Turns[k].Last)
			for form := range 2 {
				var system, messages []string
				for s := u.Last; s != mmapcache.None; s = plan.Segments[s].Parent {
					messages = append(messages, w.text(form, plan.Segments[s].First))
				}
				slices.Reverse(messages)
				leading := 0
				for ; form == 1 && leading < len(path) && d.Messages[tr.Nodes[path[leading]].Message].Role == text.System; leading++ {
					system = append(system, messages[leading])
				}
				got := fmt.Sprintf(`{"system":[%s],"messages":[%s]}`, strings.Join(system, ","), strings.Join(messages[leading:], ","))
				require.True(t, json.Valid([]byte(got)), got)
				require.JSONEq(t, plainBody(d, tr, path, form), got)
				requirePairs(t, got)
			}
		}
	})
}

// Prompts of sessions that share messages, tools and fillers are what their nodes say, and an unlimited cache has what begins an earlier
// prompt.
func TestPathsAndHits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := text.NewDataset(text.NewStore(""))
		add := func(s string) text.Text {
			id, err := d.Store.Add([]byte(s))
			require.NoError(t, err)
			return id
		}
		for range rapid.IntRange(1, 3).Draw(t, "traces") {
			tr := d.NewTrace("t")
			for len(tr.Sessions) < 2 {
				tr.Sessions = append(tr.Sessions, text.Session{SpawnTurn: text.None, JoinTurn: text.None})
			}
			for n := range rapid.IntRange(1, 12).Draw(t, "turns") {
				s := &tr.Sessions[min(n, rapid.IntRange(0, 1).Draw(t, "session"))]
				turn := text.NewTurn()
				turn.At = int64(rapid.IntRange(0, 5).Draw(t, "at"))
				turn.End = turn.At
				if rapid.Bool().Draw(t, "recorded") {
					turn.In = 500
				}
				for range rapid.IntRange(0, 4).Draw(t, "messages") {
					m := text.Message{Role: rapid.SampledFrom([]text.Role{text.System, text.User, text.Assistant, text.Assistant}).Draw(t, "role")}
					m.Continues = m.Role == text.Assistant && rapid.Bool().Draw(t, "continues")
					m.Parts = []text.Part{{Text: add(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "text"))}}
					turn.Last = tr.Child(turn.Last, d.Message(m))
				}
				s.Turns = append(s.Turns, turn)
			}
			for k := range tr.Sessions {
				tr.Sessions[k].Filler = int32(rapid.IntRange(0, 2).Draw(t, "filler"))
				if rapid.Bool().Draw(t, "tools") {
					tr.Sessions[k].Tools = []text.Text{add(`{"name":"x"}`)}
				}
			}
		}
		require.NoError(t, d.Finish())
		w, earlier := &memory{}, map[string]bool{}
		r := New(d, text.NewSizes(d, byteTokens{}), w, 7)
		for _, tr := range d.Traces {
			plan, err := r.Plan(tr, "s")
			require.NoError(t, err)
			var sessions []int
			for k := range tr.Sessions {
				for n := range tr.Sessions[k].Turns {
					sessions = append(sessions, k)
					checkPath(t, d, tr, w, plan, k, n, plan.Turns[len(sessions)-1].Last)
				}
			}
			order := make([]int, len(plan.Turns))
			for k := range order {
				order[k] = k
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(plan.Turns[a].T, plan.Turns[b].T) })
			for _, k := range order {
				checkHits(t, plan, k, earlier)
			}
		}
	})
}

// checkPath checks the segments of a turn: the tools and the filler of its session, then a message for each node.
func checkPath(t *rapid.T, d *text.Dataset, tr *text.Trace, w *memory, plan *mmapcache.Plan, session, n int, last int32) {
	var got, want []string
	for ; last != mmapcache.None; last = plan.Segments[last].Parent {
		if s := plan.Segments[last]; s.Flags&mmapcache.Prefix != 0 {
			got = append(got, fmt.Sprint(s.First, s.Count))
		} else {
			got = append(got, w.text(1, s.First))
		}
	}
	slices.Reverse(got)
	s := &tr.Sessions[session]
	if len(s.Tools) > 0 {
		want = append(want, `[{"name":"x","input_schema":{"type":"object"}}]`)
	}
	if s.Filler > 0 {
		want = append(want, fmt.Sprint(7, s.Filler))
	}
	system, before := true, text.System
	var blocks []string // of the last message
	for _, node := range tr.Path(nil, s.Turns[n].Last) {
		m := &d.Messages[tr.Nodes[node].Message]
		block := fmt.Sprintf(`{"type":"text","text":%q}`, d.Store.String(m.Parts[0].Text))
		switch system = system && m.Role == text.System; {
		case system:
			want = append(want, block)
		case m.Continues && before == text.Assistant:
			blocks = append(blocks, block)
			want[len(want)-1] = fmt.Sprintf(`{"role":"assistant","content":[%s]}`, strings.Join(blocks, ","))
		default:
			blocks = []string{block}
			want = append(want, fmt.Sprintf(`{"role":"%s","content":%q}`, strings.Replace(m.Role.String(), "system", "user", 1), d.Store.String(m.Parts[0].Text)))
		}
		before = m.Role
	}
	if system {
		want = append(want, `{"role":"user","content":"continue"}`)
	}
	require.Equal(t, want, got)
}

// checkHits checks the tokens of turn k, and those of the longest beginning that an earlier prompt has, too.
func checkHits(t *rapid.T, plan *mmapcache.Plan, k int, earlier map[string]bool) {
	var path []int32
	for s := plan.Turns[k].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		path = append(path, s)
	}
	prompt, tokens, hits := "", uint32(0), uint32(0)
	for _, s := range slices.Backward(path) {
		e := &plan.Segments[s]
		tokens += e.Count
		if prompt += fmt.Sprintf("%d,%d;", e.Flags, e.First); e.Flags&mmapcache.Prefix != 0 {
			prompt += fmt.Sprint(e.Count)
		}
		if earlier[prompt] {
			hits = tokens
		}
		earlier[prompt] = true
	}
	require.Equal(t, []uint32{tokens, hits}, []uint32{plan.Turns[k].HashIDs, plan.Turns[k].CacheHits})
}

type object = map[string]any

// plainBody is the plain reading of a prompt.
func plainBody(d *text.Dataset, tr *text.Trace, path []int32, form int) string {
	p := plainReader{d: d, numbers: map[text.Text]int{}}
	system, messages := []any{}, []any{}
	leading := true
	list := []*text.Message{}
	for _, node := range path {
		list = append(list, &d.Messages[tr.Nodes[node].Message])
	}
	add := func(m *text.Message, numbers []int) {
		if form == 1 {
			messages = append(messages, p.anthropic(m, numbers))
		} else {
			messages = append(messages, p.chat(m, numbers)...)
		}
	}
	for len(list) > 0 {
		m := *list[0]
		one := 1
		for one < len(list) && (list[one].Continues && m.Role == text.Assistant || results(list[one-1]) && results(list[one])) {
			m.Parts = slices.Concat(m.Parts, list[one].Parts)
			if one++; list[one-1].Role == text.User {
				m.Role = text.User
			}
		}
		list = list[one:]
		numbers := p.number(&m)
		if slices.Max(append(numbers, 0)) > 0 && m.Role != text.Assistant { // in front, in one message with those that are there
			aborted, own := p.aborted()
			m.Parts, numbers = slices.Concat(aborted, m.Parts), slices.Concat(own, numbers)
		} else if aborted, own := p.aborted(); len(own) > 0 {
			add(&text.Message{Role: text.Tool, Parts: aborted}, own)
		}
		p.waiting, p.calls = p.calls, nil
		if leading = leading && m.Role == text.System; leading && form == 1 {
			system = append(system, p.blocks(&m, numbers, false)...)
			continue
		}
		add(&m, numbers)
	}
	if aborted, own := p.aborted(); len(own) > 0 {
		add(&text.Message{Role: text.Tool, Parts: aborted}, own)
	}
	if leading {
		messages = append(messages, object{"role": "user", "content": "continue"})
	}
	b, _ := json.Marshal(object{"system": system, "messages": messages})
	return string(b)
}

type plainReader struct {
	d              *text.Dataset
	numbers        map[text.Text]int
	last           int
	waiting, calls []int // of the message before, and of this one
}

func results(m *text.Message) bool {
	return m.Role != text.Assistant && m.Role != text.OtherRole && slices.ContainsFunc(m.Parts, func(p text.Part) bool { return p.Kind == text.Result })
}

// noResult is the id of a result that stands for one that is missing.
const noResult = text.Text(1 << 31)

// aborted returns results of the calls that still wait.
func (p *plainReader) aborted() (parts []text.Part, numbers []int) {
	for _, n := range p.waiting {
		parts, numbers = append(parts, text.Part{Kind: text.Result, ID: noResult, Failed: true}), append(numbers, n)
	}
	p.waiting = nil
	return parts, numbers
}

func (p *plainReader) number(m *text.Message) []int {
	numbers := make([]int, len(m.Parts))
	for k, part := range m.Parts {
		switch part.Kind {
		case text.Call:
			n, known := p.numbers[part.ID]
			if !known || part.ID == 0 {
				p.last++
				n = p.last
				p.numbers[part.ID] = n
			}
			numbers[k] = n
			p.calls = append(p.calls, n)
		case text.Result:
			for i, n := range p.waiting {
				if part.ID == 0 || n == p.numbers[part.ID] {
					numbers[k] = n
					p.waiting = append(slices.Clone(p.waiting[:i]), p.waiting[i+1:]...)
					break
				}
			}
		}
	}
	return numbers
}

func (p *plainReader) says(part text.Part) (s string) {
	switch part.Kind {
	case text.Image:
		return strings.Repeat(" image", int(part.Tokens))
	case text.Result:
		for _, inner := range part.Parts {
			s += p.says(inner)
		}
		return s
	}
	return p.d.Store.String(part.Text)
}

// result returns what the content of a result is.
func (p *plainReader) result(part text.Part) any {
	if part.ID == noResult {
		return "aborted"
	}
	return p.content(part.Parts)
}

func (p *plainReader) content(parts []text.Part) any {
	if len(parts) == 0 {
		return ""
	}
	if len(parts) == 1 && parts[0].Kind == text.Plain {
		return p.says(parts[0])
	}
	list := []any{}
	for _, part := range parts {
		list = append(list, object{"type": "text", "text": p.says(part)})
	}
	return list
}

func (p *plainReader) chat(m *text.Message, numbers []int) (list []any) {
	var rest []text.Part
	reasoning, calls := "", []any{}
	thinks, others := false, false
	for k, part := range m.Parts {
		switch {
		case part.Kind == text.Result && numbers[k] > 0:
			list = append(list, object{"role": "tool", "tool_call_id": fmt.Sprint("call_", numbers[k]), "content": p.result(part)})
			continue
		case part.Kind == text.Redacted:
			continue
		case part.Kind == text.Thinking:
			thinks, reasoning = true, reasoning+p.says(part)
		case part.Kind == text.Call:
			calls = append(calls, object{"id": fmt.Sprint("call_", numbers[k]), "type": "function",
				"function": object{"name": p.d.Store.String(part.Name), "arguments": p.d.Store.String(part.Text)}})
		case part.Kind == text.Result:
			rest = append(rest, part.Parts...)
		default:
			rest = append(rest, part)
		}
		others = true
	}
	if len(list) > 0 && !others {
		return list
	}
	role := m.Role.String()
	switch m.Role {
	case text.Tool:
		role = "user"
	case text.OtherRole:
		role = p.d.Store.String(m.Name)
	}
	o := object{"role": role, "content": p.content(rest)}
	if thinks {
		o["reasoning_content"] = reasoning
	}
	if len(calls) > 0 {
		o["tool_calls"] = calls
		if len(rest) == 0 {
			o["content"] = nil
		}
	}
	return append(list, o)
}

func (p *plainReader) anthropic(m *text.Message, numbers []int) any {
	role := "user"
	if m.Role == text.Assistant {
		role = "assistant"
	}
	if len(m.Parts) == 1 && m.Parts[0].Kind == text.Plain {
		return object{"role": role, "content": p.says(m.Parts[0])}
	}
	return object{"role": role, "content": p.blocks(m, numbers, true)}
}

func (p *plainReader) blocks(m *text.Message, numbers []int, calls bool) (list []any) {
	for k, part := range m.Parts {
		switch {
		case part.Kind == text.Redacted:
		case calls && part.Kind == text.Thinking:
			list = append(list, object{"type": "thinking", "thinking": p.says(part), "signature": ""})
		case calls && part.Kind == text.Call:
			var input any = object{"arguments": p.d.Store.String(part.Text)}
			var decoded object
			if json.Unmarshal([]byte(p.d.Store.String(part.Text)), &decoded) == nil && decoded != nil {
				input = decoded
			} else if part.Text == 0 {
				input = object{}
			}
			list = append(list, object{"type": "tool_use", "id": fmt.Sprint("call_", numbers[k]), "name": p.d.Store.String(part.Name), "input": input})
		case calls && part.Kind == text.Result && numbers[k] > 0:
			o := object{"type": "tool_result", "tool_use_id": fmt.Sprint("call_", numbers[k]), "content": p.result(part)}
			if part.Failed {
				o["is_error"] = true
			}
			list = append(list, o)
		default:
			list = append(list, object{"type": "text", "text": p.says(part)})
		}
	}
	if len(list) == 0 {
		list = append(list, object{"type": "text", "text": ""})
	}
	return list
}

// requirePairs requires of a body that right behind each message with calls there are results of these calls, and of no other.
func requirePairs(t require.TestingT, body string) {
	var b struct {
		Messages []struct {
			Role    string
			Content any
			Tool    string                `json:"tool_call_id"`
			Calls   []struct{ ID string } `json:"tool_calls"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &b))
	var open []string
	answer := func(id string) {
		require.Contains(t, open, id, body)
		at := slices.Index(open, id)
		open = slices.Delete(open, at, at+1)
	}
	for _, m := range b.Messages {
		if m.Role == "tool" {
			answer(m.Tool)
			continue
		}
		blocks, _ := m.Content.([]any)
		var calls []string
		for _, block := range blocks {
			switch o := block.(object); o["type"] {
			case "tool_result":
				answer(o["tool_use_id"].(string))
			case "tool_use":
				calls = append(calls, o["id"].(string))
			}
		}
		for _, call := range m.Calls {
			calls = append(calls, call.ID)
		}
		require.Empty(t, open, body)
		open = calls
	}
	require.Empty(t, open, body)
}
