package convert

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// maxCorpusFile bounds a file of token ids before it is read, in bytes.
const maxCorpusFile = 1 << 30

// promptCorpus is the text from which prompts are cut, and the tokenizer for it. Both are known by their digests before
// anything is loaded.
type promptCorpus struct {
	image     arenasImage
	tokenizer *tokensource.Source
	loaded    func() (*tokenizer.Tokenizer, error) // loads the tokenizer once
	name      string                               // as in Options
	stream    string                               // of AIPerf's seeds
	tokens    int                                  // length of the corpus; 0: known once the arenas exist
	skipped   string                               // what was left out of a directory, for people
	encode    func(*tokenizer.Tokenizer) ([]uint32, error)
}

// resolvePromptCorpus names corpus and tokenizer by their digests.
func resolvePromptCorpus(name string, tok *tokensource.Source) (p promptCorpus, err error) {
	parsed, err := parseCorpusName(name)
	if err == nil {
		err = CheckCorpus(name)
	}
	if err != nil {
		return p, err
	}
	p = promptCorpus{tokenizer: tok, loaded: sync.OnceValues(tok.Load), name: name, stream: rules.CodingStream, image: arenasImage{recipe: recipeOf(probeArenas()), Tokenizer: tok.Digest}}
	if parsed.sonnet {
		p.stream = rules.SonnetStream
	}
	return p, p.resolve(parsed)
}

// resolve fills in what the corpus is and how it is made.
func (p *promptCorpus) resolve(n corpusName) error {
	switch n.form {
	case builtinWords:
		p.image.Corpus, p.tokens = corpusImage{"words", corpus.WordsSHA256}, corpus.WordsTokens
		p.encode = func(tok *tokenizer.Tokenizer) ([]uint32, error) { return corpus.Words(tok) }
	case builtinText:
		t := textOf(p.name)
		p.image.Corpus, p.tokens = corpusImage{"text", t.SHA256}, t.Tokens[p.tokenizer.Name]
		p.encode = func(tok *tokenizer.Tokenizer) ([]uint32, error) { return tok.Encode(string(t.Generate())), nil }
	case idsFile:
		return p.readIDs(n.path)
	case textPath:
		return p.readText(n.path)
	case aiperfSonnet:
		return p.readSonnet(n.path)
	}
	return nil
}

// readIDs reads the file of token ids that is the corpus.
func (p *promptCorpus) readIDs(path string) error {
	data, err := readCorpusFile(path)
	if err != nil {
		return err
	}
	p.image.Corpus, p.tokens = corpusImage{"ids", manifest.Sum(data)}, len(data)/4
	p.encode = func(*tokenizer.Tokenizer) ([]uint32, error) {
		tokens := make([]uint32, len(data)/4)
		for k := range tokens {
			tokens[k] = binary.LittleEndian.Uint32(data[4*k:])
		}
		return tokens, nil
	}
	return nil
}

// readText reads the text of a file, or of the files of a directory. The key has the digest of all text in order, but no names.
func (p *promptCorpus) readText(path string) error {
	c, err := readCorpusText(path)
	if err != nil {
		return err
	}
	p.image.Corpus = corpusImage{"text", manifest.Sum(c.text)}
	if len(c.skipped) > 0 {
		p.skipped = fmt.Sprintf("corpus %s: left out: %s", path, c.skipped)
	}
	p.encode = func(tok *tokenizer.Tokenizer) ([]uint32, error) { return tok.Encode(string(c.text)), nil }
	return nil
}

// readSonnet reads a text that is encoded in groups of lines. The key has the digest of the groups.
func (p *promptCorpus) readSonnet(path string) error {
	var c corpusText
	if err := c.readFile(path); err != nil {
		return err
	}
	groups := sonnetGroups(string(c.text))
	if len(groups) == 0 {
		return fmt.Errorf("corpus %s: no text: want lines that are not empty", path)
	}
	var all bytes.Buffer
	for _, g := range groups {
		all.WriteString(strconv.Itoa(len(g)) + ":" + g)
	}
	p.image.Corpus = corpusImage{"groups", manifest.Sum(all.Bytes())}
	p.encode = func(tok *tokenizer.Tokenizer) (ids []uint32, err error) {
		for _, g := range groups {
			ids = tok.AppendIDs(ids, g)
		}
		return ids, nil
	}
	return nil
}

// readCorpusFile reads a file of token ids, each of 4 bytes.
func readCorpusFile(path string) ([]byte, error) {
	data, err := regular.Read(path, maxCorpusFile)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	if size := len(data); size == 0 || size%4 != 0 {
		return nil, fmt.Errorf("corpus %s: %d bytes: want token ids of 4 bytes each, at least one; damage at byte offset %d", path, size, size-size%4)
	}
	return data, nil
}

// tokensOf encodes the corpus.
func (p *promptCorpus) tokensOf(tok *tokenizer.Tokenizer) ([]uint32, error) {
	ids, err := p.encode(tok)
	if err == nil && len(ids) == 0 {
		err = errors.New("no tokens")
	}
	if err != nil {
		return nil, fmt.Errorf("corpus %s: tokenizer %s: %w", p.name, p.tokenizer.Name, err)
	}
	return ids, nil
}

// build loads the tokenizer, encodes the corpus if it is text, and writes the arenas.
func (p *promptCorpus) build(b *mmapcache.Builder) error {
	tok, err := p.loaded()
	if err != nil {
		return err
	}
	ids, err := p.tokensOf(tok)
	if err != nil {
		return err
	}
	err = b.BuildArenas(mmapcache.PromptCorpus{Tokens: ids, Bytes: tok.Bytes}, mmapcache.NewMarkerPieces(tok.Encode))
	if err != nil {
		return fmt.Errorf("corpus %s: tokenizer %s: %w", p.name, p.tokenizer.Name, err)
	}
	return nil
}

// edges returns the edges of the corpus, whose tokens are in the arenas. why says why it has none.
func (p *promptCorpus) edges(root, arenas string) (edges *reconstruct.Edges, why, err error) {
	tok, err := p.loaded()
	if err != nil {
		return nil, nil, err
	}
	tokens, err := mmapcache.OpenCorpus(root, arenas)
	if err != nil {
		return nil, nil, err
	}
	e, why := tok.Edges(tokens, p.encodedWhole())
	if why != nil {
		return nil, fmt.Errorf("corpus %s: %w", p.name, why), nil
	}
	return &reconstruct.Edges{Starts: e.Starts, Ends: e.Ends, Flaws: e.Flaws}, nil, nil
}

// encodedWhole reports whether the tokens of the corpus are what its text encodes to.
func (p *promptCorpus) encodedWhole() bool {
	kind := p.image.Corpus.Kind
	return kind == "text" || kind == "words"
}
