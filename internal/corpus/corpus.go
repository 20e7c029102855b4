// Package corpus generates the built-in prompt corpora. Recorded traces do not have the words of their prompts, so blocks of prompts are
// cut from a corpus: Code is text like that in the context of a coding agent, Prose is technical prose in many languages, and Words
// are tokens that encode to themselves.
//
// A generator with a fixed seed expands the grammar in grammar/*.txt, which was written for this project (grammar.go,
// generator.go, inflect.go). Sessions (session.go) of Code consist of questions, answers, tool calls, files, diffs, logs and test runs
// (views.go), articles (prose.go) of paragraphs, lists, tables and passages in other languages. The text depends on nothing but the source of this package: not on the platform, the clock, the order of
// maps, or random numbers of the standard library.
package corpus

import (
	"embed"
	"fmt"
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
