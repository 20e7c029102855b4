package payload

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// said is one text of a body, and who says it: system, user, assistant or tool.
type said struct{ role, text string }

// textsOf returns the texts of a body of messages in their order, whatever its form.
func textsOf(t *testing.T, body []byte) (list []said) {
	t.Helper()
	type part struct {
		Type, Text string
		Content    json.RawMessage
	}
	var b struct {
		System   json.RawMessage
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(body, &b))
	var add func(role string, content json.RawMessage)
	add = func(role string, content json.RawMessage) {
		var text string
		if json.Unmarshal(content, &text) == nil {
			list = append(list, said{role, text})
			return
		}
		var parts []part
		require.NoError(t, json.Unmarshal(content, &parts))
		for _, p := range parts {
			switch p.Type {
			case "text":
				list = append(list, said{role, p.Text})
			case "tool_result":
				add("tool", p.Content)
			}
		}
	}
	if b.System != nil {
		add("system", b.System)
	}
	for _, m := range b.Messages {
		add(m.Role, m.Content)
	}
	return list
}

// Bodies of public traces hold the same texts in every form; a text prompt holds them joined. AGENTX_LONG=1 makes those of every turn.
//
// Covers T-40.
func TestFormsOfPublicTraces(t *testing.T) {
	dir, err := filepath.Abs("../../../shared/corpus/traces")
	require.NoError(t, err)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("%s: the public traces are not here", dir)
	}
	own := rules.Default()
	own.ToolShaped = true
	r, err := convert.Convert(t.Context(), convert.Options{
		Root: cachetest.Root(), Inputs: []string{dir}, Rules: own, Placement: rules.Placement{Backend: rules.XXH3, Seed: 42}, Tokenizer: "o200k_base", Corpus: "code",
	})
	require.NoError(t, err)
	c := cachetest.Open(t, cachetest.Root(), r.Key)
	every := 4
	if os.Getenv("AGENTX_LONG") != "" {
		every = 1
	}
	bodies, n := 0, 0
	encoders := map[string]*Encoder{}
	for name, f := range forms {
		encoders[name] = formEncoder(t, c, f, FirstTurnPrefix)
	}
	text := encoderOf(t, c, TextCompletions, "m", FirstTurnPrefix)
	require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{}, mmapcache.Text, func(tree *mmapcache.RenderedTrace, _, turn int) error {
		if n++; n%every != 0 {
			return nil
		}
		var b Body
		b.fill(encoders["chat"], tree, turn, someMarker, 7)
		want := textsOf(t, written(t, &b))
		for _, name := range []string{"chat in parts", "messages", "messages in parts"} {
			b.fill(encoders[name], tree, turn, someMarker, 7)
			got := textsOf(t, written(t, &b))
			if strings.HasSuffix(name, "parts") { // where the marker is a part
				k := slices.IndexFunc(got, func(s said) bool { return s.text == "[rid:"+string(someMarker)+"]" })
				if k >= 0 {
					got[k+1].text = got[k].text + "\n\n" + got[k+1].text
					got = slices.Delete(got, k, k+1)
				}
			}
			if !slices.Equal(want, got) { // the texts are long
				t.Fatalf("%s: trace %s, turn %d: texts differ", name, tree.Trace.ID, turn)
			}
			bodies++
		}
		b.fill(text, tree, turn, someMarker, 7)
		var got struct{ Prompt string }
		require.NoError(t, json.Unmarshal(written(t, &b), &got))
		var joined []string
		for _, s := range want {
			joined = append(joined, s.text)
		}
		require.True(t, strings.Join(joined, "\n") == got.Prompt, "trace %s, turn %d", tree.Trace.ID, turn)
		return nil
	}))
	require.Greater(t, bodies, 100)
}
