package chain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// bodyOf returns a body whose head stands before or behind its messages.
func bodyOf(f canon.Format, headLast bool, head string, messages []string, space string) string {
	list := map[canon.Format]string{canon.Chat: `"messages"`, canon.Messages: `"messages"`, canon.Responses: `"input"`}[f] + ":[" + strings.Join(messages, ","+space) + space + "]"
	if headLast {
		return "{" + list + "," + head + "}"
	}
	return "{" + head + "," + list + "}"
}

// genItem draws an item of Responses.
var genItem = rapid.OneOf(
	rapid.SampledFrom([]string{asked, called, thought, returned, `{"type":"message","role":"assistant","content":[]}`, `{"type":"message","role":"developer","content":"Mind."}`,
		`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`}),
	rapid.Map(genMessage, func(m string) string { return m }),
)

const withTools = `"tools":[{"name":"read"}],"system":"a","instructions":"b"`

// Bodies that begin like earlier ones, byte for byte or not, behind the same head or another, have the requests of a tree that
// parses each as a whole.
//
// Covers C-17.
func TestReadIsParseAndPrepare(t *testing.T) {
	recognized, tools := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		format := rapid.SampledFrom([]canon.Format{canon.Chat, canon.Messages, canon.Responses}).Draw(rt, "format")
		gen := genMessage
		if format == canon.Responses {
			gen = genItem
		}
		tree, plain := newTree(t, counting(), 4), newTree(t, counting(), 4)
		lists := [][]string{{`{"role":"system","content":"Mind."}`}}
		for q := range 10 {
			messages := slices.Clone(rapid.SampledFrom(lists).Draw(rt, "earlier"))
			if rapid.IntRange(0, 3).Draw(rt, "rewind") == 0 {
				messages = messages[:rapid.IntRange(0, len(messages)).Draw(rt, "cut")]
			}
			messages = append(messages, rapid.SliceOfN(gen, 1, 3).Draw(rt, "new")...)
			lists = append(lists, messages)
			head := rapid.SampledFrom([]string{
				withTools, withTools, withTools, `"system":"c"`, `"tools":[{"name":"read"}]`, `"tools":[{"name":"write"}],"system":"a"`, withTools + `,"functions":[{"name":"old"}]`, `"tools":[],` + withTools, withTools + `,"tools":[]`, `"tools":[],"system":"a"`,
			}).Draw(rt, "head")
			space := rapid.SampledFrom([]string{"", "", " "}).Draw(rt, "space")
			body := bodyOf(format, rapid.Bool().Draw(rt, "head last"), head, messages, space)
			if rapid.IntRange(0, 5).Draw(rt, "twice") == 0 { // the last list counts
				body = strings.Replace(body, "{", `{"messages":[],"input":[],`, 1)
			}

			format := format
			if format != canon.Responses && rapid.IntRange(0, 3).Draw(rt, "other format") == 0 {
				format = canon.Chat + canon.Messages - format
			}
			options, err := tree.Begin(format, []byte(body)).Options()
			require.NoError(rt, err, body)
			require.Equal(rt, optionsOf(rt, format, body), options, body)
			prompt, prepared, err := tree.Read(format, []byte(body))
			require.NoError(rt, err, body)
			if prompt.Prefix.Bytes > 0 {
				recognized++
			}
			if prompt.KnownTools {
				tools++
			}
			got, err := tree.Apply(q, prepared)
			require.NoError(rt, err)
			require.Equal(rt, apply(t, plain, q, parse(t, format, body)), got, body)
			require.Equal(rt, plain.AppendIDs(nil, q), tree.AppendIDs(nil, q))
			require.Equal(rt, kindsOf(plain, q, q-1), kindsOf(tree, q, q-1))
			require.Equal(rt, parse(t, format, body).MediaTokens, prompt.MediaTokens)
		}
		require.Equal(rt, plain.Nodes(), tree.Nodes())
	})
	require.NotZero(t, recognized)
	require.NotZero(t, tools)
}

