package hub

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
