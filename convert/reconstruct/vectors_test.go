package reconstruct

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

func u64(t *testing.T, s string) uint64 {
	v, err := strconv.ParseUint(s, 10, 64)
	require.NoError(t, err)
	return v
}

// runs expands a token list given as [first, n] pairs.
func expand(runs [][2]int) []int {
	tokens := []int{}
	for _, r := range runs {
		for k := range r[1] {
			tokens = append(tokens, r[0]+k)
		}
	}
	return tokens
}

// Covers D7, D8, D9, D15.
func TestValidation(t *testing.T) {
	type in struct {
		Mode    string
		Trace   json.RawMessage
		TextHex *string `json:"text_hex"`
	}
	type want struct {
		OK      bool
		Unknown int
		Fault   string
	}
	fixtures.EachWeka(t, "validation", func(t *testing.T, in in, want want) {
		text := []byte(in.Trace)
		if in.TextHex != nil {
			var err error
			text, err = hex.DecodeString(*in.TextHex)
			require.NoError(t, err)
		}
		rules := rules.Default()
		if in.Mode == "strict" {
			rules.UnknownKeys = "reject"
		}
		tr, err := weka.Scan(text, rules)
		if !want.OK {
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, want.Fault, string(e.Kind), e.Error())
			return
		}
		require.NoError(t, err)
		n := 0
		for _, k := range tr.Unknown {
			n += k
		}
		assert.Equal(t, want.Unknown, n, tr.Unknown)
	})
}

// Covers D1.
func TestEffectiveBlockSize(t *testing.T) {
	type in struct {
		Profile  string
		Declared int64
		Override *int
	}
	fixtures.EachWeka(t, "effective_block_size", func(t *testing.T, in in, want struct {
		BlockSize uint32 `json:"block_size"`
	}) {
		r := rules.Default()
		if in.Profile == "aiperf" {
			r = rules.AIPerf()
		}
		if in.Override != nil {
			r.BlockSize = *in.Override
		}
		plan, _, err := MakePlan(&trace.Trace{ID: "t", BlockSize: in.Declared}, r)
		require.NoError(t, err)
		assert.Equal(t, want.BlockSize, plan.Trace.BlockSize)
	})
}

// Covers D4, P16.
func TestMarkerTimes(t *testing.T) {
	type in struct {
		Marker struct {
			T          float64
			Status     string
			DurationMS *int64 `json:"duration_ms"`
			Requests   []struct {
				T       float64
				APITime *float64 `json:"api_time"`
			}
		}
		Basis      string
		MarkerTime string `json:"marker_time"`
	}
	type want struct {
		Basis      string
		MarkerTime string `json:"marker_time"`
		Start, End float64
		Times      []float64
		Ambiguous  bool
	}
	fixtures.EachWeka(t, "marker_times", func(t *testing.T, in in, want want) {
		m := trace.Subagent{T: in.Marker.T, Completed: in.Marker.Status == "completed"}
		if d := in.Marker.DurationMS; d != nil {
			m.HasDuration, m.DurationMS = true, *d
		}
		for _, q := range in.Marker.Requests {
			r := trace.Request{T: q.T}
			if q.APITime != nil {
				r.APITime = trace.Seconds{V: *q.APITime, OK: true}
			}
			m.Requests = append(m.Requests, r)
		}
		got := agent{&m}.times(rules.Rules{NestedBasis: in.Basis, MarkerTime: in.MarkerTime})
		assert.Equal(t, want.Basis, got.basis)
		assert.Equal(t, want.MarkerTime, got.meaning)
		assert.Equal(t, want.Ambiguous, got.guessed)
		assert.InDelta(t, want.Start, got.start, 1e-9)
		assert.InDelta(t, want.End, got.end, 1e-9)
		assert.Len(t, got.requests, len(want.Times))
		for k := range want.Times {
			assert.InDelta(t, want.Times[k], got.requests[k], 1e-9)
		}
	})
}

// AIPerf's seeds are unsigned, up to 2^64 - 1: what AIPerf derives from the largest, and how keys contain it.
func TestLargestSeed(t *testing.T) {
	assert.Equal(t, uint64(1454329628828595485), deriveSeed(math.MaxUint64, rules.CodingStream))
	for want, d := range map[string]rules.Placement{
		`{"backend":"sha256-mt","stream":"s","seed":18446744073709551615}`: {Backend: rules.SHA256MT, Seed: -1, Stream: "s"},
		`{"backend":"sha256-mt","stream":"","seed":42}`:                    {Backend: rules.SHA256MT, Seed: 42},
		`{"backend":"xxh3","seed":-1,"stream":""}`:                         {Backend: rules.XXH3, Seed: -1},
	} {
		got, err := json.Marshal(d)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(got))
		var again rules.Placement
		require.NoError(t, json.Unmarshal(got, &again))
		assert.Equal(t, d, again)
	}
}

