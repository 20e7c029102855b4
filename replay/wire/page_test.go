package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPageURL finds a page below the root of a server, in whichever form its URL is written.
func TestPageURL(t *testing.T) {
	for server, want := range map[string]string{
		"http://h:8000":                         "http://h:8000/metrics",
		"http://h/v1/":                          "http://h/metrics",
		"https://h/a/v1/chat/completions?key=x": "https://h/a/metrics?key=x",
	} {
		got, err := PageURL(server, "/metrics")
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	_, err := PageURL("ftp://h", "/metrics")
	require.Error(t, err)
}

// TestSameServer compares scheme, host and port.
func TestSameServer(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://H:80/x": true, "http://user:pw@h/": true, "https://h/": false, "http://h:81/": false, "http://h.evil/": false, "%": false,
	} {
		assert.Equal(t, want, SameServer("http://h/v1", raw), raw)
	}
}
