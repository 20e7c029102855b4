package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// card is the file that says what a dataset is.
const card = "README.md"

// maxCard bounds it, in bytes.
const maxCard = 8 << 20

// kinds lists the files that are data where no card says which are: the first kind that is there.
var kinds = [][]string{
	{".jsonl", ".jsonl.zst", ".jsonl.gz"},
	{".parquet"},
	{".json", ".json.zst", ".json.gz"},
}

// split is the part of a dataset that is taken.
const split = "train"

// contents is what is known of the files of a commit.
type contents interface {
	// complete lists all files; ok is false where only single ones can be asked for.
	complete() (t *tree, ok bool)
	// has reports whether there is a file; without a complete list it means: here, on this disk.
	has(path string) bool
	// card returns README.md; ok is false if there is none.
	card() (text []byte, ok bool, err error)
}

// choose decides which files are the data, by the first rule that applies: the path that was asked for; the layout of the
// Parquet revision; the card; the first kind of file that is there.
func choose(ctx context.Context, r Ref, c contents) ([]string, error) {
	refuse := func(try, format string, args ...any) ([]string, error) {
		return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf(format, args...), Hint: try}
	}
	t, complete := c.complete()
	if r.Path != "" {
		if c.has(r.Path) {
			return []string{r.Path}, checkWanted([]string{r.Path})
		}
		if !complete {
			return nil, &Error{Class: ClassNotCached, File: r.Path, Text: notHere}
		}
		for path := range t.Files {
			if strings.HasPrefix(path, r.Path+"/") {
				return refuse("name one file of it, or leave the path out for the data files", "%s is a directory", r.Path)
			}
		}
		try := "leave the path out for the data files"
		if meant := Suggest(r.String()); meant != r.String() && meant != "" { // the tail of an address
			try = meant
		}
		return nil, &Error{Class: ClassNotFound, File: r.Path, Text: "there is no such file", Hint: try}
	}
	if r.Revision == parquetRevision {
		if !complete {
			return nil, noListing()
		}
		list, err := chooseParquet(t)
		if err != nil {
			return nil, err
		}
		return list, checkWanted(list)
	}
	text, ok, err := c.card()
	if err != nil {
		return nil, err
	}
	if !ok && !complete {
		return nil, noListing()
	}
	if ok {
		patterns, found, err := readCard(text)
		if err != nil {
			return refuse("name the file: hf://datasets/OWNER/NAME/PATH", "the front matter of %s: %v", card, err)
		}
		if found {
			list, err := expand(ctx, patterns, c)
			if err != nil {
				return nil, err
			}
			return list, checkWanted(list)
		}
	}
	if !complete {
		return nil, noListing()
	}
	for _, suffixes := range kinds {
		var list []string
		for _, path := range t.paths() {
			if slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(path, s) }) {
				list = append(list, path)
			}
		}
		if len(list) > 0 {
			return list, checkWanted(list)
		}
	}
	return refuse("name the file: hf://datasets/OWNER/NAME/PATH", "no card names its data files, and none of its %d files is JSON lines, Parquet or JSON", len(t.Files))
}

func noListing() error {
	return &Error{Class: ClassNotCached, Text: "the listing of this commit is not in the cache, and what lies in a snapshot directory need not be all"}
}

// chooseParquet takes CONFIG/train/*.parquet, of the config default or the only one.
func chooseParquet(t *tree) ([]string, error) {
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
		return nil, &Error{Class: ClassInvalid, Text: err.Error(), Hint: "name a file of the one you want"}
	}
	if list := configs[name]; len(list) > 0 {
		return list, nil
	}
	if partial {
		return nil, &Error{Class: ClassInvalid, Text: "the hub converted only a part of it to Parquet", Hint: "leave @" + parquetRevision + " out for the files as they were uploaded"}
	}
	return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("no file matches %s/%s/*.parquet", name, split), Hint: "name the file"}
}

// pickConfig chooses the config default, or the only one.
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
	return "", fmt.Errorf("it has several configs and none is called default: %s", printable(strings.Join(names, ", "), 500))
}

// readCard returns the patterns that the front matter of a card names for the split, in order. Found is false where it
// has no configs.
func readCard(text []byte) (patterns []string, found bool, err error) {
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
		return nil, false, fmt.Errorf("it cannot be read: %s", printable(yamlText(err), 300))
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
			return nil, false, fmt.Errorf("two configs are called %q", printable(c.Name, 100))
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
			return nil, false, fmt.Errorf("config %s names %q: %w", name, printable(p, 300), err)
		}
	}
	return patterns, true, nil
}

// yamlText is what an error of YAML says, without the types of this program.
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

// frontMatter is the YAML from the first line, ---, to the next such line.
func frontMatter(text []byte) ([]byte, bool) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	if !bytes.HasPrefix(text, []byte("---\n")) {
		return nil, false
	}
	end := bytes.Index(text[3:], []byte("\n---"))
	return text[:max(0, end)+3], end >= 0
}

// dataFiles reads data_files: a string, a list of strings, or a list of splits with their paths.
func dataFiles(n *yaml.Node) ([]string, error) {
	if list, ok := stringsOf(n); ok {
		return list, nil // without a split all is train
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
		return nil, fmt.Errorf("it has no split %s: only %s", split, printable(strings.Join(splits, ", "), 300))
	}
	return list, nil
}

// stringsOf reads a string, or a list of them.
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

// maxGlobs bounds the patterns that are held against every file.
const maxGlobs = 1000

// expand finds the files of patterns: in the order of the patterns, within one by name, each once.
func expand(ctx context.Context, patterns []string, c contents) (list []string, err error) {
	t, complete := c.complete()
	var paths []string
	globs, taken := 0, map[string]bool{}
	for _, p := range patterns {
		var matches []string
		switch {
		case !strings.ContainsAny(p, "*?"):
			if c.has(p) {
				matches = []string{p}
			} else if !complete {
				return nil, &Error{Class: ClassNotCached, File: p, Text: notHere}
			}
		case !complete:
			return nil, noListing()
		default:
			if globs++; globs > maxGlobs {
				return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s names more than %d patterns with * or ?", card, maxGlobs), Hint: "name the file: hf://datasets/OWNER/NAME/PATH"}
			}
			if paths == nil {
				paths = t.paths()
			}
			form := glob(p)
			for _, path := range paths {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				if form.MatchString(path) {
					matches = append(matches, path)
				}
			}
		}
		if len(matches) == 0 {
			return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("%s names %q as data, and no file matches", card, p), Hint: "name the file: hf://datasets/OWNER/NAME/PATH"}
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

// glob turns a pattern into an expression: * and ? stand for what is within one part of a path, ** for several.
func glob(pattern string) *regexp.Regexp {
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
