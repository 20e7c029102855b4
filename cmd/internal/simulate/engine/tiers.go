package engine

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/jsonobject"
)

// Tier is a cache below the pool of a worker: doc/spec/simulate.md 5.9.
type Tier struct {
	Name   string  `json:"name"`
	Size   string  `json:"size"`             // as ParseSize reads it
	GBPerS float64 `json:"gb_s,omitempty"`   // 10^9 bytes, of loads; 0: they take no time
	Policy string  `json:"policy,omitempty"` // lru or fifo; "": lru
}

// UnmarshalJSON refuses keys that do not exist. It does not validate the values.
func (t *Tier) UnmarshalJSON(data []byte) error {
	type tier Tier
	return jsonobject.Read("kv_tiers", data, (*tier)(t), nil)
}

// The policies of tiers: what is found moves up, or stays in its place.
const (
	tierLRU  = "lru"
	tierFIFO = "fifo"
)

// maxTiers bounds the tiers of a worker.
const maxTiers = 8

// ParseSize reads the size of a cache as blocks, rounded down: "16384" blocks, "1e6tok" tokens, "80GiB" or "8TiB" of memory, for which
// what a token costs must be known, in bytes.
func ParseSize(text string, blockSize int, tokenBytes float64) (int64, error) {
	number, unit := text, float64(1)
	for suffix, bytes := range map[string]float64{"GiB": 1 << 30, "TiB": 1 << 40} {
		if strings.HasSuffix(text, suffix) {
			if tokenBytes == 0 {
				return 0, fmt.Errorf("%s: the bytes per token are unknown: add --model-config, --kv-bytes-per-token, or kv_bytes_per_token of the engine", text)
			}
			number, unit = strings.TrimSuffix(text, suffix), bytes/(float64(blockSize)*tokenBytes)
		}
	}
	if strings.HasSuffix(text, "tok") {
		number, unit = strings.TrimSuffix(text, "tok"), 1/float64(blockSize)
	}
	v, err := strconv.ParseFloat(number, 64)
	if size := math.Floor(v * unit); err == nil && size >= 0 && size < 1<<52 {
		return int64(size), nil
	}
	return 0, fmt.Errorf("%s: want a number of blocks, such as 16384, of tokens, such as 1e6tok, or 80GiB", text)
}

// checkTiers tells what is wrong with the tiers.
func (c *Config) checkTiers(k *jsonobject.Check) {
	if c.Type != VLLM && len(c.Tiers) > 0 {
		k.Wrong("kv_tiers: engine_type %s has none: want %s", c.Type, VLLM)
	}
	if len(c.Tiers) > maxTiers {
		k.Wrong("kv_tiers: %d: want at most %d", len(c.Tiers), maxTiers)
	}
	for n, t := range c.Tiers {
		name := "kv_tiers: " + t.Name
		switch {
		case t.Name == "" || t.Name == PoolTier || strings.ContainsFunc(t.Name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }):
			k.Wrong("kv_tiers: tier %d is named %q: want a name such as host", n+1, t.Name)
		case slices.ContainsFunc(c.Tiers[:n], func(other Tier) bool { return other.Name == t.Name }):
			k.Wrong("%s is given twice", name)
		}
		if _, err := ParseSize(t.Size, max(c.BlockSize, 1), c.KVBytesPerToken); err != nil {
			k.Wrong("%s: size %w", name, err)
		}
		if t.Policy != "" {
			k.Word(name+": policy", t.Policy, tierLRU, tierFIFO)
		}
		k.Number(name+": gb_s", t.GBPerS, t.GBPerS >= 0 && t.GBPerS <= 1e15, "a number from 0 to 1e+15")
		if t.GBPerS > 0 && c.KVBytesPerToken == 0 {
			k.Wrong("%s: gb_s %g without kv_bytes_per_token: say what a token costs", name, t.GBPerS)
		}
		if perToken := moves(1, c.KVBytesPerToken, t.GBPerS); perToken > maxHandOff {
			k.Wrong("%s: kv_bytes_per_token %g at gb_s %g: a token moves in %.3g s, want at most %g s", name, c.KVBytesPerToken, t.GBPerS, float64(perToken)/1e9, maxHandOff/1e9)
		}
	}
}

// FitsTiers returns an error where the engine has tiers, and a switch decides otherwise than they need.
func (c *Config) FitsTiers(s preset.Switches) error {
	usual, _ := preset.Named(preset.Default)
	for _, name := range []string{"admission", "alloc", "block_visible", "duplicates", "sampled_block", "full_hit"} {
		if value := s.Get(name); len(c.Tiers) > 0 && value != usual.Get(name) {
			return fmt.Errorf("engine: kv_tiers beside %s %s: tiers need %s", strings.ReplaceAll(name, "_", "-"), value, usual.Get(name))
		}
	}
	return nil
}

