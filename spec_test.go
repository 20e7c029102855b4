package agentx_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// catalogues has the document that declares the ids of each kind, in one of its chapters. An id is declared by a table row that begins
// with it, such as "| T-14 | ...".
var catalogues = map[string]string{
	"T-":   "doc/spec/replay.md",         // tests, 10
	"A-":   "doc/spec/replay.md",         // cases of the harness, 10.1
	"INV-": "doc/spec/replay.md",         // invariants, 1.6
	"M-":   "doc/spec/replay.md",         // markers, 5
	"F":    "doc/spec/cache.md",          // failures, 2
	"D":    "doc/spec/reconstruction.md", // decisions, 0.4
	"I-":   "doc/spec/reconstruction.md", // files of inputs, 1.5
	"P":    "doc/spec/reconstruction.md", // properties, 13.1
	"S":    "doc/spec/hub.md",            // faults of the fake hub, 13
	"S-":   "doc/spec/simulate.md",       // tests, 14
	"R-":   "doc/spec/report.md",         // tests, 8
	"C-":   "doc/spec/capture.md",        // tests, 14
	"D-":   "doc/spec/cluster.md",        // tests, 5
	"X-":   "doc/spec/text.md",           // tests, 16
}

// specID is an id of the specification, such as T-14 or F3.
type specID struct {
	kind   string
	number int
}

func (id specID) String() string { return id.kind + strconv.Itoa(id.number) }

func compareIDs(a, b specID) int {
	return cmp.Or(strings.Compare(a.kind, b.kind), cmp.Compare(a.number, b.number))
}

// TestSpecificationIsCovered compares the ids that the specification declares with those that tests name. A test names the
// ids that it holds in the last line of its doc comment: "Covers T-14." or "Covers F18, T-16.". With -v the test prints
// every id with its tests.
func TestSpecificationIsCovered(t *testing.T) {
	declared := map[specID]bool{}
	for kind, document := range catalogues {
		declare(t, declared, kind, document)
	}
	covered := coverage(t)
	for _, id := range slices.SortedFunc(maps.Keys(covered), compareIDs) {
		if !declared[id] {
			t.Errorf("%s covers %s: %s declares no such id", covered[id][0], id, cmp.Or(catalogues[id.kind], "no document"))
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(declared), compareIDs) {
		t.Logf("%-6s %s", id, strings.Join(covered[id], ", "))
		assert.NotEmpty(t, covered[id], "%s: no test names %s: a comment \"// Covers %s.\" is the last line of its doc comment", catalogues[id.kind], id, id)
	}
}

// declare adds the ids of a kind that a document declares.
func declare(t *testing.T, declared map[specID]bool, kind, document string) {
	row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(kind) + `([0-9]+) \|`)
	found := row.FindAllStringSubmatch(whole(t, document), -1)
	require.NotEmpty(t, found, "%s declares no %s", document, kind)
	for _, m := range found {
		number, _ := strconv.Atoi(m[1]) // digits
		id := specID{kind, number}
		assert.False(t, declared[id], "%s declares %s twice", document, id)
		declared[id] = true
	}
}

// coverage reads which tests name which ids, as FOLDER.TEST.
func coverage(t *testing.T) map[specID][]string {
	covered := map[specID][]string{}
	eachFile(t, "_test.go", func(path, text string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments)
		require.NoError(t, err)
		claims := len(regexp.MustCompile(`(?m)^// Covers [A-Z]`).FindAllString(text, -1))
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			assert.NotRegexp(t, `^Test(Long)?[A-Z][0-9]{2}`, f.Name.Name, "%s: tests are named by behaviour, with the id in the comment", path)
			ids, err := idsOf(f.Doc)
			assert.NoError(t, err, "%s: %s", path, f.Name.Name)
			for _, id := range ids {
				covered[id] = append(covered[id], filepath.Dir(path)+"."+f.Name.Name)
			}
			if len(ids) > 0 {
				claims--
			}
		}
		assert.Zero(t, claims, "%s has Covers lines that are not the last of a test's doc comment", path)
	})
	return covered
}

