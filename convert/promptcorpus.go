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
	"github.com/agentx/agentx/mmapcache"
)

// maxCorpus bounds a corpus file before it is read, in bytes.
const maxCorpus = 1 << 30

// promptCorpus is where prompt tokens come from: a corpus and a tokenizer, by content before anything is loaded.
type promptCorpus struct {
	image     arenasImage
	tokenizer string
	name      string        // of the corpus
	stream    string        // of AIPerf's seeds
	tokens    int           // of the corpus
	load      func() []byte // its bytes
}

// resolvePromptCorpus names corpus and tokenizer by their digests.
func resolvePromptCorpus(corpusName, tokenizerName string) (promptCorpus, error) {
	digest, err := tokenizer.Digest(tokenizerName)
	if err != nil {
		return promptCorpus{}, err
	}
	path, sonnet := strings.CutPrefix(corpusName, "sonnet:")
	p := promptCorpus{tokenizer: tokenizerName, name: corpusName, stream: weka.CodingStream, image: arenasImage{maker: made(probeArenas()), Tokenizer: digest}}
	switch {
	case corpusName == "code":
		p.image.Corpus = corpusImage{"text", corpus.CodeSHA256}
		p.load, p.tokens = corpus.Code, corpus.CodeTokens[tokenizerName]
	case strings.HasSuffix(path, ".u32le"):
		if sonnet {
			p.stream = weka.SonnetStream
		}
		data, err := readCorpus(path)
		if err != nil {
			return promptCorpus{}, err
		}
		sum := sha256.Sum256(data)
		p.image.Corpus = corpusImage{"ids", hex.EncodeToString(sum[:])}
		p.load, p.tokens = func() []byte { return data }, len(data)/4
	default:
		return promptCorpus{}, fmt.Errorf("corpus %s: not known: want code, FILE.u32le of token ids, or sonnet:FILE.u32le", corpusName)
	}
	return p, nil
}

// provenance returns the name of the corpus, a path as an absolute one.
func (p promptCorpus) provenance() string {
	if p.image.Corpus.Kind == "text" {
		return p.name
	}
	if path, sonnet := strings.CutPrefix(p.name, "sonnet:"); sonnet {
		return "sonnet:" + absolute(path)
	}
	return absolute(p.name)
}

func readCorpus(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	if size := info.Size(); size == 0 || size%4 != 0 || size > maxCorpus {
		return nil, fmt.Errorf("corpus %s: %d bytes: want token ids of 4 bytes each, at least one and at most %d bytes; damage at byte offset %d", path, size, maxCorpus, size-size%4)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	return data, nil
}

// build loads the tokenizer, encodes the corpus and writes the arenas.
func (p promptCorpus) build(b *mmapcache.Builder) error {
	tok, err := tokenizer.Load(p.tokenizer)
	if err != nil {
		return err
	}
	var tokens []uint32
	data := p.load()
	if p.image.Corpus.Kind == "text" {
		tokens = tok.Encode(string(data))
	} else {
		tokens = make([]uint32, len(data)/4)
		for k := range tokens {
			tokens[k] = binary.LittleEndian.Uint32(data[4*k:])
		}
	}
	err = b.BuildArenas(mmapcache.PromptCorpus{Tokens: tokens, Bytes: tok.Bytes}, mmapcache.NewMarkerPieces(tok.Encode))
	if err != nil {
		return fmt.Errorf("corpus %s: tokenizer %s: %w", p.name, p.tokenizer, err)
	}
	return nil
}
