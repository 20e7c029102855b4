package parquet

import (
	"slices"
	"strings"

	"github.com/agentx/agentx/hfsource/column"
)

// projection says what to read from a file for one path.
type projection struct {
	path   string
	kind   column.Kind
	name   string  // of the type
	lists  []*node // on the path, outermost first
	leaves []*leaf // one where values are read; every leaf of a record where its presence is
	parent int     // definition level from which on the parent is present
	values bool    // the path ends with a list of values

	elementsOnly bool // the path ends with a list of records: which elements each list has is all that is read
	copyLists    bool // the lists are those of projection copyFrom
	copyFrom     int
}

// innermost returns the last list of the path.
func (w *projection) innermost() *node { return w.lists[len(w.lists)-1] }

// project resolves a path. The kind is Missing if the file lacks the path, and Other if it has another shape there.
func project(root *node, path string) projection {
	w := projection{path: path, kind: column.Missing}
	at := root
	segments := strings.Split(path, ".")
	for k, segment := range segments {
		name, list := strings.CutSuffix(segment, "[]")
		last := k == len(segments)-1
		i := slices.IndexFunc(at.fields, func(n *node) bool { return n.name == name })
		if i < 0 {
			return projection{path: path, kind: column.Missing}
		}
		at = at.fields[i]
		if list != (at.elem != nil) || !last && !list && at.leaf != nil {
			if !last {
				return projection{path: path, kind: column.Missing} // the path that ends here reports the shape
			}
			if at.leaf != nil && at.leaf.kind == column.JSON {
				break
			}
			return presence(at, w)
		}
		if list {
			w.lists = append(w.lists, at)
			w.values = last && at.elem.leaf != nil
			at = at.elem
		}
	}
	return w.of(at)
}

// of completes the projection of a path that ends at a node.
func (w projection) of(at *node) projection {
	switch {
	case at.leaf != nil:
		w.kind, w.name, w.leaves, w.parent = at.leaf.kind, at.leaf.typeName, []*leaf{at.leaf}, at.parent
	case len(w.lists) > 0 && w.innermost().elem == at: // a list of records
		w.kind, w.elementsOnly, w.leaves, w.name = column.None, true, leavesOf(at, nil), "a list of records"
		if at.elem != nil {
			w.kind, w.name = column.Other, "a list of lists"
		}
	default:
		w = presence(at, w)
		w.kind = column.None
	}
	if len(w.leaves) == 0 { // a record without fields
		return projection{path: w.path, kind: column.Missing}
	}
	return w
}

// presence makes a projection that reads only whether there is any value below a node.
func presence(at *node, w projection) projection {
	w.kind, w.leaves, w.parent = column.Other, leavesOf(at, nil), at.parent
	switch {
	case at.elem != nil:
		w.name = "a list"
	case at.leaf != nil:
		w.name = at.leaf.typeName
	default:
		w.name = "a record"
	}
	return w
}

func leavesOf(n *node, list []*leaf) []*leaf {
	switch {
	case n.leaf != nil:
		return append(list, n.leaf)
	case n.elem != nil:
		return leavesOf(n.elem, list)
	}
	for _, f := range n.fields {
		list = leavesOf(f, list)
	}
	return list
}

// unrequested projects, for their presence, the fields of records on the paths that no path names.
func unrequested(root *node, paths []string) []projection {
	u := unrequestedFields{named: map[string]bool{}, entered: map[string]bool{"": true}}
	for _, p := range paths {
		prefix := ""
		segments := strings.Split(p, ".")
		for k, segment := range segments {
			u.named[join(prefix, strings.TrimSuffix(segment, "[]"))] = true
			prefix = join(prefix, segment)
			u.entered[prefix] = u.entered[prefix] || k < len(segments)-1
		}
	}
	u.visit(root, "", nil)
	return u.found
}

type unrequestedFields struct {
	named   map[string]bool // fields that a path ends at or passes through
	entered map[string]bool // records that a path passes through
	found   []projection
}

func (u *unrequestedFields) visit(n *node, prefix string, lists []*node) {
	for _, f := range n.fields {
		path := join(prefix, f.name)
		if !u.named[path] {
			if w := presence(f, projection{path: path, lists: slices.Clone(lists)}); len(w.leaves) > 0 {
				u.found = append(u.found, w)
			}
			continue
		}
		if f.elem != nil && u.entered[path+"[]"] {
			u.visit(f.elem, path+"[]", append(slices.Clone(lists), f))
		} else if f.elem == nil && u.entered[path] {
			u.visit(f, path, lists)
		}
	}
}

func join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}
