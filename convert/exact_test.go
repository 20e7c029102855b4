package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/mmapcache"
)

// drift compares the tokens of messages with those that a server finds in their texts.
type drift struct {
	tok             *tokenizer.Tokenizer
	known           map[[2]uint64]int // tokens of a text, by the digest of the intended ones; below 0 they differ
	messages, equal int
	turns           []float64 // by turn: how many more tokens a server counts, in percent
	first           string    // a message that differs
}

// add adds the messages of a turn.
func (d *drift) add(p *mmapcache.Prompt) {
	intended, found := 0, 0
	for k := range p.Messages {
		ids := p.AppendTokenIDs(nil, k)
		raw := make([]byte, 0, 4*len(ids))
		for _, id := range ids {
			raw = binary.LittleEndian.AppendUint32(raw, id)
		}
		sum := xxh3.Hash128(raw)
		n, known := d.known[[2]uint64{sum.Hi, sum.Lo}]
		if !known {
			text := string(p.AppendText(nil, k))
			got := d.tok.Encode(text)
			if n = len(got); !slices.Equal(ids, got) {
				n = ^n
				if d.first == "" {
					d.first = text[:min(len(text), 300)]
				}
			}
			d.known[[2]uint64{sum.Hi, sum.Lo}] = n
		}
		d.messages++
		if n >= 0 {
			d.equal++
		}
		intended, found = intended+len(ids), found+max(n, ^n)
	}
	if intended > 0 {
		d.turns = append(d.turns, 100*(float64(found)/float64(intended)-1))
	}
}

// String describes the drift in the columns of a table: messages, equal, the drift of turns in percent: mean, p99, largest.
func (d *drift) String() string {
	sizes, mean := []float64{}, 0.0
	for _, t := range d.turns {
		sizes, mean = append(sizes, math.Abs(t)), mean+t/float64(len(d.turns))
	}
	slices.Sort(sizes)
	return fmt.Sprintf("| %d | %d | %.2f %% | %+.3f %% | %.3f %% | %.3f %% |", len(d.turns), d.messages, 100*float64(d.equal)/float64(d.messages),
		mean, sizes[len(sizes)*99/100], sizes[len(sizes)-1])
}

// driftOf measures n turns of a dataset, drawn at random; 0: all.
func driftOf(t testing.TB, o Options, key string, n int) *drift {
	t.Helper()
	source, err := tokensource.Resolve(t.Context(), o.Tokenizer, o.Source.Hub)
	require.NoError(t, err)
	tok, err := source.Load()
	require.NoError(t, err)
	c, err := mmapcache.Open(o.Root, key)
	require.NoError(t, err)
	defer c.Close()
	wanted := map[int]bool{}
	r, all := rand.New(rand.NewPCG(17, 3)), c.Structure.Turns.Len()
	for len(wanted) < min(n, all) {
		wanted[r.IntN(all)] = true
	}
	d := &drift{tok: tok, known: map[[2]uint64]int{}}
	var p mmapcache.Prompt
	for i := range c.Structure.Traces.Len() {
		trace := c.Structure.Traces.At(i)
		var tree *mmapcache.RenderedTrace
		for k := range int(trace.Turns) {
			if n > 0 && !wanted[int(trace.FirstTurn)+k] {
				continue
			}
			if tree == nil {
				tree, err = c.Render(i, mmapcache.Text)
				require.NoError(t, err)
			}
			tree.Prompt(k, &p)
			d.add(&p)
		}
	}
	return d
}

// mooncakeRows are requests of which prompts end within blocks that others have whole, or have another part of.
const mooncakeRows = `{"timestamp":0,"input_length":1300,"output_length":5,"hash_ids":[1,2,3]}
{"timestamp":1,"input_length":1530,"output_length":5,"hash_ids":[1,2,3]}
{"timestamp":2,"input_length":2100,"output_length":5,"hash_ids":[1,2,3,4,5]}
{"timestamp":3,"input_length":2101,"output_length":5,"hash_ids":[1,2,3,4,5]}
{"timestamp":4,"input_length":17,"output_length":5,"hash_ids":[9]}
{"timestamp":5,"input_length":300,"output_length":5,"hash_ids":[1]}
`

// By default the text of every message encodes to the tokens that the message was made of. With the other back-ends it does not.
func TestTextsEncodeToTheirTokens(t *testing.T) {
	inputs := []string{"@demo", write(t, "mooncake.jsonl", []byte(mooncakeRows))}
	o := Options{Root: t.TempDir(), Source: options(t).Source, Warn: func(format string, args ...any) { t.Errorf(format, args...) }}
	for _, o.Tokenizer = range tokenizer.Names() {
		for _, input := range inputs {
			o.Inputs, o.Placement = []string{input}, rules.Placement{}
			d := driftOf(t, o, o.convert(t).Key, 0)
			assert.Greater(t, d.messages, 5)
			assert.Equal(t, d.messages, d.equal, "%s: %q", input, d.first)
			o.Placement = rules.Placement{Backend: rules.XXH3, Seed: 42}
			d = driftOf(t, o, o.convert(t).Key, 0)
			assert.Less(t, d.equal, d.messages, "a test that cannot fail")
		}
	}
}

