package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/manifest"
)

// The corpora of AIPerf: coding is another text for every seed, sonnet is the same for all.
const (
	CodingCorpus = "coding"
	SonnetCorpus = "sonnet"
)

// CorpusSource is where the ids of a corpus of AIPerf come from. FILE.u32le has no room for it, so it lies beside that file, in
// CorpusSourcePath.
type CorpusSource struct {
	Corpus    string `json:"corpus"`
	Seed      uint64 `json:"seed"` // AIPerf's --random-seed
	Tokenizer string `json:"tokenizer"`
	Tokens    int    `json:"tokens"`
	SHA256    string `json:"sha256"`  // of FILE.u32le
	Program   string `json:"program"` // that made the text, with its version
	Agentx    string `json:"agentx"`  // version
}

// knownCorpora are files that are known by their content: AIPerf 0.13.0 and agentx-harness 1.0.12 make them.
var knownCorpora = []CorpusSource{
	{Corpus: CodingCorpus, Seed: 42, Tokenizer: "o200k_base", Tokens: 259485, SHA256: "a0723f748cb5208ba53d90060896cc1d2891c2c73ffffc8f5b5400c637434406"},
	{Corpus: SonnetCorpus, Seed: 42, Tokenizer: "o200k_base", Tokens: 1138441, SHA256: "f379b397de451dfcbb98f1a46edf6e16fc28e465494ec37b76f7717397730f90"},
}

// CorpusSourcePath returns where the source of a file of token ids is.
func CorpusSourcePath(ids string) string { return ids + ".json" }

// maxCorpusSource bounds a CorpusSource before it is read, in bytes.
const maxCorpusSource = 1 << 20

// NewCorpusSource returns the source of ids that an installed AIPerf has made. The error says that they are not those that are known of
// this corpus: AIPerf's generators have changed since.
func NewCorpusSource(corpus string, seed uint64, tokenizer string, ids []byte) (*CorpusSource, error) {
	s := &CorpusSource{Corpus: corpus, Seed: seed, Tokenizer: tokenizer, Tokens: len(ids) / 4, SHA256: manifest.Sum(ids)}
	for _, known := range knownCorpora {
		if known.Corpus == corpus && known.Tokenizer == tokenizer && (known.Seed == seed || corpus == SonnetCorpus) && known.SHA256 != s.SHA256 {
			return nil, fmt.Errorf("the %s corpus of seed %d has SHA-256 %s, and AIPerf 0.13.0 gives %s", corpus, seed, s.SHA256, known.SHA256)
		}
	}
	return s, nil
}

// CorpusSeedError says that a corpus of AIPerf was made for another seed than that of the conversion, which would draw its blocks from
// another text.
type CorpusSeedError struct {
	File         string
	Corpus, Seed uint64 // seeds of the file and of the conversion
}

func (e *CorpusSeedError) Error() string {
	return fmt.Sprintf("corpus %s: AIPerf's coding corpus of seed %d, and AIPerf makes another one for seed %d", e.File, e.Corpus, e.Seed)
}

// CheckCorpusSeed returns a *CorpusSeedError where the corpus is one of AIPerf for another seed. Where that cannot be known, warning
// says so. Only conversions that draw as AIPerf does have such a seed, and a file that cannot be read is left to Convert.
func (o Options) CheckCorpusSeed() (warning string, err error) {
	o = o.withDefaults()
	name, err := parseCorpusName(o.Corpus)
	if err != nil || name.form != idsFile || name.sonnet || o.Placement.Backend != rules.SHA256MT {
		return "", nil
	}
	data, err := readCorpusFile(name.path)
	if err != nil {
		return "", nil
	}
	source, why := corpusSourceOf(name.path, manifest.Sum(data))
	switch seed := uint64(o.Placement.Seed); {
	case source == nil:
		return fmt.Sprintf("corpus %s: for which seed AIPerf made it is not known: %s", name.path, why), nil
	case source.Corpus == CodingCorpus && source.Seed != seed:
		return "", &CorpusSeedError{name.path, source.Seed, seed}
	}
	return "", nil
}

// corpusSourceOf returns the source of the ids in a file with a digest; nil with the reason where it is not known.
func corpusSourceOf(ids, digest string) (s *CorpusSource, why string) {
	for _, known := range knownCorpora {
		if known.SHA256 == digest {
			return &known, ""
		}
	}
	path := CorpusSourcePath(ids)
	data, err := regular.Read(path, maxCorpusSource)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "there is no " + path
	case err != nil:
		return nil, path + ": " + err.Error()
	case s == nil || s.SHA256 != digest:
		return nil, path + " is of other ids"
	}
	return s, ""
}
