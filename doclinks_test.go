package randfeat_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	docLink = regexp.MustCompile(`[\s(]\[\*?(?:([a-z]\w*)\.)?([A-Z]\w*[a-z]\w*)(?:\.([A-Z]\w*))?\]`)
	goFile  = regexp.MustCompile(`[\w*]+\.go\b`)
	goCode  = regexp.MustCompile(`(?m)^\t.*`) // in comments
)

// Doc links of all modules name symbols that exist, and doc.go names files that exist. A link to a package of another
// module is not checked.
func TestDocLinks(t *testing.T) {
	declared := map[string]map[string]bool{} // by folder and by name of the package
	comments := map[string]string{}          // by file
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && len(path) > 1 && strings.ContainsAny(d.Name()[:1], "._") ||
			d.Name() == "testdata" {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, c := range f.Comments {
			comments[path] += "\n" + c.Text()
		}
		for _, key := range []string{filepath.Dir(path), f.Name.Name} {
			names := declared[key]
			if names == nil {
				names = map[string]bool{}
				declared[key] = names
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var ids []*ast.Ident
				switch n := n.(type) {
				case *ast.FuncDecl:
					ids = []*ast.Ident{n.Name}
				case *ast.TypeSpec:
					ids = []*ast.Ident{n.Name}
				case *ast.ValueSpec:
					ids = n.Names
				case *ast.Field: // of a struct, or a method of an interface
					ids = n.Names
				}
				for _, id := range ids {
					names[id.Name] = true
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range comments {
		for _, m := range docLink.FindAllStringSubmatch(goCode.ReplaceAllString(text, ""), -1) {
			names := declared[cmp.Or(m[1], filepath.Dir(path))]
			if names != nil && (!names[m[2]] || m[3] != "" && !names[m[3]]) {
				t.Errorf("%s: the link %s names nothing", path, strings.Join(m[1:], " "))
			}
		}
		for _, name := range goFile.FindAllString(text, -1) {
			found, err := filepath.Glob(filepath.Join(filepath.Dir(path), name))
			if filepath.Base(path) == "doc.go" && (err != nil || len(found) == 0) {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
}

// docs/fit.md names ten functions and the files that they are in.
func TestFitPage(t *testing.T) {
	page, err := os.ReadFile("docs/fit.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| \\d+ \\| `([\\w.]+)` \\| (\\S+\\.go) \\|")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) != 10 {
		t.Errorf("%d functions, want ten", len(rows))
	}
	for _, row := range rows {
		f, err := parser.ParseFile(token.NewFileSet(), row[2], nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		receiver, name, method := strings.Cut(row[1], ".")
		if !method {
			receiver, name = "", row[1]
		}
		found := slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != name || (fn.Recv != nil) != method {
				return false
			}
			return !method || typeName(fn.Recv.List[0].Type) == receiver
		})
		if !found {
			t.Errorf("%s has no function %s", row[2], row[1])
		}
	}
}

// typeName is the name of a receiver's type, without pointer and type parameters.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
