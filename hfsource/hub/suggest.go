package hub

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// The beginnings of copied references: an address of a web page, which is percent-encoded; hf://, with or without
// datasets/.
var (
	addressForm = regexp.MustCompile(`^(?i:https?://[^/]+|(?:www\.)?huggingface\.co|hf\.co)/(?:api/)?datasets/([^?#]+)`)
	schemeForm  = regexp.MustCompile(`^(?i:hf://(?:datasets/)?|/?(?:api/)?datasets/)(.+)`)
)

// Suggest returns the reference that an invalid input may mean, as a text for a hint; "" if it resembles none. It
// recognizes addresses of web pages, hf:// in capitals or without datasets/, OWNER/NAME, and misspelled short names.
func Suggest(input string) string {
	if m := addressForm.FindStringSubmatch(input); m != nil {
		return fromPage(m[1], true)
	}
	if m := schemeForm.FindStringSubmatch(input); m != nil {
		return fromPage(m[1], false)
	}
	if short, _ := cutName(input); strings.HasPrefix(strings.ToLower(short), shortPrefix) && !strings.ContainsAny(input, "./") { // else it names a file
		return "agentx fetch --list has all names; the nearest are " + strings.Join(nearest(short, 3), ", ")
	}
	return fromRepo(input)
}

// fileSuffixes are endings of a local file's name, which OWNER/NAME does not have.
var fileSuffixes = []string{".json", ".jsonl", ".zst", ".gz", ".parquet", ".txt", ".csv"}

// fromRepo reads OWNER/NAME without a scheme, as the Python tools accept it.
func fromRepo(input string) string {
	r, err := parse(prefix + input)
	if err != nil || r.Path != "" || input[0] == '.' || slices.Contains(fileSuffixes, strings.ToLower(path.Ext(input))) {
		return ""
	}
	if slices.ContainsFunc(NamedDatasets(), func(n NamedDataset) bool { return n.Repo == r.Repo }) {
		return r.String()
	}
	return r.String() + ", if a dataset of the hub is meant"
}

// fromPage reads OWNER/NAME and what follows it: the page of a revision, perhaps with a file. escaped says that it comes
// from a web address, where other pages are cut off.
func fromPage(rest string, escaped bool) string {
	rest = strings.TrimSuffix(rest, "/")
	parts := strings.SplitN(rest, "/", 4)
	switch {
	case slices.Contains([]string{"models", "spaces", "buckets"}, strings.ToLower(parts[0])): // not an owner
		return ""
	case len(parts) == 4 && slices.Contains([]string{"tree", "blob", "resolve", "raw", "revision"}, parts[2]) && !strings.Contains(parts[1], "@"):
		revision, file := cutRevision(parts[3])
		if escaped {
			file, _ = url.PathUnescape(file) // left out if it cannot be decoded
		}
		if parts[2] == "tree" { // a directory, which no reference names
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

// nearest lists the n short names that resemble another one most.
func nearest(short string, n int) (list []string) {
	for _, named := range NamedDatasets() {
		list = append(list, named.Name)
	}
	slices.Reverse(list) // newest first among equally similar names
	return suggest.Nearest(short, list)[:n]
}
