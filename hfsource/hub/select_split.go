package hub

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The default split rules of the Python library datasets, for a repository whose card names no data files.
var (
	// shardName is data/SPLIT-00000-of-00005.parquet. It is looked for first.
	shardName = regexp.MustCompile(`\Adata/(\w+(?:\.\w+)*)-\d{5}-of-\d{5}\.`)

	// splitWords are words in a path, by split.
	splitWords = map[string]*regexp.Regexp{
		split:        wordsIn("train", "training"),
		"validation": wordsIn("validation", "valid", "dev", "val"),
		"test":       wordsIn("test", "testing", "eval", "evaluation"),
	}
)

func wordsIn(words ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?:\A|[-._ 0-9/])(?:` + strings.Join(words, "|") + `)[-._ 0-9/]`)
}

// splitsOf returns the files of each split that names tell of; none where no name does.
func splitsOf(paths []string) map[string][]string {
	splits := map[string][]string{}
	for _, path := range paths {
		if m := shardName.FindStringSubmatch(path); m != nil {
			splits[m[1]] = append(splits[m[1]], path)
		}
	}
	if len(splits) > 0 {
		return splits
	}
	for name, words := range splitWords {
		for _, path := range paths {
			if words.MatchString(path) {
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
