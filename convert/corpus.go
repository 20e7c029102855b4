package convert

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
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

// parseCorpusName reads a value of Options.Corpus. It looks at no file.
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
	encode    func(*tokenizer.Tokenizer) ([]uint32, *tokenizer.Edges, error)
	known     *tokenizer.Edges // of the corpus that was encoded; nil: the arenas tell
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
		p.encode = func(tok *tokenizer.Tokenizer) ([]uint32, *tokenizer.Edges, error) {
			ids, err := corpus.Words(tok)
			return ids, nil, err
		}
	case builtinText:
		t := textOf(p.name)
		p.image.Corpus, p.tokens = corpusImage{"text", t.SHA256}, t.Tokens[p.tokenizer.Name]
		p.encode = encodeText(t.Generate)
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
	p.encode = func(*tokenizer.Tokenizer) ([]uint32, *tokenizer.Edges, error) {
		tokens := make([]uint32, len(data)/4)
		for k := range tokens {
			tokens[k] = binary.LittleEndian.Uint32(data[4*k:])
		}
		return tokens, nil, nil
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
	p.encode = encodeText(func() []byte { return c.text })
	return nil
}

// encodeText returns a promptCorpus.encode that encodes a text.
func encodeText(text func() []byte) func(*tokenizer.Tokenizer) ([]uint32, *tokenizer.Edges, error) {
	return func(tok *tokenizer.Tokenizer) ([]uint32, *tokenizer.Edges, error) {
		ids, edges := tok.EncodeEdges(string(text()))
		return ids, edges, nil
	}
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
	p.encode = func(tok *tokenizer.Tokenizer) (ids []uint32, _ *tokenizer.Edges, _ error) {
		for _, g := range groups {
			ids = tok.AppendIDs(ids, g)
		}
		return ids, nil, nil
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

// tokensOf encodes the corpus, and keeps its edges where encoding tells them.
func (p *promptCorpus) tokensOf(tok *tokenizer.Tokenizer) ([]uint32, error) {
	ids, known, err := p.encode(tok)
	if p.known = known; err == nil && len(ids) == 0 {
		err = errors.New("its text encodes to no tokens: name a corpus with more text")
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
	if e := p.known; e != nil {
		return &reconstruct.Edges{Starts: e.Starts, Ends: e.Ends}, nil, nil
	}
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

// Limits of a corpus of text, which a user's file or directory holds.
const (
	maxCorpusText    = 256 << 20 // bytes of all files
	maxCorpusFiles   = 100_000
	maxCorpusStretch = 8 << 20 // bytes without a blank or a line break: to encode them takes ninety times their memory
)

// corpusText is what was read of a file or a directory.
type corpusText struct {
	text    []byte
	files   int
	skipped corpusSkips
}

// corpusSkips counts what was left out of a directory, by reason.
type corpusSkips []corpusSkip

type corpusSkip struct {
	reason string
	count  int
	first  string // path
}

// add counts a file that is left out of the corpus, by the reason.
func (s *corpusSkips) add(reason, path string) {
	for k := range *s {
		if (*s)[k].reason == reason {
			(*s)[k].count++
			return
		}
	}
	*s = append(*s, corpusSkip{reason, 1, path})
}

// String lists the reasons, each with a number and the first path.
func (s corpusSkips) String() string {
	var list []string
	for _, k := range s {
		what := fmt.Sprintf("%s: %d (first %s)", k.reason, k.count, k.first)
		if k.count == 1 {
			what = fmt.Sprintf("%s: %s", k.reason, k.first)
		}
		list = append(list, what)
	}
	return strings.Join(list, "; ")
}

// readCorpusText reads a file of text, or all files of text below a directory in the order of their paths.
func readCorpusText(path string) (c corpusText, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return c, fmt.Errorf("corpus %s: %w", path, err)
	case info.IsDir():
		err = c.readDirectory(path)
	default:
		err = c.readFile(path)
	}
	if err == nil && len(c.text) == 0 {
		err = fmt.Errorf("corpus %s: no text: want at least one file of UTF-8 text that is not empty", path)
		if len(c.skipped) > 0 {
			err = fmt.Errorf("%w (skipped: %s)", err, c.skipped)
		}
	}
	return c, err
}

// readFile reads the one file of a corpus. What is not UTF-8 is an error.
func (c *corpusText) readFile(path string) (err error) {
	if c.text, err = readTextFile(path, maxCorpusText); err != nil {
		return err
	}
	if at := invalidUTF8(c.text); at >= 0 {
		return fmt.Errorf("corpus %s: byte %d is not UTF-8 text: convert the file, for example with iconv -t UTF-8", path, at)
	}
	return checkStretches(path, c.text)
}

// readDirectory reads the files below a directory. Hidden files and directories, links, and files that are no text are counted.
func (c *corpusText) readDirectory(root string) error {
	from := filepath.Clean(root) + string(filepath.Separator) // with the separator, a root that is a link is followed
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch hidden := d != nil && path != from && strings.HasPrefix(d.Name(), "."); {
		case err != nil:
			return fmt.Errorf("corpus %s: %w", root, err)
		case hidden && d.IsDir():
			c.skipped.add("hidden", path)
			return filepath.SkipDir
		case hidden:
			c.skipped.add("hidden", path)
			return nil
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			c.skipped.add("not a regular file", path)
			return nil
		}
		return c.addFile(root, path)
	})
}

// addFile adds a file of a directory. Every file but the last ends with a newline.
func (c *corpusText) addFile(root, path string) error {
	if c.files == maxCorpusFiles {
		return fmt.Errorf("corpus %s: more than %d files: name a directory of fewer", root, maxCorpusFiles)
	}
	text, err := readTextFile(path, int64(maxCorpusText-len(c.text)))
	switch {
	case errors.Is(err, errLongCorpus):
		return fmt.Errorf("corpus %s: %w", root, errLongCorpus)
	case err != nil:
		return err
	case bytes.IndexByte(text, 0) >= 0:
		c.skipped.add("binary", path)
		return nil
	case invalidUTF8(text) >= 0:
		c.skipped.add("not UTF-8", path)
		return nil
	}
	if err := checkStretches(path, text); err != nil {
		return err
	}
	if len(c.text) > 0 && len(text) > 0 && c.text[len(c.text)-1] != '\n' {
		c.text = append(c.text, '\n')
	}
	c.text = append(c.text, text...)
	c.files++
	return nil
}

// checkStretches returns an error if a file has too long a stretch without a blank and without a line break.
func checkStretches(path string, text []byte) error {
	from := 0
	for at, b := range text {
		if b == ' ' || b == '\n' {
			from = at + 1
		} else if at-from >= maxCorpusStretch {
			return fmt.Errorf("corpus %s: more than %d MiB from byte %d on without a blank or a line break: break its lines", path, maxCorpusStretch>>20, from)
		}
	}
	return nil
}

var errLongCorpus = fmt.Errorf("more than %d MiB of text: name a file or directory of less", maxCorpusText>>20)

// readTextFile reads a file of at most limit bytes.
func readTextFile(path string, limit int64) ([]byte, error) {
	data, err := regular.Read(path, limit)
	if errors.Is(err, regular.ErrTooLong) {
		err = errLongCorpus
	}
	if err != nil {
		return nil, fmt.Errorf("corpus %s: %w", path, err)
	}
	return data, nil
}

// invalidUTF8 returns the first byte that is no part of a character, -1 if there is none.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; ; {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n <= 1 {
			return at
		}
		at += n
	}
}

