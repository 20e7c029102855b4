package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// fillFunc writes the files of a part.
type fillFunc func(context.Context, *mmapcache.Builder) error

// part returns the manifest of the part of a kind. It finds the part, waits for another process that builds it, or builds
// it with fill. With rebuild it builds the part although it exists.
func (c *conversion) part(ctx context.Context, kind string, rebuild bool, fill fillFunc) (*manifest.Manifest, error) {
	if !rebuild {
		found, err := c.lookup(kind)
		switch {
		case errors.Is(err, manifest.ErrDamaged):
			c.options.Warn("%v: it is built again", err)
			rebuild = found != nil
		case err != nil || found != nil:
			return c.notePart(found, true), err
		}
	}
	for {
		m, err := c.claimAndBuild(ctx, kind, rebuild, fill)
		if !errors.Is(err, cachestore.ErrLost) || ctx.Err() != nil { // ctx may belong to another lease that was lost
			return m, err
		}
		c.options.Warn("%v: waiting for that process", err)
	}
}

// claimAndBuild builds a part, or returns the part that another process built while this one waited for it.
func (c *conversion) claimAndBuild(ctx context.Context, kind string, rebuild bool, fill fillFunc) (*manifest.Manifest, error) {
	lease, found, err := cachestore.Claim(ctx, c.options.Root, kind, c.wanted[kind].Key, c.claimOptions(kind, rebuild))
	if err == nil && found != nil {
		err = c.checkPart(found)
	}
	if err != nil || found != nil {
		return c.notePart(found, true), err
	}
	m, err := c.build(lease, kind, rebuild, fill)
	if err := lease.Release(); err != nil {
		c.options.Warn("%v: other processes may wait until the lease expires", err)
	}
	return c.notePart(m, false), err
}

// lookup returns the manifest of a part, nil where there is none. A manifest that contradicts the input is returned with an
// error that wraps manifest.ErrDamaged; one that cannot be read, without a manifest.
func (c *conversion) lookup(kind string) (*manifest.Manifest, error) {
	m, err := c.find(kind, c.wanted[kind].Key)
	if err != nil || m == nil {
		return nil, err
	}
	return m, c.checkPart(m)
}

// find returns the manifest of a directory whose files have their full size, nil where there is none.
func (c *conversion) find(kind, key string) (*manifest.Manifest, error) {
	return mmapcache.LookupGuarded(c.options.Root, kind, key, c.options.TrustRoot)
}

// checkPart compares what the manifest of a part says with what is known of the input, before the part is opened. Errors
// wrap manifest.ErrDamaged.
func (c *conversion) checkPart(m *manifest.Manifest) error {
	var err error
	switch m.Kind {
	case mmapcache.StructureKind:
		err = c.checkStructure(m)
	case mmapcache.ArenasKind:
		err = c.checkArenas(m)
	case mmapcache.DatasetKind:
		err = c.checkDataset(m)
	}
	if err != nil && !errors.Is(err, manifest.ErrDamaged) {
		return fmt.Errorf("%s: %w: %w", filepath.Join(c.options.Root, m.Kind, m.Key, manifest.FileName), manifest.ErrDamaged, err)
	}
	return err
}

// checkStructure returns an error where the facts name an input file that the input does not have.
func (c *conversion) checkStructure(m *manifest.Manifest) error {
	facts, err := mmapcache.StructureFactsOf(m)
	if err != nil {
		return err
	}
	files := slices.Clone(facts.FilesWithoutChecksum)
	for _, s := range facts.Skipped {
		files = append(files, s.File)
	}
	have := len(c.snapshot.Files)
	if k := slices.IndexFunc(files, func(n int) bool { return n > have }); k >= 0 {
		return fmt.Errorf("it names input file %d, the input has %d", files[k], have)
	}
	return nil
}

// checkArenas returns an error where the arenas have another number of tokens than the corpus.
func (c *conversion) checkArenas(m *manifest.Manifest) error {
	facts, err := mmapcache.ArenaFactsOf(m)
	if err == nil && c.prompts.tokens != 0 && facts.Tokens != c.prompts.tokens {
		err = fmt.Errorf("%d tokens, the corpus has %d", facts.Tokens, c.prompts.tokens)
	}
	return err
}

