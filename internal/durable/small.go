package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteSmall writes a small file in root or in a directory below it, which it creates if it is missing. It overwrites an
// existing file in place, so that no reader finds it empty, and follows no link. It syncs only the directories that it
// creates. flag is added to those of os.OpenFile; with os.O_EXCL nothing is left of a file that could not be
// written whole.
func WriteSmall(root, path string, data []byte, flag int) error {
	return Options{}.writeSmall(root, path, data, flag)
}

func (o Options) writeSmall(root, path string, data []byte, flag int) error {
	dir := filepath.Dir(path)
	if err := o.mkdirShared(root, dir); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|noFollow|flag, 0o666)
	if err != nil {
		return err
	}
	matchFileMode(dir, f)
	if info, statErr := f.Stat(); statErr != nil || !info.Mode().IsRegular() {
		return errors.Join(statErr, fmt.Errorf("%s: not a regular file", path), f.Close())
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err != nil && flag&os.O_EXCL != 0 {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
