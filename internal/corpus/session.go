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

// newFile adds a file in some language to the project.
func (g *generator) newFile(l language) file {
	f := file{path: g.path(l, g.project.things), text: g.text(l.prefix + ".file")}
	f.lines = strings.Split(f.text, "\n")
	g.project.files = append(g.project.files, f)
	return f
}

// readFile writes a file as a tool shows it: with line numbers.
func (g *generator) readFile() {
	f := g.newFile(g.project.language)
	g.call("read_file", "path", f.path)
	for i, line := range f.lines {
		g.write(fmt.Sprintf("%6d\t%s\n", i+1, line))
	}
	g.write("\n")
}

// readDocument writes a document in a fenced block.
func (g *generator) readDocument() {
	f := g.newFile(pick(&g.rng, documents))
	g.write("`" + f.path + "`:\n\n```" + f.path[strings.LastIndexByte(f.path, '.')+1:] + "\n")
	g.write(f.text)
	g.write("\n```\n\n")
}

// editFile writes a tool call that replaces a few lines of a file.
func (g *generator) editFile() {
	f := pick(&g.rng, g.project.files)
	lines := f.lines
	at, n := g.rng.below(len(lines)), 1+g.rng.below(4)
	before := strings.Join(lines[at:min(at+n, len(lines))], "\n")
	indent := indentation(lines[at])
	after := indent + strings.ReplaceAll(g.code(2, 6), "\n", "\n"+indent)
	g.call("edit_file", "path", f.path, "old", before, "new", after)
	g.paragraph("The file " + f.path + " has been updated.")
}

// code returns lo to hi statements in the project's language.
func (g *generator) code(lo, hi int) string {
	statements := make([]string, lo+g.rng.below(hi-lo+1))
	for i := range statements {
		statements[i] = g.text(g.project.language.prefix + ".stmt")
	}
	return strings.Join(statements, "\n")
}

// diff writes a unified diff of a file of the project.
func (g *generator) diff() {
	f := pick(&g.rng, g.project.files)
	lines := f.lines
	g.write("diff --git a/" + f.path + " b/" + f.path + "\n")
	g.write(fmt.Sprintf("index %s..%s 100644\n--- a/%s\n+++ b/%s\n",
		g.rng.string(7, "0123456789abcdef"), g.rng.string(7, "0123456789abcdef"), f.path, f.path))

	const context = 3
	shift := 0
	for at := g.rng.below(20); at < len(lines); at += 2*context + 10 + g.rng.below(60) {
		from, gone := max(0, at-context), min(g.rng.below(4), len(lines)-at)
		to := min(at+gone+context, len(lines))
		added := strings.Split(g.code(1, 4), "\n")
		g.write(fmt.Sprintf("@@ -%d,%d +%d,%d @@\n", from+1, to-from, from+1+shift, to-from-gone+len(added)))
		g.lines(" ", "", lines[from:at])
		g.lines("-", "", lines[at:at+gone])
		g.lines("+", indentation(lines[at]), added)
		g.lines(" ", "", lines[at+gone:to])
		shift += len(added) - gone
	}
	g.write("\n")
}

// lines writes lines of a diff, each with a sign and an indentation in front.
func (g *generator) lines(sign, indent string, lines []string) {
	for _, line := range lines {
		if line != "" {
			line = indent + line
		}
		g.write(sign + line + "\n")
	}
}

func indentation(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// grep writes a search for one of the project's words in all its files.
func (g *generator) grep() {
	word := pick(&g.rng, strings.Fields(pick(&g.rng, g.project.things)))
	g.call("grep", "pattern", word, "path", ".")
	found := 0
	for k := range g.project.files {
		f := &g.project.files[k]
		if f.lower == nil {
			f.lower = strings.Split(strings.ToLower(f.text), "\n")
		}
		for i, line := range f.lines {
			if strings.Contains(f.lower[i], word) && found < 40 {
				g.write(fmt.Sprintf("%s:%d:%s\n", f.path, i+1, line))
				found++
			}
		}
	}
	g.paragraph(fmt.Sprintf("(%d matches)", found))
}

// tree writes a directory as tree shows it, sometimes with box characters.
func (g *generator) tree() {
	branch, last, stem := "|-- ", "`-- ", "|   "
	if g.rng.below(5) == 0 {
		branch, last, stem = "├── ", "└── ", "│   "
	}
	l := g.project.language
	g.write("$ tree " + l.dir + "\n.\n")
	dirs, files := 2+g.rng.below(5), 0
	for d := range dirs {
		edge, margin := branch, stem
		if d == dirs-1 {
			edge, margin = last, "    "
		}
		g.write(edge + g.text("noun") + "\n")
		n := 2 + g.rng.below(7)
		for i := range n {
			edge := branch
			if i == n-1 {
				edge = last
			}
			g.write(margin + edge + filters[l.naming](g.text("thing")) + l.extension + "\n")
		}
		files += n
	}
	g.paragraph(fmt.Sprintf("\n%d directories, %d files", dirs, files))
}

// listing writes a directory as ls shows it.
func (g *generator) listing() {
	g.write("$ ls -la " + g.text("path") + "\ntotal " + fmt.Sprint(8*(1+g.rng.below(200))) + "\n")
	owner := g.text("person")
	for range 6 + g.rng.below(14) {
		mode := pick(&g.rng, []string{"-rw-r--r--", "-rwxr-xr-x", "drwxr-xr-x", "lrwxrwxrwx", "-rw-------"})
		g.write(fmt.Sprintf("%s %2d %s staff %8d %s %s\n", mode, 1+g.rng.below(9), owner, g.rng.below(1<<20),
			g.text("listing.date"), filters["kebab"](g.text("thing"))+g.text("listing.extension")))
	}
	g.write("\n")
}
