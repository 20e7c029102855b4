package text

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// Redactor replaces secrets in texts by others of the same class and length. One secret has one replacement in a dataset.
type Redactor struct {
	rules []redaction
	pairs [1 << 16]uint8 // in begin, by two bytes
	begin [][]beginning  // those with two such bytes; the first list is empty
}

// redaction is a class of secrets: what they begin with, and what stands behind that.
type redaction struct {
	class  string
	begin  []string // of three bytes and more
	inWord bool     // the secret may begin inside a word
	of     letters  // of a key: a run of them stands behind its beginning
	least  int      // how many at least
	most   int      // how many at most; 0: all in a row

	// match, of what is no key, returns the secret behind a beginning that stands at a place; to is 0 where none does. Places ascend, and ends
	// remembers what was found for the one before, so that a text is read once, whatever it repeats.
	match func(b []byte, at int, ends *[3]stretch) (from, to int)
}

// letters are kinds of ASCII characters.
type letters uint8

const (
	upper letters = 1 << iota
	lower
	digit
	underscore
	hyphen
	word = upper | lower | digit | underscore
)

func lettersOf(c byte) letters {
	switch {
	case c >= 'a' && c <= 'z':
		return lower
	case c >= 'A' && c <= 'Z':
		return upper
	case c-'0' <= 9:
		return digit
	case c == '_':
		return underscore
	case c == '-':
		return hyphen
	}
	return 0
}

// stretch is a part of a text whose end is the same for all places in it.
type stretch struct{ from, end int }

// run returns the end of the run of letters that a place is in.
func (s *stretch) run(b []byte, at int, of letters) int {
	if at < s.from || at > s.end || s.end == 0 {
		*s = stretch{at, at}
		for s.end < len(b) && lettersOf(b[s.end])&of != 0 {
			s.end++
		}
	}
	return s.end
}

// beginning is what secrets of a rule begin with.
type beginning struct {
	text     string
	rule, at int // at: place of the two bytes in it
}

// secretRules recognize keys of known shapes.
var secretRules = []redaction{
	{class: "anthropic_or_openai_key", begin: []string{"sk-"}, of: word | hyphen, least: 20},
	{class: "github_token", begin: []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_"}, of: upper | lower | digit, least: 20},
	{class: "github_token", begin: []string{"github_pat_"}, of: word, least: 20},
	{class: "slack_token", begin: []string{"xoxa-", "xoxb-", "xoxp-", "xoxo-", "xoxs-", "xoxr-"}, of: upper | lower | digit | hyphen, least: 10},
	{class: "aws_key", begin: []string{"AKIA", "ASIA"}, match: awsKey},
	{class: "google_key", begin: []string{"AIza"}, of: word | hyphen, least: 35, most: 35},
	{class: "gitlab_token", begin: []string{"glpat-"}, of: word | hyphen, least: 20},
	{class: "npm_token", begin: []string{"npm_"}, of: upper | lower | digit, least: 36, most: 36},
	{class: "hugging_face_token", begin: []string{"hf_"}, of: upper | lower | digit, least: 20},
	{class: "jwt", begin: []string{"eyJ"}, match: webToken},
	{class: "private_key", begin: []string{"-----BEGIN "}, inWord: true, match: privateKey},
	{class: "authorization", begin: []string{"uthorization", "UTHORIZATION"}, inWord: true, match: pattern(authorization)},
	{class: "url_password", begin: []string{"://"}, inWord: true, match: pattern(urlPassword)},
}

var (
	authorization = lazyregexp.New(`(?i)^uthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/=-]{8,})`)
	urlPassword   = lazyregexp.New(`^://[^\s/:@"']{1,200}:([^\s/@"']{3,200})@`)
	keyHeader     = lazyregexp.New(`^-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----`)
	keyEnd        = lazyregexp.New(`-----END [A-Z ]{0,20}PRIVATE KEY-----`)
)

// pattern matches a pattern that reads each byte of a text a bounded number of times, whatever beginnings it has; group 1 is the secret.
func pattern(p func() *regexp.Regexp) func(b []byte, at int, _ *[3]stretch) (from, to int) {
	return func(b []byte, at int, _ *[3]stretch) (from, to int) {
		if m := p().FindSubmatchIndex(b[at:]); m != nil {
			from, to = at+m[2], at+m[3]
		}
		return from, to
	}
}

// awsKey matches 16 letters behind which no word goes on.
func awsKey(b []byte, at int, _ *[3]stretch) (from, to int) {
	to = at + len("AKIA") + 16
	for k := at; k < to; k++ {
		if k >= len(b) || lettersOf(b[k])&(upper|digit) == 0 {
			return 0, 0
		}
	}
	if to < len(b) && isWord(b[to]) {
		return 0, 0
	}
	return at, to
}

// webToken matches three runs of letters between two dots, of which the first two begin as objects do in base64.
func webToken(b []byte, at int, ends *[3]stretch) (from, to int) {
	const begin, least = "eyJ", 10
	to = at
	for k := range ends {
		if k > 0 {
			if to == len(b) || b[to] != '.' {
				return 0, 0
			}
			to++
		}
		from := to
		if k < 2 {
			if from += len(begin); from > len(b) || string(b[to:from]) != begin {
				return 0, 0
			}
		}
		if to = ends[k].run(b, from, word|hyphen); to-from < least {
			return 0, 0
		}
	}
	return at, to
}

// privateKey matches what stands between the first and the last line of a key.
func privateKey(b []byte, at int, ends *[3]stretch) (from, to int) {
	head := keyHeader().FindIndex(b[at:])
	if head == nil {
		return 0, 0
	}
	from = at + head[1]
	if s := &ends[0]; s.end == 0 || from > s.end {
		s.end = len(b) + 1
		if m := keyEnd().FindIndex(b[from:]); m != nil {
			s.end = from + m[0]
		}
	}
	if to = ends[0].end; to > len(b) {
		return 0, 0
	}
	return from, to
}

// rareBytes has the place of three bytes in a beginning that are rare in texts; the first three, where it is not here.
var rareBytes = map[string]int{"ghp_": 1, "github_pat_": 5, "npm_": 1, "-----BEGIN ": 5, "uthorization": 7, "UTHORIZATION": 7}

// NewRedactor returns a redactor of all classes.
func NewRedactor() *Redactor {
	r := &Redactor{rules: secretRules, begin: make([][]beginning, 1)}
	for n := range r.rules {
		for _, begin := range r.rules[n].begin {
			for at := rareBytes[begin]; at < rareBytes[begin]+2; at++ {
				list := &r.pairs[int(begin[at])|int(begin[at+1])<<8]
				if *list == 0 {
					*list = uint8(len(r.begin))
					r.begin = append(r.begin, nil)
				}
				r.begin[*list] = append(r.begin[*list], beginning{begin, n, at})
			}
		}
	}
	return r
}

// span is a secret in a text.
type span struct{ from, to, rule int }

// find returns the secrets of a text, in order. Of three bytes in a row the first two or the last two stand at an even place, so every other
// place is looked at: a search for each beginning alone took ten times as long.
func (r *Redactor) find(b []byte) (found []span) {
	ends := make([][3]stretch, len(r.rules))
	for i := 0; i+1 < len(b); i += 2 {
		list := r.pairs[int(b[i])|int(b[i+1])<<8]
		if list == 0 {
			continue
		}
		for _, begin := range r.begin[list] {
			if from := i - begin.at; from >= 0 && string(b[from:min(len(b), from+len(begin.text))]) == begin.text {
				if from, to := r.rules[begin.rule].secret(b, from, begin.text, &ends[begin.rule]); to > 0 {
					found = append(found, span{from, to, begin.rule})
				}
			}
		}
	}
	slices.SortFunc(found, func(x, y span) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.rule, y.rule)) })
	return found
}

