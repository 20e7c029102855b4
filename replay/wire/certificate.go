package wire

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// handshakeError returns the error of a TLS handshake, prefixed with "tls: ". Of a certificate that is refused it says what helps.
func handshakeError(err error) error {
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name) && name.Certificate != nil:
		names := append([]string{}, name.Certificate.DNSNames...)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Errorf("tls: the certificate of the server is for %s, not for %s: want a URL with a name that it has, or --server-name NAME",
			cmp.Or(clip(strings.Join(names, ", "), 256), "no name"), clip(name.Host, 256))
	case errors.As(err, &authority):
		issuer := ""
		if authority.Cert != nil {
			issuer = " (" + clip(authority.Cert.Issuer.String(), 256) + ")"
		}
		return fmt.Errorf("tls: the certificate of the server is signed by an authority that this machine does not know%s: --ca-file FILE names its certificate", issuer)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return fmt.Errorf("tls: the certificate of the server is valid from %s to %s, by the clock of this machine not now: renew it, or set the clock; --insecure connects all the same",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	case strings.HasPrefix(err.Error(), "tls: "):
		return err
	}
	return fmt.Errorf("tls: %w", err)
}
