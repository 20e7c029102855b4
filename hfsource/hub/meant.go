package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Meant guesses what was meant by an input that is neither a file nor a reference, and says how to write it: an address
// copied from a browser, a scheme in capitals, hf:// without datasets/, or a short name that does not exist. It is "" where
// the input looks like none of these.
func Meant(input string) string {
	if r, ok := fromAddress(input); ok {
		return r.String()
	}
	if len(input) > len(Scheme) && strings.EqualFold(input[:len(Scheme)], Scheme) {
		rest := input[len(Scheme):]
		if kind, tail, ok := strings.Cut(rest, "/"); ok && strings.EqualFold(kind, "datasets") {
			rest = tail
		}
		if r, err := parse(prefix + rest); err == nil {
			return r.String()
		}
	}
	if short, _, _ := cutName(input); strings.HasPrefix(strings.ToLower(short), shortPrefix) && !strings.Contains(short, ".") { // else it is a file
		return "agentx fetch --list has all names; the nearest are " + strings.Join(nearest(short, 3), ", ")
	}
	return ""
}

// fromAddress reads the address of a page or a file of a dataset, as a browser shows it.
func fromAddress(input string) (Ref, bool) {
	for _, host := range []string{"huggingface.co/", "www.huggingface.co/", "hf.co/"} {
		if len(input) > len(host) && strings.EqualFold(input[:len(host)], host) {
			input = "https://" + input
		}
	}
	u, err := url.Parse(input)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return Ref{}, false
	}
	rest, ok := strings.CutPrefix(u.EscapedPath(), "/datasets/")
	if !ok {
		return Ref{}, false
	}
	parts := strings.SplitN(strings.TrimSuffix(rest, "/"), "/", 4)
	if len(parts) < 2 {
		return Ref{}, false
	}
	text := prefix + parts[0] + "/" + parts[1]
	if len(parts) == 4 && slices.Contains([]string{"tree", "blob", "resolve", "raw"}, parts[2]) {
		revision, path := cutRevision(parts[3])
		if path, err = url.PathUnescape(path); err != nil {
			return Ref{}, false
		}
		if parts[2] == "tree" { // a directory, which is no reference
			path = ""
		}
		text += "@" + revision + path
	}
	r, err := parse(text)
	return r, err == nil
}

// nearest lists the n short names that are most like another.
func nearest(short string, n int) (list []string) {
	for _, named := range Names() {
		list = append(list, named.Name)
	}
	slices.Reverse(list) // the latest first, where they are equally near
	short = strings.ToLower(short)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(distance(short, a), distance(short, b)) })
	return list[:n]
}

// distance is how many characters have to be put in, taken out or changed to make one text the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for k := range len(b) {
			change := left
			if a[i] != b[k] {
				change++
			}
			left, row[k+1] = row[k+1], min(change, row[k]+1, row[k+1]+1)
		}
	}
	return row[len(b)]
}

// NoInput is the error about an input that is no file, with what was meant, as far as that can be guessed.
func NoInput(input string) error {
	return &Error{Class: Refused, Text: fmt.Sprintf("input %s: there is no such file or directory", input), Try: Meant(input)}
}
