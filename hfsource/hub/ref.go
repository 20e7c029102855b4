package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/suggest"
)

// Ref refers to a dataset, hf://datasets/OWNER/NAME[@REVISION][/PATH], or to the tokenizer of a model, hf://OWNER/NAME[@REVISION].
type Ref struct {
	Model    bool   // the repository holds a model, and its tokenizer is meant
	Repo     string // OWNER/NAME
	Revision string // a branch, a tag, a commit or refs/..., not escaped; "" is main
	Path     string // one file of the dataset; "" is its data files
}

// Scheme begins every reference.
const Scheme = "hf://"

const prefix = Scheme + "datasets/"

// parquetRevision is the branch with the Parquet files that the hub converts a dataset to.
const parquetRevision = "refs/convert/parquet"

// IsRef reports whether an input refers to a dataset: it has the scheme, or begins with a name of NamedDatasets.
func IsRef(input string) bool {
	if strings.HasPrefix(input, Scheme) {
		return true
	}
	_, ok := findNamed(input)
	return ok
}

// Parse parses a reference. A name of NamedDatasets can replace hf://datasets/OWNER/NAME. Its errors are *Error of
// ClassInvalid.
func Parse(input string) (Ref, error) {
	full := input
	if n, ok := findNamed(input); ok {
		short, _ := cutName(input)
		full = prefix + n.Repo + input[len(short):]
	}
	r, err := parse(full)
	if err != nil {
		return Ref{}, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s: %v", input, err),
			Hint: cmp.Or(Suggest(input), "hf://datasets/OWNER/NAME[@REVISION][/PATH], or a name that agentx fetch lists")}
	}
	return r, nil
}

// parse parses a reference to a dataset with its scheme. It knows no short names.
func parse(input string) (r Ref, err error) {
	if !strings.HasPrefix(input, prefix) {
		return r, fmt.Errorf("not a dataset of the hub")
	}
	return parseRepo(input, datasets)
}

// parseRepo parses a reference to a repository of one kind.
func parseRepo(input string, k kind) (r Ref, err error) {
	r.Model = k == models
	rest := strings.TrimPrefix(input, k.scheme)
	owner, rest, _ := strings.Cut(rest, "/")
	name, tail := cutName(rest)
	r.Repo = owner + "/" + name
	if revision, ok := strings.CutPrefix(tail, "@"); ok {
		revision, tail = cutRevision(revision)
		if r.Revision, err = url.PathUnescape(revision); err != nil {
			return r, fmt.Errorf("revision: %v", err)
		}
		if r.Revision == "" {
			return r, fmt.Errorf("the revision after @ is empty")
		}
	}
	r.Path = strings.TrimPrefix(tail, "/")
	return r, r.check()
}

// Validate reports the first field that Fetch refuses, as an *Error of ClassInvalid.
func (r Ref) Validate() error {
	if err := r.check(); err != nil {
		return &Error{Class: ClassInvalid, Text: err.Error(), Hint: r.kind().scheme + "OWNER/NAME[@REVISION][/PATH]"}
	}
	return nil
}

// check returns why a field of the reference is refused.
func (r Ref) check() error {
	if err := checkRepo(r.Repo); err != nil {
		return err
	}
	if r.Revision != "" {
		if err := checkPath(r.Revision); err != nil {
			return fmt.Errorf("revision %q: %v", r.Revision, err)
		}
	}
	if r.Path != "" {
		if err := checkPath(r.Path); err != nil {
			return fmt.Errorf("path %q: %v", r.Path, err)
		}
	}
	return nil
}

// cutName splits the name of a repository from what may follow it: @REVISION, /PATH.
func cutName(s string) (name, tail string) {
	if k := strings.IndexAny(s, "@/"); k >= 0 {
		return s[:k], s[k:]
	}
	return s, ""
}

// cutRevision splits an escaped revision from what follows it. It ends at the first slash, but for refs/convert/NAME and
// refs/pr/N.
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