// PoolTier names the pool among the tiers.
const PoolTier = "gpu"

// TierCounts are totals of a tier.
type TierCounts struct {
	Name   string `json:"name"`
	Blocks int64  `json:"blocks"`
	Hits   int64  `json:"hit_tokens"`    // prompt tokens found at first admissions
	Loaded int64  `json:"loaded_tokens"` // at any admission
	Busy   int64  `json:"busy_ns"`       // of its link
}

// below is the tiers below the pool of a worker.
type below struct {
	counts []TierCounts
	list   []tier
	config []Tier
	free   []int64 // when their links are
	found  []int   // blocks that a request would load

	bytes float64 // of a token
	size  int     // of a block
}

// tier holds blocks by chain number.
type tier interface {
	// leading returns how many of the numbers from one on are there without a gap, at most so many.
	leading(chain, most uint32) uint32
	// remove removes those of a range that are there.
	remove(r Run)
	// put brings in those of a range, the last first, as the youngest. It drops the oldest, in runs, while there are too many.
	put(r Run, dropped func(Run))
}

// newBelow returns the tiers of a valid configuration; nil without any that holds a block.
func newBelow(c *Config, plain bool) *below {
	b := &below{bytes: c.KVBytesPerToken, size: c.BlockSize}
	for _, t := range c.Tiers {
		blocks, _ := ParseSize(t.Size, c.BlockSize, c.KVBytesPerToken)
		if blocks == 0 {
			continue
		}
		var one tier = newSpans(blocks, t.Policy == tierFIFO)
		if plain {
			one = &plainTier{blocks: blocks, keeps: t.Policy == tierFIFO}
		}
		b.list, b.config = append(b.list, one), append(b.config, t)
		b.counts = append(b.counts, TierCounts{Name: t.Name, Blocks: blocks})
	}
	if len(b.list) == 0 {
		return nil
	}
	b.free, b.found = make([]int64, len(b.list)), make([]int, len(b.list))
	return b
}

// remove removes blocks that have become visible in the pool.
func (b *below) remove(r Run) {
	for _, t := range b.list {
		t.remove(r)
	}
}

// put brings blocks that tier k-1 has dropped, or the pool, into tier k.
func (b *below) put(k int, r Run) {
	if k < len(b.list) {
		b.list[k].put(r, func(dropped Run) { b.put(k+1, dropped) })
	}
}

// find finds the blocks of a chain from one on, at most so many, each in the highest tier that has it, and returns how many there are.
func (b *below) find(chain []Run, from, most int) (n int) {
	clear(b.found)
	for _, run := range chain {
		skip := min(from, int(run.Count))
		from -= skip
		for c, left := run.First+uint32(skip), min(int(run.Count)-skip, most-n); left > 0; {
			got := 0
			for k, t := range b.list {
				if got = int(t.leading(c, uint32(left))); got > 0 {
					b.found[k] += got
					break
				}
			}
			if got == 0 {
				return n
			}
			c, left, n = c+uint32(got), left-got, n+got
		}
	}
	return n
}

// load begins to load what find has found, and returns when the last of it has come. Each tier has a link, on which one load follows another.
func (b *below) load(now int64, first bool) (end int64) {
	end = now
	for k, blocks := range b.found {
		if blocks == 0 {
			continue
		}
		tokens := int64(blocks * b.size)
		way := moves(int(tokens), b.bytes, b.config[k].GBPerS)
		b.free[k] = max(b.free[k], now) + way
		end = max(end, b.free[k])
		b.counts[k].Loaded += tokens
		b.counts[k].Busy += way
		if first {
			b.counts[k].Hits += tokens
		}
	}
	return end
}

// spans is a tier in runs of blocks that came one after another, the last block first: so they are dropped.
type spans struct {
	blocks, held   int64
	keeps          bool // what is found stays in its place, and keeps it
	list           []span
	spare          []int32 // places in list
	oldest, newest int32
	index          index  // by first number
	longest        uint32 // that any span was
}

// span is blocks with consecutive chain numbers.
type span struct {
	Run
	prev, next int32 // neighbours by age
}

func newSpans(blocks int64, keeps bool) *spans {
	return &spans{blocks: blocks, keeps: keeps, oldest: none, newest: none}
}

// before returns the last span that begins at a number or before it, if it can reach the first one.
func (s *spans) before(first, chain uint32) int32 {
	if at, ok := s.index.before(first-min(first, s.longest), chain); ok {
		return s.index.find(at)
	}
	return none
}

// holding returns the span that holds a number, or none.
func (s *spans) holding(chain uint32) int32 {
	at := s.before(chain, chain)
	if at == none || s.list[at].First+s.list[at].Count <= chain {
		return none
	}
	return at
}

