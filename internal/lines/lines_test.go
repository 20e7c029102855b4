package lines

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// collect returns the lines of a text as copies.
func collect(in io.Reader) (list []Line, err error) {
	for line, err := range Each(in) {
		if err != nil {
			return list, err
		}
		line.Text = []byte(string(line.Text))
		list = append(list, line)
	}
	return list, nil
}

func TestEach(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	list, err := collect(iotest.HalfReader(strings.NewReader("a\r\n\n" + long + "\nlast")))
	require.NoError(t, err)
	require.Equal(t, []Line{{1, []byte("a"), true}, {2, []byte{}, true}, {3, []byte(long), true}, {4, []byte("last"), false}}, list)
	list, err = collect(strings.NewReader(""))
	require.NoError(t, err)
	require.Empty(t, list)
	list, err = collect(strings.NewReader("a\n"))
	require.NoError(t, err)
	require.Len(t, list, 1, "the end of the last line begins no other")
}

func TestEachStopsAtAnError(t *testing.T) {
	broken := errors.New("broken")
	_, err := collect(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "line 2: ")
	_, err = collect(strings.NewReader("a\n" + strings.Repeat("y", limit+2)))
	require.EqualError(t, err, "line 2: longer than 67108864 bytes")
}
