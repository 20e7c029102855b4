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

// How long RetryMissing looks for something that is missing.
const (
	WaitReplaced = time.Second      // where it is gone: a process that replaces it puts the new one there
	WaitRemember = time.Minute      // on a network file system: its clients remember for so long that a name was missing
	WaitChanging = 10 * time.Second // where the directory was made again meanwhile
)

// ErrMissing is wrapped by the error about a directory that lacks a file, or is being renamed away.
var ErrMissing = errors.New("missing")

// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
var ErrNoCache = errors.New("no such cache")

// ErrChanging is wrapped by the error about a directory that was made again and again while RetryMissing waited.
var ErrChanging = errors.New("it comes and goes: another process may be removing it")

// IsMissing reports whether an error says that a file or directory does not exist.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrMissing)
}

// IsAbsent reports whether an error says that nothing is at a path. ESTALE does not say that.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE)
}

// RetryMissing calls look, which reads a directory of a cache and the parts that it names, until nothing is missing. A file may be
// missing because another process removes or replaces the dataset at this moment, which is no damage. So an error is final
// only once the directory has not changed for as long as clients of the file system remember. An error about a directory
// that is gone wraps ErrNoCache.
func (d Disk) RetryMissing(ctx context.Context, dir string, look func() error) error {
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

// sight returns the directory that the server has now, not one that an NFS client remembers; nil: none.
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

// remembers reports whether clients of the file system may remember an old state of a directory.
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
