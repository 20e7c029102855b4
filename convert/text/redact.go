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

// redaction is a class of secrets: what they begin with, and the pattern that they match from there. Group 1 of the pattern is what is
// replaced; all of the match where there is none.
type redaction struct {
	class   string
	begin   []string // of three bytes and more
	inWord  bool     // the secret may begin inside a word
	pattern func() *regexp.Regexp
}

// beginning is what secrets of a rule begin with.
type beginning struct {
	text     string
	rule, at int // at: place of the two bytes in it
}

// secretRules recognize keys of known shapes.
var secretRules = []redaction{
	{"anthropic_or_openai_key", []string{"sk-"}, false, lazyregexp.New(`^sk-[A-Za-z0-9_-]{20,}`)},
	{"github_token", []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}, false, lazyregexp.New(`^(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
	{"slack_token", []string{"xox"}, false, lazyregexp.New(`^xox[abposr]-[A-Za-z0-9-]{10,}`)},
	{"aws_key", []string{"AKIA", "ASIA"}, false, lazyregexp.New(`^(?:AKIA|ASIA)[A-Z0-9]{16}\b`)},
	{"google_key", []string{"AIza"}, false, lazyregexp.New(`^AIza[A-Za-z0-9_-]{35}`)},
	{"gitlab_token", []string{"glpat-"}, false, lazyregexp.New(`^glpat-[A-Za-z0-9_-]{20,}`)},
	{"npm_token", []string{"npm_"}, false, lazyregexp.New(`^npm_[A-Za-z0-9]{36}`)},
	{"hugging_face_token", []string{"hf_"}, false, lazyregexp.New(`^hf_[A-Za-z0-9]{20,}`)},
	{"jwt", []string{"eyJ"}, false, lazyregexp.New(`^eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"private_key", []string{"-----BEGIN "}, true, lazyregexp.New(`^-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----([\s\S]*?)-----END [A-Z ]{0,20}PRIVATE KEY-----`)},
	{"authorization", []string{"uthorization", "UTHORIZATION"}, true, lazyregexp.New(`(?i)^uthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:bearer|basic|token)\s{1,4}([A-Za-z0-9._~+/=-]{8,})`)},
	{"url_password", []string{"://"}, true, lazyregexp.New(`^://[^\s/:@"']{1,200}:([^\s/@"']{3,200})@`)},
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
	for i := 0; i+1 < len(b); i += 2 {
		list := r.pairs[int(b[i])|int(b[i+1])<<8]
		if list == 0 {
			continue
		}
		for _, begin := range r.begin[list] {
			if from := i - begin.at; from >= 0 && string(b[from:min(len(b), from+len(begin.text))]) == begin.text {
				found = r.rules[begin.rule].match(found, b, from, begin.rule)
			}
		}
	}
	slices.SortFunc(found, func(x, y span) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.rule, y.rule)) })
	return found
}

// match appends the secret that begins at a place of a text, if one does.
func (r *redaction) match(found []span, b []byte, at, rule int) []span {
	if !r.inWord && at > 0 && isWord(b[at-1]) {
		return found
	}
	m := r.pattern().FindSubmatchIndex(b[at:])
	if m == nil {
		return found
	}
	group := m[len(m)-2:]
	return append(found, span{at + group[0], at + group[1], rule})
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

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
