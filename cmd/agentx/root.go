package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agentx/agentx/cachestore"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// cacheRoot returns the cache root of a command: --cache, AGENTX_CACHE, or agentx in the user cache directory.
func cacheRoot(cmd *cobra.Command) (string, error) {
	dir, _ := cmd.Flags().GetString("cache") // a flag of every command
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", hintError{fmt.Errorf("cache root: no user cache directory: %w", err), "--cache DIR"}
		}
		dir = filepath.Join(user, "agentx")
	}
	return filepath.Abs(dir)
}

// hintRoot adds what to try to an error about a cache root that is not for this user to write in.
func hintRoot(cmd *cobra.Command, err error) error {
	var try hintError
	var at *fs.PathError
	if errors.As(err, &try) || !errors.As(err, &at) || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	root, rootErr := cacheRoot(cmd)
	within := func(dir, path string) bool {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
		return ok && (rest == "" || os.IsPathSeparator(rest[0]))
	}
	if rootErr != nil || !within(root, at.Path) && !within(at.Path, root) { // it, or what it would be made in
		return err
	}
	return hintError{err, "--cache DIR, a directory that you may write in"}
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

// printJSON prints one object on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// columns is the width of a terminal, 0 for what is none.
func columns(w io.Writer) int {
	if r, ok := w.(*resultWriter); ok {
		w = r.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// appendQuoted appends s as a JSON string.
func appendQuoted(dst []byte, s string) []byte {
	quoted, _ := json.Marshal(s) // a string always marshals
	return append(dst, quoted...)
}
