package jsonlex

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireAgreement compares a lexer that skips the whole text with encoding/json. A strict lexer accepts no more.
func requireAgreement(t require.TestingT, text []byte) {
	skip := func(l *Lexer) error {
		err := l.Skip()
		if err == nil {
			err = l.End()
		}
		return err
	}
	err := skip(New(text))
	require.Equal(t, json.Valid(text), err == nil, "%q: %v", text, err)
	if err != nil {
		var syntax *SyntaxError
		require.ErrorAs(t, err, &syntax)
		require.LessOrEqual(t, syntax.Offset, len(text))
		require.Equal(t, syntax.cutOff, strings.HasPrefix(err.Error(), "cut off after "))
	}
	strict := New(text)
	strict.Strict = true
	if strictErr := skip(strict); err != nil {
		require.Error(t, strictErr)
	}
}

// genValue draws a JSON value of some depth, with white space and escapes.
func genValue(depth int) *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r"})
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.5e-3", "-12", "1E+05", `""`, `"\u00e9\ud83d\ude42"`, `"\ud800x"`, `"\"\\\/\b"`}),
		rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.Custom(func(t *rapid.T) string {
		sp := func() string { return space.Draw(t, "space") }
		var parts []string
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return sp() + scalar.Draw(t, "scalar") + sp()
		case 1:
			for _, v := range rapid.SliceOfN(genValue(depth-1), 0, 4).Draw(t, "elements") {
				parts = append(parts, sp()+v+sp())
			}
			return sp() + "[" + strings.Join(parts, ",") + sp() + "]" + sp()
		}
		for _, v := range rapid.SliceOfN(genValue(depth-1), 0, 4).Draw(t, "members") {
			key := rapid.SampledFrom([]string{`"a"`, `""`, `"\u0061\n"`, `"long key"`}).Draw(t, "key")
			parts = append(parts, sp()+key+sp()+":"+sp()+v+sp())
		}
		return sp() + "{" + strings.Join(parts, ",") + sp() + "}" + sp()
	})
}

// decode reads a value as encoding/json does, into its types.
func decode(l *Lexer) (any, error) {
	switch l.Kind() {
	case Object:
		m := map[string]any{}
		return m, l.Object(func(key []byte) (err error) {
			name := string(key)
			m[name], err = decode(l)
			if string(key) != name {
				panic("the key changed while its value was read")
			}
			return err
		})
	case Array:
		list := []any{}
		return list, l.Array(func() error {
			v, err := decode(l)
			list = append(list, v)
			return err
		})
	case String:
		return l.Text()
	case Number:
		text, err := l.Number()
		return json.Number(text), err
	case Bool:
		return l.Bool()
	}
	if l.Null() {
		return nil, nil
	}
	return nil, l.Expected("a value")
}

func TestValuesAreThoseOfEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := genValue(3).Draw(t, "value")
		requireAgreement(t, []byte(text))
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		require.NoError(t, d.Decode(&want))
		got, err := decode(New([]byte(text)))
		require.NoError(t, err, text)
		require.Equal(t, normal(want), normal(got), text)
	})
}

// normal makes empty and nil lists equal.
func normal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(string(text), "[]", "null")
}

func TestMutatedTextsAgreeWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(genValue(2).Draw(t, "value"))
		for range rapid.IntRange(1, 4).Draw(t, "mutations") {
			i := rapid.IntRange(0, max(0, len(text)-1)).Draw(t, "place")
			switch rapid.IntRange(0, 2).Draw(t, "mutation") {
			case 0:
				text = text[:i]
			case 1:
				text = append(text[:i:i], text[min(i+1, len(text)):]...)
			case 2:
				c := rapid.SampledFrom([]byte("\"\\{}[],:u0-.eEtfn \x00\x1f\x20\xff")).Draw(t, "byte")
				text = append(text[:i:i], append([]byte{c}, text[i:]...)...)
			}
		}
		requireAgreement(t, text)
	})
}

func FuzzLexer(f *testing.F) {
	for _, seed := range []string{
		`{"a":[{"b":"c","d":"a\u00e9\ud83d\ude42\n"}],"e":true}`, `[1.5e-3,-0,"\\",{"":[]},null]`, `01`, `"\ud800"`, `{"a":1,}`,
		"\"\x1f\"", `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) { requireAgreement(t, text) })
}

