//go:build unix

package wire

import "syscall"

var (
	tooManyFiles      = []syscall.Errno{syscall.EMFILE}
	tooManyFilesOfAll = []syscall.Errno{syscall.ENFILE}
	noAddress         = []syscall.Errno{syscall.EADDRNOTAVAIL}
	noBuffers         = []syscall.Errno{syscall.ENOBUFS, syscall.ENOMEM}
)
