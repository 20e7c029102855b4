package mmapcache

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/manifest"
)

// Cache is an open dataset: its tables in memory, its placement and arenas mapped read-only. The shards of a large dataset are opened when
// their traces are first asked for. It may be used by several goroutines until Close. Slices that it returns are views of the mapped files and valid until Close.
type Cache struct {
	Root      string
	Manifest  *manifest.Manifest // of the dataset; nil after OpenStructure
	Structure *Structure         // of a cache of one shard; nil for several. Trace, Plan and EachShard read any cache
	Facts     StructureFacts     // of all shards
	Arenas    ArenaFacts

	disk    disk
	shards  []*shard
	prompts bool // starts and arenas are open, or to be opened
	maps    maps
	arenas                 // views of the mapped files
	texts   *recordedTexts // of a dataset of logs; else nil
	splits  splitMap
}

// Encoding is how the content of a prompt goes on the wire.
type Encoding uint8

// The encodings.
const (
	Text Encoding = iota // text, escaped as in a JSON string
	IDs                  // token ids in decimal, each followed by a comma

	// Of datasets of logs: recorded messages in the form of an API.
	ChatMessages
	AnthropicMessages
)

func (e Encoding) validate() error {
	if e > AnthropicMessages {
		return fmt.Errorf("encoding %d: want %d (text) to %d (messages of Anthropic's form)", e, Text, AnthropicMessages)
	}
	return nil
}

// TextEncoding returns the encoding in which people read the prompts of the cache.
func (c *Cache) TextEncoding() Encoding {
	if c.HasTexts() {
		return ChatMessages
	}
	return Text
}

// Open opens the dataset of a key below a cache root. It checks sizes, headers, the digests of the tables and every index
// in them. Of the mapped files it checks the size; Verify checks their digests. Of a dataset of several shards it checks the manifests and
// the sizes of files: the rest is checked when a trace of the shard is first asked for.
//
// An error about damage wraps ErrDamaged and names the file.
func Open(root, key string) (*Cache, error) { return realDisk().openDataset(root, key) }

func (d disk) openDataset(root, key string) (*Cache, error) {
	return d.openWith(root, func(c *Cache) error { return c.open(key) })
}

// OpenStructure opens the tables of a structure alone: traces, sessions and turns, without prompts.
func OpenStructure(root, key string) (*Cache, error) {
	return realDisk().openWith(root, func(c *Cache) error {
		c.setShards([]Shard{{Structure: manifest.Part{Key: key}}})
		_, err := c.take(c.shards[0])
		return err
	})
}

// OpenTables opens of a dataset the tables alone. It reads none of what placement and arenas hold.
func OpenTables(root, key string) (*Cache, error) {
	return realDisk().openWith(root, func(c *Cache) error { return c.openShards(key) })
}

// OpenCorpus returns the tokens of the prompt corpus of arenas.
func OpenCorpus(root, key string) (tokens []uint32, err error) {
	d := realDisk()
	c, err := d.openWith(root, func(c *Cache) error {
		m, err := c.readPart(ArenasKind, manifest.Part{Key: key})
		if err != nil {
			return err
		}
		return c.mapArenas(m)
	})
	if err != nil {
		return nil, err
	}
	err = c.Guard(func() error {
		tokens = slices.Clone(c.tokens)
		return nil
	})
	return tokens, errors.Join(err, c.Close())
}

// openWith returns a cache that open has filled, or closes it.
func (d disk) openWith(root string, open func(*Cache) error) (*Cache, error) {
	c := newCache(root, d)
	if err := c.Guard(func() error { return open(c) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newCache(root string, d disk) *Cache { return &Cache{Root: root, disk: d} }

// CacheOf returns a cache of tables that are in no file, without prompts.
func CacheOf(s *Structure, facts StructureFacts) *Cache {
	c := newCache("", realDisk())
	c.setShards([]Shard{{}})
	c.shards[0].tables.Store(s)
	c.setOnly(s, facts)
	return c
}

// Close unmaps the files. Nothing that the cache has returned may be used afterwards.
func (c *Cache) Close() error { return c.maps.close() }

// Path returns the directory of the dataset.
func (c *Cache) Path() string { return DatasetPath(c.Root, c.Manifest.Key) }

// arenasPath returns the directory of the arenas.
func (c *Cache) arenasPath() string {
	return filepath.Join(c.Root, ArenasKind, c.Manifest.Parts[ArenasKind].Key)
}

func (c *Cache) offsetsPath(encoding Encoding) string {
	return filepath.Join(c.arenasPath(), [...]string{Text: textOffsetsFile, IDs: idOffsetsFile}[encoding])
}

// CorpusTokens returns the length of the prompt corpus, in tokens.
func (c *Cache) CorpusTokens() int { return len(c.tokens) }
