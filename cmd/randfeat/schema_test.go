package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/tables"
)

var update = flag.Bool("update", false, "write schema.json and docs/json.md")

// runChecked is run in which every object that a command prints must conform to its schema.
func runChecked(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := cli.NewEnv(stdin, stdout, stderr)
	env.OnObject = func(v any, line []byte) {
		if err := conforms(v, line); err != nil {
			panic(fmt.Sprintf("--json: %v in %s", err, line))
		}
	}
	return run(ctx, env, args)
}

func conforms(v any, line []byte) error {
	t := reflect.TypeOf(v)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, p := range printed {
		for _, o := range p.objects {
			if reflect.TypeOf(o) != t {
				continue
			}
			g := newSchemas()
			var value any
			if err := json.Unmarshal(line, &value); err != nil {
				return err
			}
			return valid(g.of(t), g.defs, value, t.Name())
		}
	}
	return fmt.Errorf("%v is in no schema: add it to the list printed", t)
}

// valid is as much of JSON Schema as the schemas here use.
func valid(s, defs node, v any, at string) error {
	if ref, ok := s["$ref"].(string); ok {
		return valid(defs[strings.TrimPrefix(ref, "#/$defs/")].(node), defs, v, at)
	}
	if any, ok := s["anyOf"].([]node); ok {
		var last error
		for _, one := range any {
			if last = valid(one, defs, v, at); last == nil {
				return nil
			}
		}
		return last
	}
	types, _ := s["type"].([]string)
	if one, ok := s["type"].(string); ok {
		types = []string{one}
	}
	is := map[bool]string{true: "null"}[v == nil]
	switch x := v.(type) {
	case map[string]any:
		is = "object"
	case []any:
		is = "array"
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; x == float64(int64(x)) && slices.Contains(types, "integer") {
			is = "integer"
		}
	}
	if len(types) > 0 && !slices.Contains(types, is) {
		return fmt.Errorf("%s is %s, want %v", at, is, types)
	}
	switch x := v.(type) {
	case map[string]any:
		properties, _ := s["properties"].(node)
		required, _ := s["required"].([]string)
		for _, name := range required {
			if _, ok := x[name]; !ok {
				return fmt.Errorf("%s has no %s", at, name)
			}
		}
		for name, member := range x {
			one, ok := properties[name].(node)
			if more, isNode := s["additionalProperties"].(node); !ok && isNode {
				one, ok = more, true
			}
			if !ok && s["additionalProperties"] == false {
				return fmt.Errorf("%s has %s", at, name)
			}
			if ok {
				if err := valid(one, defs, member, at+"."+name); err != nil {
					return err
				}
			}
		}
	case []any:
		for i, e := range x {
			if items, ok := s["items"].(node); ok {
				if err := valid(items, defs, e, fmt.Sprintf("%s[%d]", at, i)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// An object that is not as its schema says is found: members that are new, missing or of another type.
func TestConforms(t *testing.T) {
	good := `{"out":"o","format":"csv","rows":3,"columns":["a"]}`
	b, err := json.Marshal(tables.PredictResult{Out: "o", Format: "csv", Rows: 3, Columns: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := conforms(tables.PredictResult{}, b); err != nil {
		t.Errorf("%v in %s", err, b)
	}
	for _, bad := range []string{strings.Replace(good, `"rows":3`, `"rows":"3"`, 1), strings.Replace(good,
		`"rows":3,`, ``, 1),
		strings.Replace(good, `{`, `{"more":1,`, 1), strings.Replace(good, `["a"]`, `[1]`, 1)} {
		if conforms(tables.PredictResult{}, []byte(bad)) == nil {
			t.Errorf("%s conforms", bad)
		}
	}
	if conforms(struct{}{}, []byte("{}")) == nil {
		t.Error("a type that is not listed conforms")
	}
}

// Every command that prints objects has a schema, whose descriptions are the comments of the source.
func TestSchemas(t *testing.T) {
	want := sourceComments(t)
	if *update {
		var err error
		if comments, err = json.MarshalIndent(want, "", "\t"); err != nil {
			t.Fatal(err)
		}
		comments = append(comments, '\n')
		if err := os.WriteFile("schema.json", comments, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var got map[string]map[string]string
	if err := json.Unmarshal(comments, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("schema.json is not what the source says (%v): run go test ./cmd/randfeat -run TestSchemas -update", err)
	}
	for _, p := range printed {
		var s node
		if err := json.Unmarshal([]byte(ok(t, "schema", p.command).stdout), &s); err != nil || s["$defs"] == nil {
			t.Errorf("%s: %v", p.command, err)
		}
	}
	fails(t, exitMisuse, `no command "lit" prints objects; those that do are advise`, "schema", "lit")
	doc := jsonDoc()
	path := filepath.Join("..", "..", "docs", "json.md")
	if *update {
		if err := os.WriteFile(path, doc, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Contains(doc, []byte(" |  |\n")) {
		t.Errorf("a member in docs/json.md has no description: give its field a comment:\n%s", doc)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, doc) {
		t.Errorf("docs/json.md is not what the schemas say (%v): run go test ./cmd/randfeat -run TestSchemas -update", err)
	}
}

// sourceComments are those of the types that schemas define, and of their fields.
func sourceComments(t *testing.T) map[string]map[string]string {
	const module = "github.com/randfeat/randfeat"
	g := newSchemas()
	packages, types := map[string]string{}, map[string]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			visit(typ.Elem())
		case reflect.Struct:
			_, written := ownSchemas[typ]
			if !written && (typ.Implements(own) || reflect.PointerTo(typ).Implements(own)) {
				return // described where it is read
			}
			if types[typ.String()] || !strings.HasPrefix(typ.PkgPath(), module) {
				return
			}
			types[typ.String()] = true
			packages[typ.String()] = filepath.Join("..", "..", strings.TrimPrefix(typ.PkgPath(), module))
			for i := range typ.NumField() {
				visit(typ.Field(i).Type)
			}
		}
	}
	for _, p := range printed {
		for _, o := range p.objects {
			visit(reflect.TypeOf(o))
			g.of(reflect.TypeOf(o))
		}
	}
	out := map[string]map[string]string{}
	parsed := map[string][]*ast.File{}
	for name, dir := range packages {
		if parsed[dir] == nil {
			files, err := filepath.Glob(filepath.Join(dir, "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if strings.HasSuffix(f, "_test.go") {
					continue
				}
				file, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				parsed[dir] = append(parsed[dir], file)
			}
		}
		for _, file := range parsed[dir] {
			if c := commentsOf(file, name); len(c) > 0 {
				out[name] = c
			}
		}
	}
	for name := range out { // of types that are not written as they are
		if _, ok := g.defs[strings.Split(name, ".")[1]]; !ok && !embedded(name) {
			delete(out, name)
		}
	}
	return out
}

// embedded types have their fields in others.
func embedded(name string) bool {
	return slices.Contains([]string{"Report", "Info", "Set"}, strings.Split(name, ".")[1])
}

func commentsOf(file *ast.File, name string) map[string]string {
	out := map[string]string{}
	text := func(groups ...*ast.CommentGroup) string {
		for _, c := range groups {
			if c != nil {
				return strings.Join(strings.Fields(c.Text()), " ")
			}
		}
		return ""
	}
	for _, d := range file.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gen.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok || spec.Name.Name != name[strings.LastIndex(name, ".")+1:] {
				continue
			}
			st, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			if c := text(spec.Doc, gen.Doc); c != "" {
				out[""] = c
			}
			for _, f := range st.Fields.List {
				if f.Tag != nil && f.Tag.Value == "`json:\"-\"`" {
					continue
				}
				for _, n := range f.Names {
					if c := text(f.Doc, f.Comment); c != "" && n.IsExported() {
						out[n.Name] = c
					}
				}
			}
		}
	}
	return out
}

// jsonDoc is docs/json.md.
func jsonDoc() []byte {
	var b bytes.Buffer
	b.WriteString(`# What --json prints

With ` + "`" + `--json` + "`" + ` every command prints JSON objects instead of text, one per line, on stdout. This page gives the meaning of
every member. ` + "`" + `randfeat schema COMMAND` + "`" + ` prints the JSON Schema (draft 2020-12), which also has the objects inside
these. Tests check everything that a command prints in any test against the schemas.

- Members marked with ? are omitted if they carry no information.
- NaN and infinities, which JSON does not have, are null.
- Later versions may add members. They do not rename members or change their types without a line in the CHANGELOG.
- Errors are text on stderr. The exit status is 0 on success, 1 on failure, 2 if the command was misused and 130 after an interrupt.
- If output cannot be written (a full disk), the command prints a message and exits with 1.
- If the reader of a pipe has ended, SIGPIPE ends the process without a message; a shell shows 141.
- If stdout is closed from the start (` + "`" + `>&-` + "`" + `), Go replaces it by ` + "`" + `/dev/null` + "`" + ` before the program begins. On Linux,
  commands whose results would go to stdout alone (` + "`" + `predict` + "`" + ` without ` + "`" + `-o` + "`" + `, and ` + "`" + `-o -` + "`" + `) then exit with 1. Reports are
  discarded with a warning on stderr. Both also hold for a ` + "`" + `/dev/null` + "`" + ` that the caller opened for reading and writing,
  as Python's ` + "`" + `subprocess.DEVNULL` + "`" + ` does: the two cannot be told apart.
- If the system has no memory left, Go ends the process with ` + "`" + `fatal error: out of memory` + "`" + `, a trace and exit status 2, or
  the kernel ends it by SIGKILL (137). Sizes in flags and files are compared with limits first, and exceeding a limit
  gives a message.
- The server's responses have their own schema: ` + "`" + `/openapi.json` + "`" + `.

`)
	g := newSchemas()
	for _, p := range printed {
		fmt.Fprintf(&b, "## randfeat %s\n", p.command)
		for _, o := range p.objects {
			t := reflect.TypeOf(o)
			g.printed(t)
			s := g.defs[t.Name()].(node)
			fmt.Fprintf(&b, "\n**%s**", t.Name())
			if c, ok := s["description"].(string); ok {
				fmt.Fprintf(&b, ": %s", c)
			}
			b.WriteString("\n\n| member | type | |\n|---|---|---|\n")
			properties, _ := s["properties"].(node)
			required, _ := s["required"].([]string)
			names := []string{}
			for name := range properties {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				one := properties[name].(node)
				mark := "?"
				if slices.Contains(required, name) {
					mark = ""
				}
				about, _ := one["description"].(string)
				fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", name, mark, typeText(one), strings.ReplaceAll(about, "|",
					"\\|"))
			}
		}
		b.WriteString("\n")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

func typeText(s node) string {
	if ref, ok := s["$ref"].(string); ok {
		return strings.TrimPrefix(ref, "#/$defs/")
	}
	if any, ok := s["anyOf"].([]node); ok {
		return typeText(any[0])
	}
	kind := "any"
	switch t := s["type"].(type) {
	case string:
		kind = t
	case []string:
		kind = t[0]
	}
	if items, ok := s["items"].(node); ok {
		return kind + " of " + typeText(items)
	}
	if values, ok := s["additionalProperties"].(node); ok {
		return kind + " of " + typeText(values)
	}
	return kind
}
