package convert

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/corpus"
	"github.com/agentx/agentx/internal/tokenizer"
)

// writeTree writes files below a new directory, by path.
func writeTree(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for path, text := range files {
		path = filepath.Join(dir, filepath.FromSlash(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	return dir
}

// The files of a directory make one text, in the order of their paths. What is no text of the user is left out and counted.
func TestCorpusDirectory(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"b.txt": "beta", "a/z.txt": "zeta\n", "a/y.txt": "ypsilon", "c/empty": "", "d.txt": "日本",
		".git/config": "x", "c/.hidden": "x", "bin": "a\x00b", "latin": "caf\xe9", "latin2": "\xe9",
	})
	want := "ypsilon\nzeta\nbeta\n日本"
	for _, root := range []string{dir, dir + string(filepath.Separator)} {
		c, err := readCorpusText(root)
		require.NoError(t, err)
		assert.Equal(t, want, string(c.text))
		assert.Equal(t, 5, c.files)
		skipped := c.skipped.String()
		for _, s := range []string{"hidden: 2 (first " + filepath.Join(dir, ".git") + ")", "binary: " + filepath.Join(dir, "bin"), "not UTF-8: 2 (first " + filepath.Join(dir, "latin") + ")"} {
			assert.Contains(t, skipped, s)
		}
	}
}

// Links, also to directories above, are not followed below the directory; the directory itself may be one.
func TestCorpusDirectoryWithLinks(t *testing.T) {
	dir := writeTree(t, map[string]string{"real/a.txt": "alpha"})
	if err := os.Symlink(dir, filepath.Join(dir, "real", "up")); err != nil {
		t.Skip(err)
	}
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "root")))
	c, err := readCorpusText(filepath.Join(dir, "root"))
	require.NoError(t, err)
	assert.Equal(t, "alpha", string(c.text))
	assert.Contains(t, c.skipped.String(), "not a regular file: ")
}

func TestCorpusTextRefuses(t *testing.T) {
	for path, want := range map[string]string{
		write(t, "latin.txt", []byte("caf\xe9!")):     "byte 3 is not UTF-8 text",
		write(t, "empty.txt", nil):                    "no text",
		t.TempDir():                                   "no text",
		writeTree(t, map[string]string{"b": "\x00"}):  "no text: want at least one file of UTF-8 text that is not empty (skipped: binary: ",
		filepath.Join(t.TempDir(), "missing"):         "no such file",
		writeTree(t, map[string]string{"x": ""}):      "no text",
		writeTree(t, map[string]string{".x": "text"}): "hidden: ",
	} {
		_, err := readCorpusText(path)
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "corpus "+path)
	}
	stretch := strings.Repeat("x", maxCorpusStretch)
	_, err := readCorpusText(write(t, "stretch.txt", []byte("a "+stretch+"\n"+stretch)))
	require.NoError(t, err)
	for _, path := range []string{write(t, "stretch.txt", []byte("a "+stretch+"x")), writeTree(t, map[string]string{"b": "a " + stretch + "x"})} {
		_, err = readCorpusText(path)
		assert.ErrorContains(t, err, "more than 8 MiB from byte 2 on without a blank or a line break")
	}
	long := write(t, "long.txt", nil)
	require.NoError(t, os.Truncate(long, maxCorpusText+1))
	_, err = readCorpusText(long)
	assert.ErrorContains(t, err, "more than 256 MiB of text")
	_, err = readCorpusText(filepath.Dir(long))
	assert.ErrorContains(t, err, "more than 256 MiB of text")
}

// Lines are stripped as Python does, and encoded in groups of 10,000 characters or more.
func TestSonnetGroups(t *testing.T) {
	x, y := strings.Repeat("x", 6000), strings.Repeat("é", 4000)
	assert.Equal(t, []string{"one two three"}, sonnetGroups("\x1c one\u3000\r\n\n \t\rtwo\nthree\x1f"))
	assert.Equal(t, []string{x + " " + y, "last"}, sonnetGroups(x+"\n"+y+"\nlast\n"))
	assert.Empty(t, sonnetGroups(" \n\t\r\n"))
}

// aiperfText writes a text that tells whether groups are encoded by themselves.
func aiperfText(t testing.TB) string {
	return write(t, "sonnet.txt", []byte(strings.Repeat(strings.Repeat("x", 4999)+"\n\n  12345\n", 5)))
}

// Every kind of corpus makes a cache that is found again, explained, and built again from its provenance.
func TestEveryCorpus(t *testing.T) {
	text := strings.Repeat("The quick brown fox, 12 dogs and café.\n", 100)
	for name, c := range map[string]string{
		"code": "code", "prose": "prose", "words": "words", "file": write(t, "text.txt", []byte(text)),
		"directory": writeTree(t, map[string]string{"a": text, ".b": "x"}), "aiperf-sonnet": "aiperf-sonnet:" + aiperfText(t), "ids": tinyCorpus(t, 300),
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, lines(t, traceText("a")))
			o.Corpus = c
			e, err := Explain(t.Context(), o)
			require.NoError(t, err)
			r := o.convert(t)
			assert.Equal(t, e.Key, r.Key, "explain says the key")
			requireSound(t, r)
			again := o.convert(t)
			assert.True(t, again.Hit)
			assert.Equal(t, r.Key, again.Key)
			require.NoError(t, VerifyRebuild(t.Context(), o.Root, r.Key, Options{}))
		})
	}
}

