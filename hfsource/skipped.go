package hfsource

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// SkippedEntry is an entry of a directory that is not read.
type SkippedEntry struct{ Path, Reason string }

// Why entries are passed over.
const (
	notATrace    = "not a trace format"
	notAFile     = "not a file"
	notDescended = "a directory: name it as an input"
)

// skipReason says why an entry of a directory is passed over, "" where it is read. info is nil where it cannot be looked at.
func skipReason(info os.FileInfo, known bool) string {
	switch {
	case info != nil && info.IsDir():
		return notDescended
	case !known:
		return notATrace
	case info != nil && !info.Mode().IsRegular():
		return notAFile
	}
	return ""
}

// shownNames is how many entries are named.
const shownNames = 10

// DescribeSkipped says in one line which entries were passed over, and why.
func DescribeSkipped(list []SkippedEntry) string {
	shown := list[:min(len(list), shownNames)]
	var groups []string
	for _, why := range []string{notATrace, notAFile, notDescended} {
		var names []string
		for _, p := range shown {
			if p.Reason == why {
				names = append(names, p.name(list[0]))
			}
		}
		if names != nil {
			groups = append(groups, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), why))
		}
	}
	if n := len(list) - len(shown); n > 0 {
		groups = append(groups, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("skipped %d: %s", len(list), strings.Join(groups, ", "))
}

// name is the name of an entry, or its path where it lies elsewhere than the first.
func (p SkippedEntry) name(first SkippedEntry) string {
	if filepath.Dir(p.Path) == filepath.Dir(first.Path) {
		return filepath.Base(p.Path)
	}
	return p.Path
}
