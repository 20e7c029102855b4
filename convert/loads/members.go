package loads

import (
	"errors"
	"slices"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// members says where a reader keeps the members of a JSON object. Their names are paths, such as request.model; those of other names, and
// those that are null, are skipped.
type members struct {
	objects []string // whose members are read, too
	inner   string   // an object whose members count as those of the row
	texts   map[string]*string
	times   map[string]*float64
	counts  map[string]*int64
	lists   map[string]func(l *jsonlex.Lexer) error // is called with nil where the list begins, and at each element
}

// read reads the members of a row. The error is a *trace.Error with the path of its member.
func (m *members) read(row []byte) error {
	l := jsonlex.New(row)
	err := l.Object(func(key []byte) error { return m.member(l, "", key) })
	if err == nil {
		err = l.End()
	}
	return asError(err)
}

// member reads one member of the object at a path, which ends in a dot unless it is empty.
func (m *members) member(l *jsonlex.Lexer, at string, key []byte) error {
	path := at + string(key)
	kind := l.Kind()
	if kind == jsonlex.Null {
		return l.Skip()
	}
	if path == m.inner && path != "" {
		return in(l.Object(func(key []byte) error { return m.member(l, "", key) }), path)
	}
	if slices.Contains(m.objects, path) {
		return in(l.Object(func(key []byte) error { return m.member(l, path+".", key) }), path)
	}
	if to := m.texts[path]; to != nil {
		text, err := l.Text()
		*to = text
		return in(err, path)
	}
	if to := m.times[path]; to != nil {
		v, err := floatOf(l)
		*to = v
		return in(err, path)
	}
	if to := m.counts[path]; to != nil {
		v, err := wholeOf(l)
		*to = v
		return in(err, path)
	}
	if take := m.lists[path]; take != nil {
		_ = take(nil)
		return in(l.Array(func() error { return take(l) }), path)
	}
	return l.Skip()
}

func floatOf(l *jsonlex.Lexer) (float64, error) {
	text, err := l.Number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		err = errors.New("a number beyond 10^308")
	}
	return v, err
}

func wholeOf(l *jsonlex.Lexer) (int64, error) {
	text, err := l.Number()
	if err != nil {
		return 0, err
	}
	return jsonlex.Whole(text)
}

// in says in which member an error is.
func in(err error, name string) error {
	switch err := err.(type) {
	case nil:
		return nil
	case *trace.Error:
		return err
	case *jsonlex.SyntaxError:
		return &trace.Error{Kind: trace.NotJSON, Where: name, Problem: err.Error()}
	}
	return &trace.Error{Kind: trace.WrongType, Where: name, Problem: err.Error()}
}

// asError returns an error of a row as a *trace.Error, nil for none.
func asError(err error) error {
	if _, ours := err.(*trace.Error); ours || err == nil {
		return err
	}
	return &trace.Error{Kind: trace.NotJSON, Problem: err.Error()}
}

// needed is a member that a row must have, and whether it does.
type needed struct {
	name string
	has  bool
}

// lacking returns an error about the first member that a row lacks, nil for none.
func lacking(members ...needed) error {
	for _, m := range members {
		if !m.has {
			return &trace.Error{Kind: trace.MissingField, Where: m.name, Problem: "it is missing"}
		}
	}
	return nil
}

// hasKeys reports whether a row is an object with all of some members.
func hasKeys(row []byte, names ...string) bool {
	l := jsonlex.New(row)
	found := map[string]bool{}
	err := l.Object(func(key []byte) error {
		found[string(key)] = true
		return l.Skip()
	})
	return err == nil && !slices.ContainsFunc(names, func(name string) bool { return !found[name] })
}
