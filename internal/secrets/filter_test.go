package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const key = "sk-Proj_4f/9Qz+77&b=\"x\"z"

// filterOf returns a filter of the API key.
func filterOf(secret string) *Filter {
	f := &Filter{}
	f.Add(secret, "[API key]")
	return f
}

// shapes are the ways in which a server may echo a secret.
var shapes = map[string]func(string) string{
	"as it is":                func(s string) string { return s },
	"upper case":              strings.ToUpper,
	"lower case":              strings.ToLower,
	"JSON":                    quoted,
	"JSON twice":              func(s string) string { return quoted(quoted(s)) },
	"every rune":              func(s string) string { return each(s, `\u%04X`) },
	"Python":                  func(s string) string { return strings.Trim(fmt.Sprintf("%+q", s), `"`) },
	"HTML":                    html.EscapeString,
	"HTML digits":             func(s string) string { return each(s, "&#%d;") },
	"HTML in JSON in a query": func(s string) string { return url.QueryEscape(quoted(html.EscapeString(s))) },
	"query":                   url.QueryEscape,
	"path":                    url.PathEscape,
	"base64":                  func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64, raw":             func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"hexadecimal":             func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
}

func quoted(s string) string {
	text, _ := json.Marshal(s)
	return string(text[1 : len(text)-1])
}

func each(s, format string) (text string) {
	for _, r := range s {
		text += fmt.Sprintf(format, r)
	}
	return text
}

func TestEveryShapeIsTakenOut(t *testing.T) {
	f := filterOf(key)
	for name, shape := range shapes {
		require.Equal(t, "bad key '[API key]', sorry", f.Replace("bad key '"+shape(key)+"', sorry"), name)
		require.Equal(t, "[API key] [API key]", f.Replace(shape(key)+" "+shape(key)), name)
	}
}

// Runs of twelve characters are taken out, wherever they begin; shorter ones stay, such as those by which providers name a key.
func TestPartsAreTakenOut(t *testing.T) {
	f := filterOf("sk-0123456789abcdef")
	for text, want := range map[string]string{
		"key sk-012345678... is bad":       "key [API key]... is bad",
		"key SK-0123456789ABC is bad":      "key [API key] is bad",
		"key ...456789abcdef is bad":       "key ...[API key] is bad",
		"key sk-01234567... is bad":        "key sk-01234567... is bad",
		"sk-0****cdef":                     "sk-0****cdef",
		"sk-012345678sk-012345678":         "[API key]",
		`{"k":"\u0073\u006b-012345678\/"}`: `{"k":"[API key]\/"}`,
	} {
		require.Equal(t, want, f.Replace(text))
	}
}

// In base64 the characters of a secret depend on what stands before it: a user, a scheme.
func TestBase64OfMore(t *testing.T) {
	f := filterOf("sk-0123456789abcdef")
	for _, before := range []string{"", "u", "me", "Bearer ", "user:"} {
		got := f.Replace("<" + base64.StdEncoding.EncodeToString([]byte(before+"sk-0123456789abcdef"+"\n")) + ">")
		require.Contains(t, got, "[API key]", before)
		require.LessOrEqual(t, len(got), len("<[API key]>")+12, before)
	}
}

// A short key is a word of its own; one of letters alone counts as it is spelled, because a text may have it for another reason.
func TestShortSecrets(t *testing.T) {
	for _, c := range []struct{ secret, text, want string }{
		{"none", "none None bm9uZQ==", "[API key] None [API key]"},
		{"sk-1234", "sk-1234 SK-1234 sk-123 sk\\u002d1234", "[API key] [API key] sk-123 [API key]"},
		{"password", "Password", "[API key]"},
		{"a b", "a+b a b", "[API key] [API key]"},
		{"", "nothing", "nothing"},
	} {
		require.Equal(t, c.want, filterOf(c.secret).Replace(c.text))
	}
}

// The first bytes of what is replaced give the label; of words, the longest is found.
func TestSeveralSecrets(t *testing.T) {
	f := filterOf("abc")
	f.Add("abcdef", "[secret]")
	f.Add("token-of-a-gateway", "[secret]")
	require.Equal(t, "[secret] [API key] [secret]", f.Replace("abcdef abc Token-Of-A-Gate"))
	require.Equal(t, "", f.Replace(""))
	require.Equal(t, `100 %, a\b & <c>`, f.Replace(`100 %, a\b & <c>`))
	require.Equal(t, "\xff\\u00zz&#x;%4", f.Replace("\xff\\u00zz&#x;%4"))
}

// Whatever the secret, the text around it and up to three shapes in each other: nothing of it is left, and nothing else is gone.
func TestShapesOfShapes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-z]{3}[-_=+/&"<a-zA-Z0-9]{12,40}`).Draw(t, "secret")
		around := rapid.StringMatching(`[ .:,;()]{0,20}`)
		before, after := around.Draw(t, "before"), around.Draw(t, "after")
		echo := secret
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"JSON", "HTML", "query", "path", "as it is"}), 0, 3).Draw(t, "shapes") {
			echo = shapes[name](echo)
		}
		require.Equal(t, before+"[API key]"+after, filterOf(secret).Replace(before+echo+after))
	})
}

func BenchmarkReplace(b *testing.B) {
	f := filterOf("sk-0123456789abcdef0123456789abcdef")
	for name, text := range map[string]string{
		"short": `401 Unauthorized: {"error":{"message":"Incorrect API key provided.","type":"invalid_request_error"}}`,
		"page":  strings.Repeat("<p>The server is overloaded; please try again later.</p>\n", 1100),
		"token": strings.Repeat("c0ffee", 10000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f.Replace(text)
			}
		})
	}
}