// Covers D14.
func TestSeedDerivation(t *testing.T) {
	type seed struct{ Seed string }
	type in struct {
		Root       uint64
		Identifier string
		Child      *string
	}
	fixtures.EachWeka(t, "derive", func(t *testing.T, in in, want seed) {
		assert.Equal(t, u64(t, want.Seed), deriveSeed(in.Root, in.Identifier))
	})
	fixtures.EachWeka(t, "base_seed", func(t *testing.T, in in, want seed) {
		child := deriveSeed(in.Root, in.Identifier)
		if in.Child != nil {
			child = u64(t, *in.Child)
		}
		assert.Equal(t, u64(t, want.Seed), baseSeed(child))
	})
}

func TestBlockSeeds(t *testing.T) {
	type in struct {
		N        uint32
		BaseSeed string `json:"base_seed"`
		Scope    string
		HashID   int64 `json:"hash_id"`
	}
	type want struct {
		Draws []uint32
		Seed  string
	}
	fixtures.EachWeka(t, "block_seed", func(t *testing.T, in in, want want) {
		w := Placer{base: []byte(in.BaseSeed)}
		assert.Equal(t, u64(t, want.Seed), w.blockSeed(in.Scope, in.HashID))
	})
	fixtures.EachWeka(t, "mt_draws", func(t *testing.T, in in, want want) {
		w := Placer{base: []byte(in.BaseSeed)}
		var m pyrand.Twisters
		m.Seed(&[pyrand.Lanes]uint64{3: w.blockSeed(in.Scope, in.HashID)})
		assert.Equal(t, want.Draws[0], m.Below(3, in.N))
	})
}

// placer returns a placer whose base seed a vector gives.
func placer(backend, base string, corpus int) *Placer {
	return &Placer{n: uint64(corpus), placement: rules.Placement{Backend: backend}, base: []byte(base)}
}

// Covers D16.
func TestBlockPlacement(t *testing.T) {
	type in struct {
		Backend   string
		Seed      int64
		BaseSeed  string `json:"base_seed"`
		Scope     string
		HashID    int64   `json:"hash_id"`
		HashIDs   []int64 `json:"hash_ids"`
		CorpusLen int     `json:"corpus_len"`
		BlockSize int     `json:"block_size"`
	}
	type want struct {
		Start uint32
		X     string
		Runs  [][2]int
	}
	fixtures.EachWeka(t, "xxh3_start", func(t *testing.T, in in, want want) {
		var got [1]uint32
		NewPlacer(rules.Placement{Backend: rules.XXH3, Seed: in.Seed}, in.CorpusLen, nil).Blocks(got[:], in.Scope, in.HashID, in.BlockSize)
		assert.Equal(t, want.Start, got[0])
	})
	fixtures.EachWeka(t, "block_start", func(t *testing.T, in in, want want) {
		var got [1]uint32
		require.Equal(t, rules.SHA256MT, in.Backend)
		placer(in.Backend, in.BaseSeed, in.CorpusLen).Blocks(got[:], in.Scope, in.HashID, 1)
		assert.Equal(t, want.Start, got[0])
	})
	fixtures.EachWeka(t, "block_content", func(t *testing.T, in in, want want) {
		require.Equal(t, rules.SHA256MT, in.Backend)
		var tokens []int
		for _, id := range in.HashIDs {
			var start [1]uint32
			placer(in.Backend, in.BaseSeed, in.CorpusLen).Blocks(start[:], in.Scope, id, in.BlockSize)
			for k := range in.BlockSize {
				tokens = append(tokens, (int(start[0])+k)%in.CorpusLen)
			}
		}
		assert.Equal(t, expand(want.Runs), tokens)
	})
}

