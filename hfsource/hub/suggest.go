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
