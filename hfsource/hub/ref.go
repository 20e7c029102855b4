package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Ref names a dataset of the hub: hf://datasets/OWNER/NAME[@REVISION][/PATH].
type Ref struct {
	Repo     string // OWNER/NAME
	Revision string // as asked for, %2F decoded; "" is main
	Path     string // one file of it; "": its data files
}

// Scheme begins every reference that is written out.
const Scheme = "hf://"

const prefix = Scheme + "datasets/"

// parquetRevision is where a bot of the hub keeps a dataset as Parquet.
const parquetRevision = "refs/convert/parquet"

var (
	repoForm   = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}$`)
	commitForm = regexp.MustCompile(`^[0-9a-f]{40}$`)
	etagForm   = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	hexForm    = regexp.MustCompile(`^[0-9a-fA-F]{4,40}$`)
)

// IsRef reports whether an input names a dataset of the hub: by its scheme, or by a name that Names lists.
func IsRef(input string) bool {
	if strings.HasPrefix(input, Scheme) {
		return true
	}
	_, ok := findNamed(input)
	return ok
}

// Parse reads a reference, or a name that Names lists in the place of hf://datasets/OWNER/NAME.
func Parse(input string) (Ref, error) {
	full := input
	if n, ok := findNamed(input); ok {
		short, _, _ := cutName(input)
		full = prefix + n.Repo + input[len(short):]
	}
	r, err := parse(full)
	if err != nil {
		return Ref{}, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s: %v", input, err),
			Hint: cmp.Or(Suggest(input), "hf://datasets/OWNER/NAME[@REVISION][/PATH], or a name of agentx fetch --list")}
	}
	return r, nil
}

func parse(input string) (r Ref, err error) {
	rest, ok := strings.CutPrefix(input, prefix)
	if !ok {
		return r, fmt.Errorf("not a dataset of the hub")
	}
	owner, rest, _ := strings.Cut(rest, "/")
	name, tail, _ := cutName(rest)
	r.Repo = owner + "/" + name
	if err := checkRepo(r.Repo); err != nil {
		return r, err
	}
	if revision, ok := strings.CutPrefix(tail, "@"); ok {
		r.Revision, tail = cutRevision(revision)
		if r.Revision, err = url.PathUnescape(r.Revision); err != nil {
			return r, fmt.Errorf("revision: %v", err)
		}
		if err := checkPath(r.Revision); err != nil {
			return r, fmt.Errorf("revision %q: %v", r.Revision, err)
		}
	}
	if r.Path = strings.TrimPrefix(tail, "/"); r.Path != "" {
		if err := checkPath(r.Path); err != nil {
			return r, fmt.Errorf("path %q: %v", r.Path, err)
		}
	}
	return r, nil
}

// cutName cuts the name of a repository off what may follow it: @REVISION, /PATH.
func cutName(s string) (name, tail string, found bool) {
	if k := strings.IndexAny(s, "@/"); k >= 0 {
		return s[:k], s[k:], true
	}
	return s, "", false
}

// cutRevision cuts a revision, as it is written, off what follows. It ends at the first slash, but for the two kinds of
// reference that the hub itself writes with slashes.
func cutRevision(s string) (revision, tail string) {
	slashes := 0
	if strings.HasPrefix(s, "refs/convert/") || strings.HasPrefix(s, "refs/pr/") {
		slashes = 2
	}
	for k := range len(s) {
		if s[k] == '/' {
			if slashes == 0 {
				return s[:k], s[k:]
			}
			slashes--
		}
	}
	return s, ""
}

// String writes the reference out.
func (r Ref) String() string {
	s := prefix + r.Repo
	if r.Revision != "" {
		s += "@" + writeRevision(r.Revision)
	}
	if r.Path != "" {
		s += "/" + r.Path
	}
	return s
}

func writeRevision(revision string) string {
	if _, tail := cutRevision(revision); tail == "" {
		return strings.ReplaceAll(revision, "%", "%25")
	}
	return escape(revision)
}

// asked is the revision that is meant.
func (r Ref) asked() string {
	if r.Revision == "" {
		return "main"
	}
	return r.Revision
}

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

// checkPath refuses the name of a file, as somebody else gives it, that could lead anywhere but below a directory, or
// that not every system can hold.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("it is empty")
	case len(path) > 4096:
		return fmt.Errorf("it has more than 4096 bytes")
	case !utf8.ValidString(path):
		return fmt.Errorf("it is not UTF-8")
	case path[0] == '/':
		return fmt.Errorf("it is absolute")
	case len(path) > 1 && path[1] == ':' && (path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z'):
		return fmt.Errorf("it begins with a drive letter")
	}
	for _, c := range path {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || c == '\\' {
			return fmt.Errorf("it holds %q", c)
		}
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("it has a part %q", part)
		case len(part) > 255:
			return fmt.Errorf("a part of it has more than 255 bytes")
		}
	}
	return nil
}

// escape percent-encodes all but letters, digits and -._~: a slash, too.
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

// escapePath is escape for each part of a path.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for k := range parts {
		parts[k] = escape(parts[k])
	}
	return strings.Join(parts, "/")
}

// NamedDataset is a dataset with a short name.
type NamedDataset struct {
	Name        string // agentx-X
	Repo        string // semianalysisai/cc-traces-weka-X
	Description string // one sentence
}

const (
	shortPrefix = "agentx-"
	corpora     = "semianalysisai/cc-traces-weka-"
)

// NamedDatasets lists the public AgentX corpora, the oldest first. Sizes are those of their cards: for people, not for checks.
func NamedDatasets() []NamedDataset {
	list := []NamedDataset{
		{Name: "042026", Description: "the set of 20 April 2026, in the shape of kv-cache-tester v8: 739 traces by its card"},
		{Name: "no-subagents-051226", Description: "12 May 2026, without subagents: 949 traces"},
		{Name: "no-subagents-051826", Description: "18 May 2026, without subagents: 98 traces"},
		{Name: "with-subagents-051926", Description: "19 May 2026, with subagents: 219 traces"},
		{Name: "with-subagents-051926-256k", Description: "the same for contexts up to 256k tokens: 217 traces"},
		{Name: "052726", Description: "27 May 2026: 472 traces; was once published as broken JSON lines"},
		{Name: "052726-256k", Description: "the same for contexts up to 256k tokens: 470 traces"},
		{Name: "with-subagents-060226", Description: "2 June 2026, with subagents"},
		{Name: "with-subagents-060226-256k", Description: "the same for contexts up to 256k tokens"},
		{Name: "with-subagents-060226-no-max-subagents", Description: "the same without a limit on subagents"},
		{Name: "060526", Description: "5 June 2026"},
		{Name: "060826", Description: "8 June 2026"},
		{Name: "061326", Description: "13 June 2026"},
		{Name: "061526", Description: "15 June 2026: 233 traces"},
		{Name: "061526-256k", Description: "the same for contexts up to 256k tokens: 232 traces"},
		{Name: "062126", Description: "21 June 2026, the default of InferenceX for models with a context of 1M tokens: 393 traces, about 1.8 GB"},
		{Name: "062126-256k", Description: "the same for contexts up to 256k tokens, the default for all other models: 393 traces"},
	}
	for k := range list {
		list[k].Repo, list[k].Name = corpora+list[k].Name, shortPrefix+list[k].Name
	}
	return list
}

// findNamed finds the dataset whose short name an input begins with.
func findNamed(input string) (NamedDataset, bool) {
	short, _, _ := cutName(input)
	for _, n := range NamedDatasets() {
		if n.Name == short {
			return n, true
		}
	}
	return NamedDataset{}, false
}
