//go:build unix

package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A limit of open files is raised to the hard one, where more are wanted; else it stays.
func TestOpenFilesAreRaised(t *testing.T) {
	var before unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	if before.Max < 512 {
		t.Skip("this process may not have the files that the test lowers the limit from")
	}
	defer func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before)) }()
	lowered := before
	lowered.Cur = 400
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &lowered))
	require.Equal(t, 400, openFiles(400))
	if got := openFiles(401); got != 0 { // no bound
		require.EqualValues(t, before.Max, got)
	}
}
