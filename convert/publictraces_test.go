package convert

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// release returns options with which traces are converted as by AIPerf 0.13.0.
func release(t testing.TB, input string) Options {
	o := options(t, input)
	o.Rules, o.Tokenizer = rules.AIPerf(), "o200k_base"
	o.Placement = rules.Placement{Backend: rules.SHA256MT, Seed: 42, Stream: rules.CodingStream}
	o.Corpus = shared(t, "corpus/aiperf-coding-42-o200k_base.u32le")
	return o
}

// The 600 traces have the sums that the README of the public test data states, counted by another program.
func TestSumsOfThePublicTraces(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 385 MB of JSON")
	}
	o := release(t, shared(t, "corpus/weka-v8-600.jsonl.zst"))
	o.Placement = rules.Placement{Backend: rules.XXH3, Seed: 42} // for speed: only texts depend on it
	r := o.convert(t)
	f := r.Facts
	assert.Equal(t, 600, f.Traces)
	assert.Equal(t, 848, f.Sessions, "as of the release")
	assert.Equal(t, 41_400, f.Turns)
	assert.Equal(t, int64(5_038_579_698), f.PromptTokens)
	assert.Equal(t, int64(18_478_602), f.OutputTokens)
	assert.Equal(t, 2_872_406, f.Blocks)
	assert.Empty(t, f.Skipped)
	assert.Empty(t, f.Unknown)
	assert.Empty(t, f.Oddities)
	assert.Zero(t, f.Dropped)
	assert.Less(t, r.Bytes, int64(384_910_224)/20, "5 % of the JSON")

	c := openResult(t, o, r)
	var ids, hits, remainder, aligned, odd, noOut, noAPI, noThink, withAgents int
	largest := uint32(0)
	for i := range c.Structure.Traces.Len() {
		p := c.Structure.Plan(i)
		if slices.ContainsFunc(p.Sessions, func(s mmapcache.Session) bool { return s.Kind == mmapcache.Subagent }) {
			withAgents++
		}
		for _, u := range p.Turns {
			ids += int(u.HashIDs)
			hits += int(u.CacheHits)
			largest = max(largest, u.In)
			remainder += int(u.In % 64)
			for n, is := range map[*int]bool{&aligned: u.In%64 == 0, &odd: u.HashIDs != u.In/64, &noOut: u.Out == 0,
				&noAPI: math.IsNaN(u.APITime), &noThink: math.IsNaN(u.ThinkTime)} {
				if is {
					*n++
				}
			}
		}
	}
	assert.Equal(t, 12, withAgents)
	assert.Equal(t, 78_707_325, ids)
	assert.Equal(t, uint32(894_371), largest)
	assert.Equal(t, 1_310_898, remainder)
	assert.Equal(t, 583, aligned)
	assert.Zero(t, odd)
	assert.Equal(t, 22, noOut)
	assert.Equal(t, 3_564, noAPI)
	assert.Equal(t, 78, noThink)

	for i, want := range releaseDigests(t) {
		if i%30 != 0 { // for speed: TestLongEveryReleaseDigest takes them all
			continue
		}
		got, err := c.Digest(i, "test-model")
		require.NoError(t, err)
		want.Messages = got.Messages
		require.Equal(t, want, got)
	}
}

// releaseDigests returns the digests of AIPerf 0.13.0 for the 600 traces.
func releaseDigests(t *testing.T) (list []mmapcache.Digest) {
	for lines := bufio.NewScanner(bytes.NewReader(fixtures.ReleaseDigests())); lines.Scan(); {
		list = append(list, decode[mmapcache.Digest](t, lines.Text()))
	}
	require.Len(t, list, 600)
	return list
}

func TestReleaseVectorsOfSingleTraces(t *testing.T) {
	list, err := fixtures.Weka("corpus_release")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	o := release(t, shared(t, "corpus/traces"))
	c := openResult(t, o, o.convert(t))
	require.Equal(t, len(list), c.Structure.Traces.Len())
	for i, v := range list { // both in the order of file names
		t.Run(v.Name, func(t *testing.T) {
			want := decode[mmapcache.Digest](t, string(v.Want))
			got, err := c.Digest(i, "test-model")
			require.NoError(t, err)
			want.ID = strings.TrimPrefix(v.Name, "corpus_release/")
			assert.Equal(t, want, got)
		})
	}
}

