package mmapcache

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/timeline"
)

// Digest is what programs compare to find out whether they reconstruct a trace alike: the SHA-256, in hex, of texts that
// write out its structure, messages, times and cache counts. doc/spec/digests.md defines the texts.
type Digest struct {
	ID            string `json:"id"`
	Conversations int    `json:"n_conversations"`
	Turns         int    `json:"n_turns"`
	Structure     string `json:"digest_structure"`
	Messages      string `json:"digest_messages"`
	Timing        string `json:"digest_timing"`
	Cache         string `json:"digest_cache"`
	HitBlocks     int    `json:"hit_blocks"`
	TotalBlocks   int    `json:"total_blocks"`
	WireMessages  int    `json:"n_wire_messages"`
}

// Digest returns the digests of trace i. model is written as the model of every turn; "-" keeps the recorded models.
func (c *Cache) Digest(i int, model string) (d Digest, err error) {
	err = c.Guard(func() error {
		t, err := c.render(i, c.TextEncoding())
		if err != nil {
			return err
		}
		d, err = t.digest(model)
		return err
	})
	return d, err
}

// digest writes the texts of the trace and returns their digests.
func (t *RenderedTrace) digest(model string) (Digest, error) {
	times, err := t.Times(t.cache.Facts.Rules, View{})
	if err != nil {
		return Digest{}, err
	}
	g := &digester{
		RenderedTrace: t, times: times, model: model,
		structure: newLines(), timing: newLines(), cache: newLines(), messages: newLines(),
		sums: messageSums{known: make([][]string, len(t.Segments))},
		d:    Digest{ID: t.Trace.ID, Conversations: len(t.Sessions), Turns: len(t.Turns)},
	}
	for n, s := range t.Sessions {
		g.session(n)
		for k := range int(s.Turns) {
			g.turn(n, k)
			if err := g.prompt(n, k); err != nil {
				return g.d, err
			}
		}
	}
	g.d.Structure, g.d.Timing, g.d.Cache, g.d.Messages = g.structure.sum(), g.timing.sum(), g.cache.sum(), g.messages.sum()
	return g.d, nil
}

// lines is a text that is hashed: lines of fields separated by tabs.
type lines struct{ hash.Hash }

func newLines() lines { return lines{sha256.New()} }

func (l lines) put(fields ...string) {
	_, _ = l.Write([]byte(strings.Join(fields, "\t") + "\n")) // a hash never fails
}

func (l lines) sum() string { return hex.EncodeToString(l.Sum(nil)) }

// digester writes the texts of one trace.
type digester struct {
	*RenderedTrace
	times *Times
	model string

	structure, timing, cache, messages lines

	filled Prompt
	sums   messageSums
	d      Digest
}

// session writes the lines of session n, and before its turns those of the branches that the root spawns.
func (g *digester) session(n int) {
	s := &g.Sessions[n]
	parent, depth, root := "-", "0", "1"
	if s.Parent != None {
		parent, depth, root = g.Sessions[s.Parent].ID, "1", "0"
	}
	g.structure.put("C", s.ID, parent, root, depth, g.ReplayScope(n, g.rules().ParsedScope), strconv.Itoa(int(s.Turns)))
	for _, l := range []lines{g.timing, g.cache, g.messages} {
		l.put("C", s.ID)
	}
	if n > 0 {
		return
	}
	for _, b := range g.times.Branches {
		g.structure.put("B", b.ID, "spawn", flag(b.Join == None), g.sessionIDs(b.Sessions))
		g.timing.put("B", b.ID, timeText(b.Start))
	}
}

func (g *digester) rules() TimeRules { return g.RenderedTrace.cache.Facts.Rules }