// Strings of every length, ended by everything that ends a run of plain bytes, at every offset of the stride of eight.
func TestStringsOfEveryLength(t *testing.T) {
	for length := range 40 {
		for _, end := range []string{``, `\n`, `\u0041`, `\"`, "é", `\\\\`} {
			text := `"` + strings.Repeat("x", length) + end + `"`
			var want string
			require.NoError(t, json.Unmarshal([]byte(text), &want))
			for tail := range 10 {
				l := New([]byte(text + strings.Repeat(" ", tail)))
				got, err := l.AppendString(nil)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
				require.Equal(t, len(text), l.Pos)
			}
			for cut := range text {
				requireAgreement(t, []byte(text[:cut]))
			}
		}
		for control := range byte(0x20) {
			requireAgreement(t, []byte(`"`+strings.Repeat("x", length)+string(control)+`y"`))
		}
	}
}

func TestNumbersWordsAndSpace(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "-", "-x", "00", "-01", "1.", "1.x", ".5", "1.50", "1e", "1e+", "1E-", "1e5x", "1e-05", "+1", "0x1", "1_0", "1.5e+3.",
		"true", "tru", "truex", "nul", "falsee", " \t\r\n1 \t\r\n", "\v1", "\x001", "1\x00", "\"\x00\"", "\"\xff\"", "\ufeff1",
		`"\u12"`, `"\u12g4"`, `"\x41"`, `"\`, `"\u`, `"\ud800\u"`, `{"a"}`, `{"a":}`, `{a:1}`, `{,}`, `[,]`, `[1,]`, `[1,,2]`, `]`, `[}`,
	} {
		requireAgreement(t, []byte(text))
		requireAgreement(t, []byte("["+text+"]"))
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, depth := range []int{DefaultMaxDepth, DefaultMaxDepth + 1} {
		requireAgreement(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	}
	requireAgreement(t, []byte("["+strings.Repeat("[],", DefaultMaxDepth)+"{}]"))
	l := Lexer{Data: []byte(`[{"a":[]}]`), MaxDepth: 2}
	require.EqualError(t, l.Skip(), "byte 6: nested deeper than 2")
}

// What encoding/json replaces by U+FFFD, a strict lexer refuses, in keys and values, skipped or read.
func TestStrictTexts(t *testing.T) {
	for text, want := range map[string]string{
		`"\ud800"`:        `byte 1: want an escape such as \n or \u0041, surrogates in pairs, found '\\'`,
		`"\udc00\ud800"`:  `byte 1: want an escape such as \n or \u0041, surrogates in pairs, found '\\'`,
		`"a\ud800\u0041"`: `byte 2: want an escape such as \n or \u0041, surrogates in pairs, found '\\'`,
		"\"\xff\"":        `byte 1: the string is not UTF-8`,
		"{\"\xff\":1}":    `byte 2: the string is not UTF-8`,
		`"\ud83d\ude42é"`: ``,
	} {
		require.NoError(t, New([]byte(text)).Skip())
		l := Lexer{Data: []byte(text), MaxDepth: 1, Strict: true}
		err := l.Skip()
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, want)
		if text[0] == '"' {
			l = Lexer{Data: []byte(text), Strict: true}
			_, err = l.AppendString(nil)
			require.EqualError(t, err, want)
		}
	}
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	for text, want := range map[string]string{
		``:          "cut off after 0 bytes, want a value",
		`[1, x]`:    "byte 4: want a value, found 'x'",
		`[1 2]`:     "byte 3: want ',' or ']', found '2'",
		`{"a" 1}`:   "byte 5: want ':', found '1'",
		`{1}`:       "byte 1: want a key, found '1'",
		`{"a":1`:    "cut off after 6 bytes, want ',' or '}'",
		`"abc`:      "cut off after 4 bytes, want the end of a string",
		"\"a\x01\"": "byte 2: want no control character in a string, found '\\x01'",
		`-`:         "cut off after 1 bytes, want a digit",
		`1.x`:       "byte 2: want a digit, found 'x'",
		`truth`:     "byte 0: want true or false, found 't'",
	} {
		require.EqualError(t, New([]byte(text)).Skip(), want, text)
	}
	require.EqualError(t, New([]byte(" 1 2")).End(), "byte 1: want the end of the text, found '1'")
}

