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
	"github.com/agentx/agentx/internal/settings"
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
			typed := settings.OriginOf(flag).Kind == settings.FromFlag
			laneSeed := flag.Name == "seed" && cmd.Flags().Lookup("start") != nil // in a replay it also decides where lanes begin
			if typed && !laneSeed && f.has(flag.Name) && (flag.Name != "set" || len(f.set) > 0) {
				fmt.Fprintf(cmd.ErrOrStderr(), "agentx: warning: --%s has no effect: %s is prepared already\n", flag.Name, name)
			}
		})
		return cachestore.Open(cmd.Context(), found, key)
	}
	if rootErr != nil {
		return nil, rootErr
	}
	if !errors.Is(err, mmapcache.ErrNoCache) || cachestore.IsCachePath(name) { // more than one cache, or none and the argument is no input
		return nil, err
	}
	o, err := f.options(cmd, []string{name})
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) && name != "-" && o.Source.Embedded[name] == nil && !hub.IsRef(name) {
		err := fmt.Errorf("%s: neither a prepared cache in %s, by its path or 8 characters or more of its key, nor an input", name, root)
		return nil, hintError{err, cmp.Or(hub.Suggest(name), suggest.Closest(name, slices.Collect(maps.Keys(o.Source.Embedded))), "agentx cache ls")}
	}
	r, err := runConvert(cmd, o)
	if err != nil {
		return nil, err
	}
	f.sources = r.Sources
	return cachestore.Open(cmd.Context(), o.Root, r.Key)
}
