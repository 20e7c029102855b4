package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// secureServer returns the URL of a server whose certificate signs itself, and that certificate.
func secureServer(t *testing.T, template x509.Certificate) (string, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, template.Subject, template.IsCA, template.BasicConstraintsValid = big.NewInt(1), pkix.Name{CommonName: "House CA"}, true, true
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, goodStream)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a refused certificate is part of the test
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, certificate
}

// A certificate that is refused says why, and what helps: three texts. What helps does.
//
// Covers T-141.
func TestCertificates(t *testing.T) {
	from := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	now := func(at time.Time) func() time.Time { return func() time.Time { return at } }
	url, certificate := secureServer(t, x509.Certificate{DNSNames: []string{"llm.example.org"}, NotBefore: from, NotAfter: from.AddDate(1, 0, 0)})
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	valid, expired := now(from.AddDate(0, 1, 0)), now(from.AddDate(2, 0, 0))
	for name, c := range map[string]struct {
		config *tls.Config
		want   string // "": it is taken
	}{
		"another name": {&tls.Config{RootCAs: roots, Time: valid},
			"tls: the certificate of the server is for llm.example.org, not for 127.0.0.1: want a URL with a name that it has, or --server-name NAME"},
		"its name": {&tls.Config{RootCAs: roots, Time: valid, ServerName: "llm.example.org"}, ""},
		"unknown authority": {&tls.Config{RootCAs: x509.NewCertPool(), Time: valid, ServerName: "llm.example.org"},
			"tls: the certificate of the server is signed by an authority that this machine does not know (CN=House CA): --ca-file FILE names its certificate"},
		"expired": {&tls.Config{RootCAs: roots, Time: expired, ServerName: "llm.example.org"},
			"tls: the certificate of the server is valid from 2020-01-02T03:04:05Z to 2021-01-02T03:04:05Z, by the clock of this machine not now: renew it, or set the clock; --insecure connects all the same"},
		"not looked at": {&tls.Config{InsecureSkipVerify: true}, ""},
	} {
		res := post(newClient(t, url, Options{TLS: c.config}))
		if c.want == "" {
			require.Nil(t, res.Err, name)
			continue
		}
		require.NotNil(t, res.Err, name)
		require.Equal(t, Failure{Category: Connection, Message: c.want}, *res.Err, name)
	}
}
