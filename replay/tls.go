package replay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// TLS says which certificates the servers of https URLs may have. The zero value takes those that are for their names and signed by an
// authority that the system knows.
type TLS struct {
	CAFile     string // certificates of further authorities, PEM; "": none
	ServerName string // name that certificates are to be for, and that servers are asked for; "": that of each URL
	Insecure   bool   // no certificate is looked at: anybody may be the server
}

// Validate returns an error about a file that cannot be used.
func (t TLS) Validate() error {
	if t.Insecure && t.CAFile != "" {
		return errors.New("contradicts Insecure, which checks no certificate: leave one of them out")
	}
	_, err := t.config()
	return err
}

// config returns the configuration of connections, nil for the system's.
func (t TLS) config() (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	c := &tls.Config{ServerName: t.ServerName, InsecureSkipVerify: t.Insecure}
	if t.CAFile == "" {
		return c, nil
	}
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, err
	}
	if c.RootCAs, err = x509.SystemCertPool(); err != nil {
		c.RootCAs = x509.NewCertPool()
	}
	if !c.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----", t.CAFile)
	}
	return c, nil
}

// validateCookies returns an error where a header field is sent that KeepCookies sends, too.
func (o Options) validateCookies() error {
	for _, f := range o.Header {
		if o.KeepCookies && slices.Contains([]string{"cookie", "x-session-token"}, strings.ToLower(f.Name)) {
			return fmt.Errorf("header %s and keep-cookies, which sends the cookies that the server set, contradict each other: leave one of them out", f.Name)
		}
	}
	return nil
}
