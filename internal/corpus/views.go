package corpus

import (
	"fmt"
	"strings"
)

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
