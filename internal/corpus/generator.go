package corpus

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/splitmix"
)

// generator expands rules into out. All its random choices come from rng.
type generator struct {
	rules   grammar
	rng     rng
	clock   int64 // milliseconds since 1970, for log lines; it only advances
	project project

	out    []byte
	indent string
	margin bool // the current line is empty, and its indentation is not written yet
	scope  *binding
}

// newGenerator returns a generator with room for a text of some size.
func newGenerator(rules grammar, seed splitmix.Rand, size int) *generator {
	const newYear2026 = 1_767_225_600_000
	return &generator{rules: rules, rng: rng{seed}, clock: newYear2026, out: make([]byte, 0, size+size/8)}
}

// binding is a name and its value. Outer bindings are in scope too.
type binding struct {
	name, value string
	outer       *binding
}

// write appends text, with the indentation at the beginning of each line.
func (g *generator) write(text string) {
	for {
		n := strings.IndexByte(text, '\n')
		line := text
		if n >= 0 {
			line = text[:n]
		}
		if line != "" {
			if g.margin {
				g.out = append(g.out, g.indent...)
				g.margin = false
			}
			g.out = append(g.out, line...)
		}
		if n < 0 {
			return
		}
		g.out = append(g.out, '\n')
		g.margin = true
		text = text[n+1:]
	}
}

// text returns the expansion of a rule.
func (g *generator) text(rule string) string {
	return g.capture(&part{name: rule, rule: g.rules[rule]})
}

// capture returns the expansion of a part.
func (g *generator) capture(p *part) string {
	from, indent, margin := len(g.out), g.indent, g.margin
	g.indent, g.margin = "", false
	g.name(p)
	text := string(g.out[from:])
	g.out, g.indent, g.margin = g.out[:from], indent, margin
	return text
}

// name writes what a name stands for: a binding, a builtin or a rule.
func (g *generator) name(p *part) {
	for b := g.scope; b != nil; b = b.outer {
		if b.name == p.name {
			g.write(b.value)
			return
		}
	}
	if p.rule == nil {
		text, ok := g.builtin(p)
		if !ok {
			panic(fmt.Sprintf("corpus: no rule %q", p.name)) // a test looks up every name
		}
		g.write(text)
		return
	}
	r, choice := p.rule, 0
	if r.nested < maxNesting {
		choice = g.rng.below(len(r.alternatives))
	}
	r.nested++
	g.expand(r.alternatives[choice])
	r.nested--
}

// expand writes an alternative.
func (g *generator) expand(t template) {
	scope, indent := g.scope, g.indent
	for k := range t {
		p := &t[k]
		switch {
		case p.name == "":
			g.write(p.text)
		case p.bind != "":
			value := g.capture(p)
			if p.filter != nil {
				value = p.filter(value)
			}
			g.scope = &binding{p.bind, value, g.scope}
		case p.filter != nil:
			g.write(p.filter(g.capture(p)))
		default:
			g.indent = indent + p.indent
			for i := range p.lo + g.rng.below(p.hi-p.lo+1) {
				if i > 0 {
					g.write(p.separator)
				}
				g.name(p)
			}
			g.indent = indent
		}
	}
	g.scope = scope
}

// builtin returns what rules cannot express: numbers, times, and names that recur within a project.
func (g *generator) builtin(p *part) (string, bool) {
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
		return time.UnixMilli(g.clock).UTC().Format(timeLayouts[p.args[0]]), true
	case "thing":
		return g.recurring(g.project.things, "fresh"), true
	case "act":
		return g.recurring(g.project.acts, "deed"), true
	case "file":
		return pick(&g.rng, g.project.paths), true
	}
	return "", false
}

// recurring returns one of the project's phrases, or sometimes a new one.
func (g *generator) recurring(own []string, rule string) string {
	if len(own) == 0 || g.rng.below(10) < 4 {
		return g.text(rule)
	}
	return pick(&g.rng, own)
}

var timeLayouts = map[string]string{
	"iso":  "2006-01-02T15:04:05.000Z",
	"klog": "0102 15:04:05.000000",
	"clf":  "02/Jan/2006:15:04:05 -0700",
	"git":  "Mon Jan 2 15:04:05 2006 -0700",
	"date": "2006-01-02",
}

// atoi returns the number that an argument of a grammar file is.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // in a grammar file; a test expands every rule
	}
	return n
}

type rng struct{ splitmix.Rand }

// below draws a number from 0 to n-1.
func (r *rng) below(n int) int { return int(r.Next() % uint64(n)) }

// string draws n characters of an alphabet.
func (r *rng) string(n int, alphabet string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.below(len(alphabet))]
	}
	return string(b)
}

func pick[T any](r *rng, from []T) T { return from[r.below(len(from))] }