// optionsOf returns the options of a body that is read as a whole.
func optionsOf(t require.TestingT, format canon.Format, body string) *canon.Prompt {
	p, err := canon.ParseOptions(format, []byte(body), nil)
	require.NoError(t, err)
	return p
}

// reasonOf returns why a body is not read; "" where it is.
func reasonOf(t require.TestingT, err error) journal.Reason {
	var own *canon.Error
	if err != nil {
		require.ErrorAs(t, err, &own)
		return own.Reason
	}
	return ""
}

// A body that differs in any byte from one that the session has had, or ends early, is observed as if the session had had none.
//
// Covers C-17.
func TestReadOfChangedBodies(t *testing.T) {
	head := withTools + `,"stream":true,"metadata":{"user_id":"u_session_1"},"prompt_cache_key":"k"`
	messages := []string{`{"role":"user","content":"ä a"}`, `{"role":"assistant","content":[{"type":"text","text":"b\\n"}]}`}
	found, broken := 0, 0
	for _, headLast := range []bool{true, false} {
		body := bodyOf(canon.Messages, headLast, head, messages, "")
		for at := range len(body) {
			for _, with := range []string{"", `"`, `x`, `,`, `{`, `}`, `[`, `]`, `:`, `\\`, ` `, "\xff"} {
				changed := body[:at]
				if with != "" {
					changed += with + body[at+1:]
				}
				was, failed := checkChanged(t, body, []byte(changed))
				found += was
				broken += failed
			}
		}
	}
	require.NotZero(t, found)
	require.NotZero(t, broken)
}

// checkChanged compares what a session that has had a body observes of another one with what one that has had none does.
func checkChanged(t *testing.T, body string, changed []byte) (found, broken int) {
	tree, plain := newTree(t, counting(), 4), newTree(t, counting(), 4)
	_, prepared, err := tree.Read(canon.Messages, []byte(body))
	require.NoError(t, err)
	_, err = tree.Apply(0, prepared)
	require.NoError(t, err)
	apply(t, plain, 0, parse(t, canon.Messages, body))

	r := tree.Begin(canon.Messages, changed)
	if r.Found() {
		found++
	}
	options, err := r.Options()
	want, wantErr := canon.ParseOptions(canon.Messages, changed, nil)
	require.Equal(t, reasonOf(t, wantErr), reasonOf(t, err), "%q", changed)
	require.Equal(t, want, options, "%q", changed)
	prompt, wantErr := canon.Parse(canon.Messages, changed)
	_, prepared, err = r.Read()
	require.Equal(t, reasonOf(t, wantErr), reasonOf(t, err), "%q", changed)
	if err != nil {
		return found, 1
	}
	got, err := tree.Apply(1, prepared)
	require.NoError(t, err)
	require.Equal(t, apply(t, plain, 1, prompt), got, "%q", changed)
	require.Equal(t, plain.AppendIDs(nil, 1), tree.AppendIDs(nil, 1))
	return found, 0
}

