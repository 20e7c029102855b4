package text

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Answer says what would be built from an input, without its text.
type Answer struct {
	Format    string          `json:"format"`
	Sessions  int             `json:"sessions"`
	Subagents int             `json:"subagents"`
	Branches  int             `json:"branches"`
	Turns     int             `json:"turns"`
	Warnings  map[string]int  `json:"warnings"`
	List      []AnswerSession `json:"list"`

	turn func(session int, t AnswerTurn)
}

// NewAnswer returns an answer of nothing. turn gets the turns of each session of List, by its index and in order; nil: the sessions keep them.
func NewAnswer(turn func(session int, t AnswerTurn)) *Answer {
	return &Answer{Warnings: map[string]int{}, List: []AnswerSession{}, turn: turn}
}

// Add adds a turn to the last session.
func (a *Answer) Add(t AnswerTurn) {
	last := len(a.List) - 1
	if a.turn != nil {
		a.turn(last, t)
	} else {
		a.List[last].Turns = append(a.List[last].Turns, t)
	}
}

// AnswerSession is a session of an Answer.
type AnswerSession struct {
	ID     string       `json:"id"`
	Kind   string       `json:"kind"`
	Parent string       `json:"parent,omitempty"`
	Spawn  *int32       `json:"spawn_turn,omitempty"`
	Join   *int32       `json:"join_turn,omitempty"`
	Start  *int64       `json:"start_ms,omitempty"` // recorded, since the first of the input; of loads
	Turns  []AnswerTurn `json:"turns"`
}

// AnswerTurn is a turn of an Answer. Instants are milliseconds since the first of the root session.
type AnswerTurn struct {
	N         int     `json:"n"`
	T         *int64  `json:"t,omitempty"`
	End       *int64  `json:"end,omitempty"`
	First     *int64  `json:"first,omitempty"`
	Gap       *int64  `json:"gap,omitempty"`
	Tool      *int64  `json:"tool,omitempty"`
	Think     *int64  `json:"think,omitempty"`
	Model     string  `json:"model,omitempty"`
	In        *int32  `json:"in,omitempty"`
	Cached    *int32  `json:"cached,omitempty"`
	Out       *int32  `json:"out,omitempty"`
	Stop      string  `json:"stop,omitempty"`
	Filler    *int32  `json:"filler,omitempty"`
	Drift     *int32  `json:"drift,omitempty"`
	Roles     string  `json:"roles,omitempty"`
	Kinds     string  `json:"kinds,omitempty"`
	Canonical *int    `json:"canonical,omitempty"`
	Blocks    *int    `json:"blocks,omitempty"`
	Texts     *int    `json:"text_tokens,omitempty"`
	SHA       string  `json:"sha,omitempty"`
	Output    string  `json:"output,omitempty"`
	HashIDs   []int64 `json:"hash_ids,omitempty"` // of loads
}

// Answer returns what AddTo adds.
func (s *Sizes) Answer(blockSize int, ids bool) (*Answer, error) {
	a := NewAnswer(nil)
	return a, s.AddTo(a, blockSize, ids)
}

// AddTo adds to an answer what would be built, with blocks of a size in tokens; of size 0 without the turns, each of which costs its whole
// prompt. ids names sessions as the input does, otherwise they are s1, s1/a1.
func (s *Sizes) AddTo(a *Answer, blockSize int, ids bool) error {
	d := s.data
	a.Format, a.Warnings = strings.Join(d.Formats, ", "), d.Warnings
	first := int64(NoTime)
	for _, t := range d.Traces {
		if t.Scheduled && (first == NoTime || t.Start < first) {
			first = t.Start
		}
	}
	for n, t := range d.Traces {
		names := make([]string, len(t.Sessions))
		for k := range t.Sessions {
			session := &t.Sessions[k]
			switch {
			case ids && k > 0 && session.Kind == Subagent && !t.OwnIDs:
				names[k] = t.Sessions[0].ID + "/" + session.ID
			case ids:
				names[k] = session.ID
			case k == 0:
				names[k] = fmt.Sprintf("s%d", n+1)
			default:
				names[k] = fmt.Sprintf("s%d/a%d", n+1, k)
			}
			of := AnswerSession{ID: names[k], Kind: session.Kind.String(), Spawn: known(session.SpawnTurn), Join: known(session.JoinTurn), Turns: []AnswerTurn{}}
			switch session.Kind {
			case Main:
				if t.Scheduled {
					of.Start = new(t.Start - first)
				}
				a.Sessions++
			case Subagent:
				a.Subagents++
			case Branch:
				a.Branches++
			}
			if session.Parent != None {
				of.Parent = names[session.Parent]
			}
			a.Turns += len(session.Turns)
			a.List = append(a.List, of)
			for i := 0; i < len(session.Turns) && blockSize > 0; i++ {
				a.Add(s.answerTurn(t, k, i, blockSize))
			}
		}
	}
	return s.err
}

