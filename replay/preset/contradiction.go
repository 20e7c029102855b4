package preset

import "regexp"

// Contradiction says what settings have against each other. Their names stand in braces: {speed}, or {speed=} for one with its value.
type Contradiction string

var named = regexp.MustCompile(`\{([a-z-]+)(=?)\}`)

// Error returns the text with the names of the settings.
func (c Contradiction) Error() string { return named.ReplaceAllString(string(c), "$1") }

// Told returns the text with settings as a function shows them.
func (c Contradiction) Told(show func(name string, valued bool) string) string {
	return named.ReplaceAllStringFunc(string(c), func(text string) string {
		part := named.FindStringSubmatch(text)
		return show(part[1], part[2] != "")
	})
}
