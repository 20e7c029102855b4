package mmapcache

import (
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

// Digest is one trace in the form in which programs compare what they make of it: the SHA-256 of texts that write out
// sessions, messages, times and cache counts.
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

// lines is a text being hashed: lines of fields separated by tabs.
type lines struct{ hash.Hash }

func (l lines) put(fields ...string) {
	_, _ = l.Write([]byte(strings.Join(fields, "\t") + "\n")) // a hash never fails
}

func (l lines) sum() string { return hex.EncodeToString(l.Sum(nil)) }

// Digest returns the digests of trace i. model is written as the model of every turn, "-" keeps the recorded names.
func (c *Cache) Digest(i int, model string) (d Digest, err error) {
	err = c.Guard(func() error {
		t, err := c.render(i, Text)
		if err != nil {
			return err
		}
		d, err = t.digest(model)
		return err
	})
	return d, err
}

func (t *RenderedTrace) digest(model string) (d Digest, err error) {
	d = Digest{ID: t.Trace.ID, Conversations: len(t.Sessions), Turns: len(t.Turns)}
	structure, timing, cache, messages := lines{sha256.New()}, lines{sha256.New()}, lines{sha256.New()}, lines{sha256.New()}
	rules := t.cache.Facts.Rules
	times, err := t.Times(rules, View{})
	if err != nil {
		return d, err
	}
	branches := times.Branches
	var prompt Prompt
	sums := messageSums{known: make([][]string, len(t.Segments))}
	for n, s := range t.Sessions {
		parent, depth, root := "-", "1", "0"
		if s.Parent == None {
			depth, root = "0", "1"
		} else {
			parent = t.Sessions[s.Parent].ID
		}
		structure.put("C", s.ID, parent, root, depth, t.ReplayScope(n, rules.ParsedScope), strconv.Itoa(int(s.Turns)))
		for _, l := range []lines{timing, cache, messages} {
			l.put("C", s.ID)
		}
		if n == 0 {
			for _, b := range branches {
				structure.put("B", b.ID, "spawn", flag(b.Join == None), t.sessionIDs(b.Sessions))
				timing.put("B", b.ID, timeText(b.Start))
			}
		}
		for k := range s.Turns {
			row := s.FirstTurn + k
			u := t.Turns[row]
			turn := strconv.Itoa(int(k))
			name := u.Model
			if model != "-" {
				name = model
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
				spawns = branchIDs(branches, func(b Branch) bool { return b.Spawn == int32(k) })
				joins = branchIDs(branches, func(b Branch) bool { return b.Join == int32(k) })
			}
			structure.put("T", turn, s.Kind.String(), strconv.Itoa(int(u.Outer)), inner, name, strconv.Itoa(rules.MaxTokens(s.Kind, u)), kind, spawns, joins, t.turnIDs(times.After[row]))
			played := times.Turns[row]
			timing.put("T", turn, timeText(played.Start), timeText(played.Delay), timeText(played.API))
			cache.put("T", turn, strconv.Itoa(int(u.CacheHits)), strconv.Itoa(int(u.HashIDs)))
			d.HitBlocks += int(u.CacheHits)
			d.TotalBlocks += int(u.HashIDs)

			t.Prompt(int(row), &prompt)
			messages.put("W", turn, strconv.Itoa(len(prompt.Messages)))
			d.WireMessages += len(prompt.Messages)
			for m := range prompt.Messages {
				fields, err := sums.of(&prompt, m)
				if err != nil {
					return d, err
				}
				messages.put(fields...)
			}
		}
	}
	d.Structure, d.Timing, d.Cache, d.Messages = structure.sum(), timing.sum(), cache.sum(), messages.sum()
	return d, nil
}

// messageSums are the fields of messages by their last segment, which decides a message: most are sent by many turns.
type messageSums struct {
	known [][]string
	text  []byte
}

func (s *messageSums) of(p *Prompt, k int) ([]string, error) {
	m := p.Messages[k]
	last := p.path[m.path[1]-1]
	if fields := s.known[last]; fields != nil && m.ToolTurn == None {
		return fields, nil
	}
	s.text = p.AppendContent(s.text[:0], k)
	content, ok := appendUnescaped(s.text[:0], s.text) // never longer, so it can be done in place
	if !ok {
		return nil, fmt.Errorf("%s: %w: message %d of trace %q ends inside an escape", filepath.Join(p.trace.cache.partPath(ArenasKind), "text.json"), manifest.ErrDamaged, k, p.trace.Trace.ID)
	}
	sum := sha256.Sum256(content)
	fields := []string{"M", m.Role.String(), strconv.Itoa(len(content)), hex.EncodeToString(sum[:])}
	switch {
	case m.ToolTurn == None: // else the call belongs to the turn, not to the message
		s.known[last] = fields
	case m.Role == Assistant:
		fields = append(fields, "call:"+CallID(m.ToolTurn))
	default:
		fields[1] = "tool"
		fields = append(fields, "answers:"+CallID(m.ToolTurn))
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

// turnIDs writes a list of turns as session#turn, sorted, "-" for none.
func (t *RenderedTrace) turnIDs(list []timeline.TurnRef) string {
	if len(list) == 0 {
		return "-"
	}
	ids := make([]string, len(list))
	for k, c := range list {
		ids[k] = fmt.Sprintf("%s#%d", t.Sessions[c.Stream].ID, c.Turn)
	}
	return strings.Join(ids, ",")
}

// branchIDs writes the branches that is selects, "-" for none.
func branchIDs(list []Branch, is func(Branch) bool) string {
	var ids []string
	for _, b := range list {
		if is(b) {
			ids = append(ids, b.ID)
		}
	}
	if len(ids) == 0 {
		return "-"
	}
	return strings.Join(ids, ",")
}
