package main

import (
	"bufio"
	"errors"
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
	tokenizer.Printer
	name  string // of the tokenizer
	text  []string
	count bool
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
A path that exists comes before a name of the hub. Only byte-level BPE is supported.`,
		Example: `  agentx tokenize --text 'How many tokens is this?'
  agentx tokenize README.md doc/*.md --tokenizer Qwen/Qwen3-0.6B
  git diff | agentx tokenize --ids | agentx tokenize --decode`,
		Args: checkArgs(cobra.ArbitraryArgs),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "tokenizer", convert.DefaultTokenizer, "name or path of the tokenizer, see above")
	flags.StringArrayVar(&f.text, "text", nil, "a text instead of a file (repeatable)")
	flags.BoolVar(&f.count, "count", false, "print the number of tokens (the default)")
	flags.BoolVar(&f.IDs, "ids", false, "print the ids, with blanks between them, a line for each text")
	flags.BoolVar(&f.Decode, "decode", false, "read ids, with blanks, commas or line breaks between them, and write their text")
	flags.BoolVar(&f.Lines, "lines", false, "every line is a text of its own, without its line break")
	flags.BoolVar(&f.JSON, "json", false, "one JSON object a text: tokens, bytes, with --ids ids, of several texts name")
	return cmd
}

// check returns all errors of the flags.
func (f *tokenizeFlags) check(cmd *cobra.Command, files []string) error {
	var p problems
	if err := tokensource.Check(f.name); err != nil {
		p.add("%s: %w", shown(cmd, "tokenizer", f.name), err)
	}
	if f.Decode {
		for name, on := range map[string]bool{"--count": f.count, "--ids": f.IDs, "--lines": f.Lines, "--json": f.JSON} {
			if on {
				p.add("--decode and %s contradict each other: leave one of them out", name)
			}
		}
	}
	if f.count && f.IDs {
		p.add("--count and --ids contradict each other: leave one of them out")
	}
	if len(files) > 0 && len(f.text) > 0 {
		p.add("--text and the file %s contradict each other: leave one of them out", files[0])
	}
	return p.err()
}

// run prints the tokens of the texts of --text, then of the files; without either, of standard input.
func (f *tokenizeFlags) run(cmd *cobra.Command, files []string) error {
	if err := f.check(cmd, files); err != nil {
		return err
	}
	var err error
	if f.Tokenizer, err = loadTokenizer(cmd, f.name); err != nil {
		return err
	}
	f.Out, f.Named = bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16), len(files)+len(f.text) > 1
	for k := 0; k < len(f.text) && err == nil; k++ {
		err = f.Print(strconv.Quote(f.text[k]), strings.NewReader(f.text[k]))
	}
	if len(files)+len(f.text) == 0 {
		files = []string{"-"}
	}
	for k := 0; k < len(files) && err == nil; k++ {
		err = f.file(files[k], cmd.InOrStdin())
	}
	return errors.Join(err, f.Out.Flush())
}

// file prints the tokens of a file; - is standard input.
func (f *tokenizeFlags) file(name string, stdin io.Reader) error {
	if name == "-" {
		return f.Print(name, stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return f.Print(name, file)
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
