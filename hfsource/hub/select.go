package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// dataNames are the names of data files, by kind, for repositories whose card names none. selectByName uses the first kind that a
// file has. Hidden files and those below hidden directories are none.
var dataNames = []func() *regexp.Regexp{
	lazyregexp.New(`(?i)\.(jsonl|ndjson|jsonlines)(\.zstd?|\.gz)?\z`),
	lazyregexp.New(`\.parquet\z`),
	lazyregexp.New(`\.json(\.zstd?|\.gz)?\z`),
}

var hiddenName = lazyregexp.New(`(\A|/)\.`)

// split is the split of a dataset that is used.
const split = "train"

const nameFileHint = "name the file: hf://datasets/OWNER/NAME/PATH"

// contents is what is known of the files of a commit.
type contents interface {
	// complete returns all files; ok is false where only single ones can be asked for.
	complete() (t *tree, ok bool)
	// has reports whether a file exists; without a complete list, whether it is in the cache.
	has(path string) bool
	// card returns the text of README.md; ok is false if there is none.
	card() (text []byte, ok bool, err error)
	// say tells the user something about the choice.
	say(format string, args ...any)
}

// selectFiles returns the paths of the data files, by the first rule that applies: the path of the reference; the layout
// of the Parquet branch; the card; split and kind by the names. doc/spec/hub.md 7a.
func selectFiles(ctx context.Context, r Ref, c contents) (list []string, err error) {
	switch {
	case r.Model:
		list, err = selectTokenizer(c)
	case r.Path != "":
		list, err = selectPath(r, c)
	case r.Revision == parquetRevision:
		list, err = selectParquet(c)
	default:
		list, err = selectByCard(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	return list, checkSelected(list)
}

// selectPath returns the file that a reference names.
func selectPath(r Ref, c contents) ([]string, error) {
	if c.has(r.Path) {
		return []string{r.Path}, nil
	}
	t, ok := c.complete()
	if !ok {
		return nil, &Error{Class: ClassNotCached, File: r.Path, Text: notCached}
	}
	for path := range t.Files {
		if strings.HasPrefix(path, r.Path+"/") {
			return nil, &Error{Class: ClassInvalid, Text: r.Path + " is a directory", Hint: "name one file of it, or leave the path out for the data files"}
		}
	}
	hint := "leave the path out for the data files"
	if s := Suggest(r.String()); s != r.String() && s != "" { // the path is the end of a web address
		hint = s
	}
	return nil, &Error{Class: ClassNotFound, File: r.Path, Text: "there is no such file", Hint: hint}
}

// selectParquet returns CONFIG/train/*.parquet, of the config default or the only one.
func selectParquet(c contents) ([]string, error) {
	t, ok := c.complete()
	if !ok {
		return nil, noListing()
	}
	configs := map[string][]string{}
	partial := false
	for _, path := range t.paths() {
		parts := strings.Split(path, "/")
		if len(parts) != 3 || !strings.HasSuffix(path, ".parquet") {
			continue
		}
		if configs[parts[0]] == nil {
			configs[parts[0]] = []string{}
		}
		partial = partial || parts[1] == "partial-"+split
		if parts[1] == split {
			configs[parts[0]] = append(configs[parts[0]], path)
		}
	}
	name, err := pickConfig(configs)
	if err != nil {
		return nil, &Error{Class: ClassInvalid, Text: err.Error(), Hint: nameFileHint}
	}
	if list := configs[name]; len(list) > 0 {
		return list, nil
	}
	if partial {
		return nil, &Error{Class: ClassInvalid, Text: "the hub converted only a part of it to Parquet", Hint: "leave @" + parquetRevision + " out for the files as they were uploaded"}
	}
	return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("config %s has no file that matches %s/%s/*.parquet", name, name, split), Hint: nameFileHint}
}

// pickConfig returns the config default, or the only one.
func pickConfig[T any](configs map[string]T) (string, error) {
	var names []string
	for name := range configs {
		if name == "default" {
			return name, nil
		}
		names = append(names, name)
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "", fmt.Errorf("there is no config")
	case 1:
		return names[0], nil
	}
	return "", fmt.Errorf("it has several configs and none is called default: %s", sanitize(strings.Join(names, ", "), 500))
}

// selectByCard returns the files that the card names. Without a card, or if it names none, it selects by name.
func selectByCard(ctx context.Context, c contents) ([]string, error) {
	text, ok, err := c.card()
	if err != nil {
		return nil, err
	}
	if ok {
		patterns, found, err := parseCard(text)
		if err != nil {
			return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("the front matter of %s: %v", cardName, err), Hint: nameFileHint}
		}
		if found {
			return expand(ctx, patterns, c)
		}
	}
	return selectByName(c)
}

