package hfsource

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whether a text is lines does not depend on how it is cut, and one value never is. Two objects, each on a line, always are.
func FuzzLines(f *testing.F) {
	for _, text := range []string{"{}\n{}", "{\n}\n{\n}", "[{}]\n\n[]", "\n{\"a\":\"}\\n{\"}\n", "[[1\n],\n[2]]", "{}{}\n{}", "{} \t\r\n \n{", "}\n{"} {
		f.Add([]byte(text), uint8(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		whole := &lineFinder{}
		n, err := whole.Write(text)
		require.Equal(t, len(text), n)
		require.True(t, err == nil || err == errEnough)
		cut := &lineFinder{}
		for rest := text; len(rest) > 0; {
			part := rest[:min(len(rest), int(size)+1)]
			rest = rest[len(part):]
			if _, err := cut.Write(part); err != nil {
				break
			}
		}
		require.Equal(t, whole.found, cut.found)
		if json.Valid(text) {
			assert.False(t, whole.found)
		}
		var compact bytes.Buffer
		if json.Compact(&compact, text) == nil && compact.Bytes()[0] == '{' {
			two := &lineFinder{}
			_, _ = two.Write(append(append(compact.Bytes(), '\n'), text...))
			assert.True(t, two.found)
			assert.False(t, isOneValue(bufio.NewReaderSize(bytes.NewReader(append(append(compact.Bytes(), '\n'), text...)), 4*maxFirst)))
		}
	})
}
