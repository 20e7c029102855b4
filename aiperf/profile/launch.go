package profile

import "strings"

// redacted stands for a secret among the arguments that the results have.
const redacted = "<redacted>"

// Launch returns the arguments of the command as they were given, profile first, without secrets: those that are not printed.
func (t *Translation) Launch() []string {
	words := []string{"profile"}
	for _, word := range t.typed {
		for _, a := range t.args {
			if secret := strings.TrimPrefix(a.text, a.before); a.variable != "" && secret != "" {
				word = strings.ReplaceAll(word, secret, redacted)
				word = strings.ReplaceAll(word, strings.TrimPrefix(secret, "http://"), redacted) // which a URL is given without
			}
		}
		words = append(words, word)
	}
	return words
}
