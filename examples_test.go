package randfeat_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every package that a user can import, of all modules, shows its use in an Example. The laboratory (repro) is a
// program with folders.
func TestEveryPackageHasAnExample(t *testing.T) {
	type folder struct{ imported, shown bool }
	folders := map[string]folder{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() {
			hidden := path != "." && strings.ContainsAny(name[:1], "._") // as the go tool
			if hidden || name == "internal" || name == "testdata" || path == "repro" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f := folders[filepath.Dir(path)]
		if strings.HasSuffix(path, "_test.go") {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			f.shown = f.shown || strings.Contains(string(b), "\nfunc Example")
		} else {
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly)
			if err != nil {
				return err
			}
			f.imported = f.imported || parsed.Name.Name != "main"
		}
		folders[filepath.Dir(path)] = f
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path, f := range folders {
		if !f.imported {
			continue
		}
		found++
		if !f.shown {
			t.Errorf("%s has no Example", path)
		}
	}
	if found < 25 {
		t.Errorf("only %d packages found: the test looks in the wrong place", found)
	}
}
