package tokensource

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/fakehub"
)

// ranks is a file of ranks with the 256 bytes and more tokens.
func ranks(more ...string) []byte {
	var b strings.Builder
	for k := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(k)}), k)
	}
	for k, token := range more {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), 256+k)
	}
	return []byte(b.String())
}

// kimiConfig is tokenizer_config.json of Kimi with one named token.
const kimiConfig = `{"added_tokens_decoder":{"259":{"content":"[BOS]","special":true}},
 "tokenizer_class":"TikTokenTokenizer","auto_map":{"AutoTokenizer":["tokenization_kimi.TikTokenTokenizer",null]}}`

// bytesJSON is a tokenizer.json with the 256 bytes and a merge.
func bytesJSON() []byte {
	var vocab []string
	next := 256
	for k := range 256 {
		r := rune(k)
		if k <= ' ' || k > '~' && k < 0xa1 || k == 0xad {
			r = rune(next)
			next++
		}
		vocab = append(vocab, fmt.Sprintf("%q:%d", string(r), k))
	}
	vocab = append(vocab, `"ab":256`)
	return []byte(`{"added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Sequence","pretokenizers":[
{"type":"Split","pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},
{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
"model":{"type":"BPE","vocab":{` + strings.Join(vocab, ",") + `},"merges":["a b"]}}`)
}

// write writes files below a directory of the test, and returns that.
func write(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	return dir
}

func resolve(t *testing.T, name string) *Source {
	t.Helper()
	s, err := Resolve(t.Context(), name, hub.Options{Env: func(string) (string, bool) { return "", false }, Transport: nil})
	require.NoError(t, err, name)
	return s
}

func encode(t *testing.T, s *Source, text string) []uint32 {
	t.Helper()
	tok, err := s.Load()
	require.NoError(t, err, s.Name)
	assert.Equal(t, s.Digest, tok.Digest())
	assert.Equal(t, s.Name, tok.Name())
	return tok.Encode(text)
}

func TestBuiltin(t *testing.T) {
	s := resolve(t, "o200k_base")
	assert.Equal(t, "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", s.Digest)
	assert.Equal(t, []uint32{24912, 2375}, encode(t, s, "hello world"))
	assert.True(t, s.Builtin())
	assert.Equal(t, "o200k_base", s.Portable)
}

func TestPaths(t *testing.T) {
	dir := write(t, map[string][]byte{"a/tokenizer.json": bytesJSON(), "kimi/tiktoken.model": ranks("ab"), "kimi/tokenizer_config.json": []byte(kimiConfig), "x.tiktoken": ranks("ab")})
	for name, want := range map[string][]uint32{
		"a": {256, 'c'}, "a/tokenizer.json": {256, 'c'},
		"kimi": {256, 'c'}, "kimi/tiktoken.model": {256, 'c'},
	} {
		s := resolve(t, filepath.Join(dir, name))
		assert.Equal(t, want, encode(t, s, "abc"), name)
		assert.Equal(t, filepath.Join(dir, name), s.Portable)
		assert.False(t, s.Builtin())
	}
	s := resolve(t, "cl100k:"+filepath.Join(dir, "x.tiktoken"))
	assert.Equal(t, []uint32{256, 'c'}, encode(t, s, "abc"))
	assert.Equal(t, "cl100k:"+filepath.Join(dir, "x.tiktoken"), s.Portable)
}

// Special tokens of Kimi follow the ranks: named ones and reserved ones.
func TestSpecialTokensOfKimi(t *testing.T) {
	dir := write(t, map[string][]byte{"tiktoken.model": ranks("ab"), "tokenizer_config.json": []byte(kimiConfig)})
	s := resolve(t, dir)
	assert.Equal(t, []uint32{'x', 259, 256, 258}, encode(t, s, "x[BOS]ab<|reserved_token_258|>"))
	tok, err := s.Load()
	require.NoError(t, err)
	assert.Equal(t, 257+256, tok.Size())
}

// The same bytes under another name have the same digest. Whatever changes ids changes it.
func TestDigests(t *testing.T) {
	dir := write(t, map[string][]byte{
		"a/tokenizer.json": bytesJSON(), "b/copy.json": bytesJSON(), "c/tokenizer.json": append(bytesJSON(), '\n'),
		"x.tiktoken": ranks("ab"), "y.tiktoken": ranks("ab"), "z.tiktoken": ranks("ac"),
		"kimi/tiktoken.model": ranks("ab"), "kimi/tokenizer_config.json": []byte(kimiConfig),
		"kimi2/tiktoken.model": ranks("ab"), "kimi2/tokenizer_config.json": []byte(strings.Replace(kimiConfig, "BOS", "bos", 1)),
	})
	digest := func(pattern, name string) string {
		return resolve(t, pattern+filepath.Join(dir, name)).Digest
	}
	assert.Equal(t, digest("", "a"), digest("", "b/copy.json"))
	assert.Equal(t, digest("kimi:", "x.tiktoken"), digest("kimi:", "y.tiktoken"))
	different := []string{digest("", "a"), digest("", "c"), digest("kimi:", "x.tiktoken"), digest("qwen2:", "x.tiktoken"), digest("kimi:", "z.tiktoken"), digest("", "kimi"), digest("", "kimi2")}
	for k, d := range different {
		for _, other := range different[:k] {
			assert.NotEqual(t, d, other, k)
		}
	}
}

