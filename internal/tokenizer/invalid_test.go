package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"
)

// change replaces a part of a small tokenizer.json, once.
func change(t testing.TB, old, new string) string {
	t.Helper()
	file := string(readFile(t, "testdata/small-o200k.json"))
	require.Equal(t, 1, strings.Count(file, old), "%q", old)
	return strings.Replace(file, old, new, 1)
}

// Files that are broken, hostile or of other kinds are refused. The error names the place.
func TestParseJSONRefuses(t *testing.T) {
	const split = `"type":"Split"`
	for name, c := range map[string]struct{ file, want string }{
		"nothing":                  {"", "cut off"},
		"no object":                {"[]", "want '{', found '['"},
		"cut off":                  {change(t, `"merges":[`, `"merges":[`)[:9000], "model: vocab: cut off after 9000 bytes"},
		"more behind it":           {change(t, `"merges":[`, `"merges":[`) + "x", "byte"},
		"no model":                 {`{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}}`, "model: vocab is missing"},
		"no pre_tokenizer":         {`{"pre_tokenizer":null}`, "pre_tokenizer: there is none"},
		"WordPiece":                {change(t, `"type":"BPE"`, `"type":"WordPiece"`), `model: type: "WordPiece" is not known: want BPE`},
		"Unigram":                  {`{"model":{"vocab":[["a",-1.5]],"type":"Unigram"}}`, "model: vocab: want an object: only byte-level BPE is known"},
		"SentencePiece":            {change(t, `"byte_fallback":false`, `"byte_fallback":true`), "model: byte_fallback: it is true: want false"},
		"fuse_unk":                 {change(t, `"fuse_unk":false`, `"fuse_unk":true`), "model: fuse_unk"},
		"dropout":                  {change(t, `"dropout":null`, `"dropout":0.1`), "model: dropout: it is set"},
		"dropout as a word":        {change(t, `"dropout":null`, `"dropout":"0.1"`), "model: dropout: it is set"},
		"a flag for dropout":       {change(t, `"dropout":null`, `"dropout":false`), "model: dropout: it is set"},
		"word suffix":              {change(t, `"end_of_word_suffix":null`, `"end_of_word_suffix":"</w>"`), "model: end_of_word_suffix: it is set"},
		"Metaspace":                {`{"pre_tokenizer":{"type":"Metaspace","replacement":"_"}}`, `pre_tokenizer: "Metaspace" is not known: want Split and ByteLevel`},
		"Digits":                   {change(t, split, `"type":"Digits"`), `pre_tokenizer: pretokenizers: "Digits" is not known`},
		"another pattern":          {change(t, `|\\p{N}{1,3}|`, `|\\p{N}{1,4}|`), `pre_tokenizer: the pattern is not known (known: those of cl100k, deepseek-v3, kimi, o200k, qwen2): "`},
		"it is printed":            {change(t, `|\\p{N}{1,3}|`, `|\\p{N}{1,4}|`), `|\\p{N}{1,4}|`},
		"a split at a text":        {change(t, `{"Regex":`, `{"String":`), "a Split at a text"},
		"a split that removes":     {change(t, `"behavior":"Isolated"`, `"behavior":"Removed"`), `a Split with behavior "Removed", invert false`},
		"inverted":                 {change(t, `"invert":false`, `"invert":true`), "invert true"},
		"a blank before":           {change(t, `"type":"ByteLevel","add_prefix_space":false`, `"type":"ByteLevel","add_prefix_space":true`), "add_prefix_space or use_regex is not known"},
		"a normalizer":             {change(t, `"normalizer":null`, `"normalizer":{"type":"NFKC"}`), `normalizer: normalizer "NFKC" is not known: want none, or NFC`},
		"one of several":           {change(t, `"normalizer":null`, `"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Lowercase"}]}`), `normalizers: normalizer "Lowercase"`},
		"an added token's option":  {change(t, `"content":"<think>","single_word":false`, `"content":"<think>","single_word":true`), `added_tokens: token 2 ("<think>"): single_word: it is true`},
		"one without content":      {change(t, `"content":"<think>"`, `"content":""`), `added_tokens: token 2 (""): want id and content`},
		"two of one content":       {change(t, `"content":"<think>"`, `"content":"<|end|>"`), `added_tokens: token 2 ("<|end|>") occurs twice`},
		"an id below 0":            {change(t, `"!":0,`, `"!":-1,`), `model: vocab: token "!"`},
		"an id too large":          {change(t, `"!":0,`, fmt.Sprintf(`"!":%d,`, maxTokens)), `model: vocab: token "!"`},
		"an id that is no number":  {change(t, `"!":0,`, `"!":"0",`), `model: vocab: token "!"`},
		"an id with a fraction":    {change(t, `"!":0,`, `"!":0.5,`), `model: vocab: token "!"`},
		"an id twice":              {change(t, `"!":0,`, `"!":1,`), `model: two tokens have id 1`},
		"a token twice":            {change(t, `"!":0,`, `"\"":0,`), `model: vocab: token "\"" occurs twice`},
		"no byte":                  {change(t, `"!":0,`, `"ĀĀĀ":0,`), "no token is the byte 0x21"},
		"a token of no bytes":      {change(t, `"!":0,`, `"":0,`), `model: token "" (id 0) has characters that stand for no byte`},
		"a token of text":          {change(t, `"!":0,`, `"日":0,`), `model: token "日" (id 0) has characters that stand for no byte`},
		"a merge of no tokens":     {change(t, `"merges":[["Â","«"]`, `"merges":[["Â","qq"]`), `model: merge 0, of "Â" and "qq": the vocabulary lacks a part of it, or what it makes`},
		"a merge of one":           {change(t, `"merges":[["Â","«"]`, `"merges":[["Â"]`), "model: merges: merge 0 has 1 tokens, want 2"},
		"a merge of three":         {change(t, `"merges":[["Â","«"]`, `"merges":[["Â","«","x"]`), "model: merges: merge 0 has more than two tokens"},
		"a merge as one word":      {change(t, `"merges":[["Â","«"]`, `"merges":["Â«"`), `model: merges: merge 0: "Â«": want two tokens with a blank`},
		"a merge that is a number": {change(t, `"merges":[["Â","«"]`, `"merges":[7`), "model: merges: byte"},
		"a key twice":              {change(t, `"normalizer":null`, `"normalizer":null,"normalizer":null`), `the key "normalizer" occurs twice`},
		"the vocabulary twice":     {change(t, `"model":{`, `"model":{"vocab":{},`), `model: the key "vocab" occurs twice`},
		"no UTF-8":                 {change(t, `"!":0,`, "\"\xff\":0,"), "model: vocab"},
		"half a character":         {change(t, `"!":0,`, `"\ud800":0,`), "model: vocab"},
		"deep":                     {`{"x":` + strings.Repeat("[", 1e6), "x: byte"},
		"deep normalizers":         {`{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 1e5), "normalizer: normalizers: "},
		"many keys":                {`{` + manyKeys(2000), "more than 1000 keys"},
		"a long pattern":           {change(t, `|\\p{N}{1,3}|`, strings.Repeat("|x", 1e6)), "..."},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := ParseJSON("f.json", []byte(c.file))
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "tokenizer: f.json: ")
			assert.Nil(t, tok)
			assert.Less(t, len(err.Error()), 3000)
		})
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for k := range n {
		fmt.Fprintf(&b, `"%d":0,`, k)
	}
	return b.String()
}

// A dropout of zero is none.
func TestNoDropout(t *testing.T) {
	want, err := ParseJSON("plain", []byte(change(t, `"dropout":null`, `"dropout":null`)))
	require.NoError(t, err)
	for _, none := range []string{"0.0", "0", "-0.0", "0e9"} {
		tok, err := ParseJSON(none, []byte(change(t, `"dropout":null`, `"dropout":`+none)))
		require.NoError(t, err, none)
		assert.Equal(t, ints(want.Encode("a text <think> of 12 words")), ints(tok.Encode("a text <think> of 12 words")), none)
	}
}

// Files that would take much memory are refused before they do: of too many tokens, merges or added tokens, and too long ones.
func TestParseJSONIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	var vocab strings.Builder
	for k := range 3 << 20 {
		fmt.Fprintf(&vocab, `"%d":%d,`, k, k&0xffff)
	}
	for name, c := range map[string]struct{ file, want string }{
		"tokens":        {`{"model":{"vocab":{` + vocab.String(), "more than 1048576 tokens"},
		"merges":        {`{"model":{"merges":[` + strings.Repeat(`"a b",`, 9<<20), "more than 1048576 merges"},
		"added tokens":  {`{"added_tokens":[` + strings.Repeat(`{"id":1,"content":"x"},`, 2<<20), "more than 1048576 tokens"},
		"a long string": {`{"model":{"vocab":{"` + strings.Repeat("a", 60<<20) + `":0}}}`, "f.json"},
		"a long file":   {strings.Repeat(" ", MaxFile+1), "want at most 67108864"},
	} {
		t.Run(name, func(t *testing.T) {
			file := []byte(c.file)
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			_, err := ParseJSON("f.json", file)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, c.want)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<20))
		})
	}
}

func TestParseRanksRefuses(t *testing.T) {
	file := readFile(t, "testdata/small-kimi.tiktoken")
	size := uint32(Ranks{File: file}.Size())
	for name, c := range map[string]struct {
		ranks Ranks
		want  string
	}{
		"no pattern":            {Ranks{File: file}, `pattern "" is not known: want one of cl100k, deepseek-v3, kimi, o200k, qwen2`},
		"an unknown pattern":    {Ranks{File: file, Pattern: "gpt2"}, `pattern "gpt2" is not known`},
		"a special token below": {Ranks{file, "kimi", map[uint32]string{size - 1: "x"}}, "the special tokens have ids from"},
		"one far above":         {Ranks{file, "kimi", map[uint32]string{1 << 31: "x"}}, "the special tokens have ids from"},
		"one without content":   {Ranks{file, "kimi", map[uint32]string{size: ""}}, "has no content"},
		"a long file":           {Ranks{File: make([]byte, MaxFile+1), Pattern: "kimi"}, "want at most 67108864"},
		"line breaks":           {Ranks{File: []byte(strings.Repeat("\n", 1<<20)), Pattern: "kimi"}, "line 1 holds id"},
	} {
		_, err := ParseRanks("f", c.ranks)
		assert.ErrorContains(t, err, c.want, name)
	}
	tok, err := ParseRanks("f", Ranks{file, "kimi", map[uint32]string{size + 3: "<x>"}})
	require.NoError(t, err)
	assert.Equal(t, []uint32{size + 3}, tok.Encode("<x>"))
	_, ok := tok.Bytes(size)
	assert.False(t, ok)
}

// A long piece takes no quadratic time: twice the length, about twice the time. A quadratic one would take an hour here. AGENTX_LONG=1
// has pieces of this length for every vocabulary.
func TestLongPieces(t *testing.T) {
	for _, name := range []string{"small-o200k", "small-deepseek-v3", "small-cl100k", "small-kimi"} {
		size := 1 << 20
		if testing.Short() || name != "small-o200k" && os.Getenv("AGENTX_LONG") == "" {
			size = 1 << 17
		}
		tok := openVector(t, name)
		for _, unit := range []string{"a", "ab", "=", " ", "\n", " \n", "A", "é", "日", "\u0301", "👩‍", "aA", "'", "1", "\u00a0 ", "Aʰ"} {
			text := strings.Repeat(unit, size/len(unit))
			if got := tok.decode(tok.Encode(text)); got != text {
				t.Fatalf("%s: %d bytes of %q do not come back", name, size, unit)
			}
		}
	}
}

// FuzzParseJSON parses anything, and encodes with what it accepts.
func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"model":{"vocab":{"a":0},"merges":["a b",["a","b"]]},"added_tokens":[{"id":1,"content":"x"}]}`))
	for _, p := range patterns {
		f.Add([]byte(tinyJSON(p)))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		tok, err := ParseJSON("f.json", file)
		if err != nil {
			require.Nil(t, tok)
			return
		}
		requireRoundTrip(t, tok, "Hello wörld e\u0301 <|end|> 123\n\n  日本語")
	})
}

// tinyJSON is a tokenizer.json of the bytes, three merges and two added tokens.
func tinyJSON(p *pattern) string {
	var vocab, steps []string
	for r, b := range byteOf {
		if b >= 0 {
			vocab = append(vocab, fmt.Sprintf("%q:%d", string(rune(r)), b))
		}
	}
	for _, e := range p.expressions {
		steps = append(steps, fmt.Sprintf(`{"type":"Split","pattern":{"Regex":%s},"behavior":"Isolated","invert":false}`, jsonText(e)))
	}
	return `{"added_tokens":[{"id":259,"content":"<|end|>"},{"id":260,"content":"e\u0301","normalized":true}],"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[` + strings.Join(steps, ",") + `,{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
"model":{"type":"BPE","ignore_merges":true,"vocab":{` + strings.Join(vocab, ",") + `,"ll":256,"He":257,"Hell":258},"merges":["l l",["H","e"],"He ll"]}}`
}

func jsonText(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// The seeds of FuzzParseJSON are accepted.
func TestTinyTokenizers(t *testing.T) {
	for _, p := range patterns {
		tok, err := ParseJSON("f.json", []byte(tinyJSON(p)))
		require.NoError(t, err)
		assert.Equal(t, []uint32{258, 'o', 259, 260}, tok.Encode("Hello<|end|>e\u0301"))
	}
}

// Added tokens have the ids that Hugging Face's library gives them, whatever the file says: that of the model, or the next one.
func TestIDsOfAddedTokens(t *testing.T) {
	p := patterns[0]
	file := strings.Replace(tinyJSON(p), `{"id":259,"content":"<|end|>"}`, `{"id":300,"content":"<a>"},{"id":7,"content":"Hell"},{"id":500,"content":"<|end|>"}`, 1)
	tok, err := ParseJSON("f.json", []byte(file))
	require.NoError(t, err)
	assert.Equal(t, []uint32{258, 259, 260, 261}, tok.Encode("Hell<a><|end|>e\u0301"))
	assert.Equal(t, 262, tok.Size())
}

// FuzzEncode encodes any text with the small tokenizers and those inside the binary: its bytes come back.
func FuzzEncode(f *testing.F) {
	for _, text := range nasty {
		f.Add(text)
	}
	var all []*Tokenizer
	f.Fuzz(func(t *testing.T, text string) {
		if all == nil {
			for _, p := range patterns {
				all = append(all, openVector(t, "small-"+p.name))
			}
			for _, name := range Names() {
				all = append(all, loaded()[name])
			}
		}
		for _, tok := range all {
			requireRoundTrip(t, tok, text)
		}
	})
}

func requireRoundTrip(t *testing.T, tok *Tokenizer, text string) {
	t.Helper()
	want := text
	if !utf8.ValidString(text) {
		want = string([]rune(text))
	}
	ids := tok.Encode(text)
	got := tok.decode(ids)
	if tok.nfc {
		want, got = norm.NFC.String(want), norm.NFC.String(got)
	}
	require.Equal(t, want, got, tok.Name())
	streamed, _ := stream(t, tok, text, 7)
	require.Equal(t, ids, append(make([]uint32, 0, 1), streamed...), tok.Name())
}
