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

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/simulate"
)

// openTables opens the tables of the CACHE that an argument names, or of an INPUT, which it converts as far as that.
func (f *simulateFlags) openTables(cmd *cobra.Command, name string) (*cachestore.Dataset, *simulate.Input, error) {
	root, rootErr := cacheRoot(cmd)
	found, kind, key, err := cachestore.FindAny(root, name) // a path needs no cache root
	if err == nil {
		return f.openPrepared(cmd, name, found, kind, key)
	}
	if rootErr != nil {
		return nil, nil, rootErr
	}
	if !errors.Is(err, mmapcache.ErrNoCache) || cachestore.IsCachePath(name) {
		return nil, nil, err
	}
	o, err := f.conversion(cmd, name, root)
	if err != nil {
		return nil, nil, err
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) && name != "-" && o.Source.Embedded[name] == nil && !hub.IsRef(name) {
		err := fmt.Errorf("%s: neither a prepared cache in %s, by its path or 8 characters or more of its key, nor an input", name, root)
		return nil, nil, hintError{err, cmp.Or(hub.Suggest(name), suggest.Closest(name, slices.Collect(maps.Keys(o.Source.Embedded))), "agentx cache ls")}
	}
	dataset, input, err := openConverted(cmd, o)
	if err != nil {
		return nil, nil, err
	}
	return f.checkBlock(dataset, input, name)
}

// openPrepared opens what exists.
func (f *simulateFlags) openPrepared(cmd *cobra.Command, name, root, kind, key string) (*cachestore.Dataset, *simulate.Input, error) {
	dataset, err := openPreparedTables(cmd, name, cacheName{root, kind, key})
	if err != nil {
		return nil, nil, err
	}
	input, err := simulate.NewInput(dataset.Cache)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), dataset.Close())
	}
	return f.checkBlock(dataset, input, name)
}

// openPreparedTables opens the tables of a dataset or of a structure.
func openPreparedTables(cmd *cobra.Command, name string, c cacheName) (*cachestore.Dataset, error) {
	open := map[string]func(root, key string) (*cachestore.Dataset, error){
		mmapcache.DatasetKind: func(root, key string) (*cachestore.Dataset, error) {
			return cachestore.OpenTables(cmd.Context(), root, key)
		},
		mmapcache.StructureKind: func(root, key string) (*cachestore.Dataset, error) {
			return cachestore.OpenStructure(cmd.Context(), root, key)
		},
	}[c.kind]
	if open == nil {
		return nil, fmt.Errorf("%s: a part of a cache of kind %s, which has no tables: want a dataset or a structure", name, c.kind)
	}
	return open(c.root, c.key)
}

// checkBlock compares --trace-block-size with what the traces have.
func (f *simulateFlags) checkBlock(dataset *cachestore.Dataset, input *simulate.Input, name string) (*cachestore.Dataset, *simulate.Input, error) {
	if f.traceBlock == 0 || f.traceBlock == input.BlockSize() {
		return dataset, input, nil
	}
	err := usageError{fmt.Errorf("--trace-block-size %d: the hash ids of %s stand for %d tokens", f.traceBlock, name, input.BlockSize())}
	return nil, nil, errors.Join(err, dataset.Close())
}

// conversion returns the options of a conversion.
func (f *simulateFlags) conversion(cmd *cobra.Command, name, root string) (convert.Options, error) {
	o := convert.Options{
		Inputs: []string{name}, Root: root, Force: f.force, SkipInvalid: f.skipInvalid, Strict: f.strict, Version: version, Source: inputSources(cmd),
		MooncakeBlock: f.traceBlock,
	}
	if err := o.SetProfile(f.profile); err != nil {
		return o, usageError{fmt.Errorf("%s: %w", settings.FlagText("profile", f.profile), err)}
	}
	for _, rule := range f.set.Ruled {
		if err := setRule(&o, rule); err != nil {
			return o, usageError{err}
		}
	}
	var err error
	o.Wait, err = f.limit()
	return o, err
}

// openConverted converts an input as far as its tables, or finds that done, and opens them.
func openConverted(cmd *cobra.Command, o convert.Options) (dataset *cachestore.Dataset, input *simulate.Input, err error) {
	var r *convert.Result
	err = withProgress(cmd, &o, func() error {
		r, err = convertTables(cmd, o)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if dataset, err = cachestore.OpenStructure(cmd.Context(), o.Root, r.Key); err != nil {
		return nil, nil, err
	}
	if input, err = simulate.NewInput(dataset.Cache); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", o.Inputs[0], err), dataset.Close())
	}
	return dataset, input, nil
}

func convertTables(cmd *cobra.Command, o convert.Options) (*convert.Result, error) {
	r, err := convert.Structure(cmd.Context(), o)
	if err != nil {
		return nil, hintConvert(err)
	}
	warnConverted(o, r)
	return r, nil
}
