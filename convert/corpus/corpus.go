// Package corpus holds the built-in prompt corpus: text of the kind that fills the context of a coding agent, out of which
// blocks of recorded prompts are cut when their words are not known.
//
// The text is made, not collected: a grammar in grammar/*.txt, written for this project, is expanded by a generator with a
// fixed seed (grammar.go) and put together into sessions (session.go) of questions, answers, tool calls, files, diffs,
// logs and test runs (views.go). It depends on nothing but this package's own bytes: not on the platform, the clock, the
// order of maps or a random stream of the standard library.
package corpus

import (
	"embed"
	"fmt"
	"strings"
	"sync"
)

// CodeSHA256 is the digest of Code, and what stands for it in the key of a cache. A change of the grammar or the
// generator changes it, and a test says so.
const CodeSHA256 = "f98a47616adc8321731de64b30710bac4058c8afc019024c7d85cf03b0bb7355"

// CodeTokens is the length of Code in tokens, by tokenizer.
var CodeTokens = map[string]int{"o200k_base": 295_155, "cl100k_base": 295_175}

// codeBytes is where the text stops, at the end of the section in progress. It is chosen to give a little under 300,000
// tokens of o200k_base.
const codeBytes = 1_050_000

//go:embed grammar/*.txt
var grammarFiles embed.FS

// Code returns the corpus named "code", well-formed UTF-8. It is made at the first call, which takes about 30 ms, and kept. The
// slice is shared and must not be changed.
func Code() []byte { return code() }

var code = sync.OnceValue(makeCode)

func makeCode() []byte {
	g := newGenerator(loadGrammar(), 1)
	for len(g.out) < codeBytes {
		g.session()
	}
	return g.out
}

// loadGrammar reads all rules; which file one stands in does not matter.
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
