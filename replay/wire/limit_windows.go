package wire

import "syscall"

// Errors of Winsock, which package syscall does not name.
var (
	tooManyFiles      = []syscall.Errno{10024}
	tooManyFilesOfAll = []syscall.Errno(nil)
	noAddress         = []syscall.Errno{10048, 10049} // no port, no address
	noBuffers         = []syscall.Errno{10055}
)
