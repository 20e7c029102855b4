// Package corpus generates the built-in prompt corpus: text like that in the context of a coding agent. Recorded traces do
// not have the words of their prompts, so blocks of prompts are cut from a corpus.
//
// A generator with a fixed seed expands the grammar in grammar/*.txt, which was written for this project (grammar.go,
// generator.go). Sessions (session.go) consist of questions, answers, tool calls, files, diffs, logs and test runs
// (views.go). The text depends on nothing but the source of this package: not on the platform, the clock, the order of
// maps, or random numbers of the standard library.
package corpus

import (
	"embed"
	"fmt"
	"strings"
	"sync"
)

// CodeSHA256 is the digest of Code, in hexadecimal. Keys of caches contain it. A change of the grammar or the generator
// changes it, and a test fails.
const CodeSHA256 = "f98a47616adc8321731de64b30710bac4058c8afc019024c7d85cf03b0bb7355"

// CodeTokens is the length of Code in tokens, by the name of the tokenizer.
var CodeTokens = map[string]int{"o200k_base": 295_155, "cl100k_base": 295_175}

// codeBytes is the length after which no further session begins. It gives a little under 300,000 tokens of o200k_base.
const codeBytes = 1_050_000

//go:embed grammar/*.txt
var grammarFiles embed.FS

// Code returns the corpus named "code", which is well-formed UTF-8. The first call generates it, in about 30 ms. The slice is
// shared and must not be changed.
func Code() []byte { return code() }

var code = sync.OnceValue(generateCode)

func generateCode() []byte {
	g := newGenerator(loadGrammar(), 1)
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
	return rules
}
