package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func spot(kind Kind, v Verdict, why, row, column string) Check {
	return Check{What: row + column, Source: Source{kind, "Table 1"}, Verdict: v, Why: why, Ours: "ours " + row +
		column,
		Spot: &Spot{"Table 1", row, column}}
}

// Checks become tables by place, whatever their order; kinds stay apart; a cell that nothing fills is empty.
func TestSections(t *testing.T) {
	checks := []Check{spot(Printed, Holds, "", "a", "x"), spot(Printed, Misses, "why", "b", "y"),
		{What: "a claim", Source: StatedIn("§1"), Verdict: Holds}, spot(Printed, Misses, "why", "a", "y"),
		spot(Formula, TooNoisy, "noise", "a", "x")}
	s := Sections(checks)
	if len(s) != 3 || s[0].Title != "Printed in the paper" || s[1].Title != "Stated in the paper" ||
		s[2].Title != "Follows from a formula" {
		t.Fatalf("sections %+v", s)
	}
	g := s[0].Grids[0]
	if !reflect.DeepEqual(g.Columns, []string{"x", "y"}) || len(g.Rows) != 2 || g.Rows[1].Cells[0] != nil ||
		g.Rows[0].Cells[1].Ours != "ours ay" || g.Rows[1].Cells[1].Ours != "ours by" {
		t.Errorf("table %+v", g)
	}
	if len(g.Reasons) != 1 || len(g.Reasons[0].Spots) != 2 || g.Reasons[0].Why != "why" {
		t.Errorf("reasons %+v", g.Reasons)
	}
	if len(s[1].Checks) != 1 || len(s[1].Grids) != 0 || len(s[2].Grids) != 1 {
		t.Errorf("sections %+v", s)
	}
}

// What is recorded is read again, items that were not run keep their record, and an item without data shows it.
func TestRecords(t *testing.T) {
	one, two := &Item{ID: "one", Paper: "P", Title: "One"}, &Item{ID: "two", Paper: "P", Title: "Two",
		Data: []string{"no"}}
	check := spot(Printed, Misses, "because", "a", "x")
	check.Reference = "17.4711"
	all := []*Item{one, two}
	path := filepath.Join(t.TempDir(), "R.jsonl")
	s := NewSite([]*Page{{Item: two, Mode: "full", Seconds: 3, Checks: []Check{check}, Notes: []string{"noted"}}})
	if err := s.Keep(all, nil).WriteRecords(path); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ReadRecords(b)
	if err != nil || len(r) != 1 || !reflect.DeepEqual(r["two"].Checks, []Check{check}) || r["two"].Seconds != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	// A run of the other item: the record stays, in the lines and in the table.
	s = NewSite([]*Page{{Item: one, Mode: "quick", Checks: []Check{{What: "w", Source: StatedIn("§1"),
		Verdict: Holds}}}})
	if err := s.Keep(all, r).WriteRecords(path); err != nil {
		t.Fatal(err)
	}
	b, _ = os.ReadFile(path)
	if again, err := ReadRecords(b); err != nil || len(again) != 2 || !reflect.DeepEqual(again["two"], r["two"]) {
		t.Errorf("%+v, %v", again, err)
	}
	if md := string(s.Keep(all, r).Markdown()); !strings.Contains(md, "17.4711") || !strings.Contains(md, "noted") ||
		!strings.Contains(md, "| printed values | 0 | 1 |") {
		t.Errorf("the table lost the record:\n%s", md)
	}
	l := newLab(t, "", 1)
	l.Recorded = r
	p := do(t, l, two)
	if p.Skipped == "" || p.Recorded == nil {
		t.Fatalf("page %+v", p)
	}
	var html bytes.Buffer
	if err := pages.ExecuteTemplate(&html, "item", struct {
		Site *Site
		Page *Page
	}{s, p}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"17.4711", "The last recorded result", "because", "Printed in the paper"} {
		if !strings.Contains(html.String(), want) {
			t.Errorf("the page without data lacks %q", want)
		}
	}
	if s := NewSite([]*Page{p}); s.Count()[Printed][Misses] != 0 {
		t.Error("a recorded verdict counts as one of this run")
	}
	for _, bad := range []string{"{", `{"id":""}`, "{\"id\":\"a\"}\n{\"id\":\"a\"}"} {
		if _, err := ReadRecords([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
