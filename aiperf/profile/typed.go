package profile

import (
	"strconv"
	"strings"
)

// redacted stands for a secret in the line that the results have.
const redacted = "<redacted>"

// Typed returns the command line as the files of the harness have it: values stand in quotes but for numbers, secrets are left out.
func (t *Translation) Typed() string {
	words := []string{"aiperf", "profile"}
	for _, word := range t.typed {
		for _, a := range t.args {
			if secret := strings.TrimPrefix(a.text, a.before); a.variable != "" && secret != "" {
				word = strings.ReplaceAll(word, secret, redacted)
				word = strings.ReplaceAll(word, strings.TrimPrefix(secret, "http://"), redacted)
			}
		}
		if !strings.HasPrefix(word, "-") {
			word = pythonValue(word)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// pythonValue writes a value as Python does what the harness takes it for: a number, a truth value, none, or a text.
func pythonValue(text string) string {
	switch strings.ToLower(text) {
	case "true":
		return "True"
	case "false":
		return "False"
	case "none", "null":
		return "None"
	}
	if strings.Trim(text, "0123456789") == "" && (text == "0" || text != "" && text[0] != '0') {
		return text
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && strings.Count(text, ".") == 1 && strings.Trim(text, "0123456789.") == "" {
		return pythonFloat(x)
	}
	return "'" + text + "'"
}

// pythonFloat writes a number as Python does one with a fraction.
func pythonFloat(x float64) string {
	text := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
