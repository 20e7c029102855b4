package durable

import "golang.org/x/sys/windows"

// FreeBytes returns the free space of the disk of a directory, in bytes; ok is false if it is unknown.
func FreeBytes(dir string) (n int64, ok bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return int64(min(free, 1<<62)), err == nil
}