// Messages are recognized only behind their own head, if they were applied, and up to the first that changed.
func TestWhatIsRecognized(t *testing.T) {
	const first, second = `{"role":"user","content":"a"}`, `{"role":"assistant","content":"b"}`
	messages := func(list ...string) []byte {
		return []byte(`{"system":"s","messages":[` + strings.Join(list, ",") + `]}`)
	}
	tree := newTree(t, counting(), 4)
	read := func(q int, body []byte) *canon.Prompt {
		t.Helper()
		prompt, prepared, err := tree.Read(canon.Messages, body)
		require.NoError(t, err)
		if q >= 0 {
			_, err = tree.Apply(q, prepared)
			require.NoError(t, err)
		}
		return prompt
	}
	require.Zero(t, read(0, messages(first)).Prefix.Bytes)
	p := read(1, messages(first, second))
	require.Equal(t, len(first), p.Prefix.Bytes)
	require.Len(t, p.Segments, 2) // the system prompt and the new message
	require.Equal(t, len(first+second)+1, read(2, messages(first, second, first)).Prefix.Bytes)
	require.Equal(t, len(first), read(3, messages(first, first)).Prefix.Bytes)
	require.Zero(t, read(4, []byte(strings.Replace(string(messages(first, second)), `"s"`, `"t"`, 1))).Prefix.Bytes)
	require.Zero(t, read(5, messages(first, second)).Prefix.Bytes) // the latest list like it has another head
	require.Equal(t, len(first+second)+1, read(6, messages(first, second)).Prefix.Bytes)

	other := `{"role":"user","content":"c"}`
	read(-1, messages(other)) // dropped, as by a full queue
	require.Zero(t, read(7, messages(other, second)).Prefix.Bytes)

	third := `{"role":"user","content":"d"}`
	read(-1, messages(first, second, third))
	require.Equal(t, len(first+second)+1, read(8, messages(first, second, third, second)).Prefix.Bytes)

	for _, bad := range []string{`{"system":"s","messages":[` + first + `x]}`, `{"system":"s","messages":[` + first + ` `, `{"system":"s","messages":[` + first + `,]}`, `{"system":"s","messages":[` + first + `}`} {
		_, _, err := tree.Read(canon.Messages, []byte(bad))
		var own *canon.Error
		require.ErrorAs(t, err, &own, bad)
		require.Equal(t, journal.HoleParse, own.Reason)
	}
	deep := strings.Repeat("[", 996) + strings.Repeat("]", 996) // with the body, the list, the message and the content: 1,000
	block := func(inside string) string { return `{"role":"user","content":[` + inside + `]}` }
	read(9, messages(first, block(deep)))
	_, _, err := tree.Read(canon.Messages, messages(first, block(`[`+deep+`]`)))
	require.ErrorContains(t, err, string(journal.HoleParse))

	tree.Erase()
	_, _, err = tree.Read(canon.Messages, messages(first))
	require.ErrorIs(t, err, ErrErased)
}

// The bytes of known messages and tools mean something else where they stand in another place, or under another name.
func TestKnownBytesInOtherPlaces(t *testing.T) {
	const first, second = `{"role":"user","content":"a"}`, `{"role":"user","content":"b"}`
	const other, tools = "other", `"tools":[{"name":"read"}]`
	tree, plain, q := newTree(t, counting(), 4), newTree(t, counting(), 4), 0
	read := func(body string) *canon.Prompt {
		t.Helper()
		prompt, prepared, err := tree.Read(canon.Messages, []byte(body))
		require.NoError(t, err)
		got, err := tree.Apply(q, prepared)
		require.NoError(t, err)
		require.Equal(t, apply(t, plain, q, parse(t, canon.Messages, body)), got, body)
		q++
		return prompt
	}
	read(`{"messages":[` + first + `],` + tools + `}`)
	require.NotZero(t, read(`{"messages":[`+first+`,`+second+`],`+tools+`}`).Prefix.Bytes)
	for k, body := range []string{
		`{"unknown1":[` + first + `],"messages":[` + other + `],` + tools + `}`,
		`{"unknown1":[` + first + `,` + second + `],` + tools + `,"messages":[` + other + `]}`,
		`{"unknown1":[` + first + `],"messages":[],` + tools + `}`,
		`{"messages":[` + first + `],"messages":[` + other + `],` + tools + `}`,
		`{"metadata":[` + first + `],"messages":[` + other + `],` + tools + `}`,
	} {
		require.Zero(t, read(strings.ReplaceAll(body, other, fmt.Sprintf(`{"role":"user","content":"%d"}`, k))).Prefix.Bytes, body)
	}
	require.True(t, read(`{`+tools+`,"messages":[]}`).KnownTools)
	require.False(t, read(`{`+tools+`,"messages":[],"tools":[]`+`,"system":"s"}`).KnownTools)

	dropped := `{"messages":[` + first + `],"tools":[{"name":"write"}]}` // as by a full queue
	_, _, err := tree.Read(canon.Messages, []byte(dropped))
	require.NoError(t, err)
	require.False(t, read(dropped).KnownTools)
	require.True(t, read(dropped).KnownTools)
	for _, text := range []string{"\"\xff\"," + tools, "1," + tools + ",\"y\":\"\xff\""} {
		_, _, err = tree.Read(canon.Messages, []byte(`{"x":`+text+`,"messages":[`+first+`]}`))
		require.ErrorContains(t, err, "UTF-8", text)
	}
}

