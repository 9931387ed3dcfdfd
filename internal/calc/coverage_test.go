package calc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notForms are exported functions of package forms that need no entry: they are no closed forms of their own.
var notForms = map[string]string{
	"Angle":                    "geometry, not theory",
	"DomainError":              "makes an error",
	"LogVarMatern":             "of kernels that the calculator has no inputs for; theory.Of has it",
	"NoClosedFormError.Error":  "of an error",
	"NoClosedFormError.Unwrap": "of an error",
	"NoForm":                   "makes an error",
	"PowersOfSum":              "a term of forms",
	"RowError":                 "a bound by measurement",
	"Shape.String":             "a name",
	"Simple":                   "collects the terms of a family, which families call",
	"Uncoupled":                "collects the terms of a family, which families call",
}

// Every exported function of package forms is reachable from randfeat eval: some entry calls it.
func TestEveryFormHasAnEntry(t *testing.T) {
	used := map[string]bool{} // "Func" for forms.Func, ".Method" for any selector
	for _, file := range parseDir(t, ".") {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				used["."+s.Sel.Name] = true
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "forms" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	found := 0
	known := map[string]bool{}
	for _, file := range parseDir(t, "../../internal/forms") {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name, reached := f.Name.Name, used[f.Name.Name]
			if f.Recv != nil {
				receiver := receiverName(f.Recv.List[0].Type)
				if !ast.IsExported(receiver) {
					continue
				}
				name, reached = receiver+"."+f.Name.Name, used["."+f.Name.Name]
			}
			found++
			known[name] = true
			_, excused := notForms[name]
			switch {
			case !reached && !excused:
				t.Errorf("forms.%s has no entry in internal/calc", name)
			case reached && excused && f.Recv == nil:
				t.Errorf("forms.%s is on the list of exceptions and has an entry", name)
			}
		}
	}
	for name := range notForms {
		if !known[name] {
			t.Errorf("forms.%s is on the list of exceptions and does not exist", name)
		}
	}
	if found < 60 {
		t.Errorf("only %d functions found: the test looks in the wrong place", found)
	}
}

// parseDir parses the Go files of a folder, tests excepted.
func parseDir(t *testing.T, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })
	var files []*ast.File
	for _, p := range paths {
		src, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
