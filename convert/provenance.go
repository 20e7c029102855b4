package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
)

// provenance returns when, where and from what a part was built.
func (c *conversion) provenance(kind string) mmapcache.Provenance {
	return c.provenanceOf(kind, c.snapshot.Files)
}

// provenanceOf is provenance for a part that was built from some files of the input.
func (c *conversion) provenanceOf(kind string, files []hfsource.File) mmapcache.Provenance {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := mmapcache.Provenance{Created: c.options.now().UTC(), Host: host, Agentx: c.options.Version}
	switch kind {
	case mmapcache.StructureKind, mmapcache.DatasetKind:
		for k, f := range files {
			path := c.portablePath(f.Path)
			if c.logs { // names of logs say what people work on
				path = fmt.Sprintf("log %d", k+1)
			}
			p.Sources = append(p.Sources, mmapcache.Source{Path: path, Size: f.Size, SHA256: f.SHA256})
		}
		if len(c.snapshot.Datasets) > 0 {
			p.Datasets, _ = json.Marshal(c.snapshot.Datasets) // strings and times always marshal
		}
	case mmapcache.ArenasKind:
		parsed, _ := parseCorpusName(c.options.Corpus) // it was parsed before
		p.Corpus, p.Tokenizer = parsed.portable(c.options.Corpus), c.prompts.tokenizer.Portable
	}
	return p
}

// portablePath returns a name of an input file that does not depend on the working directory. Files of the hub, which the
// snapshot names by a short form of their commit, are named by the whole commit.
func (c *conversion) portablePath(path string) string {
	for _, d := range c.snapshot.Datasets {
		if rest, ok := strings.CutPrefix(path, "hf://datasets/"+d.Repo+"@"+d.Commit[:12]+"/"); ok {
			return "hf://datasets/" + d.Repo + "@" + d.Commit + "/" + rest
		}
	}
	if hfsource.IsStream(path) || c.options.Source.Embedded[path] != nil {
		return path
	}
	return absolutePath(path)
}

// absolutePath makes a path absolute. It returns the path unchanged if the working directory is unknown.
func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
