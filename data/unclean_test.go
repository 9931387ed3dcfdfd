package data_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// column makes a table of n rows with a column x of the given texts and a column z of random numbers.
func column(n int, x func(i int) string) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("x;z\n")
	for i := range n {
		fmt.Fprintf(&b, "%s;%.6f\n", x(i), r.NormFloat64())
	}
	return b.String()
}

func fieldOf(t *testing.T, s *data.Schema, name string) data.Field {
	t.Helper()
	for _, f := range s.Fields {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no field %s in %+v", name, s)
	return data.Field{}
}

// A column keeps its type if at most one in twenty cells cannot be read. Words that mean a missing value do not count,
// and words that come again beside few numbers are levels.
func TestUnreadableCells(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	number := func(int) string { return fmt.Sprintf("%.3f", r.NormFloat64()) }
	price := func(int) string { return fmt.Sprintf("$%.2f", 1+30*r.Float64()) }
	date := func(i int) string { return fmt.Sprintf("2023-%02d-%02d", 1+i%12, 1+i%28) }
	few := func(i int) string { return fmt.Sprint(i % 5) }
	with := func(of func(int) string, every int, texts ...string) func(int) string {
		k := 0
		return func(i int) string {
			if i%every == every/2 {
				k++
				return texts[(k-1)%len(texts)]
			}
			return of(i)
		}
	}
	for _, c := range []struct {
		name       string
		rows       int
		x          func(int) string
		kind       data.FieldKind
		unreadable int64
		note       string
	}{
		{"one word", 20000, with(number, 20000, "oops"), data.Numeric, 1, `1 of 20000 values is not a number and counts as missing: the first is "oops" at x.csv:10002`},
		{"free", 800, with(price, 800, "free"), data.Numeric, 1, `the first is "free" at x.csv:402`},
		{"one date", 100, with(date, 100, "sometime"), data.Time, 1, `1 of 100 values is not a date and counts as missing: the first is "sometime" at x.csv:52`},
		{"missing dates", 100, with(date, 10, "0000-00-00", "NaT", "unknown"), data.Time, 0, ""},
		{"missing numbers", 100, with(number, 3, "unknown", "#N/A", "<NA>", "n/a", "-", "#DIV/0!"), data.Numeric, 0,
			""},
		{"one in twenty", 200, with(number, 20, "oops"), data.Numeric, 10, "10 of 200 values"},
		{"more than one in twenty", 190, with(number, 19, "oops"), data.Categorical, 0, ""},
		{"a small table", 20, with(number, 20, "oops"), data.Numeric, 1, "1 of 20"},
		{"too small a table", 19, with(number, 19, "oops"), data.Categorical, 0, ""},
		{"one word again", 400, with(few, 40, "more"), data.Numeric, 10, "10 of 400"},
		{"levels", 400, with(few, 40, "more", "less"), data.Categorical, 0, "categorical though 390 of its values"},
		{"typing errors", 400, with(few, 200, "1o", "2o"), data.Numeric, 2, "2 of 400"},
		{"few numbers among levels", 400, func(i int) string {
			return []string{"red", "blue", "7", "green"}[i%4]
		}, data.Categorical, 0, ""},
		{"one word among truths", 100, with(func(i int) string { return fmt.Sprint(i%3 == 0) }, 100, "maybe"),
			data.Categorical, 0, ""},
	} {
		content := column(c.rows, c.x)
		s, sum, err := data.Learn(openText(t, content, data.Options{}), data.LearnOptions{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		f := fieldOf(t, s, "x")
		if f.Kind != c.kind || sum.Columns[0].Unreadable != c.unreadable ||
			!strings.Contains(strings.Join(sum.Notes, "\n"), c.note) {
			t.Errorf("%s: %+v, %+v, %q", c.name, f, sum.Columns[0], sum.Notes)
		}
		_, _, err = data.Learn(openText(t, content, data.Options{}), data.LearnOptions{Strict: true})
		if refused := errors.Is(err, data.ErrUnreadable); refused != (c.unreadable > 0) {
			t.Errorf("%s, strictly: %v", c.name, err)
		}
		if c.unreadable > 0 && (!f.Missing || sum.Columns[0].Missing < c.unreadable ||
			!strings.Contains(err.Error(), "x.csv:")) {
			t.Errorf("%s: %+v, %+v, %v", c.name, f, sum.Columns[0], err)
		}
	}
	// Of a target no row vanishes.
	for _, c := range []struct{ content, want string }{
		{column(100, with(number, 100, "oops")), `x.csv:52: target "x" is "oops", though 99 of its values are numbers`},
		{column(100, with(price, 100, "free")), `x.csv:52: target "x" is "free", though 99 of its values are numbers`},
		{column(100, with(number, 100, "unknown")), `x.csv:52: target "x" is "unknown", though 99 of its values are numbers: correct it, name it as missing`},
		{column(100, with(number, 100, "#N/A")), `x.csv:52: target "x" is missing`},
	} {
		for _, task := range []data.Task{data.Auto, data.Regression} {
			o := data.LearnOptions{Targets: []string{"x"}, Task: task}
			_, _, err := data.Learn(openText(t, c.content, data.Options{}), o)
			if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		}
	}
}

// Cut anywhere, a table with unreadable cells, outliers, percentages and row numbers is the same.
func TestUncleanInParts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const head = "row;bad;when;out;share;zahl;id;y\n"
	var lines []string
	for i := range 300 {
		bad, when, out, share := fmt.Sprintf("%.4f", r.NormFloat64()), fmt.Sprintf("%d/%d/21", 1+i%12, 1+i%28),
			fmt.Sprintf("%.4f", 5+r.NormFloat64()), fmt.Sprintf("%.1f%%", 20*r.Float64())
		if i%60 == 59 {
			bad, share = "x"+fmt.Sprint(i), "7.5"
		}
		if i == 11 {
			when, out = "never", "-1e9"
		}
		lines = append(lines, fmt.Sprintf("%d;%s;%s;%s;%s;%d.%03d;%d;%d,%d\n", i, bad, when, out, share, 1+i%9, i%1000,
			1000+i*7919%100003, i%17, i%7))
	}
	o := data.LearnOptions{Targets: []string{"y"}, Task: data.Regression}
	learner := func(content string, first int) *data.Learner {
		src := openText(t, head+content, data.Options{Delimiter: ';', Header: new(true)})
		l, err := data.NewLearner("x.csv", src.Columns(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.AddSource(inUnit{src, data.Unit{Block: first}}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	want, wantSum, err := learner(strings.Join(lines, ""), 0).Schema()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(want.Ignored, "row") || !slices.Contains(want.Ignored, "id") ||
		fieldOf(t, want, "out").Clip == nil || fieldOf(t, want, "share").Format != "1,234.5%" ||
		fieldOf(t, want, "zahl").Format != "" || fieldOf(t, want, "when").Kind != data.Time ||
		fieldOf(t, want, "bad").Kind != data.Numeric {
		t.Fatalf("%+v\n%q", want, wantSum.Notes)
	}
	for range 20 {
		var whole *data.Learner
		for lo, part := 0, 0; lo < len(lines); part++ {
			hi := min(len(lines), lo+1+r.IntN(120))
			l := learner(strings.Join(lines[lo:hi], ""), part)
			if part%2 == 1 {
				b, err := l.MarshalBinary()
				if err != nil {
					t.Fatal(err)
				}
				l = new(data.Learner)
				if err = l.UnmarshalBinary(b); err != nil {
					t.Fatal(err)
				}
			}
			if whole == nil {
				whole = l
			} else if err := whole.Merge(l); err != nil {
				t.Fatal(err)
			}
			lo = hi
		}
		got, sum, err := whole.Schema()
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Fields { // means and scales differ by rounding
			f, g := &got.Fields[i], want.Fields[i]
			if math.Abs(f.Mean-g.Mean) > 1e-9*math.Abs(g.Scale) || math.Abs(f.Scale/g.Scale-1) > 1e-9 {
				t.Fatalf("%+v, want %+v", f, g)
			}
			f.Mean, f.Scale = g.Mean, g.Scale
		}
		got.Targets = want.Targets
		if !strings.Contains(strings.Join(sum.Notes, "\n"), `the first is "x59" at`) {
			t.Fatalf("%q do not name the first unreadable value", sum.Notes)
		}
		if !reflect.DeepEqual(got, want) || len(sum.Notes) != len(wantSum.Notes) {
			t.Fatalf("%+v\n%q\nwant\n%+v\n%q", got, sum.Notes, want, wantSum.Notes)
		}
	}
}

// inUnit gives all rows of a source one unit.
type inUnit struct {
	data.Source
	u data.Unit
}

func (s inUnit) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	return unitRows{r, s.u}, err
}

type unitRows struct {
	data.Reader
	u data.Unit
}

func (r unitRows) Read(b *data.Block, most int) error {
	err := r.Reader.Read(b, most)
	b.Unit = r.u
	return err
}

// Points between groups of thousands are told from decimal points by the other columns, and later tables are read as
// the fit was.
func TestGermanNumbers(t *testing.T) {
	thousands := func(i int) string {
		if i%2 == 0 {
			return fmt.Sprint(900 + i%100)
		}
		return fmt.Sprintf("%d.%03d", 1+i%30, i*37%1000)
	}
	german := strings.ReplaceAll(column(60, func(int) string { return "" }), ".", ",")
	lines := strings.Split(strings.TrimSpace(german), "\n")
	for i := range lines[1:] {
		lines[i+1] = thousands(i) + lines[i+1]
	}
	s, sum := learn(t, strings.Join(lines, "\n")+"\n", data.LearnOptions{})
	f := fieldOf(t, s, "x")
	if f.Format != "1.234,5" || f.Range[1] < 1000 || !strings.Contains(strings.Join(sum.Notes, "\n"),
		`column "x" is read as numbers 1.234,5, such as "2.037"`) {
		t.Errorf("%+v %v, %q", f, f.Range, sum.Notes)
	}
	plain, _ := learn(t, column(60, thousands), data.LearnOptions{}) // decimal points in z: points are decimal
	if f := fieldOf(t, plain, "x"); f.Format != "" || f.Range[1] < 900 || f.Range[0] > 30 {
		t.Errorf("%+v %v", f, f.Range)
	}
	// z has decimal commas and no groups: 3.125 there has a decimal point, and somebody is told.
	z := fieldOf(t, s, "z")
	if z.Format != "1234,5" {
		t.Fatalf("%+v", z)
	}
	for _, c := range []struct {
		x, z string
		want [2]float64
		what string
	}{{"3.125", "3,125", [2]float64{3125, 3.125}, ""}, {"950", "3.125", [2]float64{950, 3.125}, "decimal point"},
		{"12.612", "-0,5", [2]float64{12612, -0.5}, ""}} {
		var w data.Watch
		x, err := watched(s, "x;z\n"+c.x+";"+c.z+"\n", &w)
		if err != nil {
			t.Fatal(err)
		}
		got := [2]float64{x.At(0, 0)*f.Scale + f.Mean, x.At(0, 1)*z.Scale + z.Mean}
		if math.Abs(got[0]-c.want[0]) > 1e-6 || math.Abs(got[1]-c.want[1]) > 1e-9 {
			t.Errorf("%s;%s: %v, want %v", c.x, c.z, got, c.want)
		}
		said := ""
		for _, s := range w.Surprises() {
			if s.What == "decimal point" {
				said = s.What
			}
		}
		if said != c.what {
			t.Errorf("%s;%s: %v", c.x, c.z, w.Surprises())
		}
	}
}

// watched encodes a table with a watch.
func watched(s *data.Schema, content string, w *data.Watch) (dense.Matrix[float64], error) {
	var x dense.Matrix[float64]
	src, err := text.OpenBytes("new.csv", []byte(content), data.Options{Delimiter: ';', Header: new(true)})
	if err != nil {
		return x, err
	}
	e, err := s.Encoder(src.Columns(), false)
	if err != nil {
		return x, err
	}
	e.Watch(w)
	r, err := src.Open(e.Kinds())
	if err != nil {
		return x, err
	}
	defer r.Close()
	var b data.Block
	if err := r.Read(&b, 1000); err != nil {
		return x, err
	}
	x = dense.New[float64](b.Rows, s.Width())
	return x, e.Encode(x, dense.Matrix[float64]{}, &b, r.Where)
}

// Percentages are numbers in percent, with or without a sign, unless the numbers without are fractions.
func TestPercentages(t *testing.T) {
	mixed := func(format string) func(i int) string {
		return func(i int) string {
			if i%3 == 0 {
				return fmt.Sprintf(format, float64(i)/7)
			}
			return fmt.Sprintf("%.2f%%", float64(i)/7)
		}
	}
	for _, c := range []struct {
		name, format string
		x            func(int) string
		max          float64
		note         string
	}{
		{"all", "1,234.5%", func(i int) string { return fmt.Sprintf("%.2f%%", float64(i)/7) }, 14.14,
			"percentages: 6.1% is 6.1"},
		{"mixed", "1,234.5%", mixed("%.2f"), 14.14, "percentages: 6.1% is 6.1"},
		{"fractions", "1,234.5", func(i int) string {
			if i%3 == 0 {
				return fmt.Sprintf("%.4f", float64(i)/700)
			}
			return fmt.Sprintf("%.2f%%", float64(i)/7)
		}, 0.1414, "fractions: 6.1% is 0.061"},
	} {
		for _, target := range []bool{false, true} {
			o := data.LearnOptions{}
			if target {
				o.Targets = []string{"x"}
			}
			s, sum := learn(t, column(100, c.x), o)
			column := sum.Columns[0]
			format := ""
			if target {
				format = s.Targets[0].Format
			} else {
				format = fieldOf(t, s, "x").Format
			}
			if format != c.format || math.Abs(column.Max-c.max) > 1e-9 ||
				!strings.Contains(strings.Join(sum.Notes, "\n"), c.note) {
				t.Errorf("%s, target %v: %s, %+v, %q", c.name, target, format, column, sum.Notes)
			}
			_, y, err := encodeSource(openText(t, column2(c.x), data.Options{Delimiter: ';'}), s, target, 10)
			if target && (err != nil || math.Abs(y.At(0, 0)-c.max*7/14) > 0.01*c.max) {
				t.Errorf("%s: %v, %v, want about %g", c.name, y, err, c.max/2)
			}
		}
	}
}

// column2 is a table of row 49 or 50, of which the first has a percent sign.
func column2(x func(int) string) string { return "x;z\n" + x(49) + ";1\n" + x(50) + ";2\n" }

// Columns that number or identify the rows are left out, unless they are all there is or named as numeric.
func TestRowNumbers(t *testing.T) {
	table := func(name string, value func(i int) int) string {
		r := rand.New(rand.NewPCG(5, 6))
		content := name + ",z,k\n"
		for i := range 40 {
			content += fmt.Sprintf("%d,%.4f,%d\n", value(i), r.NormFloat64(), i%3)
		}
		return content
	}
	shuffled := func(i int) int { return i * 7 % 40 }
	keys := func(i int) int { return 1000 + i*7919%10007 }
	for _, c := range []struct {
		name  string
		value func(i int) int
		out   bool
	}{
		{"row", func(i int) int { return i }, true},
		{"nr", func(i int) int { return i + 1 }, true},
		{"count", func(i int) int { return i + 2 }, false},
		{"day", func(i int) int { return i + 1 }, false},
		{"size", shuffled, false},
		{"", shuffled, true}, // a data frame's index, after its rows were shuffled
		{"Unnamed: 0", shuffled, true},
		{"__index_level_0__", shuffled, true},
		{"", func(i int) int { return i % 4 }, false},
		{"customer_id", keys, true},
		{"PassengerId", keys, true},
		{"ID", keys, true},
		{"store_id", func(i int) int { return i % 5 }, false},
		{"paid", keys, false},
	} {
		s, sum := learn(t, table(c.name, c.value), data.LearnOptions{})
		name := c.name
		if name == "" {
			name = "c1"
		}
		if out := slices.Contains(s.Ignored, name); out != c.out ||
			out != strings.Contains(strings.Join(sum.Notes, "\n"), "left out, since it") {
			t.Errorf("%q: %q, %q", c.name, s.Ignored, sum.Notes)
		}
		if c.out {
			kept, _ := learn(t, table(c.name, c.value), data.LearnOptions{Numeric: []string{name}})
			if len(kept.Ignored) > 0 {
				t.Errorf("%q as numeric: %+v", c.name, kept)
			}
			only, _ := learn(t, table(c.name, c.value), data.LearnOptions{Targets: []string{"z"}, Skip: []string{"k"}})
			if len(only.Fields) != 1 {
				t.Errorf("%q alone: %+v", c.name, only)
			}
		}
	}
}

// A few values far from all others do not set the scale; heavy tails and sparse columns are left as they are.
func TestGrossOutliers(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	normal := make([]float64, 2000)
	for i := range normal {
		normal[i] = r.NormFloat64()
	}
	at := func(value float64, places ...int) func(int) string {
		return func(i int) string {
			if slices.Contains(places, i) {
				return fmt.Sprint(value)
			}
			return fmt.Sprint(normal[i])
		}
	}
	for _, c := range []struct {
		name string
		rows int
		x    func(i int) string
		clip bool
	}{
		{"none", 2000, at(0), false},
		{"1e7 in 400", 400, at(1e7, 7), true},
		{"three of 1e12", 2000, at(1e12, 5, 500, 1500), true},
		{"both ends", 2000, func(i int) string {
			if i%900 == 3 {
				return fmt.Sprint(1e9 * float64(i-1000))
			}
			return fmt.Sprint(normal[i])
		}, true},
		{"1e300", 400, at(1e300, 7), true},
		{"years", 400, func(i int) string {
			if i == 9 {
				return "99999"
			}
			return fmt.Sprint(1990 + i%30)
		}, true},
		{"one of ten standard deviations", 400, at(10, 7), false},
		{"2 % far away", 400, func(i int) string { return at(1e6, i/50*50)(i) }, false},
		{"lognormal", 2000, func(i int) string { return fmt.Sprint(math.Exp(3 * normal[i])) }, false},
		{"mostly zero", 2000, func(i int) string {
			if i%300 == 7 {
				return fmt.Sprint(1000 + i)
			}
			return "0"
		}, false},
	} {
		s, sum := learn(t, column(c.rows, c.x), data.LearnOptions{})
		f := fieldOf(t, s, "x")
		if (f.Clip != nil) != c.clip ||
			c.clip != strings.Contains(strings.Join(sum.Notes, "\n"), "far outside the range of all others") {
			t.Errorf("%s: %+v, %q", c.name, f, sum.Notes)
			continue
		}
		x, _, err := encode(column(c.rows, c.x), s, false, 100)
		if err != nil {
			t.Fatal(err)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for i := range x.Rows {
			least, most = min(least, x.At(i, 0)), max(most, x.At(i, 0))
		}
		if c.clip && (most > 5 || least < -5 || most-least < 1) {
			t.Errorf("%s: from %g to %g", c.name, least, most)
		}
	}
	// Dates that mean "for ever".
	s, _ := learn(t, column(100, func(i int) string {
		if i == 50 {
			return "9999-12-31"
		}
		return fmt.Sprintf("2023-%02d-%02d", 1+i%12, 1+i%28)
	}), data.LearnOptions{})
	if f := fieldOf(t, s, "x"); f.Clip == nil || f.Scale > 200 {
		t.Errorf("%+v", f)
	}
}

// A schema learned from a part of the rows, like that of all, encodes every row of the table, and has its kinds.
func TestLearnLike(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 8))
	lines := []string{"row,name,price,when,k,flag,y\n"}
	for i := range 120 {
		price, when := fmt.Sprintf("$%.2f", 10*r.Float64()), fmt.Sprintf("%d.%d.2021", 1+i%28, 1+i%12)
		if i == 90 {
			price, when = "free", "soon"
		}
		lines = append(lines, fmt.Sprintf("%d,name %d,%s,%s,%d,%v,%.3f\n", i, i, price, when, i%4, i%2 == 0,
			r.NormFloat64()))
	}
	o := data.LearnOptions{Targets: []string{"y"}, Task: data.Regression, Categorical: []string{"k"}}
	all, _ := learn(t, strings.Join(lines, ""), o)
	for _, part := range [][]string{lines[:61], lines[:3], append(lines[:1:1], lines[61:]...), lines[:2]} {
		s, _, err := data.Learn(openText(t, strings.Join(part, ""), data.Options{Header: new(true)}),
			data.LearnOptions{Like: all})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.Targets, all.Targets) || slices.ContainsFunc(all.Ignored, func(n string) bool {
			return !slices.Contains(s.Ignored, n)
		}) {
			t.Errorf("%+v, want targets and left out columns of %+v", s, all)
		}
		for _, f := range s.Fields {
			if g := fieldOf(t, all, f.Name); g.Kind != f.Kind || g.Format != f.Format {
				t.Errorf("%+v, want %+v", f, g)
			}
		}
		if len(part) == 61 && part[1] == lines[1] {
			if f := fieldOf(t, s, "price"); f.Missing || f.Mean == fieldOf(t, all, "price").Mean {
				t.Errorf("%+v: not learned from the part", f)
			}
		}
		src := openText(t, strings.Join(lines, ""), data.Options{})
		e, err := s.Encoder(src.Columns(), true)
		if err != nil {
			t.Fatal(err)
		}
		rd, err := src.Open(e.Kinds())
		if err != nil {
			t.Fatal(err)
		}
		var b data.Block
		if err := rd.Read(&b, 1000); err != nil {
			t.Fatal(err)
		}
		x, y := dense.New[float64](b.Rows, s.Width()), dense.New[float64](b.Rows, 1)
		if err := e.Encode(x, y, &b, rd.Where); err != nil {
			t.Errorf("%v", err)
		}
		rd.Close()
	}
}

// Later tables: a word among numbers is missing and counted, an error if that is asked for, and a column without any
// number is another column.
func TestUnreadableLater(t *testing.T) {
	s, _ := learn(t, column(100, func(i int) string { return fmt.Sprintf("%d.5", i*i) }), data.LearnOptions{})
	f := fieldOf(t, s, "x")
	var w data.Watch
	x, err := watched(s, "x;z\n12;1\noops;2\nunknown;0\n", &w)
	if err != nil {
		t.Fatal(err)
	}
	if x.At(1, 0) != 0 || x.At(2, 0) != 0 || math.Abs(x.At(0, 0)*f.Scale+f.Mean-12) > 1e-9 {
		t.Errorf("%v", x)
	}
	said := fmt.Sprint(w.Surprises())
	for _, want := range []string{`1 value unreadable (want a number), taken for missing; the first is "oops" at new.csv:3`,
		`1 value missing, none was at the fit; the first at new.csv:4`} {
		if !strings.Contains(said, want) {
			t.Errorf("%s, want %s", said, want)
		}
	}
	_, err = watched(s, "x;z\n12;1\noops;2\n", &data.Watch{Strict: true})
	if !errors.Is(err, data.ErrSurprise) ||
		!strings.Contains(err.Error(), `new.csv:3: column "x" is "oops", want a number`) {
		t.Errorf("%v", err)
	}
	if _, err = watched(s, "x;z\noops;1\nagain;2\n", &w); err == nil || !strings.Contains(err.Error(),
		`new.csv:2: column "x" is "oops", want a number`) {
		t.Errorf("%v", err)
	}
}

// Further spellings of numbers and dates.
func TestMoreSpellings(t *testing.T) {
	for _, c := range []struct {
		content string
		days    float64 // since 1970
		format  string
	}{
		{"2/19/21", 18677, "month-day-year"},
		{"19-Feb-21", 18677, "day-month-year"},
		{"19.02.21", 18677, "day-month-year"},
		{"2021-02", 18659, "year-month-day"},
		{"2/19/69", -316, "month-day-year"},
		{"2/19/68", 35843, "month-day-year"},
	} {
		content := "x;z\n"
		other := map[string]string{"month-day-year": "12/31/20", "day-month-year": "31-Dec-20",
			"year-month-day": "2020-12"}[c.format]
		if strings.Contains(c.content, ".") {
			other = "31.12.20"
		}
		for i := range 20 {
			content += fmt.Sprintf("%s;%d\n%s;%d\n", c.content, i*i, other, i)
		}
		s, _ := learn(t, content, data.LearnOptions{})
		f := fieldOf(t, s, "x")
		if f.Kind != data.Time || f.Format != c.format || f.Range[0] != c.days && f.Range[1] != c.days {
			t.Errorf("%s: %+v %v", c.content, f, f.Range)
		}
	}
	for _, not := range []string{"3.10.12", "1-2-3", "10-20-30", "2021-13", "2021-00", "21-02"} {
		s, _ := learn(t, column(40, func(i int) string {
			if i%2 == 0 {
				return not
			}
			return "7.7.77"
		}), data.LearnOptions{})
		if f := fieldOf(t, s, "x"); f.Kind != data.Categorical {
			t.Errorf("%s: %+v", not, f)
		}
	}
	for content, want := range map[string]float64{"(1.20)": -1.2, "($1,234.50)": -1234.5, "\u22121.5": -1.5,
		"$ (3)": -3} {
		s, _ := learn(t, column(40, func(i int) string {
			if i%2 == 0 {
				return content
			}
			return "7.25"
		}), data.LearnOptions{})
		if f := fieldOf(t, s, "x"); f.Kind != data.Numeric || f.Range[0] != want || f.Range[1] != 7.25 {
			t.Errorf("%s: %+v %v", content, f, f.Range)
		}
	}
	for _, not := range []string{"(1.20", "1.20)", "()", "(1)2", "(-1)", "1(2)"} {
		s, _ := learn(t, column(40, func(i int) string {
			if i%2 == 0 {
				return not
			}
			return "7.25"
		}), data.LearnOptions{})
		if f := fieldOf(t, s, "x"); f.Kind != data.Categorical {
			t.Errorf("%s: %+v", not, f)
		}
	}
}