// checkDataset returns an error where the dataset names other content than the parts that this conversion has found.
func (c *conversion) checkDataset(m *manifest.Manifest) error {
	for kind, part := range c.parts {
		if m.Parts[kind].Digest != part.Digest {
			return fmt.Errorf("it names another digest of %s %s than the cache has", kind, part.Key)
		}
	}
	return nil
}

// claimOptions returns how to claim a part. Options.Wait limits the waits for all parts together, the stage wait.
func (c *conversion) claimOptions(kind string, rebuild bool) cachestore.ClaimOptions {
	last, limit := time.Duration(0), c.options.Wait
	if limit > 0 {
		limit = max(1, limit-c.result.Stages["wait"])
	}
	return cachestore.ClaimOptions{Rebuild: rebuild, Trust: c.options.TrustRoot, Wait: limit, OnWait: func(holder string, waited time.Duration) {
		c.result.Stages["wait"] += waited - last
		last = waited
		c.options.OnWait(kind, holder, waited)
	}}
}

// notePart records a part in the result. It returns m, which may be nil.
func (c *conversion) notePart(m *manifest.Manifest, hit bool) *manifest.Manifest {
	if m != nil {
		c.result.Parts[m.Kind] = cachestore.PartHit{Key: m.Key, Hit: hit}
		c.parts[m.Kind] = m
	}
	return m
}

// build builds and publishes a part under a lease. With replace it may replace a part with other content.
func (c *conversion) build(lease *cachestore.Lease, kind string, replace bool, fill fillFunc) (m *manifest.Manifest, err error) {
	ctx := lease.Context()
	defer func() {
		if cause := context.Cause(ctx); err != nil && errors.Is(cause, cachestore.ErrLost) {
			err = cause
		}
	}()
	b, err := mmapcache.NewBuilder(ctx, c.options.Root, kind, c.wanted[kind].PreImage)
	if err != nil {
		return nil, err
	}
	defer b.Discard()
	if replace {
		b.Replace()
	}
	if err := fill(ctx, b); err != nil {
		return nil, err
	}
	return c.publish(ctx, kind, b)
}

// publish gives a finished part its name in the cache, with its provenance.
func (c *conversion) publish(ctx context.Context, kind string, b *mmapcache.Builder) (m *manifest.Manifest, err error) {
	err = c.stage("publish", func() (err error) {
		m, err = b.Publish(ctx, c.provenance(kind))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("publish %s %s: %w", kind, b.Key(), err)
	}
	return m, nil
}

// checkExists fails where a part that was found or built has been removed or replaced since. cache rm may do that: it does
// not know a dataset that is not published yet. The check narrows the gap, but does not close it.
func (c *conversion) checkExists(part *manifest.Manifest) error {
	now, err := mmapcache.Lookup(c.options.Root, part.Kind, part.Key)
	switch {
	case err != nil:
	case now == nil:
		err = errors.New("it was removed in the meantime, perhaps by agentx cache rm")
	case now.Digest != part.Digest:
		err = errors.New("it was replaced in the meantime by other content")
	default:
		return nil
	}
	return fmt.Errorf("part %s: %w: run convert again", filepath.Join(c.options.Root, part.Kind, part.Key), err)
}

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
	if _, err := os.Lstat(path); c.options.Source.Make != nil && errors.Is(err, os.ErrNotExist) { // made from its name
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

// explainFullDisk makes an error of a disk without room one line, and removes the parts that the conversion has published: no dataset
// names them yet, and they take the room that people look for. Shards stay, because the next run begins there. It returns any other
// error as it is.
func (c *conversion) explainFullDisk(ctx context.Context, err error) error {
	if !durable.IsDiskFull(err) {
		return err
	}
	var built []mmapcache.Reference
	for kind, p := range c.result.Parts {
		if !p.Hit {
			built = append(built, mmapcache.Reference{Kind: kind, Part: manifest.Part{Key: p.Key}})
		}
	}
	slices.SortFunc(built, func(a, b mmapcache.Reference) int {
		return slices.Index(mmapcache.Kinds(), a.Kind) - slices.Index(mmapcache.Kinds(), b.Kind)
	})
	if len(built) > 0 {
		_, _ = cachestore.RemoveUnnamed(ctx, c.options.Root, built, cachestore.RemoveOptions{Wait: -1}) // what stays, agentx cache gc frees
	}
	return cachestore.ExplainFullDisk(c.options.Root, err)
}