// Consecutive ids are placed where each is placed alone, in any order.
//
// Covers P11.
func TestBlocksArePlacedAloneAsTogether(t *testing.T) {
	for _, backend := range []string{rules.XXH3, rules.SHA256MT} {
		w := NewPlacer(rules.Placement{Backend: backend, Seed: 7, Stream: rules.CodingStream}, 5000, nil)
		many := make([]uint32, 20)
		w.Blocks(many, "scope", -3, 64)
		for k := len(many) - 1; k >= 0; k-- {
			var one [1]uint32
			w.Blocks(one[:], "scope", int64(k)-3, 64)
			assert.Equal(t, many[k], one[0], backend)
		}
	}
}

// Covers D3.
func TestScopeNamespaces(t *testing.T) {
	type in struct {
		Scope     *string `json:"hash_id_scope"`
		TraceID   string  `json:"trace_id"`
		BlockSize int     `json:"block_size"`
		AgentID   *string `json:"agent_id"`
	}
	fixtures.EachWeka(t, "scope", func(t *testing.T, in in, want struct{ Scope string }) {
		scope := trace.ScopeAbsent
		if in.Scope != nil {
			scope = map[string]trace.Scope{"local": trace.ScopeLocal, "global": trace.ScopeGlobal}[*in.Scope]
		}
		agent := ""
		if in.AgentID != nil {
			agent = *in.AgentID
		}
		assert.Equal(t, want.Scope, scope.Context(in.TraceID, agent, in.BlockSize))
	})
}

// Covers D10.
func TestFillerVectors(t *testing.T) {
	type in struct {
		CorpusLen int `json:"corpus_len"`
		N         int
		Seed      json.RawMessage
		String    string
		Overrun   string
	}
	type want struct {
		Offset uint32
		X      string
		Runs   [][2]int
	}
	content := func(offset uint32, n, corpus int) []int {
		tokens := []int{}
		for k := range max(n, 0) {
			tokens = append(tokens, (int(offset)+k)%corpus)
		}
		return tokens
	}
	fixtures.EachWeka(t, "filler", func(t *testing.T, in in, want want) {
		var seed string
		require.NoError(t, json.Unmarshal(in.Seed, &seed))
		got := placer(rules.SHA256MT, "0", in.CorpusLen).filler([]byte(seed), in.N)
		if in.N > 0 {
			assert.Equal(t, want.Offset, got)
		}
		if in.Overrun == "short" { // mmapcache.TimeRules.ShortFiller: not longer than the corpus
			in.N = min(in.N, in.CorpusLen)
		}
		assert.Equal(t, expand(want.Runs), content(got, in.N, in.CorpusLen))
	})
	fixtures.EachWeka(t, "xxh3_filler", func(t *testing.T, in in, want want) {
		var seed int64
		require.NoError(t, json.Unmarshal(in.Seed, &seed))
		assert.Equal(t, u64(t, want.X), xxh3.HashSeed([]byte(in.String), uint64(seed)))
		got := NewPlacer(rules.Placement{Backend: rules.XXH3, Seed: seed}, in.CorpusLen, nil).filler([]byte(in.String), in.N)
		assert.Equal(t, want.Offset, got)
		assert.Equal(t, expand(want.Runs), content(got, in.N, in.CorpusLen))
	})
}

func TestFillerSeedString(t *testing.T) {
	w := NewPlacer(rules.Placement{Backend: rules.XXH3, Seed: 42}, 259485, nil)
	assert.Equal(t, uint32(47777), w.Filler("trace_0001", 0, 8))
	assert.Equal(t, uint32(146997), w.Filler("trace_0001::sa:agent_001", 0, 36))
}

func TestPromptShape(t *testing.T) {
	type in struct {
		BlockSize int `json:"block_size"`
		IDs, In   int
	}
	fixtures.EachWeka(t, "geometry", func(t *testing.T, in in, want promptShape) {
		assert.Equal(t, want, shapeOf(in.BlockSize, in.IDs, in.In))
		row := mmapcache.Turn{In: uint32(in.In), HashIDs: uint32(in.IDs)}
		assert.EqualValues(t, want.Filler, row.FillerTokens(uint32(in.BlockSize)))
	})
}

// Covers D6.
func TestMaxTokens(t *testing.T) {
	type in struct {
		Out      int32
		MaxOSL   *int64 `json:"max_osl"`
		Subagent bool
	}
	fixtures.EachWeka(t, "max_tokens", func(t *testing.T, in in, want struct {
		MaxTokens int `json:"max_tokens"`
	}) {
		kind := mmapcache.Main
		if in.Subagent {
			kind = mmapcache.Subagent
		}
		rules := rules.Rules{MaxOutput: in.MaxOSL}
		assert.Equal(t, want.MaxTokens, rules.TimeRules().MaxTokens(kind, mmapcache.Turn{Out: in.Out}))
	})
}

