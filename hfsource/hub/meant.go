package hub

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/meant"
)

// Meant guesses what was meant by an input that is neither a file nor a reference, and says how to write it: an address
// copied from a browser, a scheme in capitals, hf:// without datasets/, OWNER/NAME as the Python tools take it, or a short
// name that does not exist. It is "" where the input looks like none of these.
func Meant(input string) string {
	if u, ok := asAddress(input); ok {
		return fromAddress(u)
	}
	if len(input) > len(Scheme) && strings.EqualFold(input[:len(Scheme)], Scheme) {
		rest := input[len(Scheme):]
		kind, tail, _ := strings.Cut(rest, "/")
		switch kind = strings.ToLower(kind); {
		case kind == "datasets":
			rest = tail
		case slices.Contains(otherKinds, kind):
			return "hf://datasets/OWNER/NAME: " + kind + " are no datasets"
		}
		return fromPage(rest, false)
	}
	if short, _, _ := cutName(input); strings.HasPrefix(strings.ToLower(short), shortPrefix) && !strings.Contains(short, ".") && !strings.Contains(input, "/") { // else it is a file
		return "agentx fetch --list has all names; the nearest are " + strings.Join(nearest(short, 3), ", ")
	}
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(input, "/"), "api/"), "datasets/"); ok {
		return fromPage(rest, false)
	}
	return fromName(input)
}

// otherKinds are what the hub has besides datasets.
var otherKinds = []string{"models", "spaces", "buckets"}

// fromName takes OWNER/NAME for what the Python tools take it for, unless it looks like a file.
func fromName(input string) string {
	r, err := parse(prefix + input)
	if err != nil || r.Path != "" || strings.HasPrefix(input, ".") || slices.Contains([]string{".json", ".jsonl", ".zst", ".gz", ".parquet", ".txt", ".csv"}, strings.ToLower(path.Ext(input))) {
		return ""
	}
	for _, n := range Names() {
		if n.Repo == r.Repo {
			return r.String()
		}
	}
	return r.String() + ", if a dataset of the hub is meant"
}

// siteHosts are the names of the hub itself.
var siteHosts = []string{"huggingface.co", "www.huggingface.co", "hf.co"}

// asAddress reads an address as a browser shows it, with or without its scheme.
func asAddress(input string) (*url.URL, bool) {
	for _, host := range siteHosts {
		if len(input) > len(host) && strings.EqualFold(input[:len(host)+1], host+"/") {
			input = "https://" + input
		}
	}
	u, err := url.Parse(input)
	return u, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// fromAddress reads the address of a page, a file or an entry of the programming interface of a dataset.
func fromAddress(u *url.URL) string {
	at := u.EscapedPath()
	if rest, ok := strings.CutPrefix(strings.TrimPrefix(at, "/api"), "/datasets/"); ok {
		return fromPage(rest, true)
	}
	owner, name, _ := strings.Cut(strings.Trim(at, "/"), "/")
	name, _, _ = strings.Cut(name, "/")
	if r, err := parse(prefix + owner + "/" + name); err == nil && slices.Contains(siteHosts, strings.ToLower(u.Host)) && !slices.Contains(noOwners, owner) {
		return r.String() + ", if there is such a dataset: an address without /datasets/ is that of a model"
	}
	return ""
}

// noOwners begin addresses of the hub that are those of no repository, or of one that is neither a dataset nor a model.
var noOwners = append([]string{"datasets", "api", "docs", "blog", "papers", "collections", "organizations", "settings", "learn"}, otherKinds...)

// fromPage reads what stands behind /datasets/ in an address: OWNER/NAME, and a page of it. Escaped means as in an address.
func fromPage(rest string, escaped bool) string {
	parts := strings.SplitN(strings.TrimSuffix(rest, "/"), "/", 4)
	if len(parts) < 2 {
		return ""
	}
	text := prefix + strings.TrimSuffix(rest, "/")
	if page := len(parts) == 4 && slices.Contains([]string{"tree", "blob", "resolve", "raw", "revision"}, parts[2]) && !strings.Contains(parts[1], "@"); page || escaped {
		text = prefix + parts[0] + "/" + parts[1]
		if page {
			revision, file := cutRevision(parts[3])
			if unescaped, err := url.PathUnescape(file); err == nil && escaped {
				file = unescaped
			} else if escaped {
				return ""
			}
			if parts[2] == "tree" { // a directory, which is no reference
				file = ""
			}
			text += "@" + revision + file
		}
	}
	r, err := parse(text)
	if err != nil {
		return ""
	}
	return r.String()
}

// nearest lists the n short names that are most like another.
func nearest(short string, n int) (list []string) {
	for _, named := range Names() {
		list = append(list, named.Name)
	}
	slices.Reverse(list) // the latest first, where they are equally near
	return meant.Nearest(short, list)[:n]
}

// NoInput is the error about an input that is no file, with what was meant, as far as that can be guessed.
func NoInput(input string) error {
	return &Error{Class: Refused, Text: fmt.Sprintf("input %s: there is no such file or directory", input), Try: Meant(input)}
}