var (
	testName   = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)`)
	coversLine = regexp.MustCompile(`^Covers ([A-Z]+-?[0-9]+(?:, [A-Z]+-?[0-9]+)*)\.$`)
)

// idsOf returns the ids that the last line of a doc comment names.
func idsOf(doc *ast.CommentGroup) (ids []specID, err error) {
	lines := strings.Split(strings.TrimSpace(doc.Text()), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "Covers ") {
		return nil, nil
	}
	m := coversLine.FindStringSubmatch(last)
	if m == nil {
		return nil, fmt.Errorf("%q: want a line such as \"Covers T-14.\" or \"Covers F18, T-16.\"", last)
	}
	for _, text := range strings.Split(m[1], ", ") {
		digits := strings.TrimLeft(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-")
		number, err := strconv.Atoi(digits)
		if err != nil {
			return nil, err
		}
		ids = append(ids, specID{strings.TrimSuffix(text, digits), number})
	}
	return ids, nil
}

// TestCitationsOfTheSpecification looks up every "doc/spec/NAME.md 4.9" in the sources: the document and its section exist.
func TestCitationsOfTheSpecification(t *testing.T) {
	citation := regexp.MustCompile(`doc/spec/([a-z]+)\.md(?:#\S*)?(?: ([0-9]+[a-z]?(?:\.[0-9]+)*))?`)
	sections := map[string]map[string]bool{} // by document
	eachFile(t, ".go", func(path, text string) {
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			document := "doc/spec/" + m[1] + ".md"
			if sections[document] == nil {
				sections[document] = headings(t, document)
			}
			if m[2] != "" {
				assert.True(t, sections[document][m[2]], "%s cites %s %s: no such section", path, document, m[2])
			}
		}
		for _, from := range []string{"shared/specs", "shared/design", "shared/style"} {
			assert.False(t, strings.Contains(text, "../"+from), "%s cites %s, which is not in the tree", path, from)
		}
	})
}

// TestHazardsAndInvariantsAreDeclared looks up the hazards and invariants that sources and mutants name in the replay's
// specification.
func TestHazardsAndInvariantsAreDeclared(t *testing.T) {
	text := whole(t, "doc/spec/replay.md")
	lookUp := func(path, id string) {
		assert.True(t, strings.Contains(text, "\n| "+id+" |"), "%s names %s: doc/spec/replay.md does not", path, id)
	}
	names := regexp.MustCompile(`INV-[0-9]+|hazards? H[0-9]+(?:(?:,| and) H[0-9]+)*`)
	eachFile(t, ".go", func(path, source string) {
		for _, list := range names.FindAllString(source, -1) {
			for _, id := range regexp.MustCompile(`INV-[0-9]+|H[0-9]+`).FindAllString(list, -1) {
				lookUp(path, id)
			}
		}
	})
	eachFile(t, ".patch", func(path, _ string) {
		if name := strings.TrimSuffix(filepath.Base(path), ".patch"); strings.HasPrefix(name, "H") {
			lookUp(path, name)
		}
	})
}

// headings returns the numbers of a document's sections, each of which it has once.
func headings(t *testing.T, document string) map[string]bool {
	numbers := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#{2,4} ([0-9]+[a-z]?(?:\.[0-9]+)*)\.? `).FindAllStringSubmatch(whole(t, document), -1) {
		assert.False(t, numbers[m[1]], "%s has %s twice", document, m[1])
		numbers[m[1]] = true
	}
	return numbers
}

// whole returns a document with its chapters, which lie in the folder of its name.
func whole(t *testing.T, document string) string {
	files, err := filepath.Glob(strings.TrimSuffix(document, ".md") + "/*.md")
	require.NoError(t, err)
	var b strings.Builder
	for _, file := range append([]string{document}, files...) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		b.Write(text)
	}
	return b.String()
}