// Covers P8.
func TestAssistantCaps(t *testing.T) {
	type in struct {
		BlockSize int `json:"block_size"`
		Turns     []recorded
	}
	fixtures.EachWeka(t, "caps", func(t *testing.T, in in, want struct{ Caps []*int }) {
		for _, repaired := range []bool{true, false} {
			assert.Equal(t, want.Caps, capsOf(in.BlockSize, in.Turns, repaired))
		}
	})
}

func capsOf(blockSize int, turns []recorded, repaired bool) (caps []*int) {
	common := make([]int, len(turns))
	g := make([]promptShape, len(turns))
	for k, q := range turns {
		g[k] = shapeOf(blockSize, len(q.HashIDs), q.In)
		if k > 0 {
			common[k] = trace.CommonPrefix(idsOf(turns[k-1].HashIDs), idsOf(q.HashIDs))
		}
	}
	for _, c := range assistantCaps(common, g, repaired) {
		if c == mmapcache.None {
			caps = append(caps, nil)
		} else {
			caps = append(caps, &c)
		}
	}
	return caps
}

func idsOf(list []int64) (ids trace.IDs) {
	for _, id := range list {
		ids.Append(id)
	}
	return ids
}

// recorded is a request of a vector.
type recorded struct {
	HashIDs    []int64  `json:"hash_ids"`
	In         int      `json:"in"`
	Out        int      `json:"out"`
	InputTypes []string `json:"input_types"`
	Stop       string   `json:"stop"`
}

// sentMessage is a message of a vector: its role, and its tokens as runs.
type sentMessage struct {
	Role   string
	Start  int
	Count  int
	Tokens int
	Runs   [][2]int
}

// plain is a message with its content written out.
type plain struct {
	Role   string
	Tokens []int
}

func plainMessages(list []sentMessage) []plain {
	out := []plain{}
	for _, m := range list {
		out = append(out, plain{m.Role, expand(m.Runs)})
	}
	return out
}

// planOf plans a conversation of vectors as a trace of its own, through the JSON of a trace file.
func planOf(t *testing.T, id string, blockSize int, tool, system int64, requests []recorded, lengthRule string) (*mmapcache.Plan, error) {
	rules := together()
	rules.LengthRule = lengthRule
	return planUnder(t, id, blockSize, tool, system, requests, rules)
}

func planUnder(t *testing.T, id string, blockSize int, tool, system int64, requests []recorded, rules rules.Rules) (*mmapcache.Plan, error) {
	entries := []map[string]any{}
	for k, q := range requests {
		e := map[string]any{"t": k, "type": "n", "model": "m", "in": q.In, "out": q.Out, "hash_ids": append([]int64{}, q.HashIDs...)}
		if q.InputTypes != nil {
			e["input_types"] = q.InputTypes
		}
		if q.Stop != "" {
			e["stop"] = q.Stop
		}
		entries = append(entries, e)
	}
	text, err := json.Marshal(map[string]any{"id": id, "models": []string{"m"}, "block_size": blockSize, "hash_id_scope": "local",
		"tool_tokens": tool, "system_tokens": system, "requests": entries})
	require.NoError(t, err)
	tr, err := weka.Scan(text, rules)
	require.NoError(t, err)
	plan, _, err := MakePlan(tr, rules)
	return plan, err
}

// prompt writes out the messages of a turn with the vectors' synthetic content: block h is h*1000, h*1000+1, ...;
// filler is 900000, 900001, ...
func prompt(plan *mmapcache.Plan, turn int) []plain {
	id := map[uint32]int64{}
	for _, r := range plan.Runs {
		for k := range r.Count {
			id[r.First+k] = r.ID + int64(k)
		}
	}
	var path []mmapcache.Segment
	for s := plan.Turns[turn].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		path = append(path, plan.Segments[s])
	}
	slices.Reverse(path)
	out := []plain{}
	for _, s := range path {
		if s.Flags&mmapcache.Continues == 0 {
			out = append(out, plain{s.Role.String(), []int{}})
		}
		m := &out[len(out)-1]
		for k := range s.Count {
			if s.Flags&mmapcache.Filler != 0 {
				m.Tokens = append(m.Tokens, 900000+int(k))
				continue
			}
			for j := range plan.Trace.BlockSize {
				m.Tokens = append(m.Tokens, int(id[s.First+k])*1000+int(j))
			}
		}
	}
	return out
}

