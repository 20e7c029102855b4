package convert

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/suggest"
)

// Corpora lists the names of the corpora inside agentx.
func Corpora() []string { return []string{"code", "prose", "words"} }

// wantCorpus says what Options.Corpus may be.
const wantCorpus = "code, prose, words, FILE or DIR of UTF-8 text, aiperf-sonnet:FILE, FILE.u32le of token ids, or sonnet:FILE.u32le"

// corpusForm is how a corpus is given.
type corpusForm uint8

const (
	builtinText  corpusForm = iota // a text that is generated: code, prose
	builtinWords                   // tokens drawn from the vocabulary
	idsFile                        // FILE.u32le
	textPath                       // FILE or DIR
	aiperfSonnet                   // aiperf-sonnet:FILE: a text that is cut as AIPerf does
)

// corpusName is a parsed Options.Corpus. The names of Corpora mean those, even where a file has such a name: ./code is the file.
type corpusName struct {
	form   corpusForm
	path   string // "" for those inside agentx
	sonnet bool   // the draws are those that AIPerf makes in its sonnet corpus
}

func parseCorpusName(name string) (corpusName, error) {
	if name == "words" {
		return corpusName{form: builtinWords}, nil
	}
	if slices.Contains(Corpora(), name) {
		return corpusName{form: builtinText}, nil
	}
	if path, ok := strings.CutPrefix(name, "aiperf-sonnet:"); ok && path != "" {
		return corpusName{form: aiperfSonnet, path: path, sonnet: true}, nil
	}
	path, sonnet := strings.CutPrefix(name, "sonnet:")
	switch {
	case path == "" || strings.HasSuffix(name, ":"):
		return corpusName{}, fmt.Errorf("corpus %q names no file: want %s", name, wantCorpus)
	case strings.HasSuffix(path, ".u32le"):
		return corpusName{form: idsFile, path: path, sonnet: sonnet}, nil
	case sonnet:
		return corpusName{}, fmt.Errorf("corpus %s: not a file of token ids: want sonnet:FILE.u32le, or aiperf-sonnet:%s for a text", name, path)
	}
	return corpusName{form: textPath, path: path}, nil
}

// CheckCorpus returns an error if a value of Options.Corpus is wrong, or if it is no name of a corpus and no file has it. It reads no
// content.
func CheckCorpus(name string) error {
	parsed, err := parseCorpusName(name)
	if err != nil || parsed.form != textPath {
		return err
	}
	if _, err = os.Stat(parsed.path); !os.IsNotExist(err) {
		return nil // reading it tells what else is wrong
	}
	err = fmt.Errorf("corpus %s: no such file, and no such name: want %s", name, wantCorpus)
	if near := suggest.Closest(name, Corpora()); near != "" {
		err = fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// portable returns the name with an absolute path.
func (n corpusName) portable(name string) string {
	switch {
	case n.path == "":
		return name
	case n.form == aiperfSonnet:
		return "aiperf-sonnet:" + absolutePath(n.path)
	case n.sonnet:
		return "sonnet:" + absolutePath(n.path)
	}
	return absolutePath(n.path)
}

// textOf returns the generated text of a name.
func textOf(name string) corpus.Text {
	k := slices.IndexFunc(corpus.Texts, func(t corpus.Text) bool { return t.Name == name })
	return corpus.Texts[k] // parseCorpusName knows the names
}
