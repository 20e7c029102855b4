package hub

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

var (
	repoForm   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
	etagForm   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	hexForm    = regexp.MustCompile(`^[0-9a-fA-F]{4,40}$`)
)

// checkRepo refuses what is not OWNER/NAME as the hub allows it.
func checkRepo(repo string) error {
	if !repoForm.MatchString(repo) || strings.Contains(repo, "..") || strings.Contains(repo, "--") {
		return fmt.Errorf("%q is not OWNER/NAME of letters, digits and -_. without .. and --", repo)
	}
	for part := range strings.SplitSeq(repo, "/") {
		if part == "." {
			return fmt.Errorf("%q is not OWNER/NAME", repo)
		}
	}
	return nil
}

// checkPath refuses a path, or a revision, that could lead out of a directory or that some file system cannot hold.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("it is empty")
	case len(path) > 4096:
		return fmt.Errorf("it has %d bytes, more than 4096", len(path))
	case !utf8.ValidString(path):
		return fmt.Errorf("it is not UTF-8")
	case path[0] == '/':
		return fmt.Errorf("it is absolute")
	case len(path) > 1 && path[1] == ':' && (path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z'):
		return fmt.Errorf("it begins with a drive letter")
	}
	for _, c := range path {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == '\\' {
			return fmt.Errorf("it contains %q", c)
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("it has a part %q", part)
		case len(part) > 255:
			return fmt.Errorf("a part of it has %d bytes, more than 255", len(part))
		}
	}
	return nil
}

// checkSelected refuses paths that cannot exist together in one directory: invalid ones, two that are the same on some file
// systems, and a file that would also be a directory.
func checkSelected(paths []string) error {
	refuse := func(path, text string) error {
		return &Error{Class: ClassInvalid, File: sanitize(fmt.Sprintf("%q", path), 300), Text: text}
	}
	folded := map[string]string{}
	for _, path := range paths {
		if err := checkPath(path); err != nil {
			return refuse(path, "the path is refused: "+err.Error())
		}
		key := norm.NFC.String(strings.ToLower(norm.NFC.String(path)))
		if other, ok := folded[key]; ok && other != path {
			return refuse(path, fmt.Sprintf("%q is the same name on some file systems: both are refused", other))
		}
		folded[key] = path
	}
	for key, path := range folded {
		for k, c := range key {
			if other, ok := folded[key[:k]]; ok && c == '/' {
				return refuse(path, fmt.Sprintf("%q is a file and a directory", other))
			}
		}
	}
	return nil
}

// escape percent-encodes all but letters, digits and -._~; also the slash.
func escape(s string) string {
	var b strings.Builder
	for k := range len(s) {
		c := s[k]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// escapePath escapes each part of a path.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for k := range parts {
		parts[k] = escape(parts[k])
	}
	return strings.Join(parts, "/")
}
