package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"github.com/pkoukk/tiktoken-go-loader/assets"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/measure"
)

// loaded and oracle hold each encoding once for all tests: ours, and the library's by its own way in.
var (
	loaded = sync.OnceValue(func() map[string]*Tokenizer {
		m := make(map[string]*Tokenizer)
		for _, name := range Names() {
			t, err := Load(name)
			if err != nil {
				panic(err)
			}
			m[name] = t
		}
		return m
	})
	oracle = sync.OnceValue(func() map[string]*tiktoken.Tiktoken {
		tiktoken.SetBpeLoader(loader.NewOfflineLoader())
		m := make(map[string]*tiktoken.Tiktoken)
		for _, name := range Names() {
			t, err := tiktoken.GetEncoding(name)
			if err != nil {
				panic(err)
			}
			m[name] = t
		}
		return m
	})
)

// each runs a test once per encoding.
func each(t *testing.T, test func(t *testing.T, tok *Tokenizer, lib *tiktoken.Tiktoken)) {
	t.Helper()
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { test(t, loaded()[name], oracle()[name]) })
	}
}

func (t *Tokenizer) decode(ids []uint32) string {
	var b []byte
	for _, id := range ids {
		token, ok := t.Bytes(id)
		if !ok {
			return "no such id"
		}
		b = append(b, token...)
	}
	return string(b)
}

func ints(ids []uint32) []int {
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out
}

func TestNamesAndDigests(t *testing.T) {
	assert.Equal(t, []string{"cl100k_base", "o200k_base"}, Names())
	for name, want := range map[string]string{
		"cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
		"o200k_base":  "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
	} {
		got, err := Digest(name)
		require.NoError(t, err)
		assert.Equal(t, want, got)

		file, err := assets.Assets.ReadFile(name + ".tiktoken")
		require.NoError(t, err)
		sum := sha256.Sum256(file)
		assert.Equal(t, want, hex.EncodeToString(sum[:]))
	}
}

func TestUnknownName(t *testing.T) {
	for _, name := range []string{"", "o200k", "O200K_BASE", "../o200k_base"} {
		_, err := Digest(name)
		assert.ErrorContains(t, err, "cl100k_base, o200k_base")
		_, err = Load(name)
		assert.ErrorContains(t, err, "cl100k_base, o200k_base")
	}
}

// The packed vocabularies are the files of tiktoken; AGENTX_PACK=1 packs them again.
func TestPackedVocabularies(t *testing.T) {
	for _, b := range builtins {
		file, err := assets.Assets.ReadFile(b.file)
		require.NoError(t, err)
		if os.Getenv("AGENTX_PACK") != "" {
			pack(t, file, b.name)
		}
		unpacked, _, err := RanksFile(b.name)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(file, unpacked), b.name)
	}
}

