package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
)

// tokenizeFlags say what to do with texts.
type tokenizeFlags struct {
	tokenizer          string
	text               []string
	count, ids, decode bool
	lines, asJSON      bool
}

func newTokenize() *cobra.Command {
	var f tokenizeFlags
	cmd := &cobra.Command{
		Use:   "tokenize [FILE|-]...",
		Short: "Count the tokens of a text, or turn it into ids and back",
		Long: `Count the tokens of files, of standard input (-, also where no file is named), or of --text.

The number of tokens stands alone on its line; of several texts, the name of each follows it. A text may be
of any length: about a megabyte of it is in memory at a time. No token is added at its beginning or end.

--tokenizer is o200k_base, cl100k_base, or that of a model:
  PATH                      a tokenizer.json, a directory with one, or with tiktoken.model
  PATTERN:PATH              a file of tiktoken's ranks, and how text is cut (` + strings.Join(tokenizer.Patterns(), ", ") + `)
  OWNER/NAME[@REVISION]     a model of the Hugging Face hub: its tokenizer alone is downloaded, once
A path that exists comes before a name of the hub. Byte-level BPE is known; what else is refused.`,
		Example: `  agentx tokenize --text 'How many tokens is this?'
  agentx tokenize README.md doc/*.md --tokenizer Qwen/Qwen3-0.6B
  git diff | agentx tokenize --ids | agentx tokenize --decode`,
		Args: checkArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "see above")
	flags.StringArrayVar(&f.text, "text", nil, "a text, in place of a file (repeatable)")
	flags.BoolVar(&f.count, "count", false, "print the number of tokens (the default)")
	flags.BoolVar(&f.ids, "ids", false, "print the ids, with blanks between them, a line for each text")
	flags.BoolVar(&f.decode, "decode", false, "read ids, with blanks, commas or line breaks between them, and write their text")
	flags.BoolVar(&f.lines, "lines", false, "every line is a text of its own, without its line break")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object a text: tokens, bytes, with --ids ids, of several texts name")
	return cmd
}

// check returns everything that is wrong with the flags.
func (f *tokenizeFlags) check(cmd *cobra.Command, files []string) error {
	var p problems
	if err := tokensource.Check(f.tokenizer); err != nil {
		p.add("%s: %w", shown(cmd, "tokenizer", f.tokenizer), err)
	}
	if f.decode {
		for name, on := range map[string]bool{"--count": f.count, "--ids": f.ids, "--lines": f.lines, "--json": f.asJSON} {
			if on {
				p.add("--decode writes text: %s makes no sense with it", name)
			}
		}
	}
	if f.count && f.ids {
		p.add("--count and --ids: want one of the two")
	}
	if len(files) > 0 && len(f.text) > 0 {
		p.add("--text and %s: want texts or files", files[0])
	}
	return p.err()
}

func (f *tokenizeFlags) run(cmd *cobra.Command, files []string) error {
	if err := f.check(cmd, files); err != nil {
		return err
	}
	tok, err := loadTokenizer(cmd, f.tokenizer)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16)
	t := tokenizing{tokenizeFlags: f, tok: tok, out: out, several: len(files)+len(f.text) > 1}
	for _, text := range f.text {
		if err := t.input(strconv.Quote(text), strings.NewReader(text)); err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	if len(files)+len(f.text) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err := t.file(name, cmd.InOrStdin()); err != nil {
			return errors.Join(err, out.Flush())
		}
	}
	return out.Flush()
}

// loadTokenizer loads the tokenizer that --tokenizer names.
func loadTokenizer(cmd *cobra.Command, name string) (*tokenizer.Tokenizer, error) {
	p := newProgress(cmd)
	defer p.close()
	root, err := cacheRoot(cmd)
	if err != nil {
		root = "" // the hub's own cache may be enough
	}
	s, err := tokensource.Resolve(cmd.Context(), name, hubOptions(p, root, 0))
	if err != nil {
		return nil, hintHub(err)
	}
	return s.Load()
}

