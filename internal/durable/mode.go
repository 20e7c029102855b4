package durable

import (
	"io/fs"
	"os"
)

// everybody is the permission of all users of a machine to write.
const everybody fs.FileMode = 0o002

// ModeBelow returns the mode of a new directory or file in a directory: as open to group and others as that, but never writable for
// everybody. In a sticky directory such as /tmp, where users remove nothing of each other, only its owner may write it.
func ModeBelow(above, mode fs.FileMode) fs.FileMode {
	open := above.Perm() & 0o077 &^ everybody
	if above&fs.ModeSticky != 0 {
		open &^= 0o020
	}
	if !mode.IsDir() {
		open &= 0o066
	}
	return mode&^0o077 | open // the owner's bits, and setgid, stay
}

// rootMode returns the mode of a new root, or a directory above it, which the umask has decided. In a sticky directory only its owner
// may write it.
func rootMode(above, mode fs.FileMode) fs.FileMode {
	if above&fs.ModeSticky != 0 {
		mode &^= 0o022
	}
	return mode
}

// sharedMode returns the mode of a new directory in which all users of a root have entries. Where everybody may write, it is sticky.
func sharedMode(root, mode fs.FileMode) fs.FileMode {
	mode = mode&^0o077 | root.Perm()&0o077 | root&fs.ModeSticky
	if mode&everybody != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// matchMode gives a directory or file that was just created its mode below the directory above it. It follows no link, which could
// lead to any file of the user. Errors are ignored: another process may have created it meanwhile.
func matchMode(above, path string) { setMode(above, path, ModeBelow) }

// shareMode is matchMode for a directory in which all users of a root have entries.
func shareMode(root, path string) { setMode(root, path, sharedMode) }

func setMode(above, path string, wanted func(above, mode fs.FileMode) fs.FileMode) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return
	}
	setFileMode(above, f, wanted)
	_ = f.Close()
}

// matchFileMode is matchMode for an open file.
func matchFileMode(above string, f *os.File) { setFileMode(above, f, ModeBelow) }

func setFileMode(above string, f *os.File, wanted func(above, mode fs.FileMode) fs.FileMode) {
	like, err := os.Stat(above)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return
	}
	if want := wanted(like.Mode(), info.Mode()); want != info.Mode() {
		_ = f.Chmod(want)
	}
}
