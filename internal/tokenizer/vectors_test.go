package tokenizer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// vectors are texts, and the ids that the libraries of others give them; contrib/tokenizer-vectors.py made them.
type vectors struct {
	Tokenizers []string
	texts      []string
	ids        [][]string // by text and tokenizer, with blanks between them
}

func readVectors(t *testing.T) (v vectors) {
	t.Helper()
	file, err := os.ReadFile("testdata/vectors.jsonl")
	require.NoError(t, err)
	s := bufio.NewScanner(bytes.NewReader(file))
	s.Buffer(nil, 1<<20)
	require.True(t, s.Scan())
	require.NoError(t, json.Unmarshal(s.Bytes(), &v))
	for s.Scan() {
		var row []string
		require.NoError(t, json.Unmarshal(s.Bytes(), &row))
		require.Len(t, row, 1+len(v.Tokenizers))
		v.texts, v.ids = append(v.texts, row[0]), append(v.ids, row[1:])
	}
	require.NoError(t, s.Err())
	require.GreaterOrEqual(t, len(v.texts), 400)
	return v
}

// realTokenizers is the variable with the directory of tokenizers that are no part of this repository, each in a folder of its name.
// make test-tokenizers fetches them.
const realTokenizers = "AGENTX_TOKENIZERS"

// openVector loads the tokenizer of a column of the vectors; nil: its files are not here.
func openVector(t *testing.T, name string) *Tokenizer {
	t.Helper()
	for _, known := range Names() {
		if name == known {
			return loaded()[name]
		}
	}
	dir := "testdata"
	path := filepath.Join(dir, name+".json")
	if !strings.HasPrefix(name, "small-") {
		if dir = os.Getenv(realTokenizers); dir == "" {
			return nil
		}
		path = filepath.Join(dir, name, "tokenizer.json")
	}
	var tok *Tokenizer
	var err error
	switch {
	case name == "kimi":
		tok, err = ParseRanks(name, Ranks{File: readFile(t, filepath.Join(dir, name, "tiktoken.model")), Pattern: "kimi"})
	case strings.HasSuffix(name, ".tiktoken"):
		tok, err = ParseRanks(name, Ranks{File: readFile(t, filepath.Join(dir, name)), Pattern: "kimi"})
	default:
		tok, err = ParseJSON(name, readFile(t, path))
	}
	require.NoError(t, err)
	return tok
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	return file
}

// The ids of every tokenizer whose files are here are those of the libraries: of the small ones for every known pattern, of the two
// inside the binary, and where AGENTX_TOKENIZERS says, of real ones.
func TestVectors(t *testing.T) {
	v := readVectors(t)
	for k, name := range v.Tokenizers {
		t.Run(name, func(t *testing.T) {
			tok := openVector(t, name)
			if tok == nil {
				t.Skipf("%s has no %s: make test-tokenizers", realTokenizers, name)
			}
			for row, text := range v.texts {
				ids := tok.Encode(text)
				assert.Equal(t, v.ids[row][k], join(ids), "%q", text)
				want, got := text, tok.decode(ids)
				if tok.nfc { // added tokens are found normalized, and are not
					want, got = norm.NFC.String(text), norm.NFC.String(got)
				}
				assert.Equal(t, want, got, "%q", text)
			}
		})
	}
}

func join(ids []uint32) string {
	return strings.Trim(strings.Join(strings.Fields(jsonOf(ids)), " "), "[]")
}

// jsonOf writes ids with blanks between them.
func jsonOf(ids []uint32) string {
	text, err := json.Marshal(ids)
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(string(text), ",", " ")
}

// The small tokenizers have what tokenizer.json files differ in, so that the vectors test all of it.
func TestSmallTokenizersHaveAllForms(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range patterns {
		tok := openVector(t, "small-"+p.name)
		require.Equal(t, p, tok.pattern)
		seen["nfc"] = seen["nfc"] || tok.nfc
		seen["whole pieces"] = seen["whole pieces"] || tok.added.model.wholePieces
		seen["added, as they are"] = seen["added, as they are"] || tok.added.raw != nil
		seen["added, normalized"] = seen["added, normalized"] || tok.added.normalized != nil
		file := string(readFile(t, "testdata/small-"+p.name+".json"))
		seen["pairs"] = seen["pairs"] || strings.Contains(file, `"merges":[["`)
		seen["strings"] = seen["strings"] || strings.Contains(file, `"merges":["`)
	}
	assert.Equal(t, map[string]bool{"nfc": true, "whole pieces": true, "added, as they are": true, "added, normalized": true, "pairs": true, "strings": true}, seen)
}
