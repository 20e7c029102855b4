package replay

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// What is said of certificates reaches the connections, or is an error that names the file.
//
// Covers T-141.
func TestTLSOptions(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("no"), 0o600))

	for want, o := range map[string]TLS{
		"beside Insecure, which looks at no certificate: want one of the two":            {CAFile: file, Insecure: true},
		"open " + dir + "/none: no such file or directory":                               {CAFile: dir + "/none"},
		empty + ": no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----": {CAFile: empty},
	} {
		require.EqualError(t, o.Validate(), want)
	}
	ask := func(o TLS) *wire.Failure {
		require.NoError(t, o.Validate())
		options := &Options{TLS: o}
		c, err := wire.New(s.URL, options.clientOptions())
		require.NoError(t, err)
		defer c.Close()
		_, f := c.Get(t.Context(), "/")
		return f
	}
	require.Contains(t, ask(TLS{}).Message, "--ca-file FILE")
	require.Equal(t, 404, ask(TLS{CAFile: file}).Code)
	require.Equal(t, 404, ask(TLS{Insecure: true}).Code)
	require.Contains(t, ask(TLS{CAFile: file, ServerName: "other.test"}).Message, "--server-name NAME")
	require.Equal(t, 404, ask(TLS{CAFile: file, ServerName: "example.com"}).Code)
}

// A header that the jar of a tree sends is not sent twice.
//
// Covers T-142.
func TestCookiesAreNotSentTwice(t *testing.T) {
	header := []wire.HeaderField{{Name: "cookie", Value: "a=b"}}
	require.NoError(t, Options{Header: header}.validateCookies())
	require.EqualError(t, Options{Header: header, KeepCookies: true}.validateCookies(), "header cookie: keep-cookies sends what the server has set: want one of the two")
	require.Error(t, Options{Header: []wire.HeaderField{{Name: "X-Session-Token"}}, KeepCookies: true}.validateCookies())
}

// Under the presets that imitate AIPerf, answers are read as it reads them.
//
// Covers T-121.
func TestAnswerFormsOfPresets(t *testing.T) {
	for _, name := range preset.Names {
		o := Options{Preset: name}
		require.Equal(t, name != preset.Default, o.clientOptions().AIPerfForms, name)
	}
	s, _ := preset.Named(preset.AIPerf)
	s.AIPerfForms = false
	require.False(t, (&Options{Preset: preset.AIPerf, Switches: &s}).clientOptions().AIPerfForms)
}