// known returns a pointer to a number, nil for one that is not there.
func known[N int32 | int64](n N) *N {
	if n == None {
		return nil
	}
	return &n
}

func (s *Sizes) answerTurn(t *Trace, session, n, blockSize int) AnswerTurn {
	turn := &t.Sessions[session].Turns[n]
	a := AnswerTurn{N: n, Gap: known(turn.Gap), Tool: known(turn.ToolTime), Think: known(turn.ThinkTime), Model: s.data.Store.String(turn.Model),
		In: known(turn.In), Cached: known(turn.Cached), Out: known(turn.Out), Stop: turn.Stop}
	for _, at := range [...]struct {
		instant int64
		to      **int64
	}{{turn.At, &a.T}, {turn.End, &a.End}, {turn.First, &a.First}} {
		if at.instant != NoTime {
			since := at.instant - t.Start
			*at.to = &since
		}
	}
	if turn.NoContent {
		return a
	}
	messages := slices.Clone(t.Sessions[session].Front)
	for _, node := range t.Path(nil, turn.Last) {
		messages = append(messages, t.Nodes[node].Message)
	}
	canonical, texts := s.Prompt(t, session, n), s.Texts(messages)
	blocks := canonical / blockSize
	a.Canonical, a.Blocks, a.Texts = &canonical, &blocks, &texts
	of := &t.Sessions[session]
	a.Filler = known(of.Filler)
	if of.Lacks != None && turn.In != None {
		drift := turn.In - of.Lacks - int32(canonical)
		a.Drift = &drift
	}
	a.Roles, a.Kinds = s.data.shape(messages)
	_, a.Output = s.data.shape(turn.Output)
	a.SHA = s.data.digest(t.Sessions[session].Tools, messages)
	return a
}

// shape returns a letter a message, and the kinds of the parts of each.
func (d *Dataset) shape(messages []int32) (roles, kinds string) {
	var r, k strings.Builder
	for i, m := range messages {
		message := &d.Messages[m]
		if i > 0 {
			k.WriteByte(' ')
		}
		if r.WriteByte("sduat?"[message.Role]); len(message.Parts) > 0 {
			for j := range message.Parts {
				if j > 0 {
					k.WriteByte('+')
				}
				k.WriteString(message.Parts[j].Kind.String())
			}
		}
	}
	return r.String(), k.String()
}

// digest returns 16 hexadecimal digits that stand for the tools and the messages of a prompt.
func (d *Dataset) digest(tools []Text, messages []int32) string {
	list := []any{}
	for _, t := range tools {
		list = append(list, d.Store.String(t))
	}
	prompt := []any{}
	for _, m := range messages {
		message := &d.Messages[m]
		role := message.Role.String()
		if message.Role == OtherRole {
			role = d.Store.String(message.Name)
		}
		prompt = append(prompt, []any{role, d.plainParts(message.Parts)})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode([]any{list, prompt}) // lists of strings and JSON
	sum := sha256.Sum256(bytes.ReplaceAll(bytes.ReplaceAll(bytes.TrimSuffix(b.Bytes(), []byte("\n")), []byte(`\u2028`), []byte("\u2028")), []byte(`\u2029`), []byte("\u2029")))
	return hex.EncodeToString(sum[:8])
}

func (d *Dataset) plainParts(parts []Part) any {
	list := []any{}
	for k := range parts {
		p := &parts[k]
		kind, t := p.Kind.String(), d.Store.String(p.Text)
		switch p.Kind {
		case Call:
			list = append(list, []any{kind, d.id(p.ID), d.Store.String(p.Name), t})
		case Result:
			list = append(list, []any{kind, d.id(p.ID), d.plainParts(p.Parts), p.Failed})
		case Image, Document, Audio:
			list = append(list, []any{kind, p.Tokens})
		default:
			list = append(list, []any{kind, t})
		}
	}
	return list
}

// id returns an id that links a call and its result, nil where there is none.
func (d *Dataset) id(t Text) any {
	if t == 0 {
		return nil
	}
	return d.Store.String(t)
}