// String returns the reference in the form that Parse reads.
func (r Ref) String() string {
	s := r.kind().scheme + r.Repo
	if r.Revision != "" {
		s += "@" + escapeRevision(r.Revision)
	}
	if r.Path != "" {
		s += "/" + r.Path
	}
	return s
}

// Name returns the reference as a short name without the scheme: OWNER/NAME[@REVISION] for a model.
func (r Ref) Name() string { return strings.TrimPrefix(r.String(), r.kind().scheme) }

// escapeRevision percent-encodes a revision where cutRevision would end it too early.
func escapeRevision(revision string) string {
	if _, tail := cutRevision(revision); tail == "" {
		return strings.ReplaceAll(revision, "%", "%25")
	}
	return escape(revision)
}

// revision returns the revision, main by default.
func (r Ref) revision() string { return cmp.Or(r.Revision, "main") }

// kind is what a repository holds. The hub and the cache name repositories by it.
type kind struct {
	word   string // for messages
	scheme string // before OWNER/NAME in a reference
	api    string // in addresses of the hub's answers
	page   string // in addresses of pages and files
	dir    string // in the cache

	instead string // of a download, for hints
}

var (
	datasets = kind{"dataset", prefix, "/api/datasets/", "/datasets/", "datasets--", ""}
	models   = kind{"model", Scheme, "/api/models/", "/", "models--", "; or the path of its tokenizer.json"}
)

// kind returns what the repository of a reference holds.
func (r Ref) kind() kind {
	if r.Model {
		return models
	}
	return datasets
}

// The beginnings of copied references: an address of a web page, which is percent-encoded; hf://, with or without
// datasets/.
var (
	addressForm = lazyregexp.New(`^(?i:https?://[^/]+|(?:www\.)?huggingface\.co|hf\.co)/(?:api/)?datasets/([^?#]+)`)
	schemeForm  = lazyregexp.New(`^(?i:hf://(?:datasets/)?|/?(?:api/)?datasets/)(.+)`)
)

// Suggest returns the reference that an invalid input may mean, as a text for a hint; "" if it resembles none. It
// recognizes addresses of web pages, hf:// in capitals or without datasets/, OWNER/NAME, and misspelled short names.
func Suggest(input string) string {
	if m := addressForm().FindStringSubmatch(input); m != nil {
		return fromPage(m[1], true)
	}
	if m := schemeForm().FindStringSubmatch(input); m != nil {
		return fromPage(m[1], false)
	}
	if short, _ := cutName(input); strings.HasPrefix(strings.ToLower(short), shortPrefix) && !strings.ContainsAny(input, "./") { // else it names a file
		return "agentx fetch lists all names; the nearest are " + strings.Join(nearest(short, 3), ", ")
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

// NamedDataset is a dataset with a short name.
type NamedDataset struct {
	Name        string `json:"name"` // agentx-X
	Repo        string `json:"repo"` // semianalysisai/cc-traces-weka-X
	Description string `json:"what"` // one line
}

const (
	shortPrefix = "agentx-"
	repoPrefix  = "semianalysisai/cc-traces-weka-"
)

// NamedDatasets lists the public AgentX corpora, the oldest first. The numbers in the descriptions are those of the
// dataset cards, which are not exact.
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
		list[k].Repo, list[k].Name = repoPrefix+list[k].Name, shortPrefix+list[k].Name
	}
	return list
}

// findNamed returns the dataset with whose short name an input begins.
func findNamed(input string) (NamedDataset, bool) {
	short, _ := cutName(input)
	for _, n := range NamedDatasets() {
		if n.Name == short {
			return n, true
		}
	}
	return NamedDataset{}, false
}

var (
	repoForm   = lazyregexp.New(`^[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}$`)
	commitForm = lazyregexp.New(`^[0-9a-f]{40}$`)
	etagForm   = lazyregexp.New(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	hexForm    = lazyregexp.New(`^[0-9a-fA-F]{4,40}$`)
)

// checkRepo refuses what is not OWNER/NAME as the hub allows it.
func checkRepo(repo string) error {
	if !repoForm().MatchString(repo) || strings.Contains(repo, "..") || strings.Contains(repo, "--") {
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
