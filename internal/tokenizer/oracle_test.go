package tokenizer

import (
	"bufio"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The libraries of others encode and decode what this package encodes and decodes: `tokenizers` for tokenizer.json, `tiktoken` for
// files of ranks. make test-tokenizers fetches them and real tokenizers. Texts are tricky ones, tens of thousands of random ones, and
// megabytes of code and prose; ids are theirs, and random ones.
func TestLibrariesAgree(t *testing.T) {
	python, dir := os.Getenv("TOKENIZERS_PYTHON"), os.Getenv(realTokenizers)
	if python == "" || dir == "" {
		t.Skipf("TOKENIZERS_PYTHON names no Python with tokenizers and tiktoken, or %s no directory: make test-tokenizers", realTokenizers)
	}
	texts := oracleTexts(t)
	for _, name := range readVectors(t).Tokenizers {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "small-") {
				t.Skip("TestVectors has them")
			}
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() {
				t.Skipf("there is no %s in %s", name, dir)
			}
			path := filepath.Join(t.TempDir(), "ours.jsonl")
			writeOurs(t, path, openVector(t, name), texts)
			out, err := exec.Command(python, "../../contrib/tokenizers/check.py", filepath.Join(dir, name), path).CombinedOutput()
			t.Logf("%s", out)
			require.NoError(t, err)
		})
	}
}

// ours is what this package makes of a text, or of ids.
type ours struct {
	Text  string   `json:"text"`
	IDs   []uint32 `json:"ids"`
	Bytes []byte   `json:"bytes"` // of the ids; in base64
}

func writeOurs(t *testing.T, path string, tok *Tokenizer, texts []string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	w := bufio.NewWriter(f)
	e := json.NewEncoder(w)
	for _, text := range texts {
		ids := tok.Encode(text)
		require.NoError(t, e.Encode(ours{text, ids, []byte(tok.decode(ids))}))
	}
	draw := rand.New(rand.NewPCG(17, 1))
	for range 5000 {
		ids := []uint32{}
		for len(ids) < 20 {
			if id := draw.Uint32N(uint32(tok.Size())); len(tok.added.model.vocabulary.bytes(id)) > 0 {
				ids = append(ids, id)
			}
		}
		require.NoError(t, e.Encode(ours{"", ids, []byte(tok.decode(ids))}))
	}
	require.NoError(t, w.Flush())
	require.NoError(t, f.Close())
}

// oracleTexts are the tricky texts, random ones, and the files of this repository and of Go's library, whole and in chunks.
func oracleTexts(t *testing.T) (texts []string) {
	t.Helper()
	texts = append(readVectors(t).texts, nasty...)
	draw := rand.New(rand.NewPCG(17, 2))
	letters := []rune(strings.Join(texts, ""))
	for range 20000 {
		text := make([]rune, 1+draw.IntN(30))
		for k := range text {
			switch draw.IntN(20) {
			case 0:
				text[k] = rune(draw.IntN(utf8.MaxRune + 1)) // halves of surrogate pairs become U+FFFD
			case 1:
				text[k] = rune(draw.IntN(0x3000))
			default:
				text[k] = letters[draw.IntN(len(letters))]
			}
		}
		texts = append(texts, assigned(string(text)))
	}
	for _, pattern := range []string{"*.go", "../*/*.go", "../../*/*.go", "../../doc/*.md", "../../doc/spec/*.md", "../../contrib/*", "../../contrib/*/*", "../../convert/corpus/grammar/*",
		filepath.Join(goRoot(t), "src/unicode/*.go"), filepath.Join(goRoot(t), "src/strconv/*.go"), filepath.Join(goRoot(t), "test/*.go")} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
				texts = append(texts, strings.ToValidUTF8(string(readFile(t, name)), "\ufffd"))
			}
		}
	}
	return append(texts, scriptsText(draw))
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// scriptsText is about a megabyte of made-up words of every letter, in runs of one script each.
func scriptsText(draw *rand.Rand) string {
	var b strings.Builder
	for b.Len() < 1<<20 {
		first := rune(draw.IntN(0x30000))
		for range 1 + draw.IntN(12) {
			for range 1 + draw.IntN(9) {
				b.WriteRune(first + rune(draw.IntN(48)))
			}
			b.WriteString([]string{" ", " ", " ", ", ", ". ", "\n", "، ", "。", "-"}[draw.IntN(9)])
		}
	}
	return assigned(strings.Map(func(r rune) rune {
		if ccc(r) != 0 { // the order of marks in the NFC of the library is that of an older Unicode
			return -1
		}
		return r
	}, b.String()))
}

// assigned drops the characters that are not assigned in the Unicode of package unicode. The libraries may have a newer one.
func assigned(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) {
			return r
		}
		return -1
	}, text)
}
