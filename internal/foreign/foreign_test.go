package foreign

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A row is recognized by its members at the top, in a list and cut off too; traces and Mooncake rows are none of these.
func TestOfText(t *testing.T) {
	for text, want := range map[string]string{
		`[{"id":"a","conversations":[{"from":"human","value":"hi"}]}]`:                             "ShareGPT",
		`[{"id":"a","conversations":[{"from":"human","value":"` + strings.Repeat("x", 2*textBytes): "ShareGPT",
		`{"x":{"messages":[]},"y":[[{"conversations":1}]],"resourceSpans":[`:                       "OTLP",
		`{"type":"response_item","payload":{}}`:                                                    "a log of Codex",
		`{"type":"response","payload":{}}`:                                                         "",
		`{"type":7,"payload":{}}`:                                                                  "",
		`{"messages":[],"requests":[]}`:                                                            "",
		`{"messages":[],"hash_ids":[1]}`:                                                           "",
		`{"x":{"messages":[]}}`:                                                                    "",
		`[["messages"]]`:                                                                           "", `[]`: "", ``: "", `7`: "", `{`: "", `{"messages"`: "", `{"a":1}}`: "", `{"a" "messages":1}`: "",
	} {
		f := OfText([]byte(text))
		if want == "" {
			assert.Nil(t, f, "%.40s", text)
			continue
		}
		require.NotNil(t, f, "%.40s", text)
		assert.True(t, strings.HasPrefix(f.Name(), want), f.Name())
	}
}

// JSON of any kind, and bytes that are none of the table's, are not recognized by the first bytes.
func TestOfBytesLeavesJSON(t *testing.T) {
	for _, text := range []string{"", "{}", "[1,2]\n", `"a"`, "7,8", "true", "null\n", `{"a":"b,c"}`, "nonsense", "id\": \"a\", \"b\": 1\n", "IQ== 0\nIg== 1\n", "\x28\xb5\x2f\xfd", "\x1f\x8b", "PAR1\x15\x04,\x15\n", "a line of text"} {
		assert.Nil(t, OfBytes([]byte(text), "p"), text)
	}
	f := OfBytes([]byte("PK\x03\x04"), "a.zip")
	require.NotNil(t, f)
	assert.Contains(t, f.Hint(), "unzip a.zip")
	assert.Contains(t, table[0].Hint(), "unzip the file", "the table keeps no path")
}

// Every row of the table says what to do, and can be recognized.
func TestTable(t *testing.T) {
	for _, f := range table {
		assert.NotEmpty(t, f.try, f.name)
		assert.True(t, f.tar || f.text != nil || len(f.magic)+len(f.rows)+len(f.among) > 0, f.name)
		for _, name := range f.among {
			assert.NotNil(t, OfMember(name), name)
		}
	}
}

// No text makes it fail.
func FuzzText(f *testing.F) {
	for _, text := range []string{`[{"conversations":[{}]}]`, `{"a":{"b":[1,{"c":"d"}]},"messages":`, `{"a":]}`, "PK\x03\x04", "a,b\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, found := range []*Format{OfText(text), OfBytes(text, "p")} {
			if found != nil {
				assert.NotEmpty(t, found.Hint())
			}
		}
	})
}
