package hub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// authorities returns the certificates of the variable of Python's requests, a file or a directory of PEM, beside those of the machine;
// nil where it is not set. A variable that leads to none was set for another program, and is noted.
func (env LookupEnv) authorities() (pool *x509.CertPool, note string) {
	for _, name := range []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"} {
		at := env.dir(name)
		if at == "" {
			continue
		}
		pool, err := readAuthorities(at)
		if err != nil {
			note = fmt.Sprintf("%s=%s gives no authority: %v", name, at, err)
		}
		return pool, note
	}
	return nil, ""
}

// readAuthorities reads the certificates of a file, or of the files of a directory.
func readAuthorities(at string) (*x509.CertPool, error) {
	paths := []string{at}
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		if paths, err = filepath.Glob(filepath.Join(at, "*")); err != nil {
			return nil, err
		}
	}
	pool, err := x509.SystemCertPool() // with those of SSL_CERT_FILE
	if err != nil {
		pool = x509.NewCertPool()
	}
	found := false
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
