package weka

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
)

// The digests of the specification: of hand-made traces, and of public ones.
//
// Covers C-5.
func TestTrieDigestsOfTheSpecification(t *testing.T) {
	line := func(k, in int, ids string) string {
		return fmt.Sprintf(`{"t":%d,"type":"n","model":"m","in":%d,"out":1,"hash_ids":[%s]}`, k, in, ids)
	}
	digestOf := func(t *testing.T, trace []byte) (int, string) {
		tr, err := Scan(trace, rules.Default())
		require.NoError(t, err)
		trie := TrieOf(tr)
		digest := trie.Digest()
		return trie.Nodes(), hex.EncodeToString(digest[:])
	}
	for _, c := range []struct {
		name     string
		requests []string
		nodes    int
		digest   string
	}{
		{"no requests", nil, 0, "ef05eed70559a8e748e8d7c6527d72a6f6a8b9d6bd13ff3ee63af647a279eb67"},
		{"one block", []string{line(0, 5, "7")}, 1, "37d22e5c73792d14b8015532c5e4ec5364ba1856d4576d83438dfc730d46270d"},
		{"5.4", []string{line(0, 22, "0,1,2,3,4"), line(5, 50, "0,1,2,3,4,5,6,7,8,9,10,11"),
			`{"t":8,"type":"subagent","agent_id":"a","requests":[` + line(8, 18, "0,1,12,13") + `]}`,
			line(9, 48, "0,1,2,3,4,5,6,7,8,9,10,14")}, 15, "957669350d9354457e5a4c58fa7de1d6157e48050ba528273d722d916f504f7d"},
		{"5.4 in other numbers and order", []string{line(0, 48, "70,-1,2,3,4,5,6,7,8,9,10,15"),
			line(5, 50, "70,-1,2,3,4,5,6,7,8,9,10,11"), line(8, 18, "70,-1,12,13"), line(9, 22, "70,-1,2,3,4")},
			15, "957669350d9354457e5a4c58fa7de1d6157e48050ba528273d722d916f504f7d"},
	} {
		nodes, digest := digestOf(t, fmt.Appendf(nil,
			`{"id":"x","models":["m"],"block_size":4,"hash_id_scope":"local","requests":[%s]}`, strings.Join(c.requests, ",")))
		assert.Equal(t, c.nodes, nodes, c.name)
		assert.Equal(t, c.digest, digest, c.name)
	}
	of := func(requests ...string) string {
		_, digest := digestOf(t, fmt.Appendf(nil, `{"id":"x","models":["m"],"block_size":4,"requests":[%s]}`, strings.Join(requests, ",")))
		return digest
	}
	assert.Equal(t, of(line(0, 7, "3"), line(1, 5, "3"), line(2, 2, "")), of(line(0, 2, ""), line(1, 5, "1"), line(2, 7, "1")), "lengths in any order")
	for _, c := range []struct {
		name   string
		sha256 string // of the file
		nodes  int
		digest string
	}{
		{"trace_0277", "389988c4309ffe1759bdc3559c69b3e5840d7d2e87a44e2a02754df9d015c201",
			5091, "f92a5ad57de6034f1ac189f9774a77d171b79ca59d956d227e9823250efcb39b"},
		{"trace_0026", "84e843bd3a1c799b37bbb55e2f05699e6b3e05ed71c252cd06276a6d5e8c7a39",
			313, "d5a895d74d49169598b980a3764fc34f5edda2a8454b6128ebb5058a6959fe83"},
		{"trace_0242", "fcd9734ea33f9dda8e2197684265e3a772f068550251f60c1fd6afc80b814890",
			313, "d5a895d74d49169598b980a3764fc34f5edda2a8454b6128ebb5058a6959fe83"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join("..", "..", "..", "shared", "corpus", "traces", c.name+".json")
			trace, err := os.ReadFile(file)
			if err != nil {
				t.Skipf("%s is not here", file)
			}
			require.Equal(t, c.sha256, fmt.Sprintf("%x", sha256.Sum256(trace)))
			nodes, digest := digestOf(t, trace)
			assert.Equal(t, c.nodes, nodes)
			assert.Equal(t, c.digest, digest)
		})
	}
}