func TestRefused(t *testing.T) {
	dir := write(t, map[string][]byte{
		"empty/x": nil, "unknown.tiktoken": ranks("ab"), "text": []byte("hello"), "a/tokenizer.json": bytesJSON(),
		"bad/tiktoken.model": ranks("ab"), "bad/tokenizer_config.json": []byte(strings.Replace(kimiConfig, "259", "9", 1)),
		"sentencepiece.model": {0x0a, 0x0e, 0x0a}, "nothing": nil,
		"pointer/tokenizer.json": []byte("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 5\n"),
	})
	big := filepath.Join(dir, "big.json")
	require.NoError(t, os.WriteFile(big, []byte("{"), 0o666))
	require.NoError(t, os.Truncate(big, maxFile+1))
	for name, want := range map[string]string{
		"gpt2":                                "want cl100k_base, o200k_base, the path of",
		"o200k":                               "did you mean o200k_base?",
		"":                                    "want cl100k_base",
		"./none":                              "there is no such file or directory",
		"none/tokenizer.json":                 "there is no such file or directory",
		"kimi:none":                           "there is no such file or directory",
		"a--b/c":                              "it is no model of the hub",
		dir + "/empty":                        "the directory has neither tokenizer.json nor tiktoken.model",
		dir + "/unknown.tiktoken":             "PATTERN:FILE with one of cl100k, deepseek-v3, kimi, o200k, qwen2",
		dir + "/text":                         "neither a tokenizer.json nor a file of ranks",
		dir + "/sentencepiece.model":          "SentencePiece models are not read",
		dir + "/pointer":                      "it is a pointer of Git LFS",
		dir + "/pointer/tokenizer.json":       "it is a pointer of Git LFS",
		dir + "/nothing":                      "neither a tokenizer.json",
		dir + "/bad":                          `tokenizer_config.json: added_tokens_decoder: "9"`,
		"cl100k:" + dir + "/a/tokenizer.json": "leave cl100k: out",
		"cl100k:" + dir + "/a":                "not a regular file",
		big:                                   "67108865 bytes or more, want at most 67108864",
	} {
		_, err := Resolve(t.Context(), name, hub.Options{})
		assert.ErrorContains(t, err, want, name)
	}
}

// A model of the hub, then the same offline from the cache, and the commit of it as the portable name.
func TestHub(t *testing.T) {
	h := fakehub.New()
	commit := h.CommitModel("Org/Model-1", "main", map[string]fakehub.File{
		"tokenizer.json": {Data: bytesJSON(), LFS: true}, "model.safetensors": {Data: make([]byte, 1000), LFS: true}, "README.md": {Data: []byte("---\n---\n")}})
	h.CommitModel("Org/Kimi", "v1", map[string]fakehub.File{"tiktoken.model": {Data: ranks("ab"), LFS: true}, "tokenizer_config.json": {Data: []byte(kimiConfig)}})
	h.CommitModel("Org/None", "main", map[string]fakehub.File{"tokenizer.model": {Data: []byte("x")}})
	transport := h.ListenInMemory()
	defer h.Close()
	env := map[string]string{"HF_HOME": t.TempDir(), "HF_ENDPOINT": h.HubURL}
	o := hub.Options{Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }, Transport: transport}

	s, err := Resolve(t.Context(), "Org/Model-1", o)
	require.NoError(t, err)
	assert.Equal(t, "Org/Model-1@"+commit, s.Portable)
	assert.Equal(t, []uint32{256, 'c'}, encode(t, s, "abc"))
	assert.Equal(t, resolve(t, write(t, map[string][]byte{"tokenizer.json": bytesJSON()})).Digest, s.Digest)
	_, err = os.Stat(filepath.Join(env["HF_HOME"], "hub", "models--Org--Model-1", "snapshots", commit, "tokenizer.json"))
	require.NoError(t, err, "where the Python tools look")
	for _, r := range h.Log() {
		assert.NotContains(t, r.Path, "safetensors")
	}

	s, err = Resolve(t.Context(), "Org/Kimi@v1", o)
	require.NoError(t, err)
	assert.Equal(t, []uint32{259, 256, 'c'}, encode(t, s, "[BOS]abc"))

	_, err = Resolve(t.Context(), "Org/None", o)
	assert.ErrorContains(t, err, "tokenizer Org/None: model Org/None @ main ("+"")
	assert.ErrorContains(t, err, "tokenizer.json: there is no such file, nor tiktoken.model with tokenizer_config.json")
	assert.Contains(t, hub.Hint(err), "the path of a tokenizer.json")
	_, err = Resolve(t.Context(), "Org/Absent", o)
	assert.ErrorContains(t, err, "there is no such repository")

	h.ResetLog()
	env["HF_HUB_OFFLINE"] = "1"
	for _, name := range []string{"Org/Model-1", "hf://Org/Model-1@" + commit, "Org/Model-1@" + commit} {
		again, err := Resolve(t.Context(), name, o)
		require.NoError(t, err)
		assert.Equal(t, commit, strings.TrimPrefix(again.Portable, "Org/Model-1@"))
	}
	_, err = Resolve(t.Context(), "Org/Other", o)
	assert.ErrorContains(t, err, "offline")
	assert.Contains(t, hub.Hint(err), "once without HF_HUB_OFFLINE")
	assert.Empty(t, h.Log())
}
