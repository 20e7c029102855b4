package scenario

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// madeUp is a table of corpora that do not exist.
var madeUp = []Corpus{
	{"owner/empty", []string{"empty"}, nil},
	{"owner/one", []string{"one"}, []string{strings.Repeat("1", 64)}},
	{"owner/two", []string{"two", "zwei"}, []string{strings.Repeat("2", 64), strings.Repeat("3", 64)}},
	{"owner/two", []string{"two", "zwei"}, []string{strings.Repeat("4", 64)}}, // another form of it
}

func TestIdentify(t *testing.T) {
	for name, c := range map[string]struct{ files, want string }{
		"one file":         {"1", "owner/one"},
		"two files":        {"2 3", "owner/two"},
		"another form":     {"4", "owner/two"},
		"another order":    {"3 2", ""},
		"a part":           {"2", ""},
		"more":             {"1 2", ""},
		"another file":     {"5", ""},
		"nothing":          {"", ""},
		"a file too often": {"1 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			row, pin := AgentX().Identify(Dataset{SHA256: files(c.files), Repository: "owner/other"}, madeUp)
			require.Equal(t, c.want, row.Repository)
			require.Equal(t, map[bool]Pin{true: content}[c.want != ""], pin)
		})
	}
}

// The name of a repository does under the scenario of the harness. Content counts more.
func TestIdentifyByName(t *testing.T) {
	d := Dataset{SHA256: files("9"), Repository: "owner/two"}
	row, pin := AgentX().Identify(d, madeUp)
	require.Equal(t, "owner/two", row.Repository)
	require.Equal(t, Name, pin)
	_, pin = InferenceXAgentX().Identify(d, madeUp)
	require.Empty(t, pin)
	row, pin = AgentX().Identify(Dataset{SHA256: files("1"), Repository: "owner/two"}, madeUp)
	require.Equal(t, "owner/one", row.Repository)
	require.Equal(t, content, pin)
	for _, other := range []string{"", "owner/three", "owner", "Owner/two"} {
		_, pin = AgentX().Identify(Dataset{SHA256: files("9"), Repository: other}, madeUp)
		require.Empty(t, pin, other)
	}
	require.Empty(t, AgentX().CheckDataset(d, madeUp))
	d.Repository = "owner/three"
	require.Equal(t, []string{
		"unknown_corpus: the dataset is made of one file, sha256 999999999999 of owner/three: want a pinned corpus, fetched from its repository: replay one, such as hf://datasets/semianalysisai/cc-traces-weka-062126",
	}, lines(AgentX().CheckDataset(d, madeUp)))
}

// files returns a digest for each digit.
func files(digits string) (list []string) {
	for digit := range strings.FieldsSeq(digits) {
		list = append(list, strings.Repeat(digit, 64))
	}
	return list
}

func TestCheckDataset(t *testing.T) {
	const replayOne = "want the files of a pinned corpus: replay owner/one, owner/two"
	for name, c := range map[string]struct {
		dataset     Dataset
		table       []Corpus
		want        []string
		overridable bool
	}{
		"pinned":       {Dataset{SHA256: files("2 3")}, madeUp, nil, true},
		"unknown file": {Dataset{SHA256: files("9")}, madeUp, []string{"unknown_corpus: the dataset is made of one file, sha256 999999999999: " + replayOne}, true},
		"other order":  {Dataset{SHA256: files("3 2")}, madeUp, []string{"unknown_corpus: the dataset is made of 2 files, the first sha256 333333333333: " + replayOne}, true},
		"no files":     {Dataset{}, madeUp, []string{"unknown_corpus: the dataset is made of no files: " + replayOne}, true},
		"an empty row": {Dataset{SHA256: files("1")}, madeUp[:1], []string{
			"unknown_corpus: the dataset is made of one file, sha256 111111111111: want the files of a pinned corpus: this agentx knows the files of none of the 1 pinned corpora",
		}, true},
		"cut": {Dataset{SHA256: files("1"), Truncated: []string{"max_isl=5000", "end_offset=1"}}, madeUp, []string{
			"input_truncation: the dataset was made with max_isl=5000: want every recorded request: convert without it",
			"input_truncation: the dataset was made with end_offset=1: want every recorded request: convert without it",
		}, true},
		"demo": {Dataset{SHA256: files("9"), Synthetic: "demo"}, madeUp, []string{
			"synthetic_dataset: demo was not recorded from agents: want a pinned corpus: replay one ({unsafe-override} does not help)",
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			conflicts := InferenceXAgentX().CheckDataset(c.dataset, c.table)
			require.Equal(t, c.want, lines(conflicts))
			require.Equal(t, c.overridable, Overridable(conflicts))
		})
	}
}

func TestCorpora(t *testing.T) {
	table := Corpora()
	var names []string
	for _, c := range table {
		names = append(names, c.Names...)
		for _, digest := range c.SHA256 {
			require.Regexp(t, "^[0-9a-f]{64}$", digest)
		}
		_, pin := InferenceXAgentX().Identify(Dataset{SHA256: c.SHA256}, table)
		require.Equal(t, len(c.SHA256) > 0, pin == content, c.Repository)
	}
	slices.Sort(names)
	require.Len(t, names, 14, "the names of AIPerf")
	require.Equal(t, slices.Compact(slices.Clone(names)), names, "each once")
	require.Contains(t, names, "semianalysis_cc_traces_weka_with_subagents")
	require.True(t, slices.ContainsFunc(table, func(c Corpus) bool { return c.Repository == "semianalysisai/cc-traces-weka-062126" }), "of the generic loader")
	table[0].Repository = "changed"
	require.NotEqual(t, table[0], Corpora()[0])
}
