package aiperf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Names are the names of the files in their directory.
type Names struct {
	Rows              string // of the warmup and the headline
	excluded          string // rows of requests that are in no headline number
	aggregate         string // JSON
	table             string // CSV
	slices            string // JSON
	slicesCSV         string
	console           string
	ready             string // says that all others are there
	server, serverCSV string // metrics of servers
}

// NamesOf returns the names of AIPerf, or those that it makes of a prefix.
func NamesOf(prefix string) Names {
	rows, whole, ready, server := "profile_export", "profile_export_aiperf", "aiperf", "server_metrics_export"
	if prefix != "" {
		rows, whole, ready, server = prefix, prefix, prefix, prefix+"_server_metrics"
	}
	return Names{
		rows + ".jsonl", rows + "_excluded.jsonl", whole + ".json", whole + ".csv", whole + "_timeslices.json", whole + "_timeslices.csv",
		rows + "_console.txt", "." + ready + "_results_ready.json", server + ".json", server + ".csv",
	}
}

// all returns the names of all files that this package writes.
func (n Names) all() []string {
	return []string{n.Rows, n.excluded, n.aggregate, n.table, n.slices, n.slicesCSV, n.console, n.ready, n.server, n.serverCSV}
}

// maxPrefix bounds the length of a prefix: names have at most 255 bytes.
const maxPrefix = 200

// runFiles are the names of the JSON files that a run, or a list of runs, writes to the same directory, without their suffixes.
var runFiles = []string{"concurrencies", "lanes", "records", "run", "server_metrics", "summary"}

// checkPrefix returns an error if names with the prefix would be none of files in the directory.
func checkPrefix(prefix string) error {
	switch {
	case len(prefix) > maxPrefix:
		return fmt.Errorf("prefix: %d bytes: want at most %d", len(prefix), maxPrefix)
	case strings.ContainsAny(prefix, `/\`):
		return fmt.Errorf("prefix %q: want the beginning of a name, without a directory", prefix)
	case strings.HasPrefix(prefix, "."):
		return fmt.Errorf("prefix %q: want a name that does not begin with a dot", prefix)
	case strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return errors.New("prefix: want no control characters")
	case slices.Contains(runFiles, strings.ToLower(prefix)):
		return fmt.Errorf("prefix %q: the files of a run have this name, and would be overwritten: want another, such as %q", prefix, prefix+"1")
	}
	return nil
}
