package hub

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// LayOut puts copies of the files of the snapshot into a directory, under their paths in the repository, and returns where
// they lie, in order. A copy is never another name of the blob: who edits it does not change the cache. Where the file
// system can share content until one of the two is written to, it does, and the copy takes no room. What was there under
// these names is replaced; a link in the directory that leads out of it is refused.
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
	temp := path.Join(above, ".agentx-"+rand.Text())
	if err := f.copy(root, from, temp); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	if err := root.Rename(temp, f.Path); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// copy writes the content of a file to another, and holds it against the digest on the way. The descriptor that was
// hashed is cloned, where that can be.
func (f *File) copy(root *os.Root, from *os.File, to string) error {
	out, err := root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if f.kept == nil || cloneFile(out, from) != nil {
		sums := newSums(entry{SHA256: f.SHA256})
		_, err = io.Copy(io.MultiWriter(out, sums), io.NewSectionReader(from, 0, f.Size))
		if err == nil && sums.content() != f.SHA256 {
			err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.content(), f.SHA256)
		}
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}