// secret returns the secret that begins at a place of a text, where something that secrets begin with stands. to is 0 where none does.
func (r *redaction) secret(b []byte, at int, begin string, ends *[3]stretch) (from, to int) {
	switch {
	case !r.inWord && at > 0 && isWord(b[at-1]):
		return 0, 0
	case r.match != nil:
		return r.match(b, at, ends)
	}
	from = at + len(begin)
	n := ends[0].run(b, from, r.of) - from
	if n < r.least {
		return 0, 0
	}
	if r.most > 0 {
		n = min(n, r.most)
	}
	return at, from + n
}

func isWord(c byte) bool { return lettersOf(c)&word != 0 }

// Apply returns a text with its secrets replaced, the text itself where it has none, and counts them by class.
func (r *Redactor) Apply(b []byte, count func(class string)) []byte {
	found := r.find(b)
	if len(found) == 0 {
		return b
	}
	out, end := append([]byte(nil), b...), 0
	for _, s := range found {
		if s.from < end { // inside of one that is replaced
			continue
		}
		replace(out[s.from:s.to])
		end = s.to
		count(r.rules[s.rule].class)
	}
	return out
}

// replace overwrites a secret behind the letters that show its class: letters by letters and digits by digits, drawn from a digest of it.
func replace(secret []byte) {
	keep := 0
	for k, c := range secret[:min(len(secret), 12)] {
		if c == '-' || c == '_' {
			keep = k + 1
		}
	}
	if keep == 0 && len(secret) > 8 && (string(secret[:4]) == "AKIA" || string(secret[:4]) == "ASIA" || string(secret[:4]) == "AIza") {
		keep = 4
	}
	state := xxh3.Hash(secret) | 1 // of the secret, so that one has one replacement
	for k := keep; k < len(secret); k++ {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		n := byte((state >> 32) % 251)
		switch c := secret[k]; {
		case c >= '0' && c <= '9':
			secret[k] = '0' + n%10
		case c >= 'a' && c <= 'z':
			secret[k] = 'a' + n%26
		case c >= 'A' && c <= 'Z':
			secret[k] = 'A' + n%26
		}
	}
}
