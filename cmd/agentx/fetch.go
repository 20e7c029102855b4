package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
)

// fetchFlags say what to fetch and where to copy it.
type fetchFlags struct {
	list bool
	dest string
	waitFlags
}

// register adds the flags to a command.
func (f *fetchFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.list, "list", false, "list the datasets with short names")
	cmd.Flags().StringVar(&f.dest, "dest", "", "also copy the files below this directory, under their paths; files that are there already are replaced")
	f.waitFlags.register(cmd)
}

func newFetch() *cobra.Command {
	var f fetchFlags
	cmd := &cobra.Command{
		Use:   "fetch hf://datasets/OWNER/NAME[@REVISION][/PATH]",
		Short: "Download and verify a dataset of the Hugging Face hub, without converting it",
		Long: `Download the data files of a dataset, pinned to a commit and verified by their digests, into the
cache of the hub, where the Python tools find them too. Files that it holds already are verified
and used.

A name of "agentx fetch --list" stands for hf://datasets/OWNER/NAME. REVISION is a branch, a tag or a
commit; write / in it as %2F, except in refs/convert/NAME and refs/pr/N. Without PATH the card of
the dataset says which files are its data.

HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_TOKEN_PATH, HF_HUB_DISABLE_IMPLICIT_TOKEN, HF_ENDPOINT,
HF_HUB_OFFLINE, HF_HUB_ETAG_TIMEOUT, HF_HUB_DOWNLOAD_TIMEOUT and HF_HUB_DISABLE_PROGRESS_BARS mean
what they mean to the Python tools. HF_DATASETS_OFFLINE overrides HF_HUB_OFFLINE.`,
		Example: "  agentx fetch --list\n  agentx fetch agentx-062126-256k\n  agentx fetch hf://datasets/semianalysisai/cc-traces-weka-062126@main --dest traces",
	}
	f.register(cmd)
	return answering(cmd, func(cmd *cobra.Command, args []string) error {
		if f.list {
			return cobra.NoArgs(cmd, args)
		}
		return cobra.ExactArgs(1)(cmd, args)
	}, f.run)
}

// run fetches a dataset, copies it where --dest says so, and prints what was fetched.
func (f *fetchFlags) run(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
	switch {
	case f.list:
		return map[string]any{"datasets": hub.NamedDatasets()}, func(w io.Writer) { printNames(w, terminalWidth(w)) }, nil
	case f.dest == "" && cmd.Flags().Changed("dest"):
		return nil, nil, usageError{errors.New("--dest is empty: want a directory")}
	}
	p := newProgress(cmd)
	defer p.close()
	p.quiet = p.quiet || hub.LookupEnv(os.LookupEnv).ProgressDisabled()
	limit, err := f.limit()
	if err != nil {
		return nil, nil, err
	}
	ref, err := hub.Parse(args[0])
	if err != nil {
		return nil, nil, hintHub(err)
	}
	root, err := cacheRoot(cmd)
	if err != nil {
		root = "" // the hub's own cache may be enough
	}
	o := hubOptions(p, root, limit)
	o.ExportDir = f.dest
	s, err := hub.Fetch(cmd.Context(), ref, o)
	if err != nil {
		return nil, nil, hintHub(err)
	}
	defer s.Close()
	var exported []string
	if f.dest != "" {
		if exported, err = s.Export(cmd.Context(), f.dest, func(n, total int64) { p.update("copy", n, total) }); err != nil {
			return nil, nil, fmt.Errorf("--dest: %w", err)
		}
	}
	return fetchedJSON(s, exported), func(w io.Writer) { printFetched(w, s, exported) }, nil
}

// hubOptions returns the options of a download from the hub. Progress, warnings and the resolved commit go to standard error. root may be "".
func hubOptions(p *progress, root string, wait time.Duration) hub.Options {
	return hub.Options{
		CacheRoot: root, Version: version, Wait: wait,
		OnWait:     func(holder string, waited time.Duration) { p.waiting("download", holder, waited) },
		Progress:   func(n, total int64) { p.update("download", n, total) },
		OnResolved: func(s *hub.Snapshot) { p.println(s.Summary()) },
		Logf:       func(format string, args ...any) { p.println("agentx: warning: " + fmt.Sprintf(format, args...)) },
	}
}

// printNames prints the datasets with short names: as a table, or on a terminal each name with its description below it, cut to columns.
func printNames(w io.Writer, columns int) {
	if columns > 0 {
		for _, n := range hub.NamedDatasets() {
			fmt.Fprintf(w, "%s\n%s\n", n.Name, terminal.Cut("    "+n.Description, columns))
		}
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, n := range hub.NamedDatasets() {
		fmt.Fprintf(t, "%s\t%s\t%s\n", n.Name, n.Repo, n.Description)
	}
	_ = t.Flush() // standard output remembers its errors
}

// fetchedJSON returns what --json prints of what was fetched.
func fetchedJSON(s *hub.Snapshot, exported []string) map[string]any {
	files := []map[string]any{}
	for k, f := range s.Files {
		file := map[string]any{"path": f.Path, "file": f.LocalPath, "size": f.Size, "sha256": f.SHA256, "source": f.Source}
		if exported != nil {
			file["dest"] = exported[k]
		}
		files = append(files, file)
	}
	out := map[string]any{"repo": s.Repo, "revision": s.Revision, "commit": s.Commit, "files": files, "bytes_network": s.BytesNetwork, "resolved": s.Resolution}
	if s.RenamedTo != "" {
		out["renamed_to"] = s.RenamedTo
	}
	return out
}

// printFetched prints a line about each file that was fetched, then the path of each.
func printFetched(w io.Writer, s *hub.Snapshot, exported []string) {
	for _, f := range s.Files {
		fmt.Fprintf(terminal.Writer(w), "%s: %s, %s, sha256 %s\n", f.Path, bytefmt.Format(f.Size), f.Source, f.SHA256)
	}
	for k, f := range s.Files {
		if exported != nil {
			fmt.Fprintln(w, exported[k])
		} else {
			fmt.Fprintln(w, f.LocalPath)
		}
	}
}