func pack(t *testing.T, file []byte, name string) {
	m, err := parseRanks(file, 0)
	require.NoError(t, err)
	var lengths []byte
	for id := range m.vocabulary.size() {
		lengths = append(lengths, byte(len(m.vocabulary.bytes(uint32(id)))))
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	all := append(lengths, m.vocabulary.text...)
	t.Logf("%s: SHA-256 %s", name, digestOf(all))
	require.NoError(t, os.WriteFile("packed/"+name+".zst", z.EncodeAll(all, nil), 0o666))
}

func TestLoadRefusesADamagedVocabulary(t *testing.T) {
	v, err := find("cl100k_base")
	require.NoError(t, err)
	damaged := *v
	damaged.packed = bytes.Clone(v.packed)
	damaged.packed[len(v.packed)/2] ^= 1
	_, err = damaged.unpack()
	assert.Error(t, err)
	damaged.packed, damaged.tokens = v.packed, v.sha256
	_, err = damaged.unpack()
	assert.ErrorContains(t, err, v.tokens)
	assert.ErrorContains(t, err, v.sha256)
}

// What the digest makes impossible is refused all the same.
func TestParse(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"good":       {"IQ== 0\nIiM= 1\n", "no token is the byte 0x00"},
		"no newline": {"IQ== 0\nIiM= 1", "no token is the byte 0x00"},
		"no bytes":   {"IQ== 0\n 1\n", "line 2: a token without bytes"},
		"twice":      {"IQ== 0\nIQ== 1\n", "ids 0 and 1 are the same token"},
		"hole":       {"IQ== 0\nIiM= 2\n", `line 2 holds id "2", want 1`},
		"no id":      {"IQ==\nIiM= 1\n", `line 1 holds id "", want 0`},
		"not base64": {"IQ== 0\nI! 1\n", "line 2: illegal base64"},
		"too few":    {"IQ== 0\n", "1 tokens, want 2"},
	} {
		_, err := parseRanks([]byte(c.file), 2)
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestShape(t *testing.T) {
	for name, size := range map[string]int{"cl100k_base": 100256, "o200k_base": 199998} {
		tok := loaded()[name]
		assert.Equal(t, size, tok.Size())
	}
}

// nasty is text on which tokenizers have been seen to differ.
var nasty = []string{
	"",
	" ",
	"a",
	"\x00",
	"\x7f",
	"\r\n\r\n",
	"\n  \n",
	"  \n\t\n  x",
	"trailing   ",
	"tabs\t\t\tand   spaces \u00a0\u2003mixed\u200b",
	"it's we'RE I'M they'll o'clock '",
	"ſ'ſ don'ſ",
	"HTTPServer fooBAR camelCase snake_case SCREAMING",
	"1234567890 3.14159 0x1F ١٢٣ Ⅻ ²",
	"日本語のテキストと中文混排，標點。한국어",
	"😀👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🫠",
	"e\u0301 n\u0303 Z̸̡̛͉a̶l̷g̸o̵ ǅ ʰ ﬁ",
	"العربية עברית हिन्दी ไทย",
	"└── ├─ ═╬═ → ⇒ ✓ ✗ …",
	"\ufeffbom \ufffd \U0010ffff \ue000",
	"// path/to/file.go:12:3: ///\n////",
	"{\"a\":[1,2,{\"b\":null}],\"c\":\"\\u00e9\\n\"}",
	strings.Repeat("=", 300),
	strings.Repeat("ab", 200),
	strings.Repeat("\n", 50),
}

func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer, lib *tiktoken.Tiktoken) {
		for _, text := range nasty {
			require.True(t, utf8.ValidString(text), "%q", text)
			ids := tok.Encode(text)
			assert.Equal(t, text, tok.decode(ids))
			assert.Equal(t, lib.EncodeOrdinary(text), ints(ids), "%q", text)
		}
		rapid.Check(t, func(t *rapid.T) {
			text := strings.ToValidUTF8(rapid.String().Draw(t, "text"), "?")
			ids := tok.Encode(text)
			assert.Equal(t, text, tok.decode(ids))
			assert.Equal(t, lib.EncodeOrdinary(text), ints(ids))
		})
	})
}

// Short pieces of zero bytes are told apart by their length.
func TestPiecesOfZeroBytes(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer, lib *tiktoken.Tiktoken) {
		var text strings.Builder
		for n := range 17 {
			text.WriteString("1" + strings.Repeat("\x00", n))
		}
		ids := tok.Encode(text.String())
		assert.Equal(t, text.String(), tok.decode(ids))
		assert.Equal(t, lib.EncodeOrdinary(text.String()), ints(ids))
	})
}

func TestIllFormedBytesBecomeReplacementCharacters(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer, _ *tiktoken.Tiktoken) {
		for text, want := range map[string]string{
			"\xff":              "\ufffd",
			"a\x80b":            "a\ufffdb",
			"\xe6\x97":          "\ufffd\ufffd",
			"\xed\xa0\x80":      "\ufffd\ufffd\ufffd",
			"日\xe6\x97\xa5\xe6": "日日\ufffd",
		} {
			assert.Equal(t, want, tok.decode(tok.Encode(text)), "%q", text)
		}
	})
}

