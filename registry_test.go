package randfeat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
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

// The tables of docs/estimators.md name every family and every coupling of the registries, and nothing else. Pages that
// count them count right.
func TestPagesNameTheRegistries(t *testing.T) {
	page := func(path string) string {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var families, couplings []string
	for _, i := range family.List() {
		families = append(families, i.Name)
	}
	for _, i := range coupling.List() {
		couplings = append(couplings, i.Name)
	}
	estimators := page("docs/estimators.md")
	for heading, names := range map[string][]string{"Families": families, "Couplings": couplings} {
		_, section, _ := strings.Cut(estimators, "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var found []string
		for line := range strings.Lines(section) {
			if first, _, ok := strings.Cut(strings.TrimPrefix(line, "|"), "|"); ok {
				for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
					found = append(found, m[1])
				}
			}
		}
		slices.Sort(found)
		want := slices.Sorted(slices.Values(names))
		if !slices.Equal(found, want) {
			t.Errorf("docs/estimators.md, table %s: write a row for each of %v; it has %v", heading, want, found)
		}
	}
	for _, path := range []string{"README.md", "site/content/estimator.md"} {
		for what, n := range map[string]int{"families": len(families), "couplings": len(couplings)} {
			for _, m := range regexp.MustCompile(`(\d+)\s+`+what).FindAllStringSubmatch(page(path), -1) {
				if m[1] != strconv.Itoa(n) {
					t.Errorf("%s says %s %s: write %d", path, m[1], what, n)
				}
			}
		}
	}
	more := regexp.MustCompile(`and (\d+) more \(--json\)`).FindStringSubmatch(page("docs/advise.md")) // after ten
	says := regexp.MustCompile(`measuring (\d+) candidates`).FindStringSubmatch(page("README.md"))
	if more == nil || says == nil {
		t.Fatal("docs/advise.md shows no run of the demo, or README.md does not count its candidates")
	}
	if n, _ := strconv.Atoi(more[1]); says[1] != strconv.Itoa(n+10) {
		t.Errorf("README.md says %s candidates: write %d", says[1], n+10)
	}
}
