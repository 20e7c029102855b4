package agentx_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The sizes that keep functions readable, in lines.
const (
	maxFunctionLines   = 60
	maxMedianFunctions = 10
)

// source is a parsed Go file of the program; tests are left out.
type source struct {
	path string
	set  *token.FileSet
	file *ast.File
}

// lines counts the lines of a node.
func (s source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

// functions lists the functions and methods that have a body.
func (s source) functions() (list []*ast.FuncDecl) {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			list = append(list, f)
		}
	}
	return list
}

// parseProgram parses every Go file of the module that is no test.
func parseProgram(t *testing.T) (list []source) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != "." && (d.Name() == "testdata" || d.Name() == "tools" || strings.HasPrefix(d.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		list = append(list, source{filepath.ToSlash(path), set, file})
		return err
	}))
	require.NotEmpty(t, list)
	return list
}

func TestFunctionsStayShort(t *testing.T) {
	var sizes []int
	for _, s := range parseProgram(t) {
		for _, f := range s.functions() {
			sizes = append(sizes, s.lines(f))
			assert.LessOrEqual(t, s.lines(f), maxFunctionLines, "lines of %s: %s", s.path, f.Name.Name)
		}
	}
	slices.Sort(sizes)
	assert.LessOrEqual(t, sizes[len(sizes)/2], maxMedianFunctions, "lines of the median function")
}

// An importer outside this module cannot name a type of internal/, so no exported signature or field may show one.
func TestPublicSignaturesShowNoInternalType(t *testing.T) {
	for _, s := range parseProgram(t) {
		if strings.Contains("/"+s.path, "/internal/") || strings.HasPrefix(s.path, "cmd/") {
			continue
		}
		for _, shown := range s.internalTypesShown() {
			t.Error(shown)
		}
	}
}

// internalTypesShown lists the types of internal packages that the exported declarations of a file name.
func (s source) internalTypesShown() (list []string) {
	internal := s.internalImports()
	if len(internal) == 0 {
		return nil
	}
	for _, n := range s.exported() {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				n.Fields.List = slices.DeleteFunc(n.Fields.List, hidden)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(internal, x.Name) {
					list = append(list, fmt.Sprintf("%s: an exported declaration names %s.%s", s.set.Position(n.Pos()), x.Name, n.Sel.Name))
				}
			}
			return true
		})
	}
	return list
}

// internalImports lists the names under which a file imports packages of internal/.
func (s source) internalImports() (names []string) {
	for _, i := range s.file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if !strings.Contains(path, "/internal/") {
			continue
		}
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		names = append(names, name)
	}
	return names
}

// exported lists the types of the exported functions, methods, types, variables and constants of a file.
func (s source) exported() (list []ast.Node) {
	for _, d := range s.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || receiverIsExported(d.Recv.List[0].Type)) {
				list = append(list, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				list = append(list, exportedSpec(spec)...)
			}
		}
	}
	return list
}

// exportedSpec returns the type expression of an exported type, variable or constant.
func exportedSpec(spec ast.Spec) []ast.Node {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.IsExported() {
			return []ast.Node{spec.Type}
		}
	case *ast.ValueSpec:
		if spec.Names[0].IsExported() && spec.Type != nil {
			return []ast.Node{spec.Type}
		}
	}
	return nil
}

// hidden reports whether no name of a struct's field is exported. An embedded field counts as shown.
func hidden(f *ast.Field) bool {
	return len(f.Names) > 0 && !slices.ContainsFunc(f.Names, (*ast.Ident).IsExported)
}

func receiverIsExported(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverIsExported(e.X)
	case *ast.IndexExpr:
		return receiverIsExported(e.X)
	case *ast.Ident:
		return e.IsExported()
	}
	return true
}

// make bench leaves out what make bench-lateness measures, so that nothing is measured twice.
func TestBenchTargetsAreDisjoint(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	require.NoError(t, err)
	lateness := regexp.MustCompile(`(?m)^bench-lateness:\n.* -bench (\S+) `).FindSubmatch(makefile)
	bench := regexp.MustCompile(`(?m)^bench:\n.* -skip '\^(\S+)\$\$' `).FindSubmatch(makefile)
	require.Len(t, lateness, 2)
	require.Len(t, bench, 2)
	assert.Equal(t, string(lateness[1]), string(bench[1]))
}
