package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"github.com/agentx/agentx/convert/corpus"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/mmapcache"
)

// maxCorpusFile bounds a corpus file before it is read, in bytes.
const maxCorpusFile = 1 << 30

// promptCorpus is the text from which prompts are cut, and the tokenizer for it. Both are known by their digests before
// anything is loaded.
type promptCorpus struct {
	image     arenasImage
	tokenizer *tokensource.Source
	name      string        // as in Options
	stream    string        // of AIPerf's seeds
	tokens    int           // length of the corpus; 0: known once the arenas exist
	load      func() []byte // returns the text, or the ids as bytes
}

// corpusName is a parsed Options.Corpus.
type corpusName struct {
	path   string // of a file of token ids; "" for the built-in corpus
	sonnet bool   // the file is AIPerf's sonnet corpus
}

func parseCorpusName(name string) (corpusName, error) {
	path, sonnet := strings.CutPrefix(name, "sonnet:")
	switch {
	case name == DefaultCorpus:
		return corpusName{}, nil
	case strings.HasSuffix(path, ".u32le"):
		return corpusName{path, sonnet}, nil
	}
	return corpusName{}, fmt.Errorf("corpus %s: not known: want code, FILE.u32le of token ids, or sonnet:FILE.u32le", name)
}

// resolvePromptCorpus names corpus and tokenizer by their digests.
func resolvePromptCorpus(name string, tok *tokensource.Source) (p promptCorpus, err error) {
	parsed, err := parseCorpusName(name)
	if err != nil {
		return p, err
	}
	p = promptCorpus{tokenizer: tok, name: name, stream: weka.CodingStream, image: arenasImage{recipe: recipeOf(probeArenas()), Tokenizer: tok.Digest}}
	if parsed.path == "" {
		p.image.Corpus = corpusImage{"text", corpus.CodeSHA256}
		p.load, p.tokens = corpus.Code, corpus.CodeTokens[tok.Name]
		return p, nil
	}
	if parsed.sonnet {
		p.stream = weka.SonnetStream
	}
	err = p.readIDs(parsed.path)
	return p, err
}

// readIDs reads the file of token ids that is the corpus.
func (p *promptCorpus) readIDs(path string) error {
	data, err := readCorpusFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	p.image.Corpus = corpusImage{"ids", hex.EncodeToString(sum[:])}
	p.load, p.tokens = func() []byte { return data }, len(data)/4
	return nil
}

// portableName returns the name of the corpus, with an absolute path for a file.
func (p promptCorpus) portableName() string {
	parsed, _ := parseCorpusName(p.name) // it was parsed before
	switch {
	case parsed.path == "":
		return p.name
	case parsed.sonnet:
		return "sonnet:" + absolutePath(parsed.path)
	}
	return absolutePath(parsed.path)
}

// readCorpusFile reads a file of token ids, each of 4 bytes.
func readCorpusFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	if size := info.Size(); size == 0 || size%4 != 0 || size > maxCorpusFile {
		return nil, fmt.Errorf("corpus %s: %d bytes: want token ids of 4 bytes each, at least one and at most %d bytes; damage at byte offset %d", path, size, maxCorpusFile, size-size%4)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	return data, nil
}

// build loads the tokenizer, encodes the corpus if it is text, and writes the arenas.
func (p promptCorpus) build(b *mmapcache.Builder) error {
	tok, err := p.tokenizer.Load()
	if err != nil {
		return err
	}
	err = b.BuildArenas(mmapcache.PromptCorpus{Tokens: p.encode(tok), Bytes: tok.Bytes}, mmapcache.NewMarkerPieces(tok.Encode))
	if err != nil {
		return fmt.Errorf("corpus %s: tokenizer %s: %w", p.name, p.tokenizer.Name, err)
	}
	return nil
}

// encode returns the token ids of the corpus.
func (p promptCorpus) encode(tok *tokenizer.Tokenizer) []uint32 {
	data := p.load()
	if p.image.Corpus.Kind == "text" {
		return tok.Encode(string(data))
	}
	tokens := make([]uint32, len(data)/4)
	for k := range tokens {
		tokens[k] = binary.LittleEndian.Uint32(data[4*k:])
	}
	return tokens
}
