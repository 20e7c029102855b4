package profile

import (
	"fmt"
	"net/url"
	"strings"
)

// redacted stands for a secret among the arguments that the results have.
const redacted = "<redacted>"

// Launch returns the arguments of the command as they were given, profile first, without the values of flags that are not printed.
func (t *Translation) Launch() []string {
	words, flag := []string{"profile"}, ""
	for _, word := range t.typed {
		if !isFlag(word) {
			words = append(words, withoutSecret(flag, word))
			continue
		}
		name, value, joined := cut(word)
		if f := flagNamed(name); f != nil {
			flag = f.names[0]
		}
		if joined {
			word = strings.TrimSuffix(word, value) + withoutSecret(flag, value)
		}
		words = append(words, word)
	}
	return words
}

// withoutSecret returns a value of a flag without what may be a secret: a key, the values of headers, a URL with a user or a query.
func withoutSecret(flag, value string) string {
	switch flag {
	case "--api-key":
		return redacted
	case "--header":
		if strings.HasPrefix(value, "{") {
			members, _ := membersOf(value) // else the command is refused
			return "{" + joinParts(members, func(p pair) string { return fmt.Sprintf(`%s: "%s"`, quoted(p.name), redacted) }) + "}"
		}
		return joinParts(strings.Split(value, ","), func(item string) string {
			name, secret, _ := strings.Cut(item, ":")
			return name + ":" + secret[:len(secret)-len(strings.TrimLeft(secret, " "))] + redacted
		})
	case "--url", "--server-metrics":
		return joinParts(strings.Split(value, ","), func(text string) string {
			if u, err := url.Parse(withScheme(text)); err == nil && u.User == nil && u.RawQuery == "" {
				return text
			}
			return redacted
		})
	}
	return value
}

// joinParts joins texts with commas.
func joinParts[T any](list []T, text func(T) string) string {
	var texts []string
	for _, one := range list {
		texts = append(texts, text(one))
	}
	return strings.Join(texts, ",")
}
