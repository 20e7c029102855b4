package wire

import (
	"errors"
	"net"
	"slices"
	"strings"
	"syscall"
)

// limits are the errors of a system that has nothing left for another connection or another write, and what to do about each. The
// server has no part in them.
var limits = []struct {
	errnos []syscall.Errno
	advice string
}{
	{tooManyFiles, "this process may open no more: raise its limit (ulimit -n), or play fewer lanes"},
	{tooManyFilesOfAll, "this machine has no more: raise fs.file-max, or play fewer lanes"},
	{noAddress, "this machine has no free port, or no address, towards that one: widen net.ipv4.ip_local_port_range, keep connections, or play parts on several machines"},
	{noBuffers, "this machine has no memory for another connection: play fewer lanes"},
}

// adviceFor returns what to do about an error that is a limit of this machine, "" if it is none.
func adviceFor(err error) string {
	var name *net.DNSError // keeps of its cause the text alone
	isName := errors.As(err, &name)
	for _, l := range limits {
		if slices.ContainsFunc(l.errnos, func(e syscall.Errno) bool {
			return errors.Is(err, e) || isName && strings.Contains(name.Err, e.Error())
		}) {
			return l.advice
		}
	}
	return ""
}
