package hub

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// LayOut puts the files of the snapshot into a directory, under their paths in the repository: as other names of the
// blobs, or as copies where that cannot be. It returns where they lie, in order. What was there under these names is
// replaced; a link in the directory that leads out of it is refused.
func (s *Snapshot) LayOut(dir string) (list []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for k := range s.Files {
		f := &s.Files[k]
		if err := f.layOut(root); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", f.Path, dir, err)
		}
		list = append(list, filepath.Join(dir, filepath.FromSlash(f.Path)))
	}
	return list, nil
}

func (f *File) layOut(root *os.Root) error {
	from := f.kept
	if from == nil {
		own, err := f.open()
		if err != nil {
			return err
		}
		defer own.Close()
		from = own
	}
	above := path.Dir(f.Path)
	if err := root.MkdirAll(above, 0o777); err != nil {
		return err
	}
	if is, err := from.Stat(); err == nil {
		if there, err := root.Lstat(f.Path); err == nil && os.SameFile(is, there) {
			return nil
		}
	}
	temp := path.Join(above, ".agentx-"+rand.Text())
	if linkFile(root, from, above, path.Base(temp)) != nil {
		if err := f.copy(root, from, temp); err != nil {
			return errors.Join(err, root.Remove(temp))
		}
	}
	if err := root.Rename(temp, f.Path); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// linkFile gives an open file another name: the file that was hashed, whatever its first name has become.
func linkFile(root *os.Root, from *os.File, above, name string) error {
	dir, err := root.Open(above)
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", from.Fd()), int(dir.Fd()), name, unix.AT_SYMLINK_FOLLOW)
}

// copy writes the content of a file to another, and holds it against the digest on the way.
func (f *File) copy(root *os.Root, from *os.File, to string) error {
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	sums := newSums(entry{SHA256: f.SHA256})
	_, err = io.Copy(io.MultiWriter(out, sums), io.NewSectionReader(from, 0, f.Size))
	if err == nil && sums.content() != f.SHA256 {
		err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.content(), f.SHA256)
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
