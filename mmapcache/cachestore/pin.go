package cachestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// PinInfo says who pinned a dataset.
type PinInfo struct {
	Who  string    `json:"who"`
	Host string    `json:"host"`
	When time.Time `json:"when"`
}

// String writes a pin for people: "NAME on HOST at TIME", in UTC.
func (p PinInfo) String() string {
	s := p.Who
	if p.Host != "" {
		s += " on " + p.Host
	}
	if !p.When.IsZero() {
		s += " at " + p.When.UTC().Format(time.DateTime)
	}
	return s
}

// Pin keeps a dataset from GC and Remove until Unpin. It first writes the pin, then waits for a process that is about to
// remove the dataset, and then checks that the dataset exists: by then that process has seen the pin or has finished.
func Pin(ctx context.Context, root, key, who string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	err := writePin(root, key, who)
	if err == nil {
		err = awaitRemoval(ctx, root, mmapcache.DatasetKind+"/"+key)
	}
	if err != nil {
		return fmt.Errorf("pin %s: %w", mmapcache.DatasetPath(root, key), err)
	}
	err = checkExists(root, key)
	if errors.Is(err, mmapcache.ErrNoCache) {
		_, unpinned := Unpin(root, key)
		err = errors.Join(err, unpinned)
	}
	return err
}

func writePin(root, key, who string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(PinInfo{Who: who, Host: host, When: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := durable.MkdirShared(root, useDirOf(root)); err != nil {
		return err
	}
	return durable.WriteShared(usePath(root, key, pinSuffix), append(data, '\n'))
}

// Unpin removes the pin of a dataset and reports whether there was one.
func Unpin(root, key string) (bool, error) {
	err := os.Remove(usePath(root, key, pinSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkExists returns an error unless a dataset exists; a dangling symbolic link counts as a dataset.
func checkExists(root, key string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	path := mmapcache.DatasetPath(root, key)
	_, err := realDisk().Find(path)
	if err != nil {
		if _, linkErr := os.Lstat(path); linkErr == nil {
			return nil
		}
	}
	if cachedir.IsAbsent(err) {
		return fmt.Errorf("cache %s: %w in %s", key, mmapcache.ErrNoCache, root)
	}
	return err
}

// maxPin is how large a pin may be, in bytes.
const maxPin = 1 << 20

// readPin returns the pin of a dataset, nil if it has none. A pin that cannot be read or decoded counts as one.
func readPin(root, key string) (*PinInfo, error) {
	path := usePath(root, key, pinSuffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	pin := &PinInfo{}
	var data []byte
	if f, size, err := openPlain(path); err == nil {
		if size <= maxPin {
			data, _ = io.ReadAll(io.LimitReader(f, maxPin)) // an incomplete pin counts
		}
		_ = f.Close()
	}
	if json.Unmarshal(data, pin) != nil || pin.Who == "" {
		pin.Who = "somebody"
	}
	return pin, nil
}
