package reconstruct

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// wholeTrace is the input of the vectors that convert a whole trace.
type wholeTrace struct {
	Profile       string
	Backend       string
	Seed          *int64
	BaseSeed      string   `json:"base_seed"`
	CorpusLen     int      `json:"corpus_len"`
	BlockSize     *int     `json:"block_size_override"`
	MaxOSL        *int64   `json:"max_osl"`
	MaxISL        *int64   `json:"max_isl"`
	WarpCap       *float64 `json:"warp_cap_s"`
	TurnCap       *float64 `json:"turn_cap_s"`
	ThinkTimeOnly bool     `json:"think_time_only"`
	ToolShape     bool     `json:"tool_shape"`
	Split         *bool
	Trace         json.RawMessage
}

// rules returns the rules of the profile with the options of the vector.
func (w wholeTrace) rules() rules.Rules {
	r := rules.Default()
	if w.Profile == "aiperf" {
		r = rules.AIPerf()
	}
	if w.BlockSize != nil {
		r.BlockSize = *w.BlockSize
	}
	if w.Split != nil {
		r.SplitAgents = *w.Split
	}
	r.MaxOutput, r.MaxInput = w.MaxOSL, w.MaxISL
	return r
}

func (w wholeTrace) view() (v mmapcache.View) {
	v.ThinkTimeOnly = w.ThinkTimeOnly
	if w.TurnCap != nil {
		v.TurnCap = *w.TurnCap
	}
	if w.WarpCap != nil {
		v.Warped, v.TraceCap = true, *w.WarpCap
	}
	return v
}

// placer returns the placer of the vector's back-end and seed.
func (w wholeTrace) placer() *Placer {
	if w.Seed != nil {
		return NewPlacer(rules.Placement{Backend: w.Backend, Seed: *w.Seed}, w.CorpusLen, nil)
	}
	return placer(w.Backend, w.BaseSeed, w.CorpusLen)
}

// converted is a trace with its times and the starts of its windows.
type converted struct {
	*mmapcache.Plan
	notes   Notes
	times   *mmapcache.Times
	rules   rules.Rules
	corpus  int
	blocks  []uint32
	fillers []uint32
}

func (w wholeTrace) convert(rules rules.Rules) (*converted, error) {
	tr, err := weka.Scan(w.Trace, rules)
	if err != nil {
		return nil, err
	}
	c := &converted{rules: rules, corpus: w.CorpusLen}
	if c.Plan, c.notes, err = MakePlan(tr, rules); err != nil {
		return nil, err
	}
	if c.notes.Queries != nil {
		var g GlobalPrefixCache
		g.Add(c.notes.Queries, 0)
		g.Count(rules, func(row, hits int) { c.Turns[row].CacheHits = uint32(hits) })
	}
	if c.times, err = c.Times(rules.TimeRules(), w.view()); err != nil {
		return nil, err
	}
	if c.corpus == 0 {
		return c, nil
	}
	d := w.placer()
	size := c.Trace.BlockSize
	c.blocks, c.fillers = make([]uint32, c.Trace.Blocks), make([]uint32, len(c.Turns))
	for _, r := range c.Runs {
		d.Blocks(c.blocks[r.First:r.First+r.Count], r.Scope, r.ID, int(size))
	}
	for _, s := range c.Sessions {
		for k := range s.Turns {
			c.fillers[s.FirstTurn+k] = d.Filler(s.ID, int(k), int(c.Turns[s.FirstTurn+k].FillerTokens(size)))
		}
	}
	return c, nil
}

// prompt writes out the messages of a turn over the identity corpus.
func (c *converted) prompt(turn int) []plain {
	var path []mmapcache.Segment
	for s := c.Turns[turn].Last; s != mmapcache.None; s = c.Segments[s].Parent {
		path = append(path, c.Segments[s])
	}
	slices.Reverse(path)
	out := []plain{}
	window := func(m *plain, start uint32, n int) {
		for k := range n {
			m.Tokens = append(m.Tokens, (int(start)+k)%c.corpus)
		}
	}
	for _, s := range path {
		if s.Flags&mmapcache.Continues == 0 {
			out = append(out, plain{s.Role.String(), []int{}})
		}
		m := &out[len(out)-1]
		if s.Flags&mmapcache.Filler == 0 {
			for b := s.First; b < s.First+s.Count; b++ {
				window(m, c.blocks[b], int(c.Trace.BlockSize))
			}
			continue
		}
		n := int(s.Count)
		if c.rules.TimeRules().ShortFiller {
			n = min(n, c.corpus)
		}
		window(m, c.fillers[s.First], n)
	}
	return out
}