// turn writes structure, times and cache counts of turn k of session n.
func (g *digester) turn(n, k int) {
	s := &g.Sessions[n]
	row := int(s.FirstTurn) + k
	u := &g.Turns[row]
	model := u.Model
	if g.model != "-" {
		model = g.model
	}
	inner, kind := "-", "-"
	if u.Inner != None {
		inner = strconv.Itoa(int(u.Inner))
	}
	if u.Input != InputUnknown {
		kind = u.Input.String()
	}
	spawns, joins := "-", "-"
	if n == 0 {
		spawns = branchIDs(g.times.Branches, func(b Branch) bool { return b.Spawn == int32(k) })
		joins = branchIDs(g.times.Branches, func(b Branch) bool { return b.Join == int32(k) })
	}
	g.structure.put("T", strconv.Itoa(k), s.Kind.String(), strconv.Itoa(int(u.Outer)), inner, model,
		strconv.Itoa(g.rules().MaxTokens(s.Kind, *u)), kind, spawns, joins, g.turnIDs(g.times.After[row]))
	played := g.times.Turns[row]
	g.timing.put("T", strconv.Itoa(k), timeText(played.Start), timeText(played.Delay), timeText(played.API))
	g.cache.put("T", strconv.Itoa(k), strconv.Itoa(int(u.CacheHits)), strconv.Itoa(int(u.HashIDs)))
	g.d.HitBlocks += int(u.CacheHits)
	g.d.TotalBlocks += int(u.HashIDs)
}

// prompt writes the messages of turn k of session n.
func (g *digester) prompt(n, k int) error {
	g.Prompt(int(g.Sessions[n].FirstTurn)+k, &g.filled)
	g.messages.put("W", strconv.Itoa(k), strconv.Itoa(len(g.filled.Messages)))
	g.d.WireMessages += len(g.filled.Messages)
	for m := range g.filled.Messages {
		fields, err := g.sums.of(&g.filled, m)
		if err != nil {
			return err
		}
		g.messages.put(fields...)
	}
	return nil
}

// messageSums keeps the fields of messages by their last segment, which decides a message: most are sent by many turns.
type messageSums struct {
	known [][]string
	text  []byte
}

// of returns the fields of message k of a prompt: role, length and digest of its content, and its tool call.
func (s *messageSums) of(p *Prompt, k int) ([]string, error) {
	m := &p.Messages[k]
	last := p.path[m.path[1]-1]
	if fields := s.known[last]; fields != nil && m.ToolTurn == None {
		return fields, nil
	}
	s.text = p.AppendContent(s.text[:0], k)
	content, ok := s.text, true
	if !m.Recorded() {
		content, ok = appendUnescaped(s.text[:0], s.text) // in place: it never grows
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w: message %d of trace %q ends inside an escape", filepath.Join(p.trace.cache.arenasPath(), textFile), manifest.ErrDamaged, k, p.trace.Trace.ID)
	}
	sum := sha256.Sum256(content)
	fields := []string{"M", m.Role.String(), strconv.Itoa(len(content)), hex.EncodeToString(sum[:])}
	switch {
	case m.ToolTurn == None: // otherwise the call belongs to the turn, not to the message
		s.known[last] = fields
	case m.Role == Assistant:
		fields = append(fields, "call:"+m.CallID())
	default:
		fields[1] = "tool"
		fields = append(fields, "answers:"+m.CallID())
	}
	return fields, nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// timeText writes a time in milliseconds as its bits, "-" for none.
func timeText(ms float64) string {
	if math.IsNaN(ms) {
		return "-"
	}
	if ms == 0 {
		ms = 0 // -0
	}
	return fmt.Sprintf("%016x", math.Float64bits(ms))
}

// sessionIDs writes a list of sessions.
func (t *RenderedTrace) sessionIDs(list []int) string {
	ids := make([]string, len(list))
	for k, n := range list {
		ids[k] = t.Sessions[n].ID
	}
	return strings.Join(ids, ",")
}

// turnIDs writes a list of turns as session#turn, "-" for none.
func (t *RenderedTrace) turnIDs(list []timeline.TurnRef) string {
	ids := make([]string, len(list))
	for k, c := range list {
		ids[k] = fmt.Sprintf("%s#%d", t.Sessions[c.Stream].ID, c.Turn)
	}
	return cmp.Or(strings.Join(ids, ","), "-")
}

// branchIDs writes the branches that is selects, "-" for none.
func branchIDs(list []Branch, is func(Branch) bool) string {
	var ids []string
	for _, b := range list {
		if is(b) {
			ids = append(ids, b.ID)
		}
	}
	return cmp.Or(strings.Join(ids, ","), "-")
}
