package corpus

import (
	"encoding/json"
	"fmt"
	"strings"
)

// project is what the sections of one session have in common: a language, files, and words that recur.
type project struct {
	language language
	things   []string
	acts     []string
	paths    []string
	files    []file // those written so far
}

type file struct {
	path  string
	text  string
	lines []string // of text
	lower []string // the lines in lower case; nil: not needed yet
}

// language is a programming language or another kind of file. The names of its rules begin with prefix: PREFIX.file, and of
// the languages of projects also .stmt, .trace, .compile and .run. Its files are in dir, with names formed by a filter.
type language struct{ prefix, dir, naming, extension string }

var languages = []language{
	{"go", "internal/", "snake", ".go"},
	{"py", "src/", "snake", ".py"},
	{"ts", "packages/", "kebab", ".ts"},
	{"rs", "crates/", "snake", ".rs"},
	{"java", "src/main/java/", "pascal", ".java"},
	{"c", "drivers/", "snake", ".c"},
}

// documents are the other kinds of file that a project has.
var documents = []language{
	{"sql", "migrations/", "snake", ".sql"},
	{"sh", "scripts/", "kebab", ".sh"},
	{"yaml", "deploy/", "kebab", ".yaml"},
	{"html", "web/", "kebab", ".html"},
	{"md", "docs/", "kebab", ".md"},
	{"json", "testdata/", "snake", ".json"},
}

// begin draws a new project.
func (g *generator) begin() {
	p := project{language: pick(&g.rng, languages)}
	g.project = project{}
	for range 24 {
		p.things = append(p.things, g.text("fresh"))
		p.acts = append(p.acts, g.text("deed"))
	}
	for range 9 {
		p.paths = append(p.paths, g.path(p.language, p.things))
	}
	g.project = p
}

func (g *generator) path(l language, things []string) string {
	name := filters[l.naming](pick(&g.rng, things))
	return l.dir + g.text("noun") + "/" + name + l.extension
}

// sections are the pieces of a context. The weights say how often each is drawn.
var sections = []struct {
	weight int
	write  func(*generator)
}{
	{8, (*generator).readFile},
	{4, (*generator).readDocument},
	{6, (*generator).editFile},
	{3, (*generator).diff},
	{4, (*generator).grep},
	{2, (*generator).tree},
	{1, (*generator).listing},
	{4, result("log.file")},
	{3, result("json.file")},
	{4, result("shell.out")},
	{3, func(g *generator) { g.repeat(2, 5, g.project.language.prefix+".trace") }},
	{3, func(g *generator) { g.repeat(4, 12, g.project.language.prefix+".compile") }},
	{3, func(g *generator) { g.repeat(1, 2, g.project.language.prefix+".run") }},
	{2, func(g *generator) { g.repeat(3, 6, "gitlog") }},
	{2, func(g *generator) { g.repeat(3, 7, "bullet") }},
}

var totalWeight = func() (n int) {
	for _, s := range sections {
		n += s.weight
	}
	return n
}()

// session writes one task, from the question to the commit.
func (g *generator) session() {
	g.begin()
	g.paragraph("## Task\n\n" + g.text("ask"))
	g.readFile()
	for range 8 + g.rng.below(10) {
		if g.rng.below(3) > 0 {
			g.paragraph(g.text("plan"))
		}
		at := g.rng.below(totalWeight)
		for _, s := range sections {
			if at -= s.weight; at < 0 {
				s.write(g)
				break
			}
		}
	}
	g.diff()
	g.paragraph(g.text("commit"))
	g.paragraph(g.text("done"))
}

func (g *generator) paragraph(text string) {
	g.write(text)
	g.write("\n\n")
}

// result returns a section that is a tool call and its result.
func result(rule string) func(*generator) {
	return func(g *generator) {
		g.paragraph(g.text("tool.call"))
		g.paragraph(g.text(rule))
	}
}

// repeat writes a rule lo to hi times, on a line each.
func (g *generator) repeat(lo, hi int, rule string) {
	for range lo + g.rng.below(hi-lo+1) {
		g.write(g.text(rule))
		g.write("\n")
	}
	g.write("\n")
}

// call writes a tool call. pairs are the names and values of its arguments.
func (g *generator) call(tool string, pairs ...string) {
	g.write(`{"name":"` + tool + `","input":{`)
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			g.write(",")
		}
		g.write(quote(pairs[i]) + ":" + quote(pairs[i+1]))
	}
	g.write("}}\n")
}

// quote returns a JSON string as agents' clients write it: only what must be escaped is.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprint("corpus: ", err)) // strings always encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}
