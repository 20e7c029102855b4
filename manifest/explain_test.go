package manifest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// realistic is the pre-image of a structure as convert makes it: every kind of value that a key is made of.
const realistic = `{"format":1,"inputs":[{"lines":true,"sha256":"aa"},{"lines":false,"sha256":"bb"}],"probe":"cc","recipe":1,` +
	`"rules":{"aux_isl_ratio":0.5,"block_size":64,"length_rule":"repaired","max_isl":null,"split_agents":true}}`

// flip returns text with one piece of it, which it has once, replaced.
func flip(t require.TestingT, text, was, now string) json.RawMessage {
	require.Equal(t, 1, strings.Count(text, was), was)
	return json.RawMessage(strings.Replace(text, was, now, 1))
}

func TestEveryFieldIsNamed(t *testing.T) {
	for _, c := range []struct {
		was, now string
		want     Difference
	}{
		{`"format":1`, `"format":2`, Difference{"format", "1", "2"}},
		{`"recipe":1`, `"recipe":12`, Difference{"recipe", "1", "12"}},
		{`"cc"`, `"dd"`, Difference{"probe", `"cc"`, `"dd"`}},
		{`"aa"`, `"ab"`, Difference{"inputs[0].sha256", `"aa"`, `"ab"`}},
		{`"bb"`, `"ba"`, Difference{"inputs[1].sha256", `"bb"`, `"ba"`}},
		{`"lines":false`, `"lines":true`, Difference{"inputs[1].lines", "false", "true"}},
		{`0.5`, `0.25`, Difference{"rules.aux_isl_ratio", "0.5", "0.25"}},
		{`64`, `16`, Difference{"rules.block_size", "64", "16"}},
		{`"repaired"`, `"upstream <1>"`, Difference{"rules.length_rule", `"repaired"`, `"upstream <1>"`}},
		{`null`, `0`, Difference{"rules.max_isl", "null", "0"}},
		{`"split_agents":true`, `"split_agents":false`, Difference{"rules.split_agents", "true", "false"}},
		{`,"split_agents":true`, ``, Difference{"rules.split_agents", "true", "absent"}},
		{`"block_size"`, `"a new rule":[ 1 ],"block_size"`, Difference{`rules."a new rule"`, "absent", "[1]"}},
		{`"recipe":1,`, ``, Difference{"recipe", "1", "absent"}},
		{`"cc"`, `{"a":1}`, Difference{"probe", `"cc"`, `{"a":1}`}},
		{`,{"lines":false,"sha256":"bb"}`, ``, Difference{"inputs", "2 elements", "1 element"}},
		{`[{"lines":true,"sha256":"aa"},{"lines":false,"sha256":"bb"}]`, `{}`, Difference{"inputs", `[{"lines":true,"sha256":"aa"},{"lines":false,"sha256":"bb"}]`, "{}"}},
		{`{"lines":true,"sha256":"aa"}`, `7`, Difference{"inputs[0]", `{"lines":true,"sha256":"aa"}`, "7"}},
	} {
		got, err := Differences(json.RawMessage(realistic), flip(t, realistic, c.was, c.now))
		require.NoError(t, err)
		assert.Equal(t, []Difference{c.want}, got, c.now)
	}
}

func TestEqualImagesDoNotDiffer(t *testing.T) {
	got, err := Differences(json.RawMessage(realistic), json.RawMessage(" "+realistic))
	require.NoError(t, err)
	assert.Equal(t, []Difference{}, got, "none, which is no null in JSON")
}

func TestDifferencesAreInOrder(t *testing.T) {
	got, err := Differences(json.RawMessage(`{"b":{"y":1,"x":1},"c":3,"a":[0,1,2,3,4,5,6,7,8,9,0]}`), json.RawMessage(`{"d":4,"b":{"y":2,"x":2},"a":[0,1,0,3,4,5,6,7,8,9,1]}`))
	require.NoError(t, err)
	assert.Equal(t, []Difference{{"a[2]", "2", "0"}, {"a[10]", "0", "1"}, {"b.x", "1", "2"}, {"b.y", "1", "2"}, {"c", "3", "absent"}, {"d", "absent", "4"}}, got)
}

// Of many elements that differ the first few are listed and the rest counted.
func TestLongListsAreCutShort(t *testing.T) {
	list := func(n, first int) json.RawMessage {
		var items []string
		for k := range n {
			items = append(items, fmt.Sprintf(`{"sha256":%d,"tags":[%d]}`, first+k, first+k))
		}
		return json.RawMessage(`{"inputs":[` + strings.Join(items, ",") + `]}`)
	}
	got, err := Differences(list(600, 0), list(10, 0))
	require.NoError(t, err)
	assert.Equal(t, []Difference{{"inputs", "600 elements", "10 elements"}}, got)

	got, err = Differences(list(600, 0), list(10, 1))
	require.NoError(t, err)
	assert.Equal(t, []Difference{
		{"inputs", "600 elements", "10 elements"},
		{"inputs[0].sha256", "0", "1"}, {"inputs[0].tags[0]", "0", "1"},
		{"inputs[1].sha256", "1", "2"}, {"inputs[1].tags[0]", "1", "2"},
		{"inputs[2].sha256", "2", "3"}, {"inputs[2].tags[0]", "2", "3"},
		{"inputs[...]", "7 more differ", "7 more differ"},
	}, got)
}