// selectByName returns the data files by split and suffix, for a repository whose card names none.
func selectByName(c contents) ([]string, error) {
	t, ok := c.complete()
	if !ok {
		return nil, noListing()
	}
	var known []string
	for _, path := range t.paths() {
		if !hiddenName().MatchString(path) && slices.ContainsFunc(dataNames, func(kind func() *regexp.Regexp) bool { return kind().MatchString(path) }) {
			known = append(known, path)
		}
	}
	data, err := selectSplit(known, c.say)
	if err != nil {
		return nil, err
	}
	for _, kind := range dataNames {
		if list := slices.DeleteFunc(slices.Clone(data), func(path string) bool { return !kind().MatchString(path) }); len(list) > 0 {
			return list, nil
		}
	}
	return nil, &Error{Class: ClassInvalid, Hint: nameFileHint,
		Text: fmt.Sprintf("no card names its data files, and none of its %d files is JSON lines, Parquet or JSON", len(t.Files))}
}

// noListing is the error where the list of all files would be needed. The files of a snapshot directory may be a part.
func noListing() error {
	return &Error{Class: ClassNotCached, Text: "the listing of this commit is not in the cache, and what lies in a snapshot directory need not be all"}
}

// maxGlobs limits the patterns that are compared with every file.
const maxGlobs = 1000

// expand returns the files of patterns: in the order of the patterns, within one by name, each file once.
func expand(ctx context.Context, patterns []string, c contents) (list []string, err error) {
	t, complete := c.complete()
	var sorted []string
	globs, taken := 0, map[string]bool{}
	for _, p := range patterns {
		var matches []string
		switch isGlob := strings.ContainsAny(p, "*?"); {
		case isGlob && !complete:
			return nil, noListing()
		case isGlob && globs == maxGlobs:
			return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s names more than %d patterns with * or ?", cardName, maxGlobs), Hint: nameFileHint}
		case isGlob:
			if globs++; globs == 1 {
				sorted = t.paths()
			}
			if matches, err = matchGlob(ctx, p, sorted); err != nil {
				return nil, err
			}
		case c.has(p):
			matches = []string{p}
		case !complete:
			return nil, &Error{Class: ClassNotCached, File: p, Text: notCached}
		}
		if len(matches) == 0 {
			return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s names %q as data, and no file matches", cardName, p), Hint: nameFileHint}
		}
		for _, path := range matches {
			if !taken[path] {
				taken[path] = true
				list = append(list, path)
			}
		}
	}
	return list, nil
}

// matchGlob returns the paths that a pattern matches, in their order.
func matchGlob(ctx context.Context, pattern string, paths []string) (matches []string, err error) {
	form := compileGlob(pattern)
	for _, path := range paths {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if form.MatchString(path) {
			matches = append(matches, path)
		}
	}
	return matches, nil
}