// Where a corpus has no places for windows, a conversion and every hit of it warn of that, and prompts are those of xxh3.
func TestConvertWarnsOfInexactWindows(t *testing.T) {
	tok, err := tokenizer.Load("cl100k_base")
	require.NoError(t, err)
	text := func(text string) string {
		var data []byte
		for _, id := range tok.Encode(text) {
			data = binary.LittleEndian.AppendUint32(data, id)
		}
		return write(t, "ids.u32le", data)
	}
	for want, corpus := range map[string]string{
		"too few places for windows of their lengths": text(strings.Repeat("没有空格的语料", 50)),
		"its tokens are not well-formed UTF-8":        tinyCorpus(t, 300),
	} {
		o := options(t, "@demo")
		var warnings []string
		o.Corpus, o.Warn = corpus, func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
		plain := placementBytes(t, o, o.convert(t))
		require.Empty(t, warnings)
		o.Placement.Backend = rules.Exact
		first := o.convert(t)
		assert.True(t, o.convert(t).Hit)
		require.Len(t, warnings, 2)
		assert.Equal(t, warnings[0], warnings[1])
		assert.Regexp(t, `^(\d+) of (\d+) windows of the prompts may encode to other tokens .*: corpus .*`+want, warnings[0])
		words := strings.Fields(warnings[0])
		assert.Equal(t, words[0], words[2], "all windows")
		assert.Equal(t, plain, placementBytes(t, o, first))
	}
}

func placementBytes(t *testing.T, o Options, r *Result) string {
	return filesOf(t, o.Root)[filepath.Join(mmapcache.PlacementKind, r.Parts[mmapcache.PlacementKind].Key, "starts.bin")]
}

// Another seed, tokenizer or corpus changes the starts and leaves the structure.
func TestStartsDependOnTheEdges(t *testing.T) {
	o := options(t, "@demo")
	o.Corpus, o.Placement = DefaultCorpus, rules.Placement{Seed: 1}
	before := o.convert(t)
	for name, change := range map[string]func(*Options){
		"seed": func(o *Options) { o.Placement.Seed = 2 }, "tokenizer": func(o *Options) { o.Tokenizer = "o200k_base" }, "corpus": func(o *Options) { o.Corpus = "words" },
	} {
		o := o
		change(&o)
		r := o.convert(t)
		assert.Equal(t, before.Parts[mmapcache.StructureKind].Key, r.Parts[mmapcache.StructureKind].Key)
		assert.True(t, r.Parts[mmapcache.StructureKind].Hit)
		assert.Equal(t, name == "seed", r.Parts[mmapcache.ArenasKind].Hit, name)
		assert.False(t, r.Parts[mmapcache.PlacementKind].Hit)
		assert.NotEqual(t, placementBytes(t, o, before), placementBytes(t, o, r), name)
	}
}

// The texts of the messages of 2,000 turns of the 600 public traces encode to their tokens, with every tokenizer that is here. The log
// has a table of this and of what the profile aiperf gives.
func TestPublicTracesEncodeToTheirTokens(t *testing.T) {
	if os.Getenv("AGENTX_EXACT") == "" {
		t.Skip("encodes gigabytes: make test-exact")
	}
	o := Options{Root: t.TempDir(), Inputs: []string{shared(t, "corpus/weka-v8-600.jsonl.zst")}, Warn: t.Errorf}
	names := tokenizer.Names()
	if dir := os.Getenv("AGENTX_TOKENIZERS"); dir != "" {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if !slices.Contains(names, e.Name()) {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	t.Log("| profile | tokenizer | turns | messages | of these equal | drift of a turn, mean | p99 | largest |")
	for _, profile := range Profiles() {
		require.NoError(t, o.SetProfile(profile))
		for _, o.Tokenizer = range names {
			d := driftOf(t, o, o.convert(t).Key, number(t, "EXACT_TURNS", 2000))
			t.Logf("| %s | %s %s", profile, filepath.Base(o.Tokenizer), d)
			if profile == DefaultProfile {
				assert.Equal(t, d.messages, d.equal, d.first)
			}
		}
		o.Tokenizer, o.Corpus = "o200k_base", shared(t, "corpus/aiperf-coding-42-o200k_base.u32le")
		d := driftOf(t, o, o.convert(t).Key, number(t, "EXACT_TURNS", 2000))
		t.Logf("| %s | %s, corpus of AIPerf %s", profile, o.Tokenizer, d)
		o.Corpus = ""
	}
}