func TestImagesThatAreNoObjects(t *testing.T) {
	got, err := Differences(json.RawMessage(`"k"`), json.RawMessage(`[1]`))
	require.NoError(t, err)
	assert.Equal(t, []Difference{{".", `"k"`, "[1]"}}, got)
	got, err = Differences(json.RawMessage(`[1]`), json.RawMessage(`[2,3]`))
	require.NoError(t, err)
	assert.Equal(t, []Difference{{".", "1 element", "2 elements"}, {"[0]", "1", "2"}}, got)
	for _, bad := range []string{``, `{`, `{} {}`, `{} x`} {
		_, err = Differences(json.RawMessage(bad), json.RawMessage(`{}`))
		assert.Error(t, err, bad)
		_, err = Differences(json.RawMessage(`{}`), json.RawMessage(bad))
		assert.Error(t, err, bad)
	}
}

// drawValue draws a JSON value of few words, so that two of them have much in common.
func drawValue(t *rapid.T, depth int) any {
	switch rapid.IntRange(0, 5-min(depth, 1)).Draw(t, "kind") { // an object or list above all
	case 0:
		return rapid.IntRange(0, 2).Draw(t, "number")
	case 1:
		return rapid.SampledFrom([]string{"", "a", "absent"}).Draw(t, "text")
	case 2:
		return rapid.SampledFrom([]any{nil, true, 0.5}).Draw(t, "other")
	case 3:
		if depth > 3 {
			return nil
		}
		list := []any{}
		for range rapid.IntRange(0, 6).Draw(t, "length") {
			list = append(list, drawValue(t, depth+1))
		}
		return list
	}
	object := map[string]any{}
	if depth > 3 {
		return object
	}
	for _, name := range []string{"a", "b", "a.b", "", "b[0]"} {
		if rapid.Bool().Draw(t, "has") {
			object[name] = drawValue(t, depth+1)
		}
	}
	return object
}

func TestDifferencesOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, err := Canonical(drawValue(t, 0))
		require.NoError(t, err)
		b, err := Canonical(drawValue(t, 0))
		require.NoError(t, err)
		there, err := Differences(a, b)
		require.NoError(t, err)
		require.NotNil(t, there)
		require.Equal(t, string(a) == string(b), len(there) == 0, "equal images, and only those, do not differ")
		back, err := Differences(b, a)
		require.NoError(t, err)
		require.Len(t, back, len(there))
		fields := map[string]bool{}
		for k, d := range there {
			require.Equal(t, Difference{d.Field, d.Have, d.Want}, back[k])
			require.False(t, fields[d.Field], "%s twice", d.Field)
			fields[d.Field] = true
		}
	})
}

func TestNearest(t *testing.T) {
	image := func(kind, image string) *Manifest {
		m, err := New(kind, json.RawMessage(image))
		require.NoError(t, err)
		return m
	}
	want := image("structure", `{"inputs":[1,2,3,4,5,6,7,8],"recipe":1,"rules":{"a":1,"b":1}}`)
	same := image("structure", string(want.PreImage))
	rule := image("structure", `{"inputs":[1,2,3,4,5,6,7,8],"recipe":1,"rules":{"a":2,"b":1}}`)
	rule2 := image("structure", `{"inputs":[1,2,3,4,5,6,7,8],"recipe":1,"rules":{"a":1,"b":3}}`)
	fewer := image("structure", `{"inputs":[1,2,3],"recipe":1,"rules":{"a":1,"b":1}}`)
	other := image("structure", `{"inputs":[9,9,9,9,9,9,9,9],"recipe":1,"rules":{"a":1,"b":1}}`)
	if rule.Key > rule2.Key {
		rule, rule2 = rule2, rule
	}
	list := []*Manifest{other, image("starts", string(want.PreImage)), rule2, fewer, rule, same}
	got, err := Nearest(want, list)
	require.NoError(t, err)
	var order []*Manifest
	var counts []int
	for _, n := range got {
		order = append(order, n.Manifest)
		counts = append(counts, n.Count)
		differences, err := Differences(want.PreImage, n.Manifest.PreImage)
		require.NoError(t, err)
		assert.Equal(t, differences, n.Differences)
	}
	assert.Equal(t, []*Manifest{same, rule, rule2, fewer, other}, order, "what is not told counts as well")
	assert.Equal(t, []int{0, 1, 1, 5, 8}, counts)

	none, err := Nearest(want, nil)
	require.NoError(t, err)
	assert.NotNil(t, none)
	broken := image("structure", `1`)
	broken.PreImage = json.RawMessage(`{`)
	_, err = Nearest(want, []*Manifest{broken})
	assert.ErrorContains(t, err, broken.Key)
}
