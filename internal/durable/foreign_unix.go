//go:build unix

package durable

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// foreignOwner names the owner of a path, "" if that is the user of this process, or there is no such path.
func foreignOwner(path string) string {
	info, err := os.Lstat(path)
	if err != nil || uidOf(info) == os.Geteuid() {
		return ""
	}
	id := strconv.Itoa(uidOf(info))
	if u, err := user.LookupId(id); err == nil {
		return "user " + u.Username
	}
	return "user " + id
}

func uidOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return os.Geteuid()
}

// mayTakeAway reports whether this process may rename a directory of another user into another directory. A sticky directory lets
// only the owners of its entries and its own.
func mayTakeAway(path string) bool {
	above, err := os.Lstat(filepath.Dir(path))
	if err != nil || os.Geteuid() == 0 {
		return true
	}
	if above.Mode()&fs.ModeSticky != 0 && uidOf(above) != os.Geteuid() {
		return false
	}
	may := func(path string) bool { return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) == nil }
	return may(filepath.Dir(path)) && may(path)
}

// IsOpen reports whether every user of this machine may write a file or directory.
func IsOpen(info fs.FileInfo) bool { return info.Mode()&everybody != 0 }
