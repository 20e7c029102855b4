//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A capture that crashes leaves no memory on the disk.
//
// Covers C-39.
func TestNoCores(t *testing.T) {
	noCores()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	require.Zero(t, limit.Cur)
	require.Zero(t, limit.Max)
}

// The log of a capture has no time of day.
//
// Covers C-38.
func TestTimelessLog(t *testing.T) {
	var b strings.Builder
	timelessLog(&b).Error("a session is not recorded", "trace", "cap-1", "time", "kept in a group only")
	require.Equal(t, "level=ERROR msg=\"a session is not recorded\" trace=cap-1\n", b.String())
}