func (s *spans) leading(chain, most uint32) (n uint32) {
	for at := s.holding(chain); at != none && n < most; at = s.index.find(chain + n) {
		n = s.list[at].First + s.list[at].Count - chain
	}
	return min(n, most)
}

func (s *spans) remove(r Run) {
	if s.keeps || s.held == 0 {
		return
	}
	end := r.First + r.Count
	if at := s.holding(r.First); at != none && s.list[at].First < r.First {
		s.cut(at, r.First-s.list[at].First)
	}
	for c := s.index.next(r.First, end); c < end; c = s.index.next(c, end) {
		at := s.index.find(c)
		if s.list[at].Count > end-c {
			s.cut(at, end-c)
		}
		s.drop(at)
	}
}

// cut splits a span behind its first blocks. The second part came before the first.
func (s *spans) cut(at int32, count uint32) {
	one := s.list[at]
	s.link(span{Run{one.First + count, one.Count - count}, one.prev, at})
	s.list[at].Count = count
}

// link puts a span between its neighbours, and returns its place.
func (s *spans) link(one span) (at int32) {
	if n := len(s.spare); n > 0 {
		at, s.spare = s.spare[n-1], s.spare[:n-1]
		s.list[at] = one
	} else {
		at = int32(len(s.list))
		s.list = append(s.list, one)
	}
	*s.nextOf(one.prev), *s.prevOf(one.next) = at, at
	s.index.put(one.First, at)
	return at
}

// nextOf and prevOf return where the neighbour of a span is noted; of none, the end of the list.
func (s *spans) nextOf(at int32) *int32 {
	if at == none {
		return &s.oldest
	}
	return &s.list[at].next
}

func (s *spans) prevOf(at int32) *int32 {
	if at == none {
		return &s.newest
	}
	return &s.list[at].prev
}

// drop removes a span.
func (s *spans) drop(at int32) {
	one := &s.list[at]
	*s.nextOf(one.prev), *s.prevOf(one.next) = one.next, one.prev
	s.index.remove(one.First)
	s.held -= int64(one.Count)
	s.spare = append(s.spare, at)
}

func (s *spans) put(r Run, dropped func(Run)) {
	s.remove(r)
	for end := r.First + r.Count; end > r.First; { // where what is there keeps its place, what is missing comes run by run
		first := r.First
		if at := s.before(r.First, end-1); at != none {
			reach := s.list[at].First + s.list[at].Count
			if reach >= end {
				end = max(s.list[at].First, r.First)
				continue
			}
			first = max(first, reach)
		}
		s.add(Run{first, end - first})
		s.trim(dropped)
		end = first
	}
}

// maxSpan is how long spans grow: how far before must look.
const maxSpan = 1 << 12

// add adds blocks as the youngest.
func (s *spans) add(r Run) {
	s.held += int64(r.Count)
	if s.newest != none && s.list[s.newest].First == r.First+r.Count && s.list[s.newest].Count+r.Count <= maxSpan {
		one := &s.list[s.newest]
		s.index.remove(one.First)
		one.First, one.Count = r.First, one.Count+r.Count
		s.index.put(one.First, s.newest)
	} else {
		s.link(span{r, s.newest, none})
	}
	s.longest = max(s.longest, s.list[s.newest].Count)
}

// trim drops the oldest blocks while there are too many.
func (s *spans) trim(dropped func(Run)) {
	for s.held > s.blocks {
		one := &s.list[s.oldest]
		n := uint32(min(int64(one.Count), s.held-s.blocks))
		gone := Run{one.First + one.Count - n, n}
		if n == one.Count {
			s.drop(s.oldest)
		} else {
			one.Count -= n
			s.held -= int64(n)
		}
		dropped(gone)
	}
}

// plainTier is a tier block by block: the oracle of spans.
type plainTier struct {
	blocks int64
	keeps  bool
	list   []uint32 // the oldest first
}

func (p *plainTier) leading(chain, most uint32) (n uint32) {
	for n < most && slices.Contains(p.list, chain+n) {
		n++
	}
	return n
}

func (p *plainTier) remove(r Run) {
	if !p.keeps {
		p.list = slices.DeleteFunc(p.list, func(c uint32) bool { return c >= r.First && c < r.First+r.Count })
	}
}

func (p *plainTier) put(r Run, dropped func(Run)) {
	p.remove(r)
	for c := r.First + r.Count; c > r.First; c-- {
		if slices.Contains(p.list, c-1) {
			continue
		}
		if p.list = append(p.list, c-1); len(p.list) > int(p.blocks) {
			oldest := p.list[0]
			p.list = p.list[1:]
			dropped(Run{oldest, 1})
		}
	}
}