// sonnetGroup is the least number of characters that AIPerf encodes at a time.
const sonnetGroup = 10_000

// sonnetGroups cuts a text as AIPerf 0.13.0 does its sonnet corpus: lines are stripped, empty ones dropped, and joined with blanks into
// groups of sonnetGroup characters or more. Each is encoded by itself (doc/spec/reconstruction.md 2.6).
func sonnetGroups(text string) (groups []string) {
	var lines []string
	characters := 0
	flush := func() {
		if len(lines) > 0 {
			groups = append(groups, strings.Join(lines, " "))
		}
		lines, characters = nil, 0
	}
	newlines := strings.NewReplacer("\r\n", "\n", "\r", "\n") // as Python reads text files
	for line := range strings.SplitSeq(newlines.Replace(text), "\n") {
		if line = strings.TrimFunc(line, isPythonSpace); line == "" {
			continue
		}
		lines = append(lines, line)
		if characters += utf8.RuneCountInString(line); characters >= sonnetGroup {
			flush()
		}
	}
	flush()
	return groups
}

// isPythonSpace reports whether Python's str.strip removes a character.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// The corpora of AIPerf: coding is another text for every seed, sonnet is the same for all.
const (
	CodingCorpus = "coding"
	SonnetCorpus = "sonnet"
)