// A caller that fails in the midst of a value goes back and skips it.
func TestResetAfterAnError(t *testing.T) {
	l := New([]byte(`{"a":[[1,"x"]],"b":2}`))
	l.MaxDepth = 3
	var keys []string
	require.NoError(t, l.Object(func(key []byte) error {
		keys = append(keys, string(key))
		mark := l.Mark()
		if err := l.Array(func() error { return l.Array(func() error { _, err := l.Natural(9); return err }) }); err == nil {
			return nil
		}
		l.Reset(mark)
		return l.Skip()
	}))
	require.NoError(t, l.End())
	require.Equal(t, []string{"a", "b"}, keys)
}

func TestNatural(t *testing.T) {
	for text, want := range map[string]string{
		"0": "", "12": "", "99": "", "100": "byte 0: want a number of at most 99", "01": "byte 0: want a whole number that is not negative, found '0'",
		"-1": "byte 0: want a whole number that is not negative, found '-'", "1.0": "byte 1: want a whole number, found '.'",
		"1e1": "byte 1: want a whole number, found 'e'", strings.Repeat("9", 40): "byte 0: want a number of at most 99",
	} {
		n, err := New([]byte(text)).Natural(99)
		if want != "" {
			require.EqualError(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, text, strconv.FormatUint(n, 10))
	}
	n, err := New([]byte("18446744073709551615")).Natural(math.MaxUint64)
	require.NoError(t, err)
	require.Equal(t, uint64(math.MaxUint64), n)
	for _, text := range []string{"18446744073709551616", "28446744073709551616", "184467440737095516150"} {
		_, err := New([]byte(text)).Natural(math.MaxUint64)
		require.EqualError(t, err, "byte 0: want a number of at most 18446744073709551615", text)
	}
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "12": 12, "-12": -12, "12.0": 12, "1.2e1": 12, "1200e-2": 12, "0.0": 0, "0e7": 0, "0E+99999999999999999999": 0,
		"9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63, "999999999999999999": 999999999999999999, "1e18": 1e18,
	} {
		got, err := Whole([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]error{
		"1.5": ErrNotWhole, "1e-3": ErrNotWhole, "-0.1": ErrNotWhole, "1e-99999999999999999999": ErrNotWhole,
		"9223372036854775808": errOutOfRange, "1e19": errOutOfRange, "1e99999999999999999999": errOutOfRange, "-9223372036854775809": errOutOfRange,
	} {
		_, err := Whole([]byte(text))
		require.ErrorIs(t, err, want, text)
	}
}

// The values are those of orjson 3.11 and pydantic 2.14, by which AIPerf 0.13.0 reads whole numbers.
func TestRounded(t *testing.T) {
	for text, want := range map[string]int64{
		"9007199254740993": 1<<53 + 1, "9007199254740993.0": 1 << 53, "-9007199254740993e0": -1 << 53, "90071992547409930e-1": 1 << 53,
		"9007199254740993.5": 1<<53 + 2, "9007199254740991.5": 1 << 53, "4503599627370497.5": 1<<52 + 2, "9007199254740992.0": 1 << 53, "12.0": 12, "1.2e1": 12, "-0.0": 0,
		"1.00000000000000000001": 1, "0.99999999999999999999": 1, "1e-400": 0, "9.2e18": 92e17,
		"9223372036854774784.0": 1<<63 - 1024, "9223372036854775295.0": 1<<63 - 1024, "-9223372036854774784.0": -(1<<63 - 1024), "-9223372036854775808": -1 << 63,
	} {
		got, err := Rounded([]byte(text))
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]error{
		"1.5": ErrNotWhole, "1e-3": ErrNotWhole, "9223372036854775296.0": errOutOfRange, "9223372036854775807.0": errOutOfRange, "-9223372036854775808.0": errOutOfRange,
		"9223372036854775808": errOutOfRange, "1e19": errOutOfRange, "1e400": errOutOfRange,
	} {
		_, err := Rounded([]byte(text))
		require.ErrorIs(t, err, want, text)
	}
}
