//go:build ignore

// Command platforms type-checks every package with its tests, and all that they import, as other platforms see them,
// without making code: what a platform or a build tag lacks is an error here, in a fraction of the time that compiling
// the same packages once per platform takes.
//
//	go run .ci/platforms.go OS/ARCH[/TAG]... -- PACKAGES...
//
// Assembly is not looked at: kernels are built, vetted and linked where .ci/run tests them.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// pkg is what go list says of a package.
type pkg struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ GoVersion string }
	Error           *struct{ Err string }
}

// A tree holds what platforms share: files are read once.
type tree struct {
	fset  *token.FileSet
	mu    sync.Mutex
	files map[string]func() (*ast.File, error)
}

func (t *tree) file(path string) (*ast.File, error) {
	t.mu.Lock()
	parse, ok := t.files[path]
	if !ok {
		parse = sync.OnceValues(func() (*ast.File, error) {
			return parser.ParseFile(t.fset, path, nil, parser.SkipObjectResolution)
		})
		t.files[path] = parse
	}
	t.mu.Unlock()
	return parse()
}

type importer func(path string) *types.Package

func (f importer) Import(path string) (*types.Package, error) {
	if p := f(path); p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not checked", path)
}

// check reports every error of packages on a platform.
func (t *tree) check(platform string, packages []string) error {
	part := strings.Split(platform, "/")
	if len(part) < 2 {
		return fmt.Errorf("%s is no OS/ARCH[/TAG]", platform)
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-test", "-tags", strings.Join(part[2:], ","),
		"-json=ImportPath,Dir,Standard,GoFiles,ImportMap,Module,Error"}, packages...)...)
	list.Env = append(os.Environ(), "GOOS="+part[0], "GOARCH="+part[1], "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err == nil {
		err = list.Start()
	}
	if err != nil {
		return err
	}
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	var bad []error
	count := 0
	for d := json.NewDecoder(out); ; count++ { // go list puts imports first
		var p pkg
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if p.Error != nil {
			bad = append(bad, errors.New(p.Error.Err))
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the latter is written by go test
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := t.file(filepath.Join(p.Dir, name))
			if err != nil {
				bad = append(bad, err)
				continue
			}
			files = append(files, f)
		}
		from := func(path string) *types.Package {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			return checked[path]
		}
		c := types.Config{Importer: importer(from), Sizes: types.SizesFor("gc", part[1]), IgnoreFuncBodies: p.Standard,
			Error: func(err error) { bad = append(bad, err) }}
		if p.Module != nil && p.Module.GoVersion != "" {
			c.GoVersion = "go" + p.Module.GoVersion
		}
		path, _, _ := strings.Cut(p.ImportPath, " ") // of a test variant
		checked[p.ImportPath], _ = c.Check(path, t.fset, files, nil)
	}
	if err := list.Wait(); err != nil {
		bad = append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("%s:\n%w", platform, err)
	}
	fmt.Printf("%s: %d packages\n", platform, count)
	return nil
}

func main() {
	i := slices.Index(os.Args, "--")
	if i < 2 || i+1 == len(os.Args) {
		fmt.Fprintln(os.Stderr, "usage: go run .ci/platforms.go OS/ARCH[/TAG]... -- PACKAGES...")
		os.Exit(2)
	}
	t := tree{fset: token.NewFileSet(), files: map[string]func() (*ast.File, error){}}
	var wg sync.WaitGroup
	bad := make([]error, i-1)
	for k, platform := range os.Args[1:i] {
		wg.Go(func() { bad[k] = t.check(platform, os.Args[i+1:]) })
	}
	wg.Wait()
	if err := errors.Join(bad...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
