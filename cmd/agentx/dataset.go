package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
)

// prepared reports whether the argument of a command is a prepared cache.
func prepared(cmd *cobra.Command, name string) bool {
	root, _ := cacheRoot(cmd) // a path needs none
	_, _, err := cachestore.Find(root, name)
	return name != "" && err == nil
}

// openDataset opens the dataset that a CACHE argument names, or that an INPUT converts to.
func openDataset(cmd *cobra.Command, f *convertFlags, name string) (*cachestore.Dataset, error) {
	root, rootErr := cacheRoot(cmd)
	found, key, err := cachestore.Find(root, name) // a path needs no cache root
	if err == nil {
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			typed := originOf(flag).kind == fromFlag
			laneSeed := flag.Name == "seed" && cmd.Flags().Lookup("start") != nil // in a replay it also decides where lanes begin
			if typed && !laneSeed && f.has(flag.Name) && (flag.Name != "set" || len(f.set) > 0) {
				fmt.Fprintf(cmd.ErrOrStderr(), "agentx: warning: --%s has no effect: %s is prepared already\n", flag.Name, name)
			}
		})
		return cachestore.Open(cmd.Context(), found, key)
	}
	if err := maybeInput(name, rootErr, err); err != nil {
		return nil, err
	}
	o, err := f.options(cmd, []string{name})
	if err == nil {
		err = checkInput(cmd, name, root)
	}
	if err != nil {
		return nil, err
	}
	r, err := runConvert(cmd, o)
	if err != nil {
		return nil, err
	}
	f.sources = r.Sources
	return cachestore.Open(cmd.Context(), o.Root, r.Key)
}

// maybeInput returns the error of finding the cache that an argument names, nil where that may be an input: there is no such cache.
func maybeInput(name string, rootErr, err error) error {
	switch {
	case rootErr != nil:
		return rootErr
	case errors.Is(err, mmapcache.ErrNoCache) && !cachestore.IsCachePath(name):
		return nil
	}
	return err // such as more than one cache
}

// checkInput returns an error about a name that is neither a cache nor an input.
func checkInput(cmd *cobra.Command, name, root string) error {
	embedded := inputSources(cmd).Embedded
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) || name == "-" || embedded[name] != nil || hub.IsRef(name) {
		return nil
	}
	err := fmt.Errorf("%s: neither a prepared cache in %s, by its path or 8 characters or more of its key, nor an input", name, root)
	return hintError{err, cmp.Or(hub.Suggest(name), suggest.Closest(name, slices.Collect(maps.Keys(embedded))), "agentx cache ls")}
}

// openPreparedTables opens the tables of a dataset or of a structure.
func openPreparedTables(cmd *cobra.Command, name string, c cacheName) (*cachestore.Dataset, error) {
	switch c.kind {
	case mmapcache.DatasetKind:
		return cachestore.OpenTables(cmd.Context(), c.root, c.key)
	case mmapcache.StructureKind:
		return cachestore.OpenStructure(cmd.Context(), c.root, c.key)
	}
	return nil, fmt.Errorf("%s: a part of a cache of kind %s, which has no tables: want a dataset or a structure", name, c.kind)
}
