package html

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/replay/measure"
)

// tree is a tree of the run with a request on the page.
type tree struct {
	ordinal int
	lane    int
	pass    int
	trace   string // cut to maxName
	root    string // correlation id, which no two trees share
}

// treeOf returns the tree of a record. An error says that an earlier record has another tree of the same number.
func (b *Builder) treeOf(r *measure.Record) (*tree, error) {
	t := b.trees[r.Tree]
	if t == nil {
		t = &tree{ordinal: r.Tree, lane: r.Lane, pass: r.Pass, trace: cut(r.Trace), root: strings.Clone(r.RootID)}
		b.trees[r.Tree] = t
		return t, nil
	}
	if t.root != r.RootID || t.lane != r.Lane {
		return nil, fmt.Errorf("tree: %d: it is trace %q on lane %d, and in an earlier line trace %q on lane %d: %w", r.Tree, cut(r.Trace), r.Lane, t.trace, t.lane, errTwoRuns)
	}
	return t, nil
}

// session is a session with a request on the page.
type session struct {
	id     sessionName
	label  string // what follows the name of the trace, or with whole the name; cut to maxName
	whole  bool
	parent string // name; "": a root
	depth  int32
	number int32 // of numbers
	above  int32 // that of the parent; -1: a root
}

// sessionName identifies a session of the run.
type sessionName struct {
	tree int // ordinal
	name string
}

// sessionOf returns the position of the session of a record.
func (b *Builder) sessionOf(r *measure.Record) int32 {
	number := b.numbers.of(sessionName{r.Tree, r.Session})
	if k := b.numbers.position[number]; k >= 0 {
		return k
	}
	label, own := strings.CutPrefix(r.Session, r.Trace)
	return b.addSession(session{
		id: sessionName{r.Tree, strings.Clone(r.Session)}, label: cut(label), whole: !own, parent: strings.Clone(r.Parent), depth: clip(r.Depth),
	})
}

// addSession adds a session that is not there yet, and returns its position.
func (b *Builder) addSession(s session) int32 {
	k := int32(len(b.sessions))
	s.number, s.above = b.numbers.of(s.id), -1
	if s.parent != "" {
		s.above = b.numbers.of(sessionName{s.id.tree, s.parent})
	}
	b.numbers.position[s.number] = k
	b.sessions = append(b.sessions, s)
	return k
}

// numbers are those of sessions, and of their parents, which may have no request on the page yet.
type numbers struct {
	byName   map[sessionName]int32
	position []int32 // in Builder.sessions, by number; -1: it is not there
}

// of returns the number of a session, which it gets here if it has none.
func (n *numbers) of(s sessionName) int32 {
	k, ok := n.byName[s]
	if !ok {
		k = int32(len(n.position))
		s.name = strings.Clone(s.name)
		n.byName[s] = k
		n.position = append(n.position, -1)
	}
	return k
}

// maxName is how many characters of a name or a message the page has.
const maxName = 300

// cut returns at most maxName characters of a text, and says that there were more.
func cut(text string) string {
	if len(text) <= maxName {
		return strings.Clone(text)
	}
	runes := 0
	for k := range text {
		if runes++; runes > maxName {
			return text[:k] + "…"
		}
	}
	return strings.Clone(text)
}