// CorpusSource is where the ids of a corpus of AIPerf come from. FILE.u32le has no room for it, so it lies beside that file, in
// CorpusSourcePath.
type CorpusSource struct {
	Corpus    string `json:"corpus"`
	Seed      uint64 `json:"seed"` // AIPerf's random seed
	Tokenizer string `json:"tokenizer"`
	Tokens    int    `json:"tokens"`
	SHA256    string `json:"sha256"`  // of FILE.u32le
	Program   string `json:"program"` // that made the text, with its version
	Agentx    string `json:"agentx"`  // version
}

// knownCorpora are files that are known by their content: AIPerf 0.13.0 and agentx-harness 1.0.12 make them.
var knownCorpora = []CorpusSource{
	{Corpus: CodingCorpus, Seed: 42, Tokenizer: "o200k_base", Tokens: 259485, SHA256: "a0723f748cb5208ba53d90060896cc1d2891c2c73ffffc8f5b5400c637434406"},
	{Corpus: SonnetCorpus, Seed: 42, Tokenizer: "o200k_base", Tokens: 1138441, SHA256: "f379b397de451dfcbb98f1a46edf6e16fc28e465494ec37b76f7717397730f90"},
}

// CorpusSourcePath returns where the source of a file of token ids is.
func CorpusSourcePath(ids string) string { return ids + ".json" }

// maxCorpusSource bounds a CorpusSource before it is read, in bytes.
const maxCorpusSource = 1 << 20

// NewCorpusSource returns the source of ids that an installed AIPerf has made. The error says that they are not those that are known of
// this corpus: AIPerf's generators have changed since.
func NewCorpusSource(corpus string, seed uint64, tokenizer string, ids []byte) (*CorpusSource, error) {
	s := &CorpusSource{Corpus: corpus, Seed: seed, Tokenizer: tokenizer, Tokens: len(ids) / 4, SHA256: manifest.Sum(ids)}
	for _, known := range knownCorpora {
		if known.Corpus == corpus && known.Tokenizer == tokenizer && (known.Seed == seed || corpus == SonnetCorpus) && known.SHA256 != s.SHA256 {
			return nil, fmt.Errorf("the %s corpus of seed %d has SHA-256 %s, and AIPerf 0.13.0 gives %s", corpus, seed, s.SHA256, known.SHA256)
		}
	}
	return s, nil
}

// CorpusSeedError says that a corpus of AIPerf was made for another seed than that of the conversion, which would draw its blocks from
// another text.
type CorpusSeedError struct {
	File         string
	Corpus, Seed uint64 // seeds of the file and of the conversion
}

func (e *CorpusSeedError) Error() string {
	return fmt.Sprintf("corpus %s: AIPerf's coding corpus of seed %d, and AIPerf makes another one for seed %d", e.File, e.Corpus, e.Seed)
}

// CheckCorpusSeed returns a *CorpusSeedError where the corpus is one of AIPerf for another seed. Where that cannot be known, warning
// says so. Only conversions that draw as AIPerf does have such a seed, and a file that cannot be read is left to Convert.
func (o Options) CheckCorpusSeed() (warning string, err error) {
	o = o.withDefaults()
	name, err := parseCorpusName(o.Corpus)
	if err != nil || name.form != idsFile || name.sonnet || o.Placement.Backend != rules.SHA256MT {
		return "", nil
	}
	data, err := readCorpusFile(name.path)
	if err != nil {
		return "", nil
	}
	source, why := corpusSourceOf(name.path, manifest.Sum(data))
	switch seed := uint64(o.Placement.Seed); {
	case source == nil:
		return fmt.Sprintf("corpus %s: for which seed AIPerf made it is not known: %s", name.path, why), nil
	case source.Corpus == CodingCorpus && source.Seed != seed:
		return "", &CorpusSeedError{name.path, source.Seed, seed}
	}
	return "", nil
}

// corpusSourceOf returns the source of the ids in a file with a digest; nil with the reason where it is not known.
func corpusSourceOf(ids, digest string) (s *CorpusSource, why string) {
	for _, known := range knownCorpora {
		if known.SHA256 == digest {
			return &known, ""
		}
	}
	path := CorpusSourcePath(ids)
	data, err := regular.Read(path, maxCorpusSource)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "there is no " + path
	case err != nil:
		return nil, path + ": " + err.Error()
	case s == nil || s.SHA256 != digest:
		return nil, path + " is of other ids"
	}
	return s, ""
}
