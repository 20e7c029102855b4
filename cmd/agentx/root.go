package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/mmapcache"
)

// cacheRoot returns the cache root of a command: --cache, AGENTX_CACHE, or agentx in the user cache directory.
func cacheRoot(cmd *cobra.Command) (string, error) {
	dir, _ := cmd.Flags().GetString("cache") // a flag of every command
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", tryError{fmt.Errorf("cache root: no user cache directory: %w", err), "--cache DIR"}
		}
		dir = filepath.Join(user, "agentx")
	}
	return filepath.Abs(dir)
}

// findCache resolves the CACHE argument of a command.
func findCache(cmd *cobra.Command, name string) (root, key string, err error) {
	root, err = cacheRoot(cmd)
	if err != nil {
		return "", "", err
	}
	return mmapcache.Find(root, name)
}

// openCache opens the CACHE argument of a command.
func openCache(cmd *cobra.Command, name string) (*mmapcache.Cache, error) {
	root, key, err := findCache(cmd, name)
	if err != nil {
		return nil, err
	}
	return mmapcache.OpenInUse(root, key)
}

// printJSON prints one object on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// bytesText writes a number of bytes for people.
func bytesText(n int64) string {
	v, units := float64(n), []string{"B", "kB", "MB", "GB", "TB"}
	for v >= 1000 && len(units) > 1 {
		v, units = v/1000, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}

// appendQuoted appends s as a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(dst, quoted...)
}
