package randfeat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/family"
)

// Every type that is a family or a coupling is in its registry: what is not there nothing tests.
func TestEveryImplementationIsRegistered(t *testing.T) {
	var families, couplings []string
	for _, i := range family.List() {
		families = append(families, reflect.TypeOf(i.Examples(2)[0].Family).Name())
	}
	for _, i := range coupling.List() {
		couplings = append(couplings, reflect.TypeOf(i.Examples()[0]).Name())
	}
	for _, c := range []struct {
		folder, method string
		registered     []string
	}{{"family", "Lower", families}, {"coupling", "Sample", couplings}} {
		found := receivers(t, c.folder, c.method)
		slices.Sort(found)
		slices.Sort(c.registered)
		if !slices.Equal(found, c.registered) {
			t.Errorf("package %s has %v, its registry %v", c.folder, found, c.registered)
		}
	}
}

// receivers are the types of a package with a method of the given name.
func receivers(t *testing.T, folder, method string) (types []string) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == method {
				if name, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
					types = append(types, name.Name)
				}
			}
		}
	}
	return types
}