// orNil is a time as vectors write it.
func orNil(ms float64) *float64 {
	if math.IsNaN(ms) {
		return nil
	}
	return &ms
}

func (c *converted) branchesThat(is func(mmapcache.Branch) bool) []string {
	ids := []string{}
	for _, b := range c.times.Branches {
		if is(b) {
			ids = append(ids, b.ID)
		}
	}
	return ids
}

func (c *converted) names(sessions []int) []string {
	ids := []string{}
	for _, n := range sessions {
		ids = append(ids, c.Sessions[n].ID)
	}
	return ids
}

func TestWholeTraces(t *testing.T) {
	type branch struct {
		ID         string   `json:"branch_id"`
		Children   []string `json:"child_conversation_ids"`
		Background bool     `json:"is_background"`
		Start      float64  `json:"start_timestamp_ms"`
		Mode       string
	}
	type turn struct {
		Timestamp *float64
		Delay     *float64
		API       *float64 `json:"api_time_ms"`
		Outer     uint32   `json:"source_outer_idx"`
		Inner     *int32   `json:"source_inner_idx"`
		Kind      string   `json:"source_kind"`
		Model     string
		MaxTokens int           `json:"max_tokens"`
		Hits      uint32        `json:"cache_hit_blocks"`
		Total     uint32        `json:"cache_total_blocks"`
		Input     *string       `json:"input_kind"`
		Branches  []string      `json:"branch_ids"`
		Reset     bool          `json:"reset_context"`
		Messages  []sentMessage // compared apart
		Joins     []struct {
			Kind string
			ID   string `json:"branch_id"`
		} `json:"prerequisites"`
		After []struct {
			Session string
			Turn    int
		} `json:"replay_predecessors"`
	}
	type want struct {
		Conversations []struct {
			ID       string  `json:"session_id"`
			Root     bool    `json:"is_root"`
			Depth    int     `json:"agent_depth"`
			Parent   *string `json:"parent_conversation_id"`
			Scope    string  `json:"replay_scope_id"`
			Turns    []turn
			Branches []branch
		}
		Dropped []string
	}
	check := func(t *testing.T, in wholeTrace, want want) {
		c, err := in.convert(in.rules())
		require.NoError(t, err)
		require.Len(t, c.Sessions, len(want.Conversations))
		if want.Dropped != nil { // the release does not say
			assert.Equal(t, want.Dropped, append([]string{}, c.notes.Dropped...))
		}
		for n, w := range want.Conversations {
			s := c.Sessions[n]
			require.Equal(t, w.ID, s.ID)
			assert.Equal(t, w.Root, s.Parent == mmapcache.None)
			assert.Equal(t, w.Depth, map[bool]int{true: 0, false: 1}[w.Root])
			assert.Equal(t, w.Scope, c.ReplayScope(n, c.rules.TimeRules().ParsedScope))
			if !w.Root {
				assert.Equal(t, *w.Parent, c.Sessions[s.Parent].ID)
			}
			got := []branch{}
			for _, b := range c.times.Branches {
				if n == 0 {
					got = append(got, branch{b.ID, c.names(b.Sessions), b.Join == mmapcache.None, b.Start, "SPAWN"})
				}
			}
			assert.Equal(t, w.Branches, got)

			var wire []plain
			require.Len(t, w.Turns, int(s.Turns))
			for k, wt := range w.Turns {
				row := int(s.FirstTurn) + k
				u, played := c.Turns[row], c.times.Turns[row]
				gt := turn{Timestamp: orNil(played.Start), Delay: orNil(played.Delay), API: orNil(played.API), Outer: u.Outer,
					Kind: s.Kind.String(), Model: u.Model, MaxTokens: c.rules.TimeRules().MaxTokens(s.Kind, u), Hits: u.CacheHits, Total: u.HashIDs,
					Branches: []string{}, Reset: wt.Reset, Messages: wt.Messages}
				if u.Inner != mmapcache.None {
					gt.Inner = &u.Inner
				}
				if u.Input != mmapcache.InputUnknown {
					kind := u.Input.String()
					gt.Input = &kind
				}
				joins := []string{}
				if n == 0 {
					gt.Branches = c.branchesThat(func(b mmapcache.Branch) bool { return int(b.Spawn) == k })
					joins = c.branchesThat(func(b mmapcache.Branch) bool { return int(b.Join) == k })
				}
				var wantAfter, after []string
				wantJoins := []string{}
				for _, j := range wt.Joins {
					assert.Equal(t, "SPAWN_JOIN", j.Kind)
					wantJoins = append(wantJoins, j.ID)
				}
				for _, a := range wt.After {
					wantAfter = append(wantAfter, fmt.Sprint(a.Session, "#", a.Turn))
				}
				for _, a := range c.times.After[row] {
					after = append(after, fmt.Sprint(c.Sessions[a.Stream].ID, "#", a.Turn))
				}
				assert.Equal(t, wantJoins, joins)
				assert.Equal(t, wantAfter, after)
				gt.Joins, gt.After = wt.Joins, wt.After
				assert.Equal(t, wt, gt, "session %s, turn %d", s.ID, k)

				list := plainMessages(wt.Messages)
				for i := range list {
					if list[i].Role == "tool" { // shaping renames a role; it is applied by the player
						list[i].Role = "user"
					}
				}
				wire = accumulate(wire, wt.Reset, list)
				assert.Equal(t, append([]plain{}, wire...), c.prompt(row), "session %s, turn %d", s.ID, k)
			}
		}
	}
	fixtures.EachWeka(t, "end_to_end", check)
	fixtures.EachWeka(t, "end_to_end_release", check)
}