// All tokens, against the library's decode; the ids of special tokens and all beyond are not there.
func TestBytes(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer, lib *tiktoken.Tiktoken) {
		for id := range tok.Size() {
			token, ok := tok.Bytes(uint32(id))
			if !ok || len(token) == 0 || lib.Decode([]int{id}) != string(token) {
				t.Fatalf("id %d is %q", id, token)
			}
		}
		for _, id := range []uint32{uint32(tok.Size()), 100257, 199999, 200018, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
			if int(id) < tok.Size() {
				continue
			}
			token, ok := tok.Bytes(id)
			assert.False(t, ok, id)
			assert.Nil(t, token, id)
		}
	})
}

func TestBytesDoesNotAllocate(t *testing.T) {
	tok := loaded()["o200k_base"]
	assert.Zero(t, testing.AllocsPerRun(100, func() { tok.Bytes(12345) }))
}

func TestBytesCannotBeAppendedInto(t *testing.T) {
	tok := loaded()["cl100k_base"]
	token, _ := tok.Bytes(7)
	next, _ := tok.Bytes(8)
	want := bytes.Clone(next)
	_ = append(token, "overwrite"...)
	assert.Equal(t, want, next)
}

func TestSpecialTokensAreOrdinaryText(t *testing.T) {
	each(t, func(t *testing.T, tok *Tokenizer, _ *tiktoken.Tiktoken) {
		for _, text := range []string{"<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "a<|endoftext|>b"} {
			ids := tok.Encode(text)
			assert.Equal(t, text, tok.decode(ids))
			assert.Greater(t, len(ids), 1)
		}
	})
}

// Ids as published, so that ours and the library cannot go wrong together.
func TestKnownIDs(t *testing.T) {
	for name, want := range map[string][]uint32{
		"cl100k_base": {15339, 1917},
		"o200k_base":  {24912, 2375},
	} {
		assert.Equal(t, want, loaded()[name].Encode("hello world"), name)
	}
}

func BenchmarkLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load("o200k_base"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := strings.Repeat(strings.Join(nasty, "\nx"), 20)
	for name, text := range map[string]string{"nasty": text, "code": codeText(b)} {
		b.Run(name, func(b *testing.B) { benchmarkEncode(b, loaded()["o200k_base"], text) })
	}
}

// BenchmarkEncodeHF encodes with the tokenizer.json that AGENTX_TOKENIZER_JSON names.
func BenchmarkEncodeHF(b *testing.B) {
	path := os.Getenv("AGENTX_TOKENIZER_JSON")
	if path == "" {
		b.Skip("AGENTX_TOKENIZER_JSON names no file")
	}
	file, err := os.ReadFile(path)
	require.NoError(b, err)
	tok, err := ParseJSON(path, file)
	require.NoError(b, err)
	benchmarkEncode(b, tok, codeText(b))
}

// benchmarkEncode also reports the speed by the CPU time of the process, which other processes of the machine do not change.
func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	ids := tok.Encode(text)
	runtime.GC()
	b.SetBytes(int64(len(text)))
	before := measure.ReadProcessUsage().CPU
	n := 0
	for b.Loop() {
		ids = tok.AppendIDs(ids[:0], text)
		n++
	}
	cpu := measure.ReadProcessUsage().CPU - before
	b.ReportMetric(float64(n)*float64(len(text))/1e6/cpu.Seconds(), "MB/cpu-s")
}

// codeText is the source of this package and of its tests, and what else lies near: about 1 MB of code.
func codeText(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, pattern := range []string{"*.go", "../*/*.go", "../../*/*.go", "../../cmd/*/*.go"} {
		names, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, name := range names {
			file, err := os.ReadFile(name)
			require.NoError(t, err)
			b.Write(file)
		}
	}
	return b.String()
}
