package text

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Texts are read back in any order, wherever they are kept: one that does not fit into memory, and a short one behind it that would.
func TestStoreKeepsTexts(t *testing.T) {
	s := NewStore(t.TempDir())
	defer s.Close()
	s.size, s.keep = 33, 3
	var texts []string
	var numbers []Text
	for k := range 40 {
		texts = append(texts, fmt.Sprint(k, strings.Repeat("x", k*37%90)))
		n, err := s.Add([]byte(texts[k]))
		require.NoError(t, err)
		numbers = append(numbers, n)
	}
	read := func() {
		for k := len(texts) - 1; k >= 0; k-- {
			require.Equal(t, texts[k], s.String(numbers[k]))
			require.Equal(t, len(texts[k]), s.Len(numbers[k]))
		}
	}
	read()
	require.NotNil(t, s.file, "the test is of the file, too")
	again, err := s.Add([]byte(texts[7]))
	require.NoError(t, err)
	require.Equal(t, numbers[7], again)
}
