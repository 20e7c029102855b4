package corpus

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A grammar is a set of rules by name. Expanding a rule writes one of its alternatives, drawn with equal chance.
//
// In the files a rule begins with a line of one of three forms and ends where the next begins:
//
//	§words NAME    the alternatives are the words that follow
//	§lines NAME    the alternatives are the lines that follow
//	§rule NAME     the alternatives are separated by lines that hold only ~
//
// Within an alternative stand, in angle quotes,
//
//	«noun»         an expansion of rule noun, or what the name is bound to
//	«noun.camel»   the same through a filter, see filters
//	«a:=noun»      nothing; binds a to an expansion of noun until the end of this alternative
//	«2-5 stmt»     two to five expansions, each on a line; with «2-5, stmt» joined by other separators, see joints
//	«int 1 9»      what a builtin gives, see (*generator).builtin
//
// All lines of an expansion are indented like the line on which it begins. A rule that is being expanded maxNesting
// times already takes its first alternative, which must lead to an end.
type grammar map[string][]template

const maxNesting = 3

type template []part

// A part is literal text, or something to expand.
type part struct {
	text   string
	name   string
	filter func(string) string
	bind   string
	lo, hi int
	joint  string
	args   []string
	indent string
}

var joints = map[string]string{"": "\n", ",": ", ", ",,": ",\n", "_": " ", "/": "\n\n"}

func (g grammar) parse(text string) error {
	for rule := range strings.SplitSeq("\n"+text, "\n§") {
		head, body, _ := strings.Cut(rule, "\n")
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
			return fmt.Errorf("rule %q stands twice or is empty", name)
		}
		for _, a := range alternatives {
			t, err := parseTemplate(strings.TrimRight(a, "\n"))
			if err != nil {
				return fmt.Errorf("rule %q: %w", name, err)
			}
			g[name] = append(g[name], t)
		}
	}
	return nil
}

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

func parsePart(inside string) (p part, err error) {
	if bind, name, ok := strings.Cut(inside, ":="); ok {
		p.bind, inside = bind, name
	}
	p.lo, p.hi = 1, 1
	if inside[0] >= '0' && inside[0] <= '9' {
		count, name, _ := strings.Cut(inside, " ")
		lo, hi, _ := strings.Cut(count, "-")
		digits := strings.TrimRight(hi, ",_/")
		p.joint, inside = joints[hi[len(digits):]], name
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

// filters turn a phrase of lower-case words into what a language wants.
var filters = map[string]func(string) string{
	"snake":  func(s string) string { return strings.ReplaceAll(s, " ", "_") },
	"kebab":  func(s string) string { return strings.ReplaceAll(s, " ", "-") },
	"upper":  func(s string) string { return strings.ToUpper(strings.ReplaceAll(s, " ", "_")) },
	"title":  func(s string) string { return first(s, unicode.ToUpper) },
	"lower":  func(s string) string { return first(s, unicode.ToLower) },
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

// first maps the first character of s.
func first(s string, change func(rune) rune) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(change(r)) + s[n:]
}

// A generator expands rules into out. Everything it draws comes from rng.
type generator struct {
	rules   grammar
	rng     rng
	clock   int64 // milliseconds since 1970, for log lines; it only goes forward
	project project

	out    []byte
	indent string
	margin bool           // the indentation of the line in progress is still to be written
	nested map[string]int // rules being expanded
	scope  *binding
}

func newGenerator(rules grammar, seed rng) *generator {
	const newYear2026 = 1_767_225_600_000
	return &generator{rules: rules, rng: seed, clock: newYear2026, nested: make(map[string]int)}
}

// A binding is a name and its value; the ones before it are in scope too.
type binding struct {
	name, value string
	outer       *binding
}

func (g *generator) write(text string) {
	for len(text) > 0 {
		line, rest, found := strings.Cut(text, "\n")
		if line != "" {
			if g.margin {
				g.out = append(g.out, g.indent...)
				g.margin = false
			}
			g.out = append(g.out, line...)
		}
		if found {
			g.out = append(g.out, '\n')
			g.margin = true
		}
		text = rest
	}
}

// text expands a rule on its own and returns it instead of writing it.
func (g *generator) text(rule string) string { return g.capture(part{name: rule}) }

func (g *generator) capture(p part) string {
	from, indent, margin := len(g.out), g.indent, g.margin
	g.indent, g.margin = "", false
	g.name(p)
	text := string(g.out[from:])
	g.out, g.indent, g.margin = g.out[:from], indent, margin
	return text
}

func (g *generator) name(p part) {
	for b := g.scope; b != nil; b = b.outer {
		if b.name == p.name {
			g.write(b.value)
			return
		}
	}
	if text, ok := g.builtin(p); ok {
		g.write(text)
		return
	}
	alternatives := g.rules[p.name]
	if len(alternatives) == 0 {
		panic(fmt.Sprintf("corpus: no rule %q", p.name)) // a test looks up every name
	}
	choice := 0
	if g.nested[p.name] < maxNesting {
		choice = g.rng.below(len(alternatives))
	}
	g.nested[p.name]++
	g.expand(alternatives[choice])
	g.nested[p.name]--
}

func (g *generator) expand(t template) {
	scope, indent := g.scope, g.indent
	for _, p := range t {
		switch {
		case p.name == "":
			g.write(p.text)
		case p.bind != "":
			g.scope = &binding{p.bind, g.capture(p), g.scope}
		case p.filter != nil:
			g.write(p.filter(g.capture(p)))
		default:
			g.indent = indent + p.indent
			for i := range p.lo + g.rng.below(p.hi-p.lo+1) {
				if i > 0 {
					g.write(p.joint)
				}
				g.name(p)
			}
			g.indent = indent
		}
	}
	g.scope = scope
}

// builtin gives what no rule can: numbers, times, and the names that recur within a project.
func (g *generator) builtin(p part) (string, bool) {
	switch p.name {
	case "int":
		lo, hi := atoi(p.args[0]), atoi(p.args[1])
		return strconv.Itoa(lo + g.rng.below(hi-lo+1)), true
	case "hex":
		return g.rng.string(atoi(p.args[0]), "0123456789abcdef"), true
	case "digits":
		return g.rng.string(atoi(p.args[0]), "0123456789"), true
	case "line":
		return strconv.Itoa(1 + g.rng.below(900)), true
	case "now":
		g.clock += int64(g.rng.below(4000))
		return time.UnixMilli(g.clock).UTC().Format(clockForms[p.args[0]]), true
	case "thing":
		return g.recurring(g.project.things, "fresh"), true
	case "act":
		return g.recurring(g.project.acts, "deed"), true
	case "file":
		return pick(&g.rng, g.project.paths), true
	}
	return "", false
}

// recurring takes a phrase from the project's own, or now and then a new one.
func (g *generator) recurring(own []string, rule string) string {
	if len(own) == 0 || g.rng.below(10) < 4 {
		return g.text(rule)
	}
	return pick(&g.rng, own)
}

var clockForms = map[string]string{
	"iso":  "2006-01-02T15:04:05.000Z",
	"klog": "0102 15:04:05.000000",
	"clf":  "02/Jan/2006:15:04:05 -0700",
	"git":  "Mon Jan 2 15:04:05 2006 -0700",
	"date": "2006-01-02",
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // in a grammar file; a test expands every rule
	}
	return n
}

// rng is splitmix64.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below draws from 0 to n-1.
func (r *rng) below(n int) int { return int(r.next() % uint64(n)) }

func (r *rng) string(n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.below(len(alphabet))]
	}
	return string(b)
}

func pick[T any](r *rng, from []T) T { return from[r.below(len(from))] }
