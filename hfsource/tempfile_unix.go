//go:build unix

package hfsource

import "os"

// createTemp returns a temporary file that has lost its name: nothing stays of it however the program ends.
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