// accumulate returns the prompt that a server has after each delta: doc/spec/reconstruction.md 4.8.
func accumulate[M any](wire []M, reset bool, messages []M) []M {
	if reset {
		wire = nil
	}
	return append(slices.Clone(wire), messages...)
}

func TestPromptsAsSent(t *testing.T) {
	type in struct {
		Turns []struct {
			Reset    bool
			Messages []string
		}
	}
	fixtures.EachWeka(t, "wire", func(t *testing.T, in in, want struct{ Wire [][]string }) {
		var wire []string
		for k, turn := range in.Turns {
			wire = accumulate(wire, turn.Reset, turn.Messages)
			assert.Equal(t, want.Wire[k], append([]string{}, wire...))
		}
	})
}

// Covers D2, P3.
func TestConversations(t *testing.T) {
	type in struct {
		BlockSize    int    `json:"block_size"`
		SessionID    string `json:"session_id"`
		ToolTokens   int64  `json:"tool_tokens"`
		SystemTokens int64  `json:"system_tokens"`
		LengthRule   string `json:"length_rule"`
		Requests     []recorded
		ToolShape    bool `json:"tool_shape"`
	}
	type want struct {
		Turns []struct {
			Reset    bool
			Messages []sentMessage
			Segments []sentMessage
			Cap      *int
			Filler   *struct {
				Seed string
				N    uint32
			}
			WireTokens int     `json:"wire_tokens"`
			InputKind  *string `json:"input_kind"`
		}
		TrailingNonUser []int `json:"trailing_non_user"`
	}
	check := func(t *testing.T, in in, want want) {
		rules := []string{in.LengthRule}
		if in.LengthRule == "both" {
			rules = []string{"repaired", "upstream"}
		}
		for _, rule := range rules {
			plan, err := planOf(t, in.SessionID, in.BlockSize, in.ToolTokens, in.SystemTokens, in.Requests, rule)
			require.NoError(t, err)
			caps := capsOf(in.BlockSize, in.Requests, rule == "repaired")
			var wire []plain
			trailing := []int{}
			for k, w := range want.Turns {
				wire = accumulate(wire, w.Reset, plainMessages(w.Messages))
				got := prompt(plan, k)
				if !in.ToolShape { // shaping adds no tokens, but renames a role
					assert.Equal(t, append([]plain{}, wire...), got, "turn %d, rule %s", k, rule)
				}
				assert.Equal(t, plainMessages(w.Segments), got, "turn %d, rule %s", k, rule)
				assert.Equal(t, w.Cap, caps[k], "turn %d, rule %s", k, rule)
				total := 0
				for _, m := range got {
					total += len(m.Tokens)
				}
				assert.Equal(t, w.WireTokens, total, "turn %d, rule %s", k, rule)
				if rule == "repaired" {
					assert.Equal(t, in.Requests[k].In, total)
				}
				if len(got) > 0 && got[len(got)-1].Role != "user" {
					trailing = append(trailing, k)
				}
				row := plan.Turns[k]
				fill := uint32(0)
				if w.Filler != nil {
					fill = w.Filler.N
					assert.Equal(t, in.SessionID+":turn_"+strconv.Itoa(k)+":partial_tail", w.Filler.Seed)
				}
				assert.Equal(t, fill, row.FillerTokens(uint32(in.BlockSize)))
				kind := ""
				if w.InputKind != nil {
					kind = *w.InputKind
				}
				assert.Equal(t, kind, row.Input.String())
			}
			assert.Equal(t, want.TrailingNonUser, trailing)
		}
	}
	fixtures.EachWeka(t, "conversation", check)
	fixtures.EachWeka(t, "length_mismatch", check)
}

func TestBufferInit(t *testing.T) {
	type in struct {
		BlockSize    int     `json:"block_size"`
		HashIDs      []int64 `json:"hash_ids"`
		ToolTokens   int64   `json:"tool_tokens"`
		SystemTokens int64   `json:"system_tokens"`
		In           int
	}
	type want struct {
		Segments     []sentMessage
		EndsWithUser bool `json:"ends_with_user"`
		Error        string
	}
	fixtures.EachWeka(t, "init", func(t *testing.T, in in, want want) {
		plan, err := planOf(t, "t", in.BlockSize, in.ToolTokens, in.SystemTokens, []recorded{{HashIDs: in.HashIDs, In: in.In}}, "repaired")
		if want.Error != "" {
			var e *trace.Error
			require.True(t, errors.As(err, &e))
			assert.Equal(t, want.Error, string(e.Kind))
			return
		}
		require.NoError(t, err)
		got := prompt(plan, 0)
		assert.Equal(t, plainMessages(want.Segments), got)
		assert.Equal(t, want.EndsWithUser, got[len(got)-1].Role == "user")
	})
}

