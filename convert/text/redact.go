package text

import (
	"regexp"
	"sort"

	"github.com/zeebo/xxh3"
)

// Redactor replaces secrets in texts by others of the same class and length. One secret has one replacement in a dataset.
type Redactor struct {
	rules []redaction
}

// redaction is a class of secrets. Group 1 of the pattern is what is replaced; all of the match where there is none.
type redaction struct {
	class   string
	pattern *regexp.Regexp
}

// secretRules recognize keys of known shapes.
var secretRules = []redaction{
	{"anthropic_or_openai_key", regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`)},
	{"github_token", regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`)},
	{"slack_token", regexp.MustCompile(`\bxox[abposr]-[A-Za-z0-9-]{10,}`)},
	{"aws_key", regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`)},
	{"google_key", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
	{"gitlab_token", regexp.MustCompile(`\bglpat-[A-Za-z0-9_-]{20,}`)},
	{"npm_token", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{"hugging_face_token", regexp.MustCompile(`\bhf_[A-Za-z0-9]{20,}`)},
	{"jwt", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`)},
	{"private_key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----([\s\S]*?)-----END [A-Z ]*PRIVATE KEY-----`)},
	{"authorization", regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	{"url_password", regexp.MustCompile(`\b[a-z][a-z0-9+.-]*://[^\s/:@"']+:([^\s/@"']{3,})@`)},
}

// NewRedactor returns a redactor of a class of rules: "secrets", or "" for the same.
func NewRedactor(string) *Redactor { return &Redactor{rules: secretRules} }

// hints are what texts with secrets have; a text without any is not searched.
var hints = regexp.MustCompile(`sk-|gh[pousr]_|github_pat_|xox[abposr]-|AKIA|ASIA|AIza|glpat-|npm_|hf_|eyJ|PRIVATE KEY|(?i:authorization)|://[^\s/]*:[^\s/]*@`)

// Apply returns a text with its secrets replaced, the text itself where it has none, and counts them by class.
func (r *Redactor) Apply(b []byte, count func(class string)) []byte {
	if !hints.Match(b) {
		return b
	}
	type span struct {
		from, to int
		class    string
	}
	var found []span
	for _, rule := range r.rules {
		for _, at := range rule.pattern.FindAllSubmatchIndex(b, -1) {
			s := span{at[0], at[1], rule.class}
			if len(at) > 2 {
				s.from, s.to = at[2], at[3]
			}
			found = append(found, s)
		}
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
