package cachedir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// For how long something that is missing is looked for again.
const (
	WaitReplaced = time.Second      // where it, or the directory, is gone: who replaces it puts the new one there
	WaitRemember = time.Minute      // on a network file system, whose clients remember for as long what they have seen
	WaitChanging = 10 * time.Second // where the directory was made again meanwhile
)

// ErrMissing is wrapped by the error about a directory that lacks a file, or is being renamed away.
var ErrMissing = errors.New("missing")

// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
var ErrNoCache = errors.New("no such cache")

// ErrChanging is wrapped by the error about a directory that was made again and again while Steady waited for it.
var ErrChanging = errors.New("it comes and goes: another process may be removing it")

// IsMissing reports whether an error says that something is not there.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrMissing)
}

// IsAbsent reports whether an error says that there is nothing at a path, and not that it could not be reached.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE)
}

// Steady calls look, which reads a directory of a cache and what that names, until nothing is missing. What is missing of
// a dataset that is removed, or removed and made again, meanwhile is no damage. So only what is still missing when the
// directory has stayed as it is, and the caches of the file system have had their time, is returned as missing. Of a
// directory that is gone the error wraps ErrNoCache.
func (d Disk) Steady(ctx context.Context, dir string, look func() error) error {
	waited := time.Duration(0)
	var before fs.FileInfo
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := look()
		if !IsMissing(err) {
			return err
		}
		after := d.sight(dir)
		limit := WaitChanging
		switch {
		case after == nil:
			limit = WaitReplaced
			err = fmt.Errorf("cache %s: %w in %s: it has been removed", filepath.Base(dir), ErrNoCache, filepath.Dir(filepath.Dir(dir)))
		case before != nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()):
			if limit = WaitReplaced; d.remembers(dir) {
				limit = WaitRemember
			}
		default:
			err = fmt.Errorf("%s: %w", dir, ErrChanging)
		}
		if waited >= limit {
			return err
		}
		if err := d.wait(ctx, pause); err != nil {
			return err
		}
		waited += pause
		before = after
	}
}

// sight is what a look at a directory shows, nil where it is not; not what a client of NFS remembers of it.
func (d Disk) sight(dir string) fs.FileInfo {
	if !d.Listed(dir) {
		return nil
	}
	info, err := d.Find(dir)
	if err != nil {
		return nil
	}
	return info
}

// remembers reports whether clients of the file system may remember what is no more.
func (d Disk) remembers(dir string) bool {
	if d.IsNetwork != nil {
		return d.IsNetwork(dir)
	}
	return !IsLocal(filepath.Dir(dir))
}

func (d Disk) wait(ctx context.Context, pause time.Duration) error {
	if d.Sleep != nil {
		return d.Sleep(ctx, pause)
	}
	return durable.Sleep(ctx, pause)
}
