package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentx/agentx/internal/regular"
)

// This file reads the user's own text as a prompt corpus: a file, or the files of a directory.

// Limits of a corpus of text.
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
