package hub

import "golang.org/x/sys/windows"

// noWay are the errors of connections that cannot be made at all.
var noWay = []error{windows.WSAECONNREFUSED, windows.WSAENETUNREACH, windows.WSAEHOSTUNREACH}

// writable returns nil: what may be written only trying tells.
func writable(string) error { return nil }

// freeBytes returns the bytes that can be written to the disk of a directory; ok is false where nobody knows.
func freeBytes(dir string) (n int64, ok bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return int64(min(free, 1<<62)), err == nil
}