// Covers P14.
func TestBranches(t *testing.T) {
	type want struct {
		Error         string
		Conversations []string
		Root          []uint32
		Branches      []struct {
			ID         string   `json:"branch_id"`
			Children   []string `json:"child_conversation_ids"`
			Background bool     `json:"is_background"`
			Spawn      int32    `json:"spawn_turn"`
			Join       *int32   `json:"join_turn"`
			Start      float64  `json:"start_timestamp_ms"`
		}
		Dropped []string
		First   map[string]float64 `json:"first_times_ms"`
	}
	fixtures.EachWeka(t, "branches", func(t *testing.T, in wholeTrace, want want) {
		profiles := []string{in.Profile}
		if in.Profile == "both" {
			profiles = []string{"default", "aiperf"}
		}
		for _, p := range profiles {
			in.Profile = p
			rules := in.rules()
			rules.BlockSize = 0 // as declared
			c, err := in.convert(rules)
			if want.Error != "" {
				var e *trace.Error
				require.ErrorAs(t, err, &e, p)
				assert.Equal(t, want.Error, strings.ReplaceAll(string(e.Kind), "-", "_"))
				continue
			}
			require.NoError(t, err, p)
			var all []int
			for n := range c.Sessions {
				all = append(all, n)
			}
			assert.Equal(t, want.Conversations, c.names(all), p)
			root := []uint32{}
			for _, u := range c.Turns[:c.Sessions[0].Turns] {
				root = append(root, u.Outer)
			}
			assert.Equal(t, want.Root, root, p)
			assert.Equal(t, want.Dropped, append([]string{}, c.notes.Dropped...), p)
			require.Len(t, c.times.Branches, len(want.Branches), p)
			for k, w := range want.Branches {
				b := c.times.Branches[k]
				join := int32(mmapcache.None)
				if w.Join != nil {
					join = *w.Join
				}
				assert.Equal(t, w.ID, b.ID, p)
				assert.Equal(t, w.Children, c.names(b.Sessions), p)
				assert.Equal(t, w.Background, b.Join == mmapcache.None, p)
				assert.Equal(t, [2]int32{w.Spawn, join}, [2]int32{b.Spawn, b.Join}, p)
				assert.Equal(t, w.Start, b.Start, p)
			}
			for _, s := range c.Sessions {
				if first, ok := want.First[s.ID]; ok {
					assert.Equal(t, first, c.times.Turns[s.FirstTurn].Start, p)
				}
			}
		}
	})
}

// publicTrace finds a trace of the public test data in the folder beside the repository, as a file or as a line of the
// file of all, and skips the test where there is none.
func publicTrace(t *testing.T, name, digest string) []byte {
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	folder := filepath.Join(filepath.Dir(dir), "shared", "corpus")
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		all, err := os.Open(filepath.Join(folder, "weka-v8-600.jsonl.zst"))
		if err != nil {
			t.Skipf("%s: the public test data is not here", folder)
		}
		defer all.Close()
		plain, err := zstd.NewReader(all)
		require.NoError(t, err)
		defer plain.Close()
		begin := []byte(`{"id":"` + strings.TrimSuffix(filepath.Base(name), ".json") + `"`)
		lines := bufio.NewScanner(plain)
		lines.Buffer(nil, 1<<28)
		for lines.Scan() && data == nil {
			if bytes.HasPrefix(lines.Bytes(), begin) {
				data = bytes.Clone(lines.Bytes())
			}
		}
		require.NotNil(t, data, "%s is nowhere in %s", name, folder)
	}
	sum := sha256.Sum256(data)
	require.Equal(t, digest, hex.EncodeToString(sum[:]))
	return data
}

// extends reports whether a prompt begins with all messages of another, so that a delta can express it.
func extends(before, after []int32) bool {
	return len(before) <= len(after) && slices.Equal(before, after[:len(before)])
}

