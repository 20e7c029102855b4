package text

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainRules have a pattern for each of secretRules. Group 1 is what is replaced; all of the match where there is none.
var plainRules = []*regexp.Regexp{
	regexp.MustCompile(`^sk-[A-Za-z0-9_-]{20,}`),
	regexp.MustCompile(`^gh[pousr]_[A-Za-z0-9]{20,}`),
	regexp.MustCompile(`^github_pat_[A-Za-z0-9_]{20,}`),
	regexp.MustCompile(`^xox[abposr]-[A-Za-z0-9-]{10,}`),
	regexp.MustCompile(`^(?:AKIA|ASIA)[A-Z0-9]{16}\b`),
	regexp.MustCompile(`^AIza[A-Za-z0-9_-]{35}`),
	regexp.MustCompile(`^glpat-[A-Za-z0-9_-]{20,}`),
	regexp.MustCompile(`^npm_[A-Za-z0-9]{36}`),
	regexp.MustCompile(`^hf_[A-Za-z0-9]{20,}`),
	regexp.MustCompile(`^eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`),
	regexp.MustCompile(`^-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----([\s\S]*?)-----END [A-Z ]{0,20}PRIVATE KEY-----`),
	authorization(),
	urlPassword(),
}

// plainFind matches the pattern of each rule at each place: the oracle of Redactor.find.
func plainFind(rules []redaction, b []byte) (found []span) {
	for n := range rules {
		for at := range b {
			if !rules[n].inWord && at > 0 && isWord(b[at-1]) {
				continue
			}
			if m := plainRules[n].FindSubmatchIndex(b[at:]); m != nil {
				found = append(found, span{at + m[len(m)-2], at + m[len(m)-1], n})
			}
		}
	}
	slices.SortStableFunc(found, func(x, y span) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.rule, y.rule)) })
	return found
}

// Secrets are found wherever they stand, beside whatever.
func TestFindSecrets(t *testing.T) {
	r := NewRedactor()
	words := []string{"", " ", "x", "_", "\n", "A-", `": "`, "Bearer ", "basic ", "token\t", ": ", "RSA PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "me:", "hunter2@db",
		"abcdefghijklmnopqrstuvwxyz0123456789", "ABCDEFGHIJKLMNOP", "Jabcdefghijklm.eyJabcdefghijklm.abcdefghijklm", "b-", "é"}
	for n := range r.rules {
		words = append(words, r.rules[n].begin...)
	}
	random := rand.New(rand.NewPCG(3, 9))
	counts := make([]int, len(r.rules))
	for range 20000 {
		var b []byte
		for range 1 + random.IntN(8) {
			b = append(b, words[random.IntN(len(words))]...)
		}
		found := r.find(b)
		require.Equal(t, plainFind(r.rules, b), found, "%q", b)
		for _, s := range found {
			counts[s.rule]++
		}
	}
	for n, k := range counts {
		require.Positive(t, k, "no text has a secret of class %s", r.rules[n].class)
	}
}

// A text that repeats what secrets begin with is read once. If each beginning read the rest of the text, this test would end at the limit of
// go test: it would read 256 GiB.
func TestFindIsLinear(t *testing.T) {
	r := NewRedactor()
	for _, part := range []string{"-sk-", "-eyJ", "-----BEGIN PRIVATE KEY-----", "-glpat-", "-xoxb-", "://a:", "uthorization=bearer ", "-eyJ-eyJ-eyJ-eyJ."} {
		b := bytes.Repeat([]byte(part), 1<<20/len(part))
		require.LessOrEqual(t, len(r.find(b)), len(b)/4)
	}
}