// compileGlob turns a pattern into a regular expression: * and ? match within one part of a path, ** across parts.
func compileGlob(pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for k := 0; k < len(pattern); {
		switch {
		case strings.HasPrefix(pattern[k:], "**/"):
			b.WriteString(`(?:.*/)?`)
			k += 3
		case strings.HasPrefix(pattern[k:], "**"):
			b.WriteString(`.*`)
			k += 2
		case pattern[k] == '*':
			b.WriteString(`[^/]*`)
			k++
		case pattern[k] == '?':
			b.WriteString(`[^/]`)
			k++
		default:
			end := k + 1
			for end < len(pattern) && pattern[end] != '*' && pattern[end] != '?' {
				end++
			}
			b.WriteString(regexp.QuoteMeta(pattern[k:end]))
			k = end
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// The default split rules of the Python library datasets, for a repository whose card names no data files.
var (
	// shardName is data/SPLIT-00000-of-00005.parquet. It is looked for first.
	shardName = lazyregexp.New(`\Adata/(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\.`)

	// splitWords are words in a path, by split.
	splitWords = map[string]func() *regexp.Regexp{
		split:        wordsIn("train", "training"),
		"validation": wordsIn("validation", "valid", "dev", "val"),
		"test":       wordsIn("test", "testing", "eval", "evaluation"),
	}
)

func wordsIn(words ...string) func() *regexp.Regexp {
	return lazyregexp.New(`(?:\A|[-._ 0-9/])(?:` + strings.Join(words, "|") + `)[-._ 0-9/]`)
}

// splitsOf returns the files of each split that names tell of; none where no name does.
func splitsOf(paths []string) map[string][]string {
	splits := map[string][]string{}
	for _, path := range paths {
		if m := shardName().FindStringSubmatch(path); m != nil {
			splits[m[1]] = append(splits[m[1]], path)
		}
	}
	if len(splits) > 0 {
		return splits
	}
	for name, words := range splitWords {
		for _, path := range paths {
			if words().MatchString(path) {
				splits[name] = append(splits[name], path)
			}
		}
	}
	return splits
}

// selectSplit returns the files of the split train as names tell of it, of the only split where there is no train, or all files.
// It says so where others are left out.
func selectSplit(paths []string, say func(format string, args ...any)) ([]string, error) {
	splits := splitsOf(paths)
	names := slices.Sorted(maps.Keys(splits))
	name := split
	if splits[split] == nil && len(names) == 1 {
		name = names[0]
	}
	list := splits[name]
	switch {
	case len(names) == 0:
		return paths, nil
	case list == nil:
		return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("no card names its data files, and by their names they are of the splits %s: none is %s", strings.Join(names, ", "), split), Hint: nameFileHint}
	case len(list) < len(paths):
		say("no card names the data files: %d of %d are used, those of the split %s by their names", len(list), len(paths), name)
	}
	return list, nil
}

// maxTokenizerFile limits a file of a tokenizer, in bytes. The largest in use have about 35 MB.
const maxTokenizerFile = 64 << 20

// The files of tokenizers.
const (
	tokenizerFile = "tokenizer.json"
	ranksFile     = "tiktoken.model" // its pattern and special tokens follow from configFile
	configFile    = "tokenizer_config.json"
)

// ParseModel parses the name of a model: OWNER/NAME[@REVISION], with or without hf:// before it. Fetch gets the files of
// its tokenizer alone. Its errors are *Error of ClassInvalid.
func ParseModel(input string) (Ref, error) {
	r, err := parseModel(input)
	if err != nil {
		return Ref{}, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s: %v", input, err), Hint: "OWNER/NAME[@REVISION] of a model of the hub"}
	}
	return r, nil
}

// parseModel is ParseModel with errors that do not name the input.
func parseModel(input string) (Ref, error) {
	r, err := parseRepo(input, models)
	if err == nil && r.Path != "" {
		err = fmt.Errorf("a path follows the name")
	}
	return r, err
}

// selectTokenizer returns the files of the tokenizer of a model.
func selectTokenizer(c contents) ([]string, error) {
	switch _, complete := c.complete(); {
	case c.has(tokenizerFile):
		return []string{tokenizerFile}, nil
	case c.has(ranksFile) && c.has(configFile):
		return []string{ranksFile, configFile}, nil
	case !complete:
		return nil, &Error{Class: ClassNotCached, File: tokenizerFile, Text: notCached}
	}
	return nil, &Error{Class: ClassNotFound, File: tokenizerFile, Text: "there is no such file, nor " + ranksFile + " with " + configFile,
		Hint: "the model that it was made from may have one; or the path of a tokenizer.json"}
}

// checkTokenizerSizes refuses files that no tokenizer needs, before they are downloaded.
func (j *job) checkTokenizerSizes(paths []string) error {
	for _, path := range paths {
		e, err := j.entry(path)
		if err != nil {
			return err
		}
		if e.Size > maxTokenizerFile {
			return &Error{Class: ClassInvalid, File: path, Text: fmt.Sprintf("it has %d bytes, more than the %d of any tokenizer", e.Size, maxTokenizerFile)}
		}
	}
	return nil
}

// cardName is the file that describes a dataset. Its YAML front matter names the data files.
const cardName = "README.md"

// maxCard limits its size, in bytes.
const maxCard = 8 << 20

// parseCard returns the patterns of data files that a card names for the split, in order. found is false for a card
// without configs.
func parseCard(text []byte) (patterns []string, found bool, err error) {
	matter, ok := frontMatter(text)
	if !ok {
		return nil, false, nil
	}
	var meta struct {
		Configs []struct {
			Name  string    `yaml:"config_name"`
			Dir   string    `yaml:"data_dir"`
			Files yaml.Node `yaml:"data_files"`
		} `yaml:"configs"`
	}
	if err := yaml.Unmarshal(matter, &meta); err != nil {
		return nil, false, fmt.Errorf("it cannot be read: %s", sanitize(yamlText(err), 300))
	}
	if len(meta.Configs) == 0 {
		return nil, false, nil
	}
	numbers := map[string]int{}
	for k, c := range meta.Configs {
		if c.Name == "" {
			c.Name = "default" // as the Python library reads it
		}
		if _, twice := numbers[c.Name]; twice {
			return nil, false, fmt.Errorf("two configs are called %q", sanitize(c.Name, 100))
		}
		numbers[c.Name] = k
	}
	name, err := pickConfig(numbers)
	if err != nil {
		return nil, false, err
	}
	config := meta.Configs[numbers[name]]
	if config.Dir != "" {
		return nil, false, fmt.Errorf("config %s has a data_dir, which agentx does not read", name)
	}
	if patterns, err = dataFiles(&config.Files); err != nil {
		return nil, false, fmt.Errorf("config %s: %w", name, err)
	}
	for _, p := range patterns {
		if err := checkPath(p); err != nil {
			return nil, false, fmt.Errorf("config %s names %q: %w", name, sanitize(p, 300), err)
		}
	}
	return patterns, true, nil
}

// yamlText returns the text of a YAML error, without the names of Go types.
func yamlText(err error) string {
	var typed *yaml.TypeError
	if !errors.As(err, &typed) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	text := typed.Errors[0]
	if k := strings.LastIndex(text, " into "); k >= 0 {
		where, what, _ := strings.Cut(text[:k], ": cannot unmarshal ")
		return where + ": " + what + ", where configs is a list of maps, and config_name and data_dir are texts"
	}
	return text
}

// frontMatter returns the YAML between the first line, ---, and the next line ---.
func frontMatter(text []byte) ([]byte, bool) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if !bytes.HasPrefix(text, []byte("---\n")) {
		return nil, false
	}
	end := bytes.Index(text[3:], []byte("\n---"))
	return text[:max(0, end)+3], end >= 0
}

// dataFiles parses data_files: a path, a list of paths, or a list of splits with their paths.
func dataFiles(n *yaml.Node) ([]string, error) {
	if list, ok := stringsOf(n); ok {
		return list, nil // without splits, all of it is train
	}
	if n.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("data_files is neither a path nor a list of paths or splits")
	}
	var list, splits []string
	for _, item := range n.Content {
		var part struct {
			Split string    `yaml:"split"`
			Path  yaml.Node `yaml:"path"`
		}
		if item.Kind != yaml.MappingNode || item.Decode(&part) != nil {
			return nil, fmt.Errorf("data_files is neither a path nor a list of paths or splits")
		}
		paths, ok := stringsOf(&part.Path)
		if !ok {
			return nil, fmt.Errorf("data_files has a split without a path")
		}
		if part.Split == "" {
			part.Split = split
		}
		splits = append(splits, part.Split)
		if part.Split == split {
			list = append(list, paths...)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("it has no split %s, only %s", split, sanitize(strings.Join(splits, ", "), 300))
	}
	return list, nil
}

// stringsOf parses a string, or a list of strings.
func stringsOf(n *yaml.Node) ([]string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.Value != "" {
		return []string{n.Value}, true
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		return nil, false
	}
	var list []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, false
		}
		list = append(list, item.Value)
	}
	return list, true
}
