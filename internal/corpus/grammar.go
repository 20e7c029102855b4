package corpus

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// grammar holds rules by name. Expanding a rule writes one of its alternatives, drawn with equal probability.
//
// In the files, a rule begins with a line of one of three forms:
//
//	§words NAME    the alternatives are the words that follow
//	§lines NAME    the alternatives are the lines that follow
//	§rule NAME     the alternatives are separated by lines that hold only ~
//
// An alternative contains, in angle quotes:
//
//	«noun»         an expansion of rule noun, or the value that noun is bound to
//	«noun.camel»   the same, changed by a filter, see filters
//	«a:=noun»      nothing; it binds a to an expansion of noun until the end of this alternative
//	«2-5 stmt»     two to five expansions on a line each; with «2-5, stmt» with other separators, see separators
//	«int 1 9»      the value of a builtin, see (*generator).builtin
//
// All lines of an expansion are indented like the line on which it begins. A rule that is being expanded maxNesting times
// takes its first alternative, which must not lead to the rule again.
type grammar map[string]*rule

type rule struct {
	alternatives []template
	nested       int // how many times it is being expanded
}

const maxNesting = 3

type template []part

// part is literal text, or something to expand.
type part struct {
	text      string
	name      string
	rule      *rule // that name means; nil: a builtin, or bound
	filter    func(string) string
	bind      string
	lo, hi    int
	separator string
	args      []string
	indent    string
}

// separators join repeated expansions, by what follows the count.
var separators = map[string]string{"": "\n", ",": ", ", ",,": ",\n", "_": " ", "/": "\n\n"}

// parse adds the rules of a file.
func (g grammar) parse(text string) error {
	for section := range strings.SplitSeq("\n"+text, "\n§") {
		head, body, _ := strings.Cut(section, "\n")
		form, name, _ := strings.Cut(head, " ")
		var alternatives []string
		switch form {
		case "":
			continue
		case "words":
			alternatives = strings.Fields(body)
		case "lines":
			for line := range strings.SplitSeq(body, "\n") {
				if line != "" {
					alternatives = append(alternatives, line)
				}
			}
		case "rule":
			alternatives = strings.Split(body, "\n~\n")
		default:
			return fmt.Errorf("unknown form §%s", form)
		}
		if g[name] != nil || len(alternatives) == 0 {
			return fmt.Errorf("rule %q occurs twice or is empty", name)
		}
		for _, a := range alternatives {
			t, err := parseTemplate(strings.TrimRight(a, "\n"))
			if err != nil {
				return fmt.Errorf("rule %q: %w", name, err)
			}
			if g[name] == nil {
				g[name] = &rule{}
			}
			g[name].alternatives = append(g[name].alternatives, t)
		}
	}
	return nil
}

// link finds the rules that parts name.
func (g grammar) link() {
	for _, r := range g {
		for _, t := range r.alternatives {
			for k := range t {
				t[k].rule = g[t[k].name]
			}
		}
	}
}

// parseTemplate splits an alternative into literal text and the parts in angle quotes.
func parseTemplate(text string) (template, error) {
	var t template
	indent := ""
	for text != "" {
		literal, rest, found := strings.Cut(text, "«")
		if literal != "" {
			t = append(t, part{text: literal})
			if i := strings.LastIndexByte(literal, '\n'); i >= 0 || len(t) == 1 {
				line := literal[i+1:]
				indent = line[:len(line)-len(strings.TrimLeft(line, " \t"))]
			}
		}
		if !found {
			break
		}
		inside, after, ok := strings.Cut(rest, "»")
		if !ok {
			return nil, fmt.Errorf("« without » in %q", rest)
		}
		p, err := parsePart(inside)
		if err != nil {
			return nil, err
		}
		p.indent = indent
		t, text = append(t, p), after
	}
	return t, nil
}