// worked is the example of doc/spec/digests.md 4: a trace, and the digests of the release.
const (
	worked = `{"id":"tiny","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":30,"system_tokens":20,"requests":[{"t":0.0,"type":"n","model":"m","in":130,"out":30,"hash_ids":[1,2],"api_time":2.0},{"t":3.0,"type":"subagent","agent_id":"a1","subagent_type":"x","status":"completed","duration_ms":4000,"models":["m"],"requests":[{"t":3.0,"type":"n","model":"m","in":70,"out":5,"hash_ids":[9],"api_time":0.5}]},{"t":10.0,"type":"n","model":"m","in":262,"out":8,"hash_ids":[1,2,3,4],"api_time":1.0,"input_types":["tool_result"]}]}`

	workedDigests = `{"id": "tiny", "n_conversations": 2, "n_turns": 3, "digest_structure": "dee22e8930ff478f1a73e27ea7e0dd3676597cc40c53149ddb05208de8012b7a", "digest_messages": "bf1f9358188299dc3de36d26c240b90463af675d25295cdfbc261e252c6b5f59", "digest_timing": "ecbe72223fcb887be1c2610b5ca58d1df16fc3950e5eca0fea5c09041c9a2855", "digest_cache": "60f274f1f54b5e10fb0be3fac883a73633c69c16d480c89393155882f08951ac", "hit_blocks": 2, "total_blocks": 7, "n_wire_messages": 7}`

	workedMessages = `C tiny
W 0 2
M system 383 41f8cfcf279b602dc61c4cc55dd35cf53dfecfb255a34a1dea5ee5d2cd736688
M user 395 dead301f7b6de0ac1f5c3c3ccb66fa27539cf0a88376826fe9fea4845d25e167
W 1 4
M system 383 41f8cfcf279b602dc61c4cc55dd35cf53dfecfb255a34a1dea5ee5d2cd736688
M user 383 68e1c34b7dafa083a1ecefb017b728b04c2f8348a5b2dbf2a462ee33019f9be3
M assistant 383 4b331c9b67a9790743588c3bbb6c11592e809946a70a27836fdec7cd4603f525
M user 355 c0e99d3e2a1492f1af9344a92a64a49608c72f328f84c7ba5929df858679d796
C tiny::sa:a1
W 0 1
M user 419 949011e7f1665f4c39a7b2d2f1af1108d4b0e0b9490bd29a3c08f9913d6c4263
`
)

// Over the identity corpus: content is the token ids in decimal, joined by commas.
func TestWorkedExampleByTokenIDs(t *testing.T) {
	o := options(t, lines(t, worked))
	var ids []byte
	for k := range uint32(100_000) {
		ids = binary.LittleEndian.AppendUint32(ids, k)
	}
	o.Placement.Backend, o.Corpus = rules.SHA256MT, write(t, "identity.u32le", ids)
	c := openResult(t, o, o.convert(t))
	d, err := c.Digest(0, "test-model")
	require.NoError(t, err)
	want := decode[mmapcache.Digest](t, workedDigests)
	assert.Equal(t, want.Structure, d.Structure)
	assert.Equal(t, want.Timing, d.Timing)
	assert.Equal(t, want.Cache, d.Cache)

	tree, err := c.Render(0, mmapcache.IDs)
	require.NoError(t, err)
	var out strings.Builder
	var p mmapcache.Prompt
	put := func(fields ...string) { out.WriteString(strings.Join(fields, " ") + "\n") }
	for _, s := range tree.Sessions {
		put("C", s.ID)
		for k := range int(s.Turns) {
			tree.Prompt(int(s.FirstTurn)+k, &p)
			put("W", strconv.Itoa(k), strconv.Itoa(len(p.Messages)))
			for m := range p.Messages {
				content := bytes.TrimSuffix(p.AppendContent(nil, m), []byte(","))
				sum := sha256.Sum256(content)
				put("M", p.Messages[m].Role.String(), strconv.Itoa(len(content)), hex.EncodeToString(sum[:]))
			}
		}
	}
	assert.Equal(t, workedMessages, out.String())
	sum := sha256.Sum256([]byte(strings.ReplaceAll(out.String(), " ", "\t")))
	assert.Equal(t, "eee0788ccf3d31a2ae4d9a79ff01e6b5dc2e6db048a5a3916241d36816591920", hex.EncodeToString(sum[:]))
}

func TestWorkedExampleByText(t *testing.T) {
	o := release(t, lines(t, worked))
	c := openResult(t, o, o.convert(t))
	got, err := c.Digest(0, "test-model")
	require.NoError(t, err)
	assert.Equal(t, decode[mmapcache.Digest](t, workedDigests), got)
}

// A corpus of token ids is used unchanged.
func TestCorpusOfTokenIDs(t *testing.T) {
	o := options(t, lines(t, traceText("a")))
	c := openResult(t, o, o.convert(t))
	data, err := os.ReadFile(o.Corpus)
	require.NoError(t, err)
	assert.Equal(t, len(data)/4, c.CorpusTokens())
}

// AIPerf's coding corpus, as agentx corpus aiperf exports it, has the digests of the vectors.
func TestCodingCorpus(t *testing.T) {
	list, err := fixtures.Weka("coding_corpus")
	require.NoError(t, err)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) { t.Skip("AIPerf's corpus in the tokens of Qwen3 cannot be had") })
	}
	list, err = fixtures.Weka("coding_corpus_release")
	require.NoError(t, err)
	data, err := os.ReadFile(shared(t, "corpus/aiperf-coding-42-o200k_base.u32le"))
	require.NoError(t, err)
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	var tokens []uint32
	var text []byte
	for k := 0; k < len(data); k += 4 {
		tokens = append(tokens, binary.LittleEndian.Uint32(data[k:]))
		bytes, ok := tok.Bytes(tokens[k/4])
		require.True(t, ok)
		text = append(text, bytes...)
	}
	sha := func(data []byte) string {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])
	}
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			in := decode[struct{ Offset, Count int }](t, string(v.In))
			want := decode[struct {
				Length     int
				Tokens     []uint32
				SHA256     string
				TextBytes  int    `json:"text_bytes"`
				TextSHA256 string `json:"text_sha256"`
			}](t, string(v.Want))
			require.Len(t, tokens, want.Length)
			if in.Count > 0 {
				require.Equal(t, want.Tokens, tokens[in.Offset:][:in.Count])
				return
			}
			require.Equal(t, want.SHA256, sha(data))
			require.Equal(t, want.TextBytes, len(text))
			require.Equal(t, want.TextSHA256, sha(text))
		})
	}
}
