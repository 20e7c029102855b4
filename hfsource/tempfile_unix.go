//go:build unix

package hfsource

import "os"

// createTemp returns a temporary file without a name. The system frees it however the program ends.
func createTemp() (*os.File, error) {
	f, err := os.CreateTemp("", "agentx-stdin-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
