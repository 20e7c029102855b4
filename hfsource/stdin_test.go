package hfsource

import (
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
)

// Where the directory of temporary files is full, the error says that standard input goes there, and which variable moves it.
func TestStandardInputOnAFullDisk(t *testing.T) {
	err := streamError("-", &fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	var full *durable.FullError
	require.ErrorAs(t, err, &full)
	assert.ErrorIs(t, err, syscall.ENOSPC)
	assert.EqualError(t, err, "input -: it is copied to "+os.TempDir()+", and no space is left there")
	assert.Contains(t, full.Hint, "TMPDIR=DIR")
	err = streamError("-", fs.ErrPermission)
	assert.EqualError(t, err, "input -: "+fs.ErrPermission.Error())
}
