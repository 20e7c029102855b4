// Package corpus generates the built-in prompt corpora. Recorded traces do not have the words of their prompts, so blocks of prompts are
// cut from a corpus: Code is text like that in the context of a coding agent, Prose is technical prose in many languages, and Words
// are tokens that encode to themselves.
//
// A generator (generator.go) with a fixed seed expands the grammar in grammar/*.txt, which was written for this project (grammar.go).
// Sessions of Code (session.go) consist of questions, answers, tool calls, files, diffs, logs and test runs; articles of Prose of
// paragraphs, lists, tables and passages in other languages. The text depends on nothing but the source of this package: not on the
// platform, the clock, the order of maps, or random numbers of the standard library.
package corpus

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Text is a corpus that is generated as text.
type Text struct {
	Name string

	// SHA256 is the digest of the text, in hexadecimal. Keys of caches contain it. A change of the grammar or the generator changes it,
	// and a test fails.
	SHA256 string

	// Tokens is the length in tokens, by the name of the tokenizer.
	Tokens map[string]int

	// Generate returns the text, which is well-formed UTF-8. The first call generates it. The slice is shared and must not be changed.
	Generate func() []byte
}

// Texts are the corpora that are generated as text.
var Texts = []Text{
	{
		Name: "code", Generate: Code,
		SHA256: "6f8f1bd2071e9f74a784298119cec3b74ce91cf18e90a5d9cb19179b37bd1e5a",
		Tokens: map[string]int{"o200k_base": 501_096, "cl100k_base": 501_008},
	},
	{
		Name: "prose", Generate: Prose,
		SHA256: "06d93a2ec20ccaec90f9c8fe7502f11586fe4435f90459740ef8552647c9759c",
		Tokens: map[string]int{"o200k_base": 497_664, "cl100k_base": 535_454},
	},
}

// codeBytes is the length after which no further session begins. It gives about 500,000 tokens of o200k_base.
const codeBytes = 1_850_000

//go:embed grammar/*.txt
var grammarFiles embed.FS

// Code returns the corpus named "code", which is well-formed UTF-8. See Text.Generate.
func Code() []byte { return code() }

var code = sync.OnceValue(generateCode)

func generateCode() []byte {
	g := newGenerator(loadGrammar(), 1, codeBytes)
	for len(g.out) < codeBytes {
		g.session()
	}
	return g.out
}

// loadGrammar reads the rules of all files.
func loadGrammar() grammar {
	rules := make(grammar)
	entries, err := grammarFiles.ReadDir("grammar")
	if err != nil {
		panic(err) // embedded
	}
	for _, e := range entries {
		text, err := grammarFiles.ReadFile("grammar/" + e.Name())
		if err != nil {
			panic(err)
		}
		if err := rules.parse(strings.ReplaceAll(string(text), "\r\n", "\n")); err != nil {
			panic(fmt.Sprintf("corpus: grammar/%s: %v", e.Name(), err)) // a test parses them all
		}
	}
	rules.link()
	return rules
}

// proseBytes is the length after which no further article begins.
const proseBytes = 2_150_000

// Prose returns the corpus named "prose": articles of technical English, with passages in many languages and scripts. See Text.Generate.
func Prose() []byte { return prose() }

var prose = sync.OnceValue(generateProse)

func generateProse() []byte {
	g := newGenerator(loadGrammar(), 2, proseBytes)
	for len(g.out) < proseBytes {
		g.article()
	}
	return g.out
}

// article writes a title and some sections.
func (g *generator) article() {
	g.begin()
	g.paragraph("# " + g.text("p.heading"))
	g.paragraph(g.text("p.block"))
	for range 3 + g.rng.below(5) {
		g.paragraph("## " + g.text("p.heading"))
		for range 2 + g.rng.below(4) {
			g.paragraph(g.text("p.block"))
		}
		if g.rng.below(2) == 0 {
			g.paragraph(g.text("p.foreign"))
		}
	}
}

// WordsSHA256 is the digest of Words of o200k_base, as numbers of 4 bytes in little-endian order. Keys of caches contain it beside the
// digest of the tokenizer. A change of Words changes it, and a test fails.
const WordsSHA256 = "09c35408eac8896367ed4e4ff93816b8ed31c5003c1e98cd67d09ccc4f5f6f23"

// WordsTokens is the length of Words.
const WordsTokens = 500_000

// minWords is the least number of words from which Words draws: with fewer, windows would repeat.
const minWords = 1000

// Vocabulary is what Words asks of a tokenizer.
type Vocabulary interface {
	Size() int // above every id
	Bytes(id uint32) ([]byte, bool)
	AppendIDs(ids []uint32, text string) []uint32 // encodes text
}

// Words returns the corpus named "words" for a tokenizer: tokens drawn from those that are a blank and small Latin letters. Every
// pattern cuts a text before each of them, so each encodes to itself, whatever stands beside it.
func Words(v Vocabulary) ([]uint32, error) {
	alphabet := alphabetOf(v)
	if len(alphabet) < minWords {
		return nil, fmt.Errorf("%d tokens are a blank and small letters that encode to themselves: the corpus words wants %d or more", len(alphabet), minWords)
	}
	r := rng{1}
	ids := make([]uint32, WordsTokens)
	for k := range ids {
		ids[k] = pick(&r, alphabet)
	}
	return ids, nil
}

// alphabetOf returns the tokens that are a blank and small letters, without those that do not encode to themselves.
func alphabetOf(v Vocabulary) []uint32 {
	var ids []uint32
	var text []byte
	for id := range uint32(v.Size()) {
		if token, ok := v.Bytes(id); ok && isWord(token) {
			ids, text = append(ids, id), append(text, token...)
		}
	}
	if slices.Equal(v.AppendIDs(nil, string(text)), ids) {
		return ids
	}
	var buf []uint32
	return slices.DeleteFunc(ids, func(id uint32) bool {
		token, _ := v.Bytes(id)
		buf = v.AppendIDs(buf[:0], string(token))
		return len(buf) != 1 || buf[0] != id
	})
}

// isWord reports whether a token is a blank and small letters.
func isWord(token []byte) bool {
	if len(token) < 2 || token[0] != ' ' {
		return false
	}
	for _, b := range token[1:] {
		if b < 'a' || b > 'z' {
			return false
		}
	}
	return true
}
