package lazyregexp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every expression of the tree compiles, though no test may use it; and no package compiles one when the program starts.
func TestExpressions(t *testing.T) {
	root, lazy := filepath.Join("..", ".."), 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "pagetest") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			_, isFunc := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				f, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				pkg, _ := f.X.(*ast.Ident)
				text, literal := call.Args, false
				switch {
				case pkg == nil:
				case pkg.Name == "regexp" && f.Sel.Name == "MustCompile":
					require.True(t, isFunc, "%s compiles an expression when the program starts: lazyregexp.New does at its first use", path)
				case pkg.Name == "lazyregexp":
					if lit, ok := text[0].(*ast.BasicLit); ok {
						expression, err := strconv.Unquote(lit.Value)
						require.NoError(t, err)
						_, err = regexp.Compile(expression)
						require.NoError(t, err, path)
						lazy, literal = lazy+1, true
					}
				}
				return !literal
			})
		}
		return nil
	}))
	require.Greater(t, lazy, 40)
}
