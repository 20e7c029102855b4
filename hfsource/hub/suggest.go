package hub

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/meant"
)

// What stands before OWNER/NAME where it was copied from: an address in a browser, which is escaped; or a scheme, hf:// with
// or without datasets/.
var (
	addressForm = regexp.MustCompile(`^(?i:https?://[^/]+|(?:www\.)?huggingface\.co|hf\.co)/(?:api/)?datasets/([^?#]+)`)
	schemeForm  = regexp.MustCompile(`^(?i:hf://(?:datasets/)?|/?(?:api/)?datasets/)(.+)`)
)

// Suggest guesses the reference that the user of an input that is neither file nor reference intended, and says how to write it: the address of
// a dataset, or of a page or file of it; hf:// in capitals or without datasets/; OWNER/NAME as the Python tools take it; a
// short name that does not exist. It is "" where the input looks like none of these.
func Suggest(input string) string {
	if m := addressForm.FindStringSubmatch(input); m != nil {
		return fromPage(m[1], true)
	}
	if m := schemeForm.FindStringSubmatch(input); m != nil {
		return fromPage(m[1], false)
	}
	if short, _, _ := cutName(input); strings.HasPrefix(strings.ToLower(short), shortPrefix) && !strings.ContainsAny(input, "./") { // else it is a file
		return "agentx fetch --list has all names; the nearest are " + strings.Join(nearest(short, 3), ", ")
	}
	files := []string{".json", ".jsonl", ".zst", ".gz", ".parquet", ".txt", ".csv"}
	if r, err := parse(prefix + input); err == nil && r.Path == "" && input[0] != '.' && !slices.Contains(files, strings.ToLower(path.Ext(input))) {
		if slices.ContainsFunc(NamedDatasets(), func(n NamedDataset) bool { return n.Repo == r.Repo }) {
			return r.String()
		}
		return r.String() + ", if a dataset of the hub is meant"
	}
	return ""
}

// fromPage reads OWNER/NAME and what follows it: a page with a revision and perhaps a file; else what a reference has, or in
// an address nothing that counts.
func fromPage(rest string, escaped bool) string {
	rest = strings.TrimSuffix(rest, "/")
	parts := strings.SplitN(rest, "/", 4)
	switch {
	case slices.Contains([]string{"models", "spaces", "buckets"}, strings.ToLower(parts[0])): // no owner
		return ""
	case len(parts) == 4 && slices.Contains([]string{"tree", "blob", "resolve", "raw", "revision"}, parts[2]) && !strings.Contains(parts[1], "@"):
		revision, file := cutRevision(parts[3])
		if escaped {
			file, _ = url.PathUnescape(file) // what cannot be read is left out
		}
		if parts[2] == "tree" { // a directory, which is no reference
			file = ""
		}
		rest = parts[0] + "/" + parts[1] + "@" + revision + file
	case escaped && len(parts) > 2:
		rest = parts[0] + "/" + parts[1]
	}
	r, err := parse(prefix + rest)
	if err != nil {
		return ""
	}
	return r.String()
}

// nearest lists the n short names that are most like another.
func nearest(short string, n int) (list []string) {
	for _, named := range NamedDatasets() {
		list = append(list, named.Name)
	}
	slices.Reverse(list) // the latest first, where they are equally near
	return meant.Nearest(short, list)[:n]
}

// InputNotFound is the error about an input that is no file, with what was meant, as far as that can be guessed.
func InputNotFound(input string) error {
	return &Error{Class: ClassInvalid, Text: fmt.Sprintf("input %s: there is no such file or directory", input), Hint: Suggest(input)}
}
