package mmapcache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/timeline"
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
		t, err := c.tree(i, Text)
		if err != nil {
			return err
		}
		d = t.digest(model)
		return nil
	})
	return d, err
}

func (t *Tree) digest(model string) Digest {
	d := Digest{ID: t.Trace.ID, Conversations: len(t.Sessions), Turns: len(t.Turns)}
	structure, timing, cache, messages := lines{sha256.New()}, lines{sha256.New()}, lines{sha256.New()}, lines{sha256.New()}
	branches := t.Branches()
	var prompt Prompt
	var content []byte
	for n, s := range t.Sessions {
		parent, depth, root := "-", "1", "0"
		if s.Parent == None {
			depth, root = "0", "1"
		} else {
			parent = t.Sessions[s.Parent].ID
		}
		structure.put("C", s.ID, parent, root, depth, t.replayScope(s), strconv.Itoa(int(s.Turns)))
		for _, l := range []lines{timing, cache, messages} {
			l.put("C", s.ID)
		}
		if n == 0 {
			for _, b := range branches {
				structure.put("B", b.ID, "spawn", flag(b.Join == None), strings.Join(b.children(t), ","))
				timing.put("B", b.ID, timeText(b.Start))
			}
		}
		shift := t.shift(branches, n)
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
			structure.put("T", turn, s.Kind.String(), strconv.Itoa(int(u.Outer)), inner, name, strconv.Itoa(u.MaxTokens()), kind, spawns, joins, "-")
			delay := math.NaN()
			if k > 0 {
				before := t.Turns[row-1]
				delay = timeline.Delay(before.T, before.APITime, u.T)
			}
			api := math.NaN()
			if !math.IsNaN(u.APITime) {
				api = timeline.Duration(u.APITime)
			}
			timing.put("T", turn, timeText(u.T*1000+shift), timeText(delay), timeText(api))
			cache.put("T", turn, strconv.Itoa(int(u.Hits)), strconv.Itoa(int(u.IDs)))
			d.HitBlocks += int(u.Hits)
			d.TotalBlocks += int(u.IDs)

			t.Prompt(int(row), &prompt)
			messages.put("W", turn, strconv.Itoa(len(prompt.Messages)))
			d.WireMessages += len(prompt.Messages)
			for m := range prompt.Messages {
				content = prompt.Content(content[:0], m)
				sum := sha256.Sum256(content)
				messages.put("M", prompt.Messages[m].Role.String(), strconv.Itoa(len(content)), hex.EncodeToString(sum[:]))
			}
		}
	}
	d.Structure, d.Timing, d.Cache, d.Messages = structure.sum(), timing.sum(), cache.sum(), messages.sum()
	return d
}

// Content appends the content of message k as plain UTF-8, unescaped. The tree's form is Text.
func (p *Prompt) Content(dst []byte, k int) []byte {
	quoted := append(p.Append([]byte{'"'}, k), '"')
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic(fmt.Sprintf("rendering of turn is no JSON string: %v", err)) // appendEscaped and appendValid see to it
	}
	return append(dst, s...)
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

// replayScope names the streams among which recorded order is kept: a root with its side chains, or one subagent.
func (t *Tree) replayScope(s Session) string {
	if s.Kind == Subagent {
		return t.Trace.ID + "::sa:" + s.Agent
	}
	return t.Trace.ID
}

// Branch is a group of sessions that the same turn spawns and the same turn joins.
type Branch struct {
	ID       string
	Spawn    int32 // turn of the root
	Join     int32 // turn of the root, None for a background branch
	Sessions []int
	Start    float64 // milliseconds on the root clock, never negative
	Shift    float64 // milliseconds added to all times of its sessions: a branch recorded before time 0 is moved to 0
}

// Branches groups the sessions of a plan: section 5.7 of the specification.
func (p *Plan) Branches() []Branch {
	var list []Branch
	for n, s := range p.Sessions {
		if s.Parent == None {
			continue
		}
		at := -1
		for k := range list {
			if list[k].Spawn == s.SpawnTurn && list[k].Join == s.JoinTurn {
				at = k
			}
		}
		if at < 0 {
			at = len(list)
			list = append(list, Branch{ID: p.Trace.ID + ":spawn:" + s.Agent, Spawn: s.SpawnTurn, Join: s.JoinTurn, Start: math.Inf(1)})
		}
		list[at].Sessions = append(list[at].Sessions, n)
		list[at].Start = min(list[at].Start, s.Start*1000)
	}
	for k := range list {
		if b := &list[k]; b.Start < 0 {
			b.Start, b.Shift = 0, -b.Start
		}
	}
	return list
}

func (b Branch) children(t *Tree) (ids []string) {
	for _, n := range b.Sessions {
		ids = append(ids, t.Sessions[n].ID)
	}
	return ids
}

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

// shift returns what is added to the times of a session, milliseconds.
func (t *Tree) shift(branches []Branch, session int) float64 {
	for _, b := range branches {
		for _, n := range b.Sessions {
			if n == session {
				return b.Shift
			}
		}
	}
	return 0
}
