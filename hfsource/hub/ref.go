package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
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
			Hint: cmp.Or(Suggest(input), "hf://datasets/OWNER/NAME[@REVISION][/PATH], or a name of agentx fetch --list")}
	}
	return r, nil
}

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
