package watch_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/watch"
)

// columns of the tables of the tests: two related numbers, levels, a date, a target.
const header = "t,p,region,day,y\n"

// change alters a row of a table.
type change func(r *rand.Rand, row *row)

type row struct {
	t, p   float64
	region string
	lost   bool
}

func table(t testing.TB, seed uint64, n int, c change) data.Source {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	var b strings.Builder
	b.WriteString(header)
	for i := range n {
		x := row{t: r.NormFloat64(), region: []string{"north", "south", "south", "west", "east", "mid"}[r.IntN(6)]}
		x.p, x.lost = 0.8*x.t+0.6*r.NormFloat64(), r.Float64() < .02
		if c != nil {
			c(r, &x)
		}
		cell := fmt.Sprintf("%.4f", x.t)
		if x.lost {
			cell = ""
		}
		fmt.Fprintf(&b, "%s,%.4f,%s,2024-%02d-%02d,%.4f\n", cell, x.p, x.region, 1+i%12, 1+i%28, x.t+x.p)
	}
	src, err := text.OpenBytes("table.csv", []byte(b.String()), data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func reference(t testing.TB, src data.Source) *watch.Reference {
	t.Helper()
	s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := watch.Table(src, s, watch.Options{Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func report(t testing.TB, ref *watch.Reference, src data.Source) *watch.Report {
	t.Helper()
	m := ref.Monitor()
	if err := m.AddTable(src, watch.TableOptions{}); err != nil {
		t.Fatal(err)
	}
	r, err := m.Report(0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every kind of change is found, and named where it is.
func TestChanges(t *testing.T) {
	ref := reference(t, table(t, 1, 800, nil))
	for _, c := range []struct {
		name   string
		change change
		column string // the first one of the report, if it changed by itself
		text   string // part of what it says
	}{
		{name: "nothing"},
		{"mean", func(_ *rand.Rand, x *row) { x.t += .4 }, "t", "standard deviations"},
		{"spread", func(_ *rand.Rand, x *row) { x.t *= 1.5 }, "t", "spread"},
		{"missing", func(r *rand.Rand, x *row) { x.lost = x.lost || r.Float64() < .08 }, "t", "missing, was"},
		{"levels", func(r *rand.Rand, x *row) {
			if r.Float64() < .2 {
				x.region = "north"
			}
		}, "region", `"north"`},
		{"unknown", func(_ *rand.Rand, x *row) {
			if x.region == "north" {
				x.region = "nord"
			}
		}, "region", "unknown levels"},
		{"relation", func(r *rand.Rand, x *row) { x.p = r.NormFloat64() }, "", "the relation of"},
		{"range", func(r *rand.Rand, x *row) {
			if r.Float64() < .05 {
				x.p = 9
			}
		}, "p", "beyond the range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := report(t, ref, table(t, 2, 500, c.change))
			first := r.Columns[0]
			switch {
			case r.Changed != (c.name != "nothing"):
				t.Errorf("changed is %v: %+v", r.Changed, r)
			case first.Changed != (c.column != "") || c.column != "" && first.Name != c.column:
				t.Errorf("the first column is %+v, want %q", first, c.column)
			case !strings.Contains(first.Text+r.Relation, c.text):
				t.Errorf("the texts are %q and %q, want %q", first.Text, r.Relation, c.text)
			}
		})
	}
}

// Without a change, reports of many windows give false alarms as rarely as they say.
func TestFalseAlarms(t *testing.T) {
	const tables, windows = 6, 50
	alarms, streams := 0, 0
	for k := range uint64(tables) {
		ref := reference(t, table(t, 100+k, 600, nil))
		var s watch.Sequence
		stream := false
		for w := range uint64(windows) {
			m := ref.Monitor()
			if err := m.AddTable(table(t, 1000*(k+1)+w, 150, nil), watch.TableOptions{}); err != nil {
				t.Fatal(err)
			}
			r, err := m.Report(0)
			if err != nil {
				t.Fatal(err)
			}
			if r.Changed {
				alarms++
			}
			if r, err = s.Report(m); err != nil {
				t.Fatal(err)
			}
			stream = stream || r.Changed
		}
		if stream {
			streams++
		}
		if s.Looks != windows {
			t.Fatalf("%d looks of %d windows", s.Looks, windows)
		}
	}
	// 15 of 300 are expected. Windows share a reference, so their number varies more than a binomial one.
	if alarms > 36 || alarms < 2 {
		t.Errorf("%d of %d windows changed at the level 0.05", alarms, tables*windows)
	}
	if streams > 1 {
		t.Errorf("%d of %d streams changed", streams, tables)
	}
}

// Parts of a table, saved and merged, give the report of the whole.
func TestMerge(t *testing.T) {
	ref := reference(t, table(t, 1, 400, nil))
	whole, total := ref.Monitor(), ref.Monitor()
	for k := range uint64(3) {
		part, restored := ref.Monitor(), ref.Monitor()
		for _, m := range []*watch.Monitor{whole, part} {
			if err := m.AddTable(table(t, 10+k, 100, nil), watch.TableOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		b, err := part.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if err := restored.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		b[len(b)/2]++
		if err := part.UnmarshalBinary(b); !errors.Is(err, machine.ErrCorrupt) {
			t.Errorf("damaged bytes: %v", err)
		}
		if err := total.Merge(restored); err != nil {
			t.Fatal(err)
		}
	}
	a, err := whole.Report(0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := total.Report(0)
	if err != nil {
		t.Fatal(err)
	}
	if a.Rows != 300 || a.P != b.P || a.Joint != b.Joint || a.Columns[0].P != b.Columns[0].P {
		t.Errorf("parts give %+v, the whole %+v", b, a)
	}
	other := reference(t, table(t, 2, 400, nil)).Monitor()
	if err := total.Merge(other); !errors.Is(err, watch.ErrMismatch) {
		t.Errorf("a monitor of another reference: %v", err)
	}
}

// A reference is the same after it was written and read, and small. Damage is found.
func TestCodec(t *testing.T) {
	src := table(t, 1, 400, nil)
	s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := watch.Table(src, s, watch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ref.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 200e3 {
		t.Errorf("%d bytes", len(b))
	}
	read, err := watch.Read(b, s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := read.MarshalText()
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("the text changed (%v)", err)
	}
	if x, y := report(t, ref, table(t, 5, 90, nil)), report(t, read, table(t, 5, 90, nil)); x.Text != y.Text {
		t.Errorf("%q before, %q after", x.Text, y.Text)
	}
	for _, old := range []string{`"version":1`, `"kept":[0,`, `"bins":[33,`, `"rows":400`, `"tests":`, `"sums":"A`} {
		bad := bytes.Replace(b, []byte(old), []byte(old[:len(old)-1]+"-7"), 1)
		if bytes.Equal(bad, b) {
			continue
		}
		if _, err := watch.Read(bad, s); !errors.Is(err, machine.ErrCorrupt) {
			t.Errorf("%s changed: %v", old, err)
		}
	}
	other := *s
	other.Fields = other.Fields[1:]
	if _, err := watch.Read(b, &other); !errors.Is(err, watch.ErrMismatch) {
		t.Errorf("another schema: %v", err)
	}
}

// Bad input is refused with a reason.
func TestBadInput(t *testing.T) {
	src := table(t, 1, 400, nil)
	ref := reference(t, src)
	m := ref.Monitor()
	if _, err := m.Report(0); !errors.Is(err, watch.ErrFew) {
		t.Errorf("no rows: %v", err)
	}
	if err := m.AddTable(table(t, 1, 1, nil), watch.TableOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Report(0); !errors.Is(err, watch.ErrFew) || !strings.Contains(err.Error(), "1 row,") {
		t.Errorf("one row: %v", err)
	}
	if err := m.Add(dense.New[float64](2, 3), dense.Matrix[float64]{}); !errors.Is(err, dense.ErrShape) {
		t.Errorf("rows of three columns: %v", err)
	}
	if _, err := watch.Of(new(machine.Model)); !errors.Is(err, watch.ErrNone) {
		t.Errorf("a model without a reference: %v", err)
	}
	open := func(s string) data.Source {
		src, err := text.OpenBytes("new.csv", []byte(s), data.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return src
	}
	for _, c := range []struct{ table, want string }{
		{"t,p,region,y\n1,2,north,3\n", "columns missing"},
		{"t,p,region,day,more,y\n1,2,north,2024-01-01,5,3\n", "columns unknown"},
		{"a,b\n1,2\n", "columns missing"},
	} {
		err := ref.Monitor().AddTable(open(c.table), watch.TableOptions{})
		if !errors.Is(err, data.ErrSchema) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.table, err)
		}
	}
	// All cells missing is a change like any other.
	empty := header + strings.Repeat(",,,,\n", 40)
	if r := report(t, ref, open(empty)); !r.Changed {
		t.Errorf("all cells missing: %+v", r)
	}
	if _, err := watch.Table(table(t, 1, 10, nil), watch.Schema(&data.Schema{Fields: []data.Field{{Name: "t",
		Kind: data.Numeric, Scale: 1}}, Ignored: []string{"p", "region", "day", "y"}}),
		watch.Options{}); !errors.Is(err, watch.ErrFew) {
		t.Errorf("a reference of ten rows: %v", err)
	}
}
