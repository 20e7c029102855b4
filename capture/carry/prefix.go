package carry

import "strings"

// CutPrefix cuts the prefix that names a session off a raw path: /s/NAME/ or /s/NAME/a/AGENT/, where names have 1 to 128
// characters of A-Za-z0-9._-. The rest begins with a slash. A path without such a prefix is returned as it is.
func CutPrefix(path string) (session, agent, rest string) {
	session, rest, ok := cutName(path, "/s/")
	if !ok {
		return "", "", path
	}
	if agent, after, ok := cutName(rest, "/a/"); ok {
		return session, agent, after
	}
	return session, "", rest
}

// cutName cuts a name after a prefix; the rest begins with the slash behind the name.
func cutName(path, prefix string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(path, prefix)
	if !ok {
		return "", "", false
	}
	end := strings.IndexByte(after, '/')
	if end < 1 || end > 128 || strings.ContainsFunc(after[:end], notOfName) {
		return "", "", false
	}
	return after[:end], after[end:], true
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}
