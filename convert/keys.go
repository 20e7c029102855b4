package convert

import (
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Recipe says whether this program would make the same from the same input: it changes when the content of a part
// does. History: 1, the first; 2, the cut-off end of a file is no skipped trace; 3, oddities are counted, and null is a
// field left out.
const Recipe = 3

// maker is what every key begins with: who would make a part, and how.
type maker struct {
	Format int    `json:"format"` // can I parse it
	Recipe int    `json:"recipe"` // would I make the same
	Probe  string `json:"probe"`  // digest of what this program makes of a small corpus that stresses every rule
}

// structureImage is the pre-image of a structure's key: everything that could change a byte of it.
type structureImage struct {
	maker
	Columns string       `json:"probe_columns,omitempty"` // the probe by the decoder of columns, where an input has them
	Rules   weka.Rules   `json:"rules"`
	Inputs  []inputImage `json:"inputs"`
}

// inputImage is one input file, by content: neither its name nor its place counts.
type inputImage struct {
	Lines  bool   `json:"lines"`          // one value a line
	Form   string `json:"form,omitempty"` // "parquet"; nothing for JSON
	SHA256 string `json:"sha256"`
}

// arenasImage is the pre-image of the arenas' key.
type arenasImage struct {
	maker
	Corpus    corpusImage `json:"corpus"`
	Tokenizer string      `json:"tokenizer"` // SHA-256 of its files
}

// corpusImage is a prompt corpus by content: a text to encode, or token ids.
type corpusImage struct {
	Kind   string `json:"kind"` // "text" or "ids"
	SHA256 string `json:"sha256"`
}

// startsImage is the pre-image of the starts' key.
type startsImage struct {
	maker
	Structure string         `json:"structure"` // key
	Draws     weka.Placement `json:"draws"`
	Tokens    int            `json:"corpus_tokens"`
}

// datasetImage is the pre-image of a dataset's key.
type datasetImage struct {
	Format    int    `json:"format"`
	Structure string `json:"structure"`
	Starts    string `json:"starts"`
	Arenas    string `json:"arenas"`
}

func made(probe string) maker {
	return maker{Format: mmapcache.Format, Recipe: Recipe, Probe: probe}
}

// wanted returns a manifest of every kind, with the key of what is to be made and what that key is made of.
func wanted(rules weka.Rules, draws weka.Placement, inputs *hfsource.Snapshot, p promptCorpus) (map[string]*manifest.Manifest, error) {
	probes := Probe(rules, draws)
	list := map[string]*manifest.Manifest{}
	add := func(kind string, image any) (key string, err error) {
		if list[kind], err = manifest.New(kind, image); err != nil {
			return "", err
		}
		return list[kind].Key, nil
	}
	image := structureImage{maker: made(probes.Structure), Rules: rules, Inputs: inputImages(inputs)}
	if slices.ContainsFunc(inputs.Files, func(f hfsource.File) bool { return f.Format.Parquet }) {
		image.Columns = ProbeColumns(rules)
	}
	structure, err := add(mmapcache.StructureKind, image)
	if err != nil {
		return nil, err
	}
	arenas, err := add(mmapcache.ArenasKind, p.image)
	if err != nil {
		return nil, err
	}
	starts, err := add(mmapcache.PlacementKind, startsImage{maker: made(probes.Starts), Structure: structure, Draws: draws, Tokens: p.tokens})
	if err != nil {
		return nil, err
	}
	_, err = add(mmapcache.DatasetKind, datasetImage{Format: mmapcache.Format, Structure: structure, Starts: starts, Arenas: arenas})
	return list, err
}

func inputImages(s *hfsource.Snapshot) []inputImage {
	list := []inputImage{}
	for _, f := range s.Files {
		image := inputImage{Lines: f.Format.Lines, SHA256: f.SHA256}
		if f.Format.Parquet {
			image.Form = "parquet"
		}
		list = append(list, image)
	}
	return list
}
