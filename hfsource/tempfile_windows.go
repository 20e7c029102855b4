package hfsource

import (
	"errors"
	"os"
)

// deleteOnClose is FILE_FLAG_DELETE_ON_CLOSE.
const deleteOnClose = 0x04000000

// createTemp returns a temporary file that the system removes when it is closed, however the program ends.
func createTemp() (*os.File, error) {
	f, err := os.CreateTemp("", "agentx-stdin-*")
	if err != nil {
		return nil, err
	}
	name := f.Name()
	if err := f.Close(); err != nil {
		return nil, err
	}
	if f, err = os.OpenFile(name, os.O_RDWR|deleteOnClose, 0); err != nil {
		return nil, errors.Join(err, os.Remove(name))
	}
	return f, nil
}
