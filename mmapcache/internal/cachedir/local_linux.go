package cachedir

import (
	"slices"
	"syscall"
)

// localTypes are the file systems that only one machine sees, by the number of statfs. Every other file system counts as
// shared: to keep a dataset for too long does less harm than to remove it too early.
var localTypes = []uint32{
	0xef53,     // ext2, ext3, ext4
	0x58465342, // xfs
	0x9123683e, // btrfs
	0x2fc12fc1, // zfs
	0xf2f52010, // f2fs
	0xca451a4e, // bcachefs
	0x01021994, // tmpfs
	0x858458f6, // ramfs
	0x794c7630, // overlayfs: a container's own layer
	0xf15f,     // ecryptfs
	0x3153464a, // jfs
	0x52654973, // reiserfs
	0x4d44,     // fat
	0x2011bab0, // exfat
	0x5346544e, // ntfs
	0x7366746e, // ntfs3
}

// IsLocal reports whether a directory is on a file system that only this machine sees.
func IsLocal(dir string) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && slices.Contains(localTypes, uint32(s.Type))
}
