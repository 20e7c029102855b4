package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// authorities returns the certificates of the variable of Python's requests, a file or a directory of PEM, which count instead of those
// of the machine; nil where it is not set.
func (env LookupEnv) authorities() (*x509.CertPool, error) {
	for _, name := range []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} {
		at := env.dir(name)
		if at == "" {
			continue
		}
		pool, err := readAuthorities(at)
		if err != nil {
			return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s=%s", name, at), Err: err, Hint: name + "=FILE, with certificates in PEM; or without it: those of this machine count"}
		}
		return pool, nil
	}
	return nil, nil
}

// readAuthorities reads the certificates of a file, or of the files of a directory.
func readAuthorities(at string) (*x509.CertPool, error) {
	paths := []string{at}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(at, "*")); err != nil {
			return nil, err
		}
	}
	pool, found := x509.NewCertPool(), false
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			if path != at {
				continue // a directory in it, or a link of c_rehash that leads nowhere
			}
			return nil, err
		}
		found = pool.AppendCertsFromPEM(data) || found
	}
	if !found {
		return nil, errors.New("no certificate in PEM there")
	}
	return pool, nil
}
