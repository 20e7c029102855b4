package main

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// certificateFile returns the name of a file with a certificate.
func certificateFile(t *testing.T) string {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return file
}

// A file of certificates that cannot be used is told before anything else happens.
func TestCAFileIsReadFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("no.pem", nil, 0o600))
	require.Equal(t, []string{"agentx: --ca-file: no.pem: no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"}, configErrors(t, "--ca-file", "no.pem"))
	require.Equal(t, []string{"agentx: --ca-file: beside Insecure, which looks at no certificate: want one of the two"}, configErrors(t, "--ca-file", certificateFile(t), "--insecure"))
	require.Equal(t, []string{"agentx: --server-name a/b: want the name of a server, such as llm.example.org, or off"}, configErrors(t, "--server-name", "a/b"))
}
