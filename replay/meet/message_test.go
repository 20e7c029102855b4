package meet

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A message comes as it was sent, however the network cuts it, and its length is looked at before memory is taken.
func TestMessages(t *testing.T) {
	var sent bytes.Buffer
	want := &message{Kind: hello, ID: "1", Member: &Member{Part: 3, Of: 4, Options: []Option{{"name", "value"}}}}
	require.NoError(t, writeMessage(&sent, want))
	whole := sent.String()
	require.Equal(t, "\x00\x00\x00", whole[:3])
	require.Equal(t, len(whole)-4, int(whole[3]))
	got, err := readMessage(iotest.OneByteReader(&sent), maxGreeting)
	require.NoError(t, err)
	require.Equal(t, want, got)

	for n := range len(whole) {
		_, err := readMessage(strings.NewReader(whole[:n]), maxGreeting)
		require.ErrorIs(t, err, map[bool]error{true: io.EOF, false: io.ErrUnexpectedEOF}[n == 0 || n == 4])
	}
	_, err = readMessage(strings.NewReader(whole), len(whole)-5)
	require.ErrorContains(t, err, "which is no message of agentx")
	require.ErrorContains(t, writeMessage(io.Discard, &message{Kind: gain, Gain: []byte(`"` + strings.Repeat("x", maxMessage) + `"`)}), "want at most 4194304")
	huge := testing.AllocsPerRun(10, func() { _, _ = readMessage(strings.NewReader("\xff\xff\xff\xff"), maxMessage) })
	require.Less(t, huge, 20.0)
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := readMessage(bytes.NewReader(text), maxGreeting)
		if err != nil {
			return
		}
		var again bytes.Buffer
		require.NoError(t, writeMessage(&again, m))
		same, err := readMessage(&again, maxMessage)
		require.NoError(t, err)
		require.Equal(t, m, same)
	})
}