// A prompt that names a response is parsed as a whole, whatever the session has had.
//
// Covers C-16.
func TestReadBehindAResponse(t *testing.T) {
	const tools, asking = `"tools":[{"name":"read"}]`, `{"role":"user","content":"a"}`
	tree := newTree(t, counting(), 4)
	_, prepared, err := tree.Read(canon.Responses, []byte(`{`+tools+`,"input":[`+asking+`]}`))
	require.NoError(t, err)
	_, err = tree.Apply(0, prepared)
	require.NoError(t, err)
	for _, behind := range []string{`,"previous_response_id":"r"}`, `,"instructions":"i","previous_response_id":"r"}`} {
		body := `{` + tools + `,"input":[` + asking + `,` + asking + `]` + behind
		prompt, prepared, err := tree.Read(canon.Responses, []byte(body))
		require.NoError(t, err)
		require.Nil(t, prepared)
		require.Nil(t, prompt.List)
		prompt.ListStart = 0 // of no list
		want := parse(t, canon.Responses, body)
		want.ListStart = 0
		require.Equal(t, want, prompt)
	}
}

// textLengths notes the texts that it tokenizes.
type textLengths struct {
	Tokenizer
	lengths []int
}

func (l *textLengths) AppendIDs(ids []uint32, text string) []uint32 {
	l.lengths = append(l.lengths, len(text))
	return l.Tokenizer.AppendIDs(ids, text)
}

// A turn tokenizes what it adds, whether its first messages have the same bytes or the same meaning.
func TestTurnsTokenizeWhatTheyAdd(t *testing.T) {
	texts := &textLengths{Tokenizer: o200k()}
	tree, err := New(counting(), Options{Tokenizer: texts, Name: "o200k_base", BlockSize: 4})
	require.NoError(t, err)
	messages := `{"role":"user","content":"` + long + `"}`
	for q, body := range []string{messages, strings.ReplaceAll(messages, "fox", `f\u006fx`) + `,{"role":"user","content":"four"}`, messages + `,{"role":"user","content":"four"},{"role":"user","content":"eleven"}`, messages + `,{"role":"user","content":"one"}`} {
		_, prepared, err := tree.Read(canon.Chat, []byte(`{"messages":[`+body+`]}`))
		require.NoError(t, err)
		_, err = tree.Apply(q, prepared)
		require.NoError(t, err)
	}
	require.Equal(t, []int{len(long), 4, 6, 3}, texts.lengths)
}

// A tree keeps few lists: those of agents that take turns, each with its latest.
func TestListsOfAgentsThatTakeTurns(t *testing.T) {
	tree := newTree(t, counting(), 4)
	lists := make([]string, maxSeen)
	q := 0
	for turn := range 5 {
		for agent := range lists {
			if turn > 0 {
				lists[agent] += ","
			}
			lists[agent] += `{"role":"user","content":"` + strings.Repeat("a", agent) + strings.Repeat("b", turn) + `"}`
			prompt, prepared, err := tree.Read(canon.Chat, []byte(`{"messages":[`+lists[agent]+`]}`))
			require.NoError(t, err)
			require.Equal(t, turn > 0, prompt.Prefix.Bytes > 0)
			_, err = tree.Apply(q, prepared)
			require.NoError(t, err)
			q++
		}
		require.Len(t, tree.seen, maxSeen)
	}
}
