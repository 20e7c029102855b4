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
}

// sessionName identifies a session of the run.
type sessionName struct {
	tree int // ordinal
	name string
}

// sessionOf returns the position of the session of a record.
func (b *Builder) sessionOf(r *measure.Record) int32 {
	key := sessionName{r.Tree, r.Session}
	k, ok := b.byName[key]
	if ok {
		return k
	}
	k = int32(len(b.sessions))
	key.name = strings.Clone(r.Session)
	b.byName[key] = k
	label, own := strings.CutPrefix(key.name, r.Trace)
	b.sessions = append(b.sessions, session{id: key, label: cut(label), whole: !own, parent: strings.Clone(r.Parent), depth: clip(r.Depth)})
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
