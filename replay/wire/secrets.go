package wire

import (
	"net/url"
	"slices"
	"strings"
)

// secretWords mark a header field or URL parameter as secret when its name contains one of them.
var secretWords = [...]string{"auth", "key", "token", "secret", "password", "cookie", "credential", "signature"}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(name, word) })
}

// secretsOf returns what takes secrets out of a text: the API key, the values of secret header fields, the credentials
// behind the scheme in such a value ("Bearer x"), and the values of secret parameters of the URL, escaped or not.
func secretsOf(o Options, query string) *strings.Replacer {
	var pairs [][2]string
	add := func(secret string) {
		if secret = strings.TrimSpace(secret); secret != "" {
			pairs = append(pairs, [2]string{secret, "[secret]"})
		}
	}
	for _, f := range o.Header {
		if isSecret(f.Name) {
			_, credentials, _ := strings.Cut(strings.TrimSpace(f.Value), " ")
			add(f.Value)
			add(credentials)
		}
	}
	parameters, _ := url.ParseQuery(strings.TrimPrefix(query, "?")) // a malformed part is left out
	for name, values := range parameters {
		for _, v := range values {
			if isSecret(name) {
				add(v)
				add(url.QueryEscape(v))
			}
		}
	}
	if o.APIKey != "" {
		pairs = append(pairs, [2]string{o.APIKey, "[API key]"})
	}
	slices.SortStableFunc(pairs, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // one may be a prefix of another
	var flat []string
	for _, p := range pairs {
		flat = append(flat, p[:]...)
	}
	return strings.NewReplacer(flat...)
}