// tokenizing is one run of tokenize.
type tokenizing struct {
	*tokenizeFlags
	tok     *tokenizer.Tokenizer
	out     *bufio.Writer
	several bool // texts, so that each is named
}

func (t *tokenizing) file(name string, stdin io.Reader) error {
	if name == "-" {
		return t.input(name, stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.input(name, f)
}

func (t *tokenizing) input(name string, r io.Reader) error {
	var err error
	switch {
	case t.decode:
		err = t.writeText(r)
	case t.lines:
		err = t.eachLine(name, r)
	default:
		err = t.one(name, r)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// maxTextLine bounds a line of --lines, in bytes.
const maxTextLine = 64 << 20

func (t *tokenizing) eachLine(name string, r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxTextLine)
	n := 0
	for s.Scan() {
		n++
		if err := t.one(fmt.Sprintf("%s:%d", name, n), bytes.NewReader(s.Bytes())); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d has more than %d bytes", n+1, maxTextLine)
	}
	return s.Err()
}

// one prints what is asked of one text. Its ids are written as they come.
func (t *tokenizing) one(name string, r io.Reader) error {
	tokens, between := 0, ""
	if t.ids && t.asJSON {
		t.out.WriteString(`{"ids":[`)
	}
	size, err := t.tok.EncodeReader(r, func(ids []uint32) error {
		tokens += len(ids)
		for k := 0; t.ids && k < len(ids); k++ {
			t.out.WriteString(between)
			t.out.Write(strconv.AppendUint(t.out.AvailableBuffer(), uint64(ids[k]), 10))
			if between = " "; t.asJSON {
				between = ","
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.end(name, tokens, size)
}

// end prints what follows the ids of a text.
func (t *tokenizing) end(name string, tokens int, size int64) (err error) {
	named := t.several || t.lines
	switch {
	case t.asJSON:
		open, suffix := "{", ""
		if t.ids {
			open = "],"
		}
		if named {
			quoted, _ := json.Marshal(name) // a string always marshals
			suffix = `,"name":` + string(quoted)
		}
		_, err = fmt.Fprintf(t.out, "%s\"tokens\":%d,\"bytes\":%d%s}\n", open, tokens, size, suffix)
	case t.ids:
		err = t.out.WriteByte('\n')
	case t.several:
		_, err = fmt.Fprintf(t.out, "%d\t%s\n", tokens, name)
	default:
		_, err = fmt.Fprintln(t.out, tokens)
	}
	return err
}

// writeText writes the bytes of ids. JSON lists of ids are read as well.
func (t *tokenizing) writeText(r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Split(scanIDs)
	for n := 1; s.Scan(); n++ {
		word := s.Text()
		id, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return fmt.Errorf("id %d, %q: want whole numbers, with blanks, commas or line breaks between them", n, word[:min(len(word), 40)])
		}
		b, ok := t.tok.Bytes(uint32(id))
		if !ok {
			return fmt.Errorf("id %d, %s: %s has no such token (its ids are below %d)", n, word, t.tok.Name(), t.tok.Size())
		}
		if _, err := t.out.Write(b); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a word of more than %d bytes: want ids", bufio.MaxScanTokenSize)
	}
	return s.Err()
}

// scanIDs is a split function for the words between blanks, commas, brackets and line breaks.
func scanIDs(data []byte, atEOF bool) (advance int, token []byte, err error) {
	const between = " \t\r\n,[]"
	from := 0
	for from < len(data) && strings.IndexByte(between, data[from]) >= 0 {
		from++
	}
	to := from
	for to < len(data) && strings.IndexByte(between, data[to]) < 0 {
		to++
	}
	switch {
	case to < len(data) || atEOF && to > from:
		return to, data[from:to], nil
	case atEOF:
		return len(data), nil, nil
	}
	return from, nil, nil
}
