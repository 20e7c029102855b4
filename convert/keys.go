package convert

import (
	"slices"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Recipe is the version of what this program builds from the same input. Raise it when the content of a part changes.
// History: 1, the first; 2, the cut-off end of a file is no skipped trace; 3, oddities are counted, and null is a field
// left out.
const Recipe = 3

// recipe begins every key: the format of the files, and what this program writes into them.
type recipe struct {
	Format int    `json:"format"` // mmapcache.FormatNoStarts, or of a structure with recorded starts mmapcache.FormatStarts
	Recipe int    `json:"recipe"` // Recipe
	Probe  string `json:"probe"`  // see Probe
}

func recipeOf(probe string) recipe {
	return recipe{Format: mmapcache.FormatNoStarts, Recipe: Recipe, Probe: probe}
}

// structureImage is the pre-image of a structure's key: everything that could change a byte of it.
type structureImage struct {
	recipe
	Columns    string       `json:"probe_columns,omitempty"`  // probeColumns, where an input file has columns
	Starts     string       `json:"probe_starts,omitempty"`   // ProbeStarts, where a format of the input has recorded starts
	Mooncake   string       `json:"probe_mooncake,omitempty"` // ProbeMooncake, where an input file has Mooncake rows
	Rules      rules.Rules  `json:"rules"`
	Inputs     []inputImage `json:"inputs"`
	Formats    formatImage  `json:"probe_formats,omitempty"` // see format.sample
	Recordings []int        `json:"recordings,omitempty"`    // by input the recording of its rows, see recordingsOf; only where some have one
	Rows       *rowsImage   `json:"rows,omitempty"`          // of a shard of one file that may have several rows
}

// formatImage has the probes of formats, by name.
type formatImage map[string]string

// rowsImage is the range of rows that a shard takes of its file, fewer at the end of the file.
type rowsImage struct {
	First int `json:"first"` // 0, Most, 2*Most, ...
	Most  int `json:"most"`
}

// inputImage is one input file. Neither its name nor its directory counts.
type inputImage struct {
	Lines  bool   `json:"lines"`          // one JSON value a line
	Form   string `json:"form,omitempty"` // "parquet", or "" for JSON
	SHA256 string `json:"sha256"`         // of the file, compressed as it is
}

// arenasImage is the pre-image of the arenas' key.
type arenasImage struct {
	recipe
	Corpus    corpusImage `json:"corpus"`
	Tokenizer string      `json:"tokenizer"` // tokensource.Source.Digest
}

// corpusImage is a prompt corpus: text to be encoded, or token ids.
type corpusImage struct {
	Kind   string `json:"kind"` // "text" or "ids"
	SHA256 string `json:"sha256"`
}

// placementImage is the pre-image of the placement's key.
type placementImage struct {
	recipe
	Structure string          `json:"structure"` // key
	Placement rules.Placement `json:"draws"`
	Tokens    int             `json:"corpus_tokens"`
	Arenas    string          `json:"arenas,omitempty"` // key, where the placement depends on more than their length, or that is not known before they exist
}

// datasetImage is the pre-image of a dataset's key: the keys of its parts.
type datasetImage struct {
	Format    int    `json:"format"`
	Structure string `json:"structure"`
	Placement string `json:"starts"`
	Arenas    string `json:"arenas"`
}

// shardedImage is the pre-image of the key of a dataset of shards: what decides them all, known before a row is read.
type shardedImage struct {
	recipe                      // its probe is that of the structures
	Columns     string          `json:"probe_columns,omitempty"` // as in structureImage
	Formats     formatImage     `json:"probe_formats,omitempty"` // likewise
	ProbeStarts string          `json:"probe_draws"`
	Rules       rules.Rules     `json:"rules"`
	Inputs      []inputImage    `json:"inputs"`
	Rows        int             `json:"shard_rows"` // most of a shard
	Placement   rules.Placement `json:"draws"`
	Tokens      int             `json:"corpus_tokens"`
	Arenas      string          `json:"arenas"` // key
}

// wantedParts returns, by kind, a manifest with the key and the pre-image of each part and of the dataset. recordings
// says which inputs are of recordings.
func wantedParts(rules rules.Rules, placement rules.Placement, probes Probes, inputs *hfsource.Snapshot, recordings []int, p promptCorpus) (map[string]*manifest.Manifest, error) {
	wanted := map[string]*manifest.Manifest{}
	var firstErr error
	add := func(kind string, image any) (key string) {
		m, err := manifest.New(kind, image)
		if err != nil {
			if firstErr == nil {
				firstErr = err
			}
			return ""
		}
		wanted[kind] = m
		return m.Key
	}
	structure := add(mmapcache.StructureKind, structureImageOf(rules, probes.Structure, inputs, recordings))
	arenas := add(mmapcache.ArenasKind, p.image)
	placed := add(mmapcache.PlacementKind, placementImageOf(placement, probes, structure, p, arenas))
	add(mmapcache.DatasetKind, datasetImage{mmapcache.FormatNoStarts, structure, placed, arenas})
	return wanted, firstErr
}

// placementImageOf returns the pre-image of the placement of a structure. structure and arenas are keys.
func placementImageOf(placement rules.Placement, probes Probes, structure string, p promptCorpus, arenas string) placementImage {
	image := placementImage{recipe: recipeOf(probes.Placement), Structure: structure, Placement: placement, Tokens: p.tokens}
	if p.tokens == 0 || placement.Backend == rules.Exact {
		image.Arenas = arenas
	}
	return image
}

// shardedImageOf returns the pre-image of a dataset of shards of the inputs. arenas is a key, rows the most of a shard.
func shardedImageOf(rules rules.Rules, placement rules.Placement, probes Probes, inputs *hfsource.Snapshot, p promptCorpus, arenas string, rows int) shardedImage {
	structure := structureImageOf(rules, probes.Structure, inputs, nil)
	image := shardedImage{recipe: structure.recipe, Columns: structure.Columns, Formats: structure.Formats, ProbeStarts: probes.Placement, Rules: structure.Rules, Inputs: structure.Inputs,
		Rows: rows, Placement: placement, Tokens: p.tokens, Arenas: arenas}
	image.Format = mmapcache.FormatShards
	return image
}

// wantedStructure is wantedParts for the structure alone.
func wantedStructure(rules rules.Rules, inputs *hfsource.Snapshot, recordings []int) (map[string]*manifest.Manifest, error) {
	_, probe := probeStructure(rules, weka.Scan)
	m, err := manifest.New(mmapcache.StructureKind, structureImageOf(rules, probe, inputs, recordings))
	return map[string]*manifest.Manifest{mmapcache.StructureKind: m}, err
}

// structureImageOf returns the pre-image of the structure of some inputs. recordings is what recordingsOf returns; nil: none.
func structureImageOf(rules rules.Rules, probe string, inputs *hfsource.Snapshot, recordings []int) structureImage {
	image := structureImage{recipe: recipeOf(probe), Rules: rules.WithoutMooncake(), Inputs: inputImages(inputs), Formats: formatProbes(inputs, rules)}
	if slices.ContainsFunc(inputs.Files, func(f hfsource.File) bool { return f.Format.Parquet }) {
		image.Columns = probeColumns(rules)
	}
	if some, _ := haveRecordings(recordings); some { // without recorded starts, the files are those of the older format
		image.Format, image.Starts = mmapcache.FormatStarts, ProbeStarts(rules)
		image.Rules, image.Recordings = rules, recordings
	}
	if some, _ := haveRows(inputs, mmapcache.FormatMooncake); some {
		image.Mooncake = ProbeMooncake(rules)
	}
	return image
}

// inputImages lists the digests and forms of the input files, without their names.
func inputImages(s *hfsource.Snapshot) []inputImage {
	list := []inputImage{}
	for _, f := range s.Files {
		list = append(list, inputImage{Lines: f.Format.Lines, Form: formOf(f.Format), SHA256: f.SHA256})
	}
	return list
}

func formOf(f hfsource.FileFormat) string {
	if f.Parquet {
		return "parquet"
	}
	return ""
}