// parsePart parses what stands in angle quotes.
func parsePart(inside string) (p part, err error) {
	if bind, name, ok := strings.Cut(inside, ":="); ok {
		p.bind, inside = bind, name
	}
	p.lo, p.hi = 1, 1
	if inside[0] >= '0' && inside[0] <= '9' {
		count, name, _ := strings.Cut(inside, " ")
		lo, hi, _ := strings.Cut(count, "-")
		digits := strings.TrimRight(hi, ",_/")
		p.separator, inside = separators[hi[len(digits):]], name
		if p.lo, err = strconv.Atoi(lo); err != nil {
			return p, err
		}
		if p.hi, err = strconv.Atoi(digits); err != nil {
			return p, err
		}
	}
	words := strings.Fields(inside)
	p.name, p.args = words[0], words[1:]
	if i := strings.LastIndexByte(p.name, '.'); i >= 0 && filters[p.name[i+1:]] != nil {
		p.name, p.filter = p.name[:i], filters[p.name[i+1:]]
	}
	return p, nil
}

// filters change a phrase of lower-case words into the form of a name.
var filters = map[string]func(string) string{
	"snake":  func(s string) string { return strings.ReplaceAll(s, " ", "_") },
	"kebab":  func(s string) string { return strings.ReplaceAll(s, " ", "-") },
	"upper":  func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, " ", "_")) },
	"title":  func(s string) string { return first(s, unicode.ToUpper) },
	"lower":  func(s string) string { return first(s, unicode.ToLower) },
	"plural": plural,
	"third":  plural,
	"past":   past,
	"ing":    ing,
	"an":     an,
	"pascal": pascal,
	"camel": func(s string) string {
		head, rest, _ := strings.Cut(s, " ")
		return head + pascal(rest)
	},
}

func pascal(s string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(s, " ") {
		b.WriteString(first(word, unicode.ToUpper))
	}
	return b.String()
}

// first changes the first character of s.
func first(s string, change func(rune) rune) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(change(r)) + s[n:]
}

// The inflections of regular English nouns and verbs. Those of a phrase change its last word.

func plural(s string) string {
	switch {
	case endsIn(s, "s", "x", "z", "ch", "sh"):
		return s + "es"
	case consonantY(s):
		return s[:len(s)-1] + "ies"
	}
	return s + "s"
}

func past(s string) string {
	switch {
	case strings.HasSuffix(s, "e"):
		return s + "d"
	case consonantY(s):
		return s[:len(s)-1] + "ied"
	}
	if irregular := irregularPast[s]; irregular != "" {
		return irregular
	}
	return doubled(s) + "ed"
}

func ing(s string) string {
	if strings.HasSuffix(s, "e") && !strings.HasSuffix(s, "ee") {
		return s[:len(s)-1] + "ing"
	}
	return doubled(s) + "ing"
}

// an puts the indefinite article before a phrase.
func an(s string) string {
	if s != "" && strings.IndexByte("aeio", s[0]) >= 0 || strings.HasPrefix(s, "u") && !strings.HasPrefix(s, "un") && !strings.HasPrefix(s, "us") {
		return "an " + s
	}
	return "a " + s
}

var irregularPast = map[string]string{"cast": "cast", "drive": "driven", "feed": "fed", "grind": "ground", "hold": "held", "wind": "wound", "withstand": "withstood"}

// doubled repeats the last letter where the ending of a verb asks for it.
func doubled(s string) string {
	switch s {
	case "strip", "drop", "stop", "trim", "refuel", "drag", "scrub":
		return s + s[len(s)-1:]
	}
	return s
}

func consonantY(s string) bool {
	return len(s) > 1 && s[len(s)-1] == 'y' && !strings.ContainsRune("aeiou", rune(s[len(s)-2]))
}

// endsIn reports whether a word has one of the endings.
func endsIn(s string, endings ...string) bool {
	for _, e := range endings {
		if strings.HasSuffix(s, e) {
			return true
		}
	}
	return false
}
