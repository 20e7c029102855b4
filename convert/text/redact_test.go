package text

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainFind searches for each beginning alone: the oracle of Redactor.find.
func plainFind(rules []redaction, b []byte) (found []span) {
	for n := range rules {
		for _, begin := range rules[n].begin {
			for at := range b {
				if strings.HasPrefix(string(b[at:min(len(b), at+len(begin))]), begin) {
					found = rules[n].match(found, b, at, n)
				}
			}
		}
	}
	slices.SortStableFunc(found, func(x, y span) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.rule, y.rule)) })
	return found
}

// Secrets are found wherever they stand, beside whatever.
func TestFindSecrets(t *testing.T) {
	r := NewRedactor()
	words := []string{"", " ", "x", "_", "\n", "A-", `": "`, "Bearer ", "basic ", "token\t", ": ", "RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "me:", "hunter2@db",
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
