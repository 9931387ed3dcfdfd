package randfeat_test

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
)

// Messages of the library name options and arguments of the library: only commands have flags.
func TestLibraryNamesNoFlags(t *testing.T) {
	flag := regexp.MustCompile(`(^|[\s("'])--[a-z][a-z-]+([^a-z:-]|$)`) // a colon follows names of CSS
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch filepath.ToSlash(path) {
			case "cmd", "beam", "bench", "gomlx", "models", "repro", "internal/kern/_gen", ".git":
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				s, err := strconv.Unquote(l.Value)
				if s = strings.ReplaceAll(s, "var(--", ""); err == nil && flag.MatchString(s) {
					t.Errorf("%v names a flag: %s", set.Position(l.Pos()), l.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || files < 50 {
		t.Fatalf("%d files, %v", files, err)
	}
}
