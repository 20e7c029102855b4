package scenario

import "slices"

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