// A file and a directory of the same text are one corpus, wherever they lie; a change of the text is another.
func TestCorpusKeyIsContent(t *testing.T) {
	key := func(path string) string {
		p, err := resolvePromptCorpus(path, builtinTokenizer(t, "cl100k_base"))
		require.NoError(t, err)
		return p.image.Corpus.SHA256
	}
	file := key(write(t, "x.txt", []byte("one\ntwo\n")))
	assert.Equal(t, file, key(writeTree(t, map[string]string{"a": "one", "b": "two\n"})))
	assert.Equal(t, file, key(writeTree(t, map[string]string{"k/l": "one\n", "m": "two\n", "n": ""})))
	assert.NotEqual(t, file, key(writeTree(t, map[string]string{"b": "one", "a": "two\n"})), "the order counts")
	assert.NotEqual(t, file, key("aiperf-sonnet:"+write(t, "x.txt", []byte("one\ntwo\n"))))
}

// The tokens of aiperf-sonnet are those of each group by itself; where they are drawn is AIPerf's stream for that corpus.
func TestAIPerfSonnet(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	require.NoError(t, o.SetProfile("aiperf"))
	o.Corpus = "aiperf-sonnet:" + aiperfText(t)
	p, err := resolvePromptCorpus(o.Corpus, builtinTokenizer(t, o.Tokenizer))
	require.NoError(t, err)
	assert.Equal(t, rules.SonnetStream, p.stream)
	tok, err := tokenizer.Load(o.Tokenizer)
	require.NoError(t, err)
	var want []uint32
	line := strings.Repeat("x", 4999)
	for _, group := range []string{line + " 12345 " + line, "12345 " + line + " 12345 " + line, "12345 " + line + " 12345"} {
		want = append(want, tok.Encode(group)...)
	}
	ids, err := p.tokensOf(tok)
	require.NoError(t, err)
	assert.Equal(t, want, ids)
}

// The words of another tokenizer are other arenas, of the same length.
func TestWordsOfTokenizers(t *testing.T) {
	images := map[string]bool{}
	for _, name := range tokenizer.Names() {
		p, err := resolvePromptCorpus("words", builtinTokenizer(t, name))
		require.NoError(t, err)
		assert.Equal(t, corpus.WordsTokens, p.tokens)
		images[p.image.Tokenizer] = true
	}
	assert.Len(t, images, len(tokenizer.Names()))
}

// A corpus that is shorter than a block is an error, also where its length is known only when it is encoded.
func TestShortCorpusText(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	o.Corpus, o.Rules.BlockSize = write(t, "short.txt", []byte("one two three four")), 5
	_, err := Convert(t.Context(), o)
	assert.ErrorContains(t, err, "block_size 5 is larger than the corpus")
	o.Rules.BlockSize = 4
	_, err = Convert(t.Context(), o)
	assert.NoError(t, err)
}

func TestCheckCorpus(t *testing.T) {
	for name, want := range map[string]string{
		"prosa": "did you mean prose?", "sonnet:x.txt": "aiperf-sonnet:x.txt for a text", "aiperf-sonnet:": "no file",
		"sonnet:": "no file",
	} {
		assert.ErrorContains(t, CheckCorpus(name), want)
	}
	for _, name := range append(Corpora(), t.TempDir(), "FILE.u32le", "aiperf-sonnet:FILE") {
		assert.NoError(t, CheckCorpus(name))
	}
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("code", 0o777))
	p, err := parseCorpusName("code")
	require.NoError(t, err)
	assert.Empty(t, p.path, "a name means the corpus, although a directory has it")
}

// The tokens of aiperf-sonnet are those that AIPerf 0.13.0 makes of its own text. SONNET is that file, where Python does not know it.
func TestOracleSonnet(t *testing.T) {
	path, python := os.Getenv("SONNET"), os.Getenv("ORACLE_PYTHON")
	if python != "" {
		out, err := exec.CommandContext(t.Context(), python, "-c", "import aiperf; print(aiperf.__path__[0])").Output()
		require.NoError(t, err)
		path = filepath.Join(strings.TrimSpace(string(out)), "dataset", "generator", "assets", "shakespeare.txt")
	}
	if path == "" {
		t.Skip("needs an installed AIPerf: make test-oracle")
	}
	tok := builtinTokenizer(t, "o200k_base")
	p, err := resolvePromptCorpus("aiperf-sonnet:"+path, tok)
	require.NoError(t, err)
	loaded, err := tok.Load()
	require.NoError(t, err)
	ids, err := p.tokensOf(loaded)
	require.NoError(t, err)
	assert.Len(t, ids, 1_138_441)
	h := sha256.New()
	require.NoError(t, binary.Write(h, binary.LittleEndian, ids))
	assert.Equal(t, "f379b397de451dfcbb98f1a46edf6e16fc28e465494ec37b76f7717397730f90", hex.EncodeToString(h.Sum(nil)))
}
