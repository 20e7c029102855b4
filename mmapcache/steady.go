package mmapcache

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
	waitReplaced = time.Second      // where it, or the directory, is gone: who replaces it puts the new one there
	waitRemember = time.Minute      // on a network file system, whose clients remember for as long what they have seen
	waitChanging = 10 * time.Second // where the directory was made again meanwhile
)

var errComesAndGoes = errors.New("it comes and goes: another process may be removing it")

// isMissing reports whether an error says that something is not there.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMissing)
}

// absent reports whether an error says that there is nothing at a path, and not that it could not be reached.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE)
}

// steady calls look, which reads a directory of a cache and what that names, until nothing is missing. What is missing of
// a dataset that is removed, or removed and made again, meanwhile is no damage. So only what is still missing when the
// directory has stayed as it is, and the caches of the file system have had their time, is returned as missing. Of a
// directory that is gone the error wraps ErrNoCache.
func (d disk) steady(ctx context.Context, dir string, look func() error) error {
	waited := time.Duration(0)
	var before fs.FileInfo
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := look()
		if !isMissing(err) {
			return err
		}
		after := d.sight(dir)
		limit := waitChanging
		switch {
		case after == nil:
			limit = waitReplaced
			err = fmt.Errorf("cache %s: %w in %s: it has been removed", filepath.Base(dir), ErrNoCache, filepath.Dir(filepath.Dir(dir)))
		case before != nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()):
			if limit = waitReplaced; d.remembers(dir) {
				limit = waitRemember
			}
		default:
			err = fmt.Errorf("%s: %w", dir, errComesAndGoes)
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
func (d disk) sight(dir string) fs.FileInfo {
	if !d.listed(dir) {
		return nil
	}
	info, err := d.find(dir)
	if err != nil {
		return nil
	}
	return info
}

// remembers reports whether clients of the file system may remember what is no more.
func (d disk) remembers(dir string) bool {
	if d.network != nil {
		return d.network(dir)
	}
	return !isLocal(filepath.Dir(dir))
}

func (d disk) wait(ctx context.Context, pause time.Duration) error {
	if d.pause != nil {
		return d.pause(ctx, pause)
	}
	return durable.Sleep(ctx, pause)
}
