package content

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Members are found by their paths, in any order; of a key given twice the last counts, with what is below it.
func TestSchema(t *testing.T) {
	s := NewSchema([]string{"type", "message", "message.id", "message.usage.in", "message.usage.out", "data.x"})
	read := func(text string) string {
		values := make([]Raw, 6)
		require.NoError(t, s.Read([]byte(text), values), text)
		var list []string
		for _, v := range values {
			list = append(list, string(v))
		}
		return strings.Join(list, "|")
	}
	assert.Equal(t, `"a"|{"usage":{"out":2,"in": 1},"id":"b"}|"b"|1|2|true`, read(` {"data":{"y":[{}],"x":true},"message":{"usage":{"out":2,"in": 1},"id":"b"},"type":"a","other":{"type":1}} `))
	assert.Equal(t, `"\u0061"|{"usage":7}||||`, read(`{"\u0074ype":"\u0061","message":{"id":1,"usage":{"in":1}},"message":{"usage":7},"data":{"x":1},"data":[]}`))
	assert.Equal(t, `|||||`, read(`{"type":null,"message":null}`))
	assert.Equal(t, `|||||`, read(`[{"type":1}]`))
	for _, text := range []string{``, `{`, `{"type":"a"`, `{"type":"canary}`, `{} {}`, `{"message":{"id":canary}}`, strings.Repeat("[", 1001) + strings.Repeat("]", 1001)} {
		err := s.Read([]byte(text), make([]Raw, 6))
		require.ErrorIs(t, err, ErrMalformed)
		assert.NotContains(t, err.Error(), "canary")
	}
	assert.Equal(t, `{"a":[1,"b  \" c",{}]}`, string(appendCompact(nil, Raw("{ \"a\" :\n[ 1 ,\t\"b  \\\" c\", { } ]}"))[:len(`{"a":[1,"b  \" c",{}]}`)]))
}

func TestName(t *testing.T) {
	for name, want := range map[string]string{"tool_use": "tool_use", "system/x-1.b": "system/x-1.b", "": "other", "a b": "other", "é": "other", "[": "other", "`": "other", "@": "other", strings.Repeat("a", 65): "other", "Zz09": "Zz09"} {
		assert.Equal(t, want, Name([]byte(name)), name)
	}
}
