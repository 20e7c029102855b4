package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// Generic is the repository that the generic loader of AIPerf and of agentx-harness may read under their scenarios, GenericName its name as a
// public dataset.
const (
	Generic     = "semianalysisai/cc-traces-weka-062126"
	GenericName = "semianalysis_cc_traces_weka_062126"
)

// corpora are the corpora that InferenceX pins: those of 14 names of public datasets, as AIPerf 0.13.0 and agentx-harness 1.0.12
// have them. To fill in the files of one, convert it and run the command of doc/spec/replay.md 8.7.
var corpora = []Corpus{
	{"semianalysisai/cc-traces-weka-with-subagents-060226", []string{"semianalysis_cc_traces_weka_with_subagents_060226"}, nil},
	{"semianalysisai/cc-traces-weka-with-subagents-060226-256k", []string{"semianalysis_cc_traces_weka_with_subagents_060226_256k"}, nil},
	{"semianalysisai/cc-traces-weka-with-subagents-060526", []string{"semianalysis_cc_traces_weka_with_subagents_060526"}, nil},
	{"semianalysisai/cc-traces-weka-with-subagents-060526-256k", []string{"semianalysis_cc_traces_weka_with_subagents_060526_256k"}, nil},
	{"semianalysisai/cc-traces-weka-with-subagents-060826", []string{"semianalysis_cc_traces_weka_with_subagents_060826"}, nil},
	{"semianalysisai/cc-traces-weka-with-subagents-060826-256k", []string{"semianalysis_cc_traces_weka_with_subagents_060826_256k"}, nil},
	{"semianalysisai/cc-traces-weka-061326", []string{"semianalysis_cc_traces_weka_061326"}, nil},
	{"semianalysisai/cc-traces-weka-061326-256k", []string{"semianalysis_cc_traces_weka_061326_256k"}, nil},
	{"semianalysisai/cc-traces-weka-061526", []string{"semianalysis_cc_traces_weka_061526"}, nil},
	{"semianalysisai/cc-traces-weka-061526-256k", []string{"semianalysis_cc_traces_weka_061526_256k"}, nil},
	{Generic, []string{GenericName, "semianalysis_cc_traces_weka_with_subagents"}, nil},
	{Generic + "-256k", []string{GenericName + "_256k", "semianalysis_cc_traces_weka_with_subagents_256k"}, nil},
}

// Corpora returns the table of the pinned corpora. A row without files matches no dataset.
func Corpora() []Corpus { return slices.Clone(corpora) }

// Corpus is a pinned corpus: a row of a table. Several rows may name one repository, whose files have changed or which has
// them in several formats.
type Corpus struct {
	Repository string   // at Hugging Face
	Names      []string // by which AIPerf knows it
	SHA256     []string // hex, of the input files in their order; nil: not known yet
}

// Dataset is what a scenario looks at in a dataset.
type Dataset struct {
	SHA256     []string // of the input files in their order, as the manifest of the cache has them
	Repository string   // of the hub that every input was fetched from, at one commit; "": they come from elsewhere
	Synthetic  string   // the input that was not recorded, such as demo; "": none
	Truncated  []string // rules of the reconstruction that leave out recorded requests, such as "max_isl=5000"
}

// Pin says by what a dataset is a pinned corpus.
type Pin string

// The pins.
const (
	content Pin = "content" // of its files
	Name    Pin = "name"    // of the repository that they were fetched from: nobody has looked at their content
)

// Identify returns the row of the table that a dataset is the corpus of, and by what: by its content, or where the scenario lets
// a name do, by that. The pin is "" if it is none.
func (s Scenario) Identify(d Dataset, table []Corpus) (Corpus, Pin) {
	k := slices.IndexFunc(table, func(c Corpus) bool { return len(c.SHA256) > 0 && slices.Equal(c.SHA256, d.SHA256) })
	if k >= 0 {
		return table[k], content
	}
	k = slices.IndexFunc(table, func(c Corpus) bool { return c.Repository == d.Repository })
	if s.ByName && k >= 0 {
		return table[k], Name
	}
	return Corpus{}, ""
}

// CheckDataset returns all conflicts between the scenario and a dataset. The table has the pinned corpora.
func (s Scenario) CheckDataset(d Dataset, table []Corpus) (list []Conflict) {
	if _, pin := s.Identify(d, table); pin == "" && d.Synthetic == "" {
		what, want, try := "the dataset is made of "+digests(d.SHA256), "the files of a pinned corpus", advice(table)
		if s.ByName {
			want, try = "a pinned corpus, fetched from its repository", "replay one, such as hf://datasets/"+Generic
		}
		if d.Repository != "" {
			what += " of " + d.Repository
		}
		list = append(list, Conflict{UnknownCorpus, what, want, try})
	}
	if d.Synthetic != "" {
		list = append(list, Conflict{SyntheticDataset, d.Synthetic + " was not recorded from agents", "a pinned corpus", "replay one ({unsafe-override} does not help)"})
	}
	for _, rule := range d.Truncated {
		list = append(list, Conflict{InputTruncation, "the dataset was made with " + rule, "every recorded request", "convert without it"})
	}
	return list
}

// digests describes a list of files: how many there are, and the first.
func digests(sha256 []string) string {
	switch len(sha256) {
	case 0:
		return "no files"
	case 1:
		return "one file, sha256 " + short(sha256[0])
	}
	return fmt.Sprintf("%d files, the first sha256 %s", len(sha256), short(sha256[0]))
}

// short returns the first 12 digits of a digest, for errors.
func short(sha256 string) string { return sha256[:min(12, len(sha256))] }

// advice says which corpora the table knows by their files, and how many it knows by name alone.
func advice(table []Corpus) string {
	var known []string
	empty := 0
	for _, c := range table {
		switch {
		case len(c.SHA256) == 0:
			empty++
		case !slices.Contains(known, c.Repository):
			known = append(known, c.Repository)
		}
	}
	if len(known) == 0 {
		return fmt.Sprintf("this agentx knows the files of none of the %d pinned corpora", empty)
	}
	return "replay " + strings.Join(known, ", ")
}
