//go:build ignore

// Command full prints the tests that have a full size, as arguments of go test: the packages, -run and a pattern of
// names. A test has one if it calls stattest.Full, or a function of its package's tests that does.
//
//	go test $(go run .ci/full.go) -full
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	folders, err := testFolders()
	var packages, names []string
	for _, folder := range folders {
		var tests []string
		if err == nil {
			tests, err = fullTests(folder)
		}
		if len(tests) > 0 {
			packages = append(packages, "./"+folder)
			names = append(names, tests...)
		}
	}
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no test has a full size")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "full:", err)
		os.Exit(1)
	}
	slices.Sort(names)
	fmt.Println(strings.Join(packages, " "), "-run", "^("+strings.Join(slices.Compact(names), "|")+")$")
}

// testFolders lists the folders of this module, not of nested ones.
func testFolders() (folders []string, err error) {
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		_, missing := os.Stat(filepath.Join(path, "go.mod"))
		if path != "." && (missing == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		folders = append(folders, path)
		return nil
	})
	return folders, err
}

func fullTests(folder string) (tests []string, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	calls := map[string][]string{} // the functions that mention a name
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr: // a method may have the name of a function
					calls[types.ExprString(n)] = append(calls[types.ExprString(n)], fn.Name.Name)
				case *ast.Ident:
					calls[n.Name] = append(calls[n.Name], fn.Name.Name)
				}
				return true
			})
		}
	}
	reached := map[string]bool{}
	for next := slices.Clone(calls["stattest.Full"]); len(next) > 0; next = next[1:] {
		name := next[0]
		if reached[name] {
			continue
		}
		reached[name] = true
		if strings.HasPrefix(name, "Test") {
			tests = append(tests, name)
		} else {
			next = append(next, calls[name]...)
		}
	}
	return tests, nil
}
