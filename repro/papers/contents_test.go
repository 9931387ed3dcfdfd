package papers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/repro/lab"
)

// labelsOf reads numbered.txt: labels by the name of a paper's text, and the names in order.
func labelsOf(t *testing.T) (names []string, labels map[string][]string) {
	t.Helper()
	b, err := os.ReadFile("numbered.txt")
	if err != nil {
		t.Fatal(err)
	}
	labels = map[string][]string{}
	for _, line := range strings.Split(string(b), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			names = append(names, strings.Trim(line, "[]"))
		default:
			name := names[len(names)-1]
			labels[name] = append(labels[name], line)
		}
	}
	return names, labels
}

func TestContentsNameAllThatIsNumbered(t *testing.T) {
	names, want := labelsOf(t)
	contents := Contents()
	if len(names) != 5 || len(contents) != 5 {
		t.Fatalf("%d papers in numbered.txt, %d in Contents, want 5", len(names), len(contents))
	}
	for i, p := range contents {
		var got []string
		for _, e := range p.Entries {
			got = append(got, e.Label)
		}
		if !slices.Equal(got, want[names[i]]) {
			t.Errorf("%s has\n%v\nnumbered.txt has\n%v", p.Name, got, want[names[i]])
		}
	}
}

// What an entry names must exist, and what nothing repeats must say why.
func TestContentsPointAtWhatExists(t *testing.T) {
	of := map[string]string{}
	for _, it := range Items() {
		of[it.ID] = it.Paper
	}
	results := read(t, "../training/RESULTS.md")
	command := read(t, "../training/lab.go")
	listed := map[string]bool{}
	for _, p := range Contents() {
		for _, e := range p.Entries {
			where := p.Name + ", " + e.Label
			if e.What == "" {
				t.Errorf("%s: nothing says what it is", where)
			}
			if theorem := !strings.HasPrefix(e.Label, "Fig") && !strings.HasPrefix(e.Label,
				"Table"); len(e.Items) == 0 &&
				e.Run == nil && e.Why == "" && (len(e.Tests) == 0 || !theorem) {
				t.Errorf("%s: no item, no run and no reason", where)
			}
			if strings.Contains(e.Why, "\n") || e.Why != "" && !strings.HasSuffix(e.Why, ".") {
				t.Errorf("%s: the reason is not a line: %q", where, e.Why)
			}
			for _, id := range e.Items {
				if of[id] != p.Name {
					t.Errorf("%s: item %q is of %q", where, id, of[id])
				}
				listed[id] = true
			}
			for _, test := range e.Tests {
				folder, name, _ := strings.Cut(test, ".")
				if folder == "randfeat" { // the package of the root
					folder = "."
				}
				if !hasTest(t, filepath.Join("../..", folder), name) {
					t.Errorf("%s: no test %s in folder %q", where, name, folder)
				}
			}
			if e.Run != nil {
				word := e.Run.Command[strings.LastIndex(e.Run.Command, " ")+1:]
				if !strings.Contains(command, `"`+word+`"`) {
					t.Errorf("%s: training lab has no experiment %q", where, word)
				}
				if !strings.Contains(results, "# "+e.Run.Results+"\n") {
					t.Errorf("%s: training/RESULTS.md has no heading %q", where, e.Run.Results)
				}
			}
		}
	}
	for id, paper := range of {
		if paper != beyond && !listed[id] {
			t.Errorf("item %s of %s is in no entry", id, paper)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool { return strings.Contains(read(t, f), "\nfunc "+name+"(") })
}

var numberedThing = regexp.MustCompile(
	`(?m)^(?:\*\*)?(Figure|Table|Theorem|Lemma|Corollary|Proposition|Remark|Algorithm) ([A-Z]?\.?[0-9]+(?:\.[0-9]+)?)(?:[:.]?\s+\(|[.:](?:\s|$)|\.?\*\*|\s+Fast)`)

// Held against the papers themselves where their texts are at hand, as files of the names in numbered.txt with .txt.
func TestNumberedIsComplete(t *testing.T) {
	dir := os.Getenv("RANDFEAT_PAPERS")
	if dir == "" {
		t.Skip("no RANDFEAT_PAPERS: texts of the papers are not in this repository")
	}
	names, labels := labelsOf(t)
	for _, name := range names {
		found := 0
		for _, m := range numberedThing.FindAllStringSubmatch(read(t, filepath.Join(dir, name+".txt")), -1) {
			label := strings.Replace(m[1], "Figure", "Fig", 1) + " " + m[2]
			found++
			if !slices.ContainsFunc(labels[name], func(l string) bool {
				return l == label || strings.HasPrefix(l,
					label+" ")
			}) {
				t.Errorf("%s: %s is not in numbered.txt", name, label)
			}
		}
		if found < 4 {
			t.Errorf("%s: only %d numbered things were recognised", name, found)
		}
	}
}

// States tell items in this run from others.
func TestStates(t *testing.T) {
	it := Items()[0]
	s := lab.NewSite([]*lab.Page{{Item: it, Mode: "quick"}})
	s.Contents = Contents()
	pages, others := 0, 0
	for _, p := range s.Contents {
		for _, st := range s.States(p) {
			pages, others = pages+len(st.Pages), others+len(st.Other)
		}
	}
	if pages == 0 || others == 0 {
		t.Errorf("%d entries with a page, %d without", pages, others)
	}
}
