package wire

import (
	"net/url"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/secrets"
)

// secretWords mark a header field or URL parameter as secret when its name contains one of them.
var secretWords = [...]string{"auth", "key", "token", "secret", "password", "cookie", "credential", "signature"}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords[:], func(word string) bool { return strings.Contains(name, word) })
}

// secretsOf returns what takes secrets out of a text: the API key, the values of secret header fields, the credentials
// behind the scheme in such a value ("Bearer x"), and the values of secret parameters of the URL.
func secretsOf(o Options, query string) *secrets.Filter {
	filter := &secrets.Filter{}
	filter.Add(o.APIKey, "[API key]")
	for _, f := range o.Header {
		if isSecret(f.Name) {
			_, credentials, _ := strings.Cut(strings.TrimSpace(f.Value), " ")
			filter.Add(strings.TrimSpace(f.Value), "[secret]")
			filter.Add(strings.TrimSpace(credentials), "[secret]")
		}
	}
	parameters, _ := url.ParseQuery(strings.TrimPrefix(query, "?")) // a malformed part is left out
	for name, values := range parameters {
		for _, v := range values {
			if isSecret(name) {
				filter.Add(strings.TrimSpace(v), "[secret]")
			}
		}
	}
	return filter
}

// Redact returns a text of the server without the secrets that requests have.
func (c *Client) Redact(text string) string { return c.secrets.Replace(text) }
