package compare

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// A setting is shown as a user wrote it: run.json has signs such as < escaped.
func TestPlainText(t *testing.T) {
	for value, want := range map[string]string{
		`"chat"`: "chat", `null`: "off", `[]`: "off", `42`: "42", `["ttft\u003c100ms","itl\u003c3ms"]`: "ttft<100ms, itl<3ms", `{"a": [1, 2]}`: `{"a":[1,2]}`, `{`: "",
	} {
		require.Equal(t, want, plainText(json.RawMessage(value)), value)
	}
}

// A list of compare.json that has nothing in it is empty, not null: a script may walk over each.
func TestListsAreNeverNull(t *testing.T) {
	m := newModelled(24)
	m.info.Options, m.info.Lanes = nil, 4
	text, err := compareDirs(t, m.write(t, "a"), m.write(t, "b")).json()
	require.NoError(t, err)
	var c map[string]any
	require.NoError(t, json.Unmarshal(text, &c))
	for _, name := range []string{"lead", "mismatches", "settings", "verdicts", "repeats", "runs"} {
		require.IsType(t, []any{}, c[name], name)
	}
	for _, r := range c["runs"].([]any) {
		for _, name := range []string{"marks", "lacks"} {
			require.IsType(t, []any{}, r.(map[string]any)[name], name)
		}
	}
	for _, name := range []string{"points", "lines"} {
		require.IsType(t, []any{}, c["frontier"].(map[string]any)[name], name)
	}
	for _, v := range c["verdicts"].([]any) {
		require.IsType(t, []any{}, v.(map[string]any)["figures"])
	}
}

// What all runs share names the dataset as the user did, and its key; without the names of its inputs by the key alone.
func TestSharedNamesTheDataset(t *testing.T) {
	m := newModelled(2)
	m.info.Dataset.Inputs = []measure.Input{{Name: "demo"}}
	require.Contains(t, compareDirs(t, m.write(t, "a"), m.write(t, "b")).shared(), " · dataset demo ("+shown(m.info.Dataset.Key)+") · ")
	m.info.Dataset.Inputs[0].Name = ""
	require.Contains(t, compareDirs(t, m.write(t, "c"), m.write(t, "d")).shared(), " · dataset "+shown(m.info.Dataset.Key)+" · ")
}
