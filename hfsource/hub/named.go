package hub

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
