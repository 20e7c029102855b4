package text

import (
	"bytes"
	"regexp"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// Redactor replaces secrets in texts by others of the same class and length. One secret has one replacement in a dataset.
type Redactor struct {
	rules []redaction
}

// redaction is a class of secrets: what they begin with, and the pattern that they match from there. Group 1 of the pattern is what is
// replaced; all of the match where there is none. Searching for the beginnings first made the reading of a log of 60 MB four times as fast
// as a search by one pattern.
type redaction struct {
	class   string
	begin   []string
	inWord  bool // the secret may begin inside a word
	pattern func() *regexp.Regexp
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

// NewRedactor returns a redactor of all classes.
func NewRedactor() *Redactor { return &Redactor{rules: secretRules} }

// span is a secret in a text.
type span struct {
	from, to int
	class    string
}

// find appends the secrets of a class in a text.
func (r *redaction) find(found []span, b []byte) []span {
	for _, begin := range r.begin {
		for at := 0; ; {
			n := bytes.Index(b[at:], []byte(begin))
			if n < 0 {
				break
			}
			at += n
			if r.inWord || at == 0 || !isWord(b[at-1]) {
				if m := r.pattern().FindSubmatchIndex(b[at:]); m != nil {
					s := span{at + m[0], at + m[1], r.class}
					if len(m) > 2 {
						s.from, s.to = at+m[2], at+m[3]
					}
					found = append(found, s)
				}
			}
			at += len(begin)
		}
	}
	return found
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Apply returns a text with its secrets replaced, the text itself where it has none, and counts them by class.
func (r *Redactor) Apply(b []byte, count func(class string)) []byte {
	var found []span
	for k := range r.rules {
		found = r.rules[k].find(found, b)
	}
	if len(found) == 0 {
		return b
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].from < found[j].from })
	out, end := append([]byte(nil), b...), 0
	for _, s := range found {
		if s.from < end { // inside of one that is replaced
			continue
		}
		replace(out[s.from:s.to])
		end = s.to
		count(s.class)
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