func TestBufferTruncate(t *testing.T) {
	type shape struct {
		Role          string
		Count, Tokens int
	}
	type in struct {
		BlockSize int `json:"block_size"`
		Segments  []shape
		Target    int
	}
	type want struct {
		Segments  []shape
		Disturbed *int
	}
	roles := map[string]mmapcache.Role{"system": mmapcache.System, "user": mmapcache.User, "assistant": mmapcache.Assistant}
	fixtures.EachWeka(t, "truncate", func(t *testing.T, in in, want want) {
		b := buffer{blockSize: in.BlockSize, plan: &mmapcache.Plan{}}
		next := uint32(0)
		for _, s := range in.Segments {
			var blocks []span
			for range s.Count { // every block a segment of its own, so that cuts fall between segments and inside them
				blocks = append(blocks, span{next, 1})
				next += 2
			}
			b.push(roles[s.Role], blocks, s.Tokens-s.Count*in.BlockSize, ending{mmapcache.Filler, 0})
		}
		before := slices.Clone(b.messages)
		b.truncate(in.Target)
		got := []shape{}
		for _, s := range b.messages {
			got = append(got, shape{s.role.String(), s.count, s.tokens})
		}
		assert.Equal(t, want.Segments, got)

		var disturbed *int // the first message that has changed
		for k := range before {
			if k >= len(b.messages) || b.messages[k] != before[k] {
				disturbed = &k
				break
			}
		}
		assert.Equal(t, want.Disturbed, disturbed)

		tokens := 0 // the plan has what the buffer says
		for _, id := range b.path {
			part := b.plan.Segments[id]
			if part.Flags&mmapcache.Filler != 0 {
				tokens += int(part.Count)
			} else {
				tokens += int(part.Count) * in.BlockSize
			}
		}
		sum := 0
		for _, s := range b.messages {
			sum += s.tokens
		}
		assert.Equal(t, sum, tokens)
	})
}

func TestInputKind(t *testing.T) {
	type in struct{ Requests []recorded }
	fixtures.EachWeka(t, "input_kind", func(t *testing.T, in in, want struct{ Kinds []*string }) {
		plan, err := planOf(t, "t", 64, 0, 0, in.Requests, "repaired")
		require.NoError(t, err)
		for k, w := range want.Kinds {
			kind := ""
			if w != nil {
				kind = *w
			}
			assert.Equal(t, kind, plan.Turns[k].Input.String())
		}
	})
}

func TestPrefixCache(t *testing.T) {
	type in struct {
		Requests []struct {
			T       float64
			HashIDs []int64 `json:"hash_ids"`
		}
	}
	type want struct{ Legacy [][2]uint32 }
	fixtures.EachWeka(t, "prefix_cache", func(t *testing.T, in in, want want) {
		tr := &trace.Trace{ID: "t", BlockSize: 1, Scope: trace.ScopeLocal, Models: []string{"m"}}
		for _, q := range in.Requests {
			tr.Entries = append(tr.Entries, trace.Entry{Request: trace.Request{T: q.T, Model: 0, IDs: idsOf(q.HashIDs), In: int64(len(q.HashIDs))}})
		}
		plan, _, err := MakePlan(tr, together())
		require.NoError(t, err)
		for k, w := range want.Legacy {
			assert.Equal(t, w, [2]uint32{plan.Turns[k].CacheHits, plan.Turns[k].HashIDs}, "request %d", k)
		}
	})
}

func TestAbsentTimesAreNaN(t *testing.T) {
	plan, err := planOf(t, "t", 4, 0, 0, []recorded{{HashIDs: []int64{1}, In: 4}}, "repaired")
	require.NoError(t, err)
	assert.True(t, math.IsNaN(plan.Turns[0].APITime))
	assert.True(t, math.IsNaN(plan.Turns[0].ThinkTime))
}

// together are the default rules without the detection of side chains: one conversation per agent.
func together() rules.Rules {
	r := rules.Default()
	r.SplitAgents = false
	return r
}
