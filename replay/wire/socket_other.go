//go:build !linux

package wire

import (
	"syscall"
	"time"
)

// limitUnacknowledged does nothing: this system has no such limit for one connection. Its keep-alive probes notice a silent peer.
func limitUnacknowledged(syscall.RawConn, time.Duration) error { return nil }