// Public traces as deltas over the identity corpus, compared by the SHA-256 of their text: doc/spec/reconstruction.md 13.2.
func TestPublicTraces(t *testing.T) {
	type in struct {
		wholeTrace
		File   string
		SHA256 string `json:"file_sha256"`
	}
	type want struct {
		SHA256        string
		Bytes         int `json:"rendering_bytes"`
		Conversations int
		Turns         int
		Resets        int
		Messages      int
		Emitted       int    `json:"emitted_tokens"`
		Seams         int    `json:"seams"`
		Legacy        uint32 `json:"hits_legacy"`
		Causal        uint32 `json:"hits_causal"`
		Total         uint32 `json:"total_blocks"`
		Branches      []struct {
			ID string `json:"branch_id"`
		}
	}
	fixtures.EachWeka(t, "corpus", func(t *testing.T, in in, want want) {
		in.Trace = publicTrace(t, in.File, in.SHA256)
		c, err := in.convert(in.rules())
		require.NoError(t, err)
		assert.Len(t, c.Sessions, want.Conversations)
		assert.Len(t, c.Turns, want.Turns)
		assert.Equal(t, want.Seams, c.notes.Seams)
		assert.Len(t, c.times.Branches, len(want.Branches))
		sum := sha256.New()
		size, resets, messages, tokens := 0, 0, 0, 0
		hits, total := uint32(0), uint32(0)
		put := func(fields ...string) {
			n, _ := sum.Write([]byte(strings.Join(fields, " ") + "\n"))
			size += n
		}
		for _, s := range c.Sessions {
			put("C", s.ID)
			var before []int32
			for k := range int(s.Turns) {
				row := int(s.FirstTurn) + k
				hits += c.Turns[row].CacheHits
				total += c.Turns[row].HashIDs
				list := c.prompt(row)
				var path []int32
				for at := c.Turns[row].Last; at != mmapcache.None; at = c.Segments[at].Parent {
					path = append(path, at)
				}
				slices.Reverse(path)
				reset := k > 0 && !extends(before, path)
				if k > 0 && !reset {
					list = list[len(c.prompt(row-1)):]
				}
				if reset {
					resets++
				}
				before = path
				put("T", strconv.Itoa(k), map[bool]string{true: "1", false: "0"}[reset])
				for _, m := range list {
					messages++
					tokens += len(m.Tokens)
					put("M", m.Role, strings.Trim(strings.ReplaceAll(fmt.Sprint(m.Tokens), " ", ","), "[]"))
				}
			}
		}
		assert.Equal(t, [4]int{want.Resets, want.Messages, want.Emitted, want.Bytes}, [4]int{resets, messages, tokens, size})
		assert.Equal(t, want.SHA256, hex.EncodeToString(sum.Sum(nil)))
		assert.Equal(t, [2]uint32{want.Legacy, want.Total}, [2]uint32{hits, total})

		rules := in.rules()
		rules.CacheMetric = "causal"
		c, err = in.convert(rules)
		require.NoError(t, err)
		hits = 0
		for _, u := range c.Turns {
			hits += u.CacheHits
		}
		assert.Equal(t, want.Causal, hits)
	})
}

// Covers D19, D20, D21.
func TestRefusedPlans(t *testing.T) {
	type want struct {
		OK            bool
		Fault         string
		Conversations []string
		Delays        [][]*float64
	}
	type in struct {
		wholeTrace
		Options struct {
			ThinkTimeOnly bool   `json:"use_think_time_only"`
			StartOffset   *int64 `json:"start_offset"`
		}
	}
	fixtures.EachWeka(t, "refusals", func(t *testing.T, in in, want want) {
		in.ThinkTimeOnly = in.Options.ThinkTimeOnly
		rules := in.rules()
		rules.StartOffset = in.Options.StartOffset
		c, err := in.convert(rules)
		if !want.OK {
			require.Error(t, err)
			var e *trace.Error
			if want.Fault == "negative_delay" {
				assert.ErrorContains(t, err, "negative delay")
				return
			}
			require.ErrorAs(t, err, &e)
			assert.Equal(t, strings.ReplaceAll(want.Fault, "_", "-"), strings.ReplaceAll(string(e.Kind), "_", "-"))
			return
		}
		require.NoError(t, err)
		require.Len(t, c.Sessions, len(want.Conversations))
		for n, s := range c.Sessions {
			assert.Equal(t, want.Conversations[n], s.ID)
			for k := range s.Turns {
				assert.Equal(t, want.Delays[n][k], orNil(c.times.Turns[s.FirstTurn+k].Delay))
			}
		}
	})
}
