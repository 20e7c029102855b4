package main

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokenizer"
)

//go:embed aiperf-corpus.py
var corpusProgram []byte

func newCorpus() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "corpus",
		Short:   "Export the text that AIPerf cuts its prompts from",
		Long:    "Export the text that another program cuts its prompts from, as token ids that --corpus takes.",
		Example: "  agentx corpus aiperf --seed 7 coding-7.u32le",
		Args:    refuseArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCorpusAIPerf())
	return cmd
}

// corpusFlags say which corpus of AIPerf to export, and with which installation.
type corpusFlags struct {
	kind, seed, tokenizer, python string
}

func newCorpusAIPerf() *cobra.Command {
	var f corpusFlags
	cmd := &cobra.Command{
		Use:   "aiperf FILE.u32le",
		Short: "Export the prompt corpus of an installed AIPerf",
		Long: `Export the prompt corpus of an installed AIPerf, or of its fork agentx-harness, as token ids. With it
--profile aiperf makes AIPerf's own prompts.

AIPerf makes another coding text for every seed, so a corpus goes with one --seed. FILE.u32le has the
ids alone; FILE.u32le.json says which they are, and a conversion for another seed is refused.

Nothing is downloaded. The vocabularies of o200k_base and cl100k_base are those inside agentx; any
other --tokenizer is one that AIPerf has in its cache, or a path.

--python is the interpreter that has AIPerf. The default is that of the command aiperf on the path,
else python3.`,
		Example: "  agentx corpus aiperf --seed 7 coding-7.u32le\n  agentx convert TRACES --profile aiperf --seed 7 --corpus coding-7.u32le",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "kind", convert.CodingCorpus, "coding; or sonnet, which is the same for all seeds and goes with --corpus sonnet:FILE.u32le")
	f.seed = strconv.Itoa(convert.DefaultSeed)
	flags.Var(seed(&f.seed), "seed", "AIPerf's --random-seed, 0 to 2^64-1")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "o200k_base, cl100k_base, or what AIPerf takes: OWNER/NAME or a path")
	flags.StringVar(&f.python, "python", "", "Python interpreter that can import aiperf")
	return cmd
}

// run exports a corpus to a file of token ids, and a description of it beside that.
func (f *corpusFlags) run(cmd *cobra.Command, file string) error {
	var p problems
	if !strings.HasSuffix(file, ".u32le") {
		p.add("%s: want a name that ends in .u32le: --corpus knows token ids by that", file)
	}
	if kinds := []string{convert.CodingCorpus, convert.SonnetCorpus}; !slices.Contains(kinds, f.kind) {
		p.add("%s: %w", shown(cmd, "kind", f.kind), wrongWord(f.kind, either(kinds), kinds))
	}
	seed, err := strconv.ParseUint(f.seed, 10, 64)
	if err != nil {
		p.add("%s: want 0 to 2^64-1, as AIPerf takes it", shown(cmd, "seed", f.seed))
	}
	if err := p.err(); err != nil {
		return err
	}
	ids, program, err := f.export(cmd)
	if err != nil {
		return err
	}
	source, err := convert.NewCorpusSource(f.kind, seed, f.tokenizer, ids)
	if err != nil {
		return fmt.Errorf("%s: not written: %w", file, err)
	}
	source.Program, source.Agentx = program, version
	about, err := json.MarshalIndent(source, "", "  ")
	if err == nil { // a source of other ids is passed over, so it may be there first
		err = durable.WriteFile(convert.CorpusSourcePath(file), append(about, '\n'))
	}
	if err == nil {
		err = durable.WriteFile(file, ids)
	}
	if err == nil {
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s ids, %s corpus of %s, seed %d, %s, SHA-256 %s\n",
			file, groupDigits(source.Tokens), f.kind, program, seed, f.tokenizer, source.SHA256)
	}
	return err
}

// export lets an installed AIPerf make the ids, and returns them with the name and version of that program.
func (f *corpusFlags) export(cmd *cobra.Command) (ids []byte, program string, err error) {
	python, err := f.interpreter(cmd)
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "agentx-corpus-")
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	script, out := filepath.Join(dir, "aiperf-corpus.py"), filepath.Join(dir, "ids")
	if err := errors.Join(os.WriteFile(script, corpusProgram, 0o600), writeRanks(dir)); err != nil {
		return nil, "", err
	}
	c := exec.CommandContext(cmd.Context(), python, script, f.kind, f.seed, f.tokenizer, out)
	c.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+dir, "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "PYTHONDONTWRITEBYTECODE=1")
	var said, trouble bytes.Buffer
	c.Stdout, c.Stderr = &said, &trouble
	if err := c.Run(); err != nil {
		err = fmt.Errorf("%s: not a corpus of AIPerf: %s", python, cmp.Or(finalLine(trouble.String()), err.Error()))
		return nil, "", hintError{err, "--python PYTHON, an interpreter of an environment with aiperf==0.13.0 or agentx-harness; each has its own: they are one module"}
	}
	if ids, err = os.ReadFile(out); err != nil {
		return nil, "", fmt.Errorf("%s: %w", python, err)
	}
	return ids, finalLine(said.String()), nil
}

// writeRanks puts the vocabularies inside agentx where tiktoken looks before it downloads them.
func writeRanks(dir string) error {
	for _, name := range tokenizer.Names() {
		ranks, address, err := tokenizer.RanksFile(name)
		if err != nil {
			return err
		}
		sum := sha1.Sum([]byte(address)) // tiktoken's name of a file in its cache
		if err := os.WriteFile(filepath.Join(dir, hex.EncodeToString(sum[:])), ranks, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// interpreter returns the Python that has AIPerf.
func (f *corpusFlags) interpreter(cmd *cobra.Command) (string, error) {
	for _, name := range []string{f.python, interpreterOf("aiperf"), "python3", "python"} {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err == nil {
			return path, nil
		}
		if name == f.python {
			return "", usageError{fmt.Errorf("%s: %w", shown(cmd, "python", name), err)}
		}
	}
	return "", hintError{errors.New("no Python found: neither aiperf nor python3 is on the PATH"), "--python PYTHON, an interpreter that can import aiperf"}
}

// interpreterOf returns the interpreter of a Python program on the path, which its first line names; "" where there is none.
func interpreterOf(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	var begin [512]byte
	n, _ := file.Read(begin[:])
	first, _, _ := strings.Cut(string(begin[:n]), "\n")
	words := strings.Fields(strings.TrimPrefix(first, "#!"))
	at := slices.IndexFunc(words, func(word string) bool { return strings.Contains(filepath.Base(word), "python") }) // /usr/bin/env python3, too
	if !strings.HasPrefix(first, "#!") || at < 0 {
		return ""
	}
	return words[at]
}

// finalLine returns the last line of a text that is not blank.
func finalLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