// TestVectorsOfTheSpecification looks up every group of vectors that the specification names: it exists, and a test reads it.
func TestVectorsOfTheSpecification(t *testing.T) {
	var sources strings.Builder
	eachFile(t, "_test.go", func(_, text string) { sources.WriteString(text) })
	lookUp := map[string]func(name string) error{
		"doc/spec/replay.md":         func(name string) error { _, err := fixtures.Replay(name); return err },
		"doc/spec/reconstruction.md": func(name string) error { _, err := fixtures.Weka(name); return err },
	}
	for document, find := range lookUp {
		named := 0
		for _, list := range regexp.MustCompile("[Vv]ectors((?:,?\\s+`[a-z0-9_]+`)+)").FindAllStringSubmatch(whole(t, document), -1) {
			for _, name := range regexp.MustCompile("[a-z0-9_]+").FindAllString(list[1], -1) {
				named++
				assert.NoError(t, find(name), document)
				assert.True(t, strings.Contains(sources.String(), strconv.Quote(name)), "%s names vectors %q, which no test reads", document, name)
			}
		}
		assert.NotZero(t, named, document)
	}
}

// TestLinksOfTheDocuments looks up every relative link between documents, and the headings that they point to.
func TestLinksOfTheDocuments(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):# ]*)(?:#([^)]*))?\)`)
	anchors := map[string]map[string]bool{}
	eachFile(t, ".md", func(path, text string) {
		anchors[path] = map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^#{1,4} (.*)$").FindAllStringSubmatch(text, -1) {
			words := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
			anchors[path][strings.ReplaceAll(words, " ", "-")] = true
		}
	})
	eachFile(t, ".md", func(path, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), m[1])
				assert.FileExists(t, to, path)
			}
			if of, is := anchors[to]; is && m[2] != "" {
				assert.True(t, of[m[2]], "%s points to %s in %s, which has no such heading", path, m[2], to)
			}
		}
	})
}

// A page begins with what it is for, and an example.
func TestPagesBeginWithAnExample(t *testing.T) {
	beginning := regexp.MustCompile(`^# [^\n]+\n\n[^\n#|]+\n(?s:.*?)\n    \S`)
	eachFile(t, ".md", func(path, text string) {
		if strings.HasPrefix(path, "doc"+string(filepath.Separator)) {
			first, _, _ := strings.Cut(text, "\n## ")
			assert.Regexp(t, beginning, first, path)
		}
	})
}

// The house of CONTRIBUTING.md has every package of the table of imports once, and files that exist. A package imports those of its own
// floor and of floors below.
func TestHouse(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	_, house, _ := strings.Cut(string(text), "\n## The house\n")
	house, _, _ = strings.Cut(house, "\n## ")
	floors, floor := map[string]int{}, 0
	for line := range strings.Lines(house) {
		if strings.HasPrefix(line, "| **") {
			floor++
		}
		cells := strings.SplitN(line, " | ", 2)
		if len(cells) < 2 {
			continue
		}
		var folders []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			assert.NotContains(t, floors, m[1])
			floors[m[1]], folders = floor, append(folders, m[1])
		}
		for _, m := range regexp.MustCompile("`([a-z_*]+\\.go|js)`").FindAllStringSubmatch(cells[1], -1) {
			assert.True(t, slices.ContainsFunc(folders, func(folder string) bool {
				found, _ := filepath.Glob(filepath.Join(folder, m[1]))
				return len(found) > 0
			}), "%v have no %s", folders, m[1])
		}
	}
	for folder, edges := range imports {
		assert.Contains(t, floors, folder)
		for _, to := range edges {
			if at, ours := floors[to]; ours {
				assert.LessOrEqual(t, at, floors[folder], "%s imports %s, which is on a higher floor", folder, to)
			}
		}
	}
	assert.Len(t, floors, len(imports))
}

// eachFile reads every file of the tree whose name ends so. Hidden directories hold caches.
func eachFile(t *testing.T, suffix string, use func(path, text string)) {
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		text, err := os.ReadFile(path)
		use(path, string(text))
		return err
	}))
}
