package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/mmapcache"
)

// cacheRoot returns the cache root of a command: --cache, AGENTX_CACHE, or agentx in the user cache directory. It refuses a file.
func cacheRoot(cmd *cobra.Command) (string, error) {
	dir, _ := cmd.Flags().GetString("cache") // every command has the flag
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", hintError{fmt.Errorf("cache root: no user cache directory: %w", err), "--cache DIR"}
		}
		dir = filepath.Join(user, "agentx")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		err := usageError{fmt.Errorf("%s: a file, or below one, and not a directory", settings.FlagText("cache", dir))}
		return "", hintError{err, "--cache DIR, a directory, which agentx makes if it is missing"}
	}
	return filepath.Abs(dir)
}

// findCache resolves the CACHE argument of a command. A path needs no cache root.
func findCache(cmd *cobra.Command, name string) (root, key string, err error) {
	root, rootErr := cacheRoot(cmd)
	found, key, err := cachestore.Find(root, name)
	if err != nil && rootErr != nil {
		return "", "", rootErr
	}
	return found, key, err
}

// cacheName is a directory of a cache root.
type cacheName struct{ root, kind, key string }

// findCaches resolves all CACHE arguments of a command, without duplicates.
func findCaches(cmd *cobra.Command, names []string) ([]cacheName, error) {
	return findEach(names, func(name string) (c cacheName, err error) {
		c.kind = mmapcache.DatasetKind
		c.root, c.key, err = findCache(cmd, name)
		return c, err
	})
}

// findDirectories is findCaches for datasets and parts.
func findDirectories(cmd *cobra.Command, names []string) ([]cacheName, error) {
	root, rootErr := cacheRoot(cmd)
	return findEach(names, func(name string) (c cacheName, err error) {
		if c.root, c.kind, c.key, err = cachestore.FindAny(root, name); err != nil && rootErr != nil {
			err = rootErr
		}
		return c, err
	})
}

func findEach(names []string, find func(name string) (cacheName, error)) (list []cacheName, err error) {
	for _, name := range names {
		c, err := find(name)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list, nil
}
