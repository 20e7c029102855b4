//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// noFollow opens a file without following a link in its place and without waiting for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// processEnded reports whether no process has this number.
func processEnded(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// openToSync opens a file or directory to force it to disk.
func openToSync(path string) (*os.File, error) { return os.Open(path) }

// move renames a file or directory.
func move(from, to string) error { return os.Rename(from, to) }

// IsDiskFull reports whether an error says that there is no room left on a disk.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

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

// FreeBytes returns the free space of the disk of a directory, in bytes; ok is false if it is unknown.
func FreeBytes(dir string) (n int64, ok bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil || stat.Bsize <= 0 {
		return 0, false
	}
	return int64(min(uint64(stat.Bavail), 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize), true
}
