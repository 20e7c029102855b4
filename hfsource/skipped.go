package hfsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SkippedEntry is an entry of a directory that is not read.
type SkippedEntry struct{ Path, Reason string }

// Reasons to skip an entry.
const (
	notATrace  = "not a trace format"
	notAFile   = "not a file"
	aDirectory = "a directory: name it as an input"
	hidden     = "hidden"
)

// skipReason returns why an entry of a directory is not read, "" if it is. info is nil if the entry cannot be examined.
func skipReason(name string, info os.FileInfo, knownFormat bool) string {
	switch {
	case strings.HasPrefix(name, "."):
		return hidden
	case info != nil && info.IsDir():
		return aDirectory
	case !knownFormat:
		return notATrace
	case info != nil && !info.Mode().IsRegular():
		return notAFile
	}
	return ""
}

// maxNamed is how many skipped entries DescribeSkipped names.
const maxNamed = 10

// DescribeSkipped returns one line that names skipped entries, at most ten, by reason.
func DescribeSkipped(list []SkippedEntry) string {
	named := list[:min(len(list), maxNamed)]
	var groups []string
	for _, reason := range []string{notATrace, notAFile, aDirectory, hidden} {
		var names []string
		for _, e := range named {
			if e.Reason == reason {
				names = append(names, e.name(list[0]))
			}
		}
		if names != nil {
			groups = append(groups, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), reason))
		}
	}
	if n := len(list) - len(named); n > 0 {
		groups = append(groups, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("skipped %d: %s", len(list), strings.Join(groups, ", "))
}

// name returns the name of an entry, or its path if it is not in the directory of the first.
func (e SkippedEntry) name(first SkippedEntry) string {
	if filepath.Dir(e.Path) == filepath.Dir(first.Path) {
		return filepath.Base(e.Path)
	}
	return e.Path
}
