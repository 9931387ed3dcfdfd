package data_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

const people = "id,age,sex,city,one,y\n" +
	"a1,20,M,Paris,7,1.5\n" +
	"a2,30,F,Rome,7,2.5\n" +
	"a3,,F,Paris,7,3.5\n" +
	"a4,40,,Rome,7,4.5\n"

func learn(t *testing.T, content string, o data.LearnOptions) (*data.Schema, *data.Summary) {
	t.Helper()
	s, sum, err := data.Learn(openText(t, content, data.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	return s, sum
}

// encode reads a whole table through a schema.
func encode(content string, s *data.Schema, needTarget bool, block int) (x, y dense.Matrix[float64], err error) {
	src, err := text.OpenBytes("x.csv", []byte(content), data.Options{})
	if err != nil {
		return x, y, err
	}
	return encodeSource(src, s, needTarget, block)
}

func openText(t *testing.T, content string, o data.Options) data.Source {
	t.Helper()
	src, err := text.OpenBytes("x.csv", []byte(content), o)
	if err != nil {
		t.Fatalf("%q: %v", content, err)
	}
	return src
}

func encodeSource(src data.Source, s *data.Schema, needTarget bool, block int) (x, y dense.Matrix[float64],
	err error) {
	e, err := s.Encoder(src.Columns(), needTarget)
	if err != nil {
		return x, y, err
	}
	e.Readable()
	r, err := src.Open(e.Kinds())
	if err != nil {
		return x, y, err
	}
	defer r.Close()
	x.Cols, x.Stride = s.Width(), s.Width()
	var b data.Block
	for {
		err := r.Read(&b, block)
		if err == io.EOF {
			return x, y, nil
		}
		if err != nil {
			return x, y, err
		}
		bx := dense.New[float64](b.Rows, s.Width())
		for i := range bx.Data {
			bx.Data[i] = math.NaN() // must be overwritten
		}
		var by dense.Matrix[float64]
		if needTarget {
			by = dense.New[float64](b.Rows, len(s.Targets))
			y.Cols, y.Stride = by.Cols, by.Cols
		}
		if err := e.Encode(bx, by, &b, r.Where); err != nil {
			return x, y, err
		}
		x.Data, x.Rows = append(x.Data, bx.Data...), x.Rows+b.Rows
		y.Data, y.Rows = append(y.Data, by.Data...), y.Rows+by.Rows
	}
}

func TestLearnAndEncode(t *testing.T) {
	s, sum := learn(t, people, data.LearnOptions{Targets: []string{"y"}, IDs: []string{"id"}})
	scale := math.Sqrt(200.0 / 3) // of 20, 30, 40 around 30
	want := &data.Schema{
		Fields: []data.Field{
			{Name: "age", Kind: data.Numeric, Mean: 30, Scale: scale, Missing: true, Range: &[2]float64{20, 40}},
			{Name: "sex", Kind: data.Categorical, Levels: []string{"F", "M"}, Missing: true},
			{Name: "city", Kind: data.Categorical, Levels: []string{"Paris", "Rome"}},
		},
		Targets: []data.Target{{Name: "y", Mean: 3, Scale: math.Sqrt(1.25)}},
		IDs:     []string{"id"}, Ignored: []string{"one"}, Constants: map[string]string{"one": "7"},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v\nwant %+v", s, want)
	}
	if sum.Rows != 4 || len(sum.Columns) != 6 || len(sum.Notes) != 1 ||
		!strings.Contains(sum.Notes[0], `constant: "one"`) {
		t.Errorf("%+v", sum)
	}
	if got := strings.Join(s.Names(), ","); got != "age,age missing,sex=F,sex=M,sex=other,sex missing,city=Paris,city=Rome,city=other" || s.Width() != 9 {
		t.Errorf("%d columns %s", s.Width(), got)
	}
	// Other order, without the constant column; an unseen level, a missing city, which was never missing.
	x, y, err := encode("y,city,age,sex,id\n9,Oslo,30,F,b1\n8,,,,b2\n7,Rome,20,M,b3\n", s, true, 2)
	expect := [][]float64{{0, 0, 1, 0, 0, 0, 0, 0, 1}, {0, 1, 0, 0, 0, 1, 0, 0, 1},
		{-10 / scale, 0, 0, 1, 0, 0, 0, 1, 0}}
	if err != nil || !reflect.DeepEqual(x.ToRows(), expect) ||
		!reflect.DeepEqual(y.ToRows(), [][]float64{{9}, {8}, {7}}) {
		t.Errorf("%v %v, %v", x.ToRows(), y.ToRows(), err)
	}
	// At predict, neither the target nor the ids need be there.
	if _, _, err := encode("city,age,sex\nOslo,30,F\n", s, false, 2); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(s)
	var again data.Schema
	if err2 := json.Unmarshal(b, &again); err != nil || err2 != nil || !reflect.DeepEqual(&again, want) {
		t.Errorf("%s: %v, %v", b, err, err2)
	}
}

// numbered are n rows of distinct numbers.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,%d\n", i*i, i)
	}
	return b.String()
}

// Bad input, by example.
func TestLearnErrors(t *testing.T) {
	y := data.LearnOptions{Targets: []string{"y"}}
	for _, c := range []struct {
		content, want string
		o             data.LearnOptions
	}{
		{people, `x.csv: no column "z", named as target; the columns are "id", "age", "sex", "city", "one", "y"`,
			data.LearnOptions{Targets: []string{"z"}}},
		{people, `no column "key", named as id`, data.LearnOptions{IDs: []string{"key"}}},
		{people, `no column "Sex", named as skipped, did you mean "sex"?`, data.LearnOptions{Skip: []string{"Sex"}}},
		{people, `no column "citty", named as text, did you mean "city"?`, data.LearnOptions{Text: []string{"citty"}}},
		{"c1,c2\n1,2\n", `no column "y", named as target; the columns are "c1", "c2"; no line of names was found`, y},
		{people, `column "y" is named as target and as skipped: it can be one of them`,
			data.LearnOptions{Targets: []string{"y"}, Skip: []string{"y"}}},
		{people, `column "y" is named twice as target`, data.LearnOptions{Targets: []string{"y", "y"}}},
		{"x,y\n" + numbered(30) + "1,many\n", `x.csv:32: target "y" is "many", though 30 of its values are numbers: correct it, or ask for classification`, y},
		{"x,y\n" + strings.ReplaceAll(numbered(30), ",", ",t"),
			`x.csv: target "y" has 30 distinct texts in 30 rows, such as "t0" at x.csv:2: an identifier?`, y},
		{"x,y\n1,2\n3,NaN\n", `x.csv:3: target "y" is missing`, y},
		{"x,y\n1,2\n3,\n", `x.csv:3: target "y" is missing`, y},
		{"x,y\n1,2\n3,inf\n", `x.csv:3: column "y" is infinite`, y},
		{"x,y\n1,2\n-Inf,3\n", `x.csv:3: column "x" is infinite`, y},
		{"x,y\n1,a\n2,a\n", `target "y" is "a" in every row`, y},
		{"x,y\n1,a\n2,b\n3,c\n", `target "y" has more than 2 classes`, data.LearnOptions{Targets: []string{"y"},
			MaxClasses: 2}},
		{"x,y\n1,2\nabc,3\n", `x.csv:3: column "x" is "abc", want a number`,
			data.LearnOptions{Numeric: []string{"x"}}},
		{"x,y\n\"1,5\",2\n1.25,3\n", `x.csv:3: column "x" is "1.25", where others are written otherwise`,
			data.LearnOptions{Numeric: []string{"x"}}},
		{"# made by hand\nx;y\n1;2\n", `the columns are "# made by hand"; the names are looked for in the first line`, y},
		{"x,y\n1,2\n1,3\n", `x.csv: no column is left to predict from`, y},
		{"x,y\n", `x.csv: the table has columns but no rows`, y},
		{"x,y\n1e300,1\n-1e300,2\n", `column "x" runs from -1e+300 to 1e+300, beyond what can be standardised`, y},
		{"x,y\n1,2\n3\n", `x.csv:3:2: the row has 1 fields, want 2`, y},
	} {
		_, _, err := data.Learn(openText(t, c.content, data.Options{Header: new(true)}), c.o)
		if !errors.Is(err, data.ErrInput) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.content, err, c.want)
		}
	}
	for _, o := range []data.LearnOptions{{Task: "guess"}, {MaxLevels: -1}, {MaxClasses: 1}} {
		if _, _, err := data.Learn(openText(t, people, data.Options{}), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

// Decimal commas and groups of thousands are told apart: no group follows a zero, and columns that can be read in two
// ways are read as those are that cannot.
func TestStylesOfColumns(t *testing.T) {
	for _, c := range []struct {
		content, format string
		mean            float64
		note            string
		o               data.LearnOptions
	}{
		{"x;y\n0,125;1\n1,250;2\n", "1234,5", 0.6875, "is read as numbers 1234,5", data.LearnOptions{}},
		{"x;y\n3,125;1\n1,250;2\n", "1,234.5", 2187.5, "can be read in two ways", data.LearnOptions{}},
		{"x;y\n3,125;1,5\n1,250;2\n", "1234,5", 2.1875, "is read as numbers 1234,5", data.LearnOptions{}},
		{"x;y\n3,125;1.5\n1,250;2\n", "1,234.5", 2187.5, "is read as numbers 1,234.5", data.LearnOptions{}},
		{"x;y;z\n3,125;1.5;1,5\n1,250;2;1\n", "1,234.5", 2187.5, "can be read in two ways", data.LearnOptions{}},
		{"x;y\n3,125;1,5\n1,250;2\n", "1234,5", 2.1875, "", data.LearnOptions{Numeric: []string{"x"}}},
		{"y;x\n3,125;1,5\n1,250;2\n", "1234,5", 1.75, `target "y" is read as numbers 1234,5`,
			data.LearnOptions{Targets: []string{"y"}}},
	} {
		s, sum := learn(t, c.content, c.o)
		var f data.Field
		for _, g := range s.Fields {
			if g.Name == "x" {
				f = g
			}
		}
		if f.Kind != data.Numeric || f.Format != c.format || math.Abs(f.Mean-c.mean) > 1e-12 ||
			!strings.Contains(strings.Join(sum.Notes, "\n"), c.note) {
			t.Errorf("%q: %+v, %q", c.content, f, sum.Notes)
		}
		for _, g := range sum.Columns {
			if g.Use == "target" && !(g.Min < g.Max && g.Scale > 0) {
				t.Errorf("%q: %+v", c.content, g)
			}
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	s, _ := learn(t, people, data.LearnOptions{Targets: []string{"y", "city"}, IDs: []string{"id"}})
	const head = "age,sex,city,y\n"
	for _, c := range []struct{ content, want string }{
		{"sex,city,y\nF,Rome,1\n", `columns missing: "age"`},
		{"age,sex,city\n1,F,Rome\n", `columns missing: "y"`},
		{"age,sex,city,y,size,w\n1,F,Rome,1,2,3\n", `columns unknown when the schema was learned: "size", "w"`},
		{"ages,sex,city,y\n1,F,Rome,1\n", `columns missing: "age"; unknown: "ages"`},
		{head + "20,F,Rome,1\nold,F,Rome,1\n", `x.csv:3: column "age" is "old", want a number`},
		{head + "20,F,Rome,1\n30,F,Oslo,1\n", `x.csv:3: target "city" is "Oslo", a class unseen when the schema was learned; known are "Paris", "Rome"`},
		{head + "20,F,Rome,nan\n", `x.csv:2: target "y" is missing`},
		{head + "20,F,,1\n", `x.csv:2: target "city" is missing`},
		{head + "20,F,Rome,-inf\n", `x.csv:2: column "y" is infinite`},
		{head + "inf,F,Rome,1\n", `x.csv:2: column "age" is infinite`},
	} {
		_, _, err := encode(c.content, s, true, 10)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, data.ErrInput) &&
			!errors.Is(err, data.ErrSchema) {
			t.Errorf("%q: %v, want %s", c.content, err, c.want)
		}
	}
	if _, err := s.Encoder([]string{"age", "age"}, false); !errors.Is(err, data.ErrSchema) ||
		!strings.Contains(err.Error(), `twice: "age"`) {
		t.Errorf("%v", err)
	}
	var wrong *data.SchemaError
	if _, err := s.Encoder([]string{"age", "sex", "size"}, false); !errors.As(err, &wrong) ||
		wrong.Detail != `columns unknown when the schema was learned: "size"` || wrong.Remedy != "remove them" ||
		err.Error() != "schema: "+wrong.Detail+"; remove them" {
		t.Errorf("%v: %+v", err, wrong)
	}
	// A number that overflows when it is standardised is not infinite itself.
	small, _ := learn(t, "x,y\n1e-3,1\n2e-3,2\n", data.LearnOptions{Targets: []string{"y"}})
	if _, _, err := encode("x\n-1.7e308\n", small, false, 10); !errors.Is(err, dense.ErrNotFinite) ||
		!strings.Contains(err.Error(), `x.csv:2: column "x" is -1.7e+308, too far from the mean 0.0015`) {
		t.Errorf("%v", err)
	}
	e, err := s.Encoder([]string{"age", "sex", "id"}, false)
	if err != nil || !reflect.DeepEqual(e.IDs(), []int{2}) ||
		!reflect.DeepEqual(e.Kinds(), []data.Kind{data.Number, data.Text, data.Text}) {
		t.Fatalf("%v %v, %v", e.IDs(), e.Kinds(), err)
	}
	if err := e.Encode(dense.New[float64](2, 2), dense.Matrix[float64]{}, &data.Block{Rows: 2}, nil); !errors.Is(err,
		dense.ErrShape) {
		t.Errorf("%v", err)
	}
}

func TestLearnTasks(t *testing.T) {
	var whole, content, fraction strings.Builder
	for i := range 30 {
		fmt.Fprintf(&whole, "%d,%d\n", i, i%3)
		fmt.Fprintf(&content, "%d,%c\n", i, 'a'+i%3)
		fmt.Fprintf(&fraction, "%d,%g\n", i, float64(i%3)+0.5)
	}
	for _, c := range []struct {
		content string
		task    data.Task
		want    string
	}{
		{"x,y\n" + whole.String(), data.Auto, "[0 1 2]"},
		{"x,y\n" + whole.String(), data.Regression, "[]"},
		{"x,y\n" + content.String(), data.Auto, "[a b c]"},
		{"x,y\n" + fraction.String(), data.Auto, "[]"},
		{"x,y\n" + fraction.String(), data.Classification, "[0.5 1.5 2.5]"},
		{"x,y\n1,2\n2,3\n", data.Auto, "[]"},                               // too few rows to tell
		{"x,y\n1,10\n2,9.0\n3,9\n4,1e1\n", data.Classification, "[9 10]"},  // one class per number, in their order
		{"x,y\n1,10\n2,9.0\n3,9\n4,b\n5,a\n", data.Auto, "[9 9.0 10 a b]"}, // texts as they are
		{"x,y\n1,true\n2,false\n", data.Auto, "[false true]"},              //
		{"x,y\n1,02\n2,01\n3,11\n", data.Classification, "[01 02 11]"},     // codes keep their zeros
		{"x,y\n1,02\n2,2\n3,11\n", data.Classification, "[02 2 11]"},       // and are not numbers
	} {
		s, _ := learn(t, c.content, data.LearnOptions{Targets: []string{"y"}, Task: c.task})
		if got := fmt.Sprint(s.Targets[0].Classes); got != c.want {
			t.Errorf("%.20q %s: %s, want %s", c.content, c.task, got, c.want)
		}
	}
	s, _ := learn(t, "x,y\n1,10\n2,9.0\n3,9\n4,1e1\n", data.LearnOptions{Targets: []string{"y"},
		Task: data.Classification, Categorical: []string{"x"}})
	x, y, err := encode("x,y\n1.0,9.00\n7,10\n", s, true, 10)
	if err != nil || y.At(0, 0) != 0 || y.At(1, 0) != 1 || x.At(0, 0) != 1 || x.At(1, 4) != 1 {
		t.Errorf("%v %v, %v", x.ToRows(), y.ToRows(), err)
	}
}

// Codes are found by their spelling, and by their number where no other code has it: other formats hold numbers.
func TestCodes(t *testing.T) {
	s, _ := learn(t, "x,y\n007,01\n07,02\n9,03\n", data.LearnOptions{Targets: []string{"y"}, Task: data.Classification,
		Categorical: []string{"x"}})
	x, y, err := encode("x,y\n07,1\n9.0,2.0\n7,003\n", s, true, 10)
	if err != nil || fmt.Sprint(y.Data) != "[0 1 2]" {
		t.Errorf("classes %v, %v", y.Data, err)
	}
	// 7 may be 007 or 07, so it is neither.
	if got, want := fmt.Sprint(x.Data), "[0 1 0 0 0 0 1 0 0 0 0 1]"; got != want {
		t.Errorf("levels %s, want %s", got, want)
	}
	// Other spellings of a number are one value, and messages say so.
	spelled := "x,y\n" + strings.Repeat("1,01\n2,1\n3,1.0\n", 8)
	_, _, err = data.Learn(openText(t, spelled, data.Options{}), data.LearnOptions{Targets: []string{"y"},
		Task: data.Classification})
	if err == nil || !strings.Contains(err.Error(), `target "y" is "1", a number in 3 spellings, in every row`) {
		t.Errorf("%v", err)
	}
	_, sum := learn(t, spelled, data.LearnOptions{Targets: []string{"y"}})
	if !slices.Contains(sum.Notes, `target "y" is constant: 1 in 3 spellings`) {
		t.Errorf("notes %q", sum.Notes)
	}
}

// Levels beyond the most frequent are "other"; names of rows and stray texts among numbers are reported.
func TestLearnLevels(t *testing.T) {
	var b strings.Builder
	b.WriteString("common,name,stray,x\n")
	r := rand.New(rand.NewPCG(5, 8))
	for i := range 20000 {
		level := "rare" + fmt.Sprint(i)
		if i%2 == 0 {
			level = "often" + fmt.Sprint(i/2%3)
		}
		stray := fmt.Sprint(r.Float64())
		if i == 15000 {
			stray = "oops"
		}
		fmt.Fprintf(&b, "%s,person %d,%s,%d\n", level, i, stray, i)
	}
	s, sum := learn(t, b.String(), data.LearnOptions{MaxLevels: 3})
	if f := s.Fields[0]; f.Name != "common" || strings.Join(f.Levels, " ") != "often0 often1 often2" {
		t.Errorf("%+v", f)
	}
	if !reflect.DeepEqual(s.Ignored, []string{"name"}) {
		t.Errorf("ignored %q", s.Ignored)
	}
	notes := strings.Join(sum.Notes, "\n")
	for _, want := range []string{`"common" keeps its 3 most frequent`, `identifiers: "name"`,
		`"stray": 1 of 20000 values is not a number and counts as missing: the first is "oops" at x.csv:15002`} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %s in\n%s", want, notes)
		}
	}
}

// Encoding in blocks of any size gives the same numbers.
func TestEncodeBlocks(t *testing.T) {
	content := datatest.Random(rand.New(rand.NewPCG(5, 9)), 2500)
	s, _ := learn(t, content, data.LearnOptions{})
	want, _, err := encode(content, s, false, 1<<20)
	if err != nil || want.Rows < 2400 {
		t.Fatal(want.Rows, err)
	}
	for _, block := range []int{1, 10, 1000} {
		if got, _, err := encode(content, s, false, block); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("blocks of %d: %v", block, err)
		}
	}
}

// Means and deviations stay accurate far from zero, where the sum of squares would lose all digits.
func TestLearnMoments(t *testing.T) {
	var b strings.Builder
	b.WriteString("x,z\n")
	for i := range 1001 {
		fmt.Fprintf(&b, "%d,%d\n", 1_000_000_000_000+i-500, i)
	}
	s, _ := learn(t, b.String(), data.LearnOptions{})
	want := math.Sqrt((1001*1001 - 1) / 12.0) // of 1001 consecutive integers
	for _, f := range s.Fields {
		// Rounding of the running mean, 1e12·2⁻⁵³ a step, shows in the deviation at about 1e-4·√1001/1001/289.
		if math.Abs(f.Scale-want) > 1e-6*want {
			t.Errorf("%s: %v, want %v", f.Name, f.Scale, want)
		}
	}
}

func TestSchemaValidate(t *testing.T) {
	good := `{"fields":[{"name":"a","kind":"numeric","mean":1,"scale":2},{"name":"b","kind":"categorical","levels":["x","y"]}],"targets":[{"name":"y","classes":["0","1"]}]}`
	var s data.Schema
	if err := json.Unmarshal([]byte(good), &s); err != nil || s.Width() != 4 {
		t.Fatalf("%d, %v", s.Width(), err)
	}
	for _, r := range [][2]string{
		{`"scale":2`, `"scale":0`}, {`"scale":2`, `"scale":-1`}, {`"scale":2`, `"scale":1e999`},
		{`"numeric"`, `"number"`},
		{`"name":"b"`, `"name":"a"`}, {`"name":"y"`, `"name":"a"`}, {`["x","y"]`, `["x","x"]`}, {`["0","1"]`, `["0"]`},
		{`["0","1"]`, `["1","1"]`},
		{`"mean":1`, `"mean":1,"levels":["a"]`}, {`"levels"`, `"scale":1,"levels"`}, {`"mean"`, `"means"`},
		{`,"classes":["0","1"]`, ``},
		{good, `{"fields":[]}`}, {good, `null`}, {good, `[]`}, {good, good + "{}"},
	} {
		bad := strings.Replace(good, r[0], r[1], 1)
		before := s
		if err := s.UnmarshalJSON([]byte(bad)); !errors.Is(err, data.ErrSchema) {
			t.Errorf("%s: %v", bad, err)
		}
		if !reflect.DeepEqual(before, s) {
			t.Errorf("%s changed the schema", bad)
		}
	}
}

// FuzzSchema: any bytes give a valid schema that survives a round trip, or ErrSchema.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"fields":[{"name":"a","kind":"numeric","mean":1,"scale":2,"missing":true}],"ids":["i"],"ignored":["j"]}`))
	f.Add([]byte(`{"fields":[{"name":"b","kind":"categorical","levels":["x","y"]}],"targets":[{"name":"y","classes":["0","1"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s data.Schema
		if err := s.UnmarshalJSON(b); err != nil {
			if !errors.Is(err, data.ErrSchema) {
				t.Fatalf("%v is not ErrSchema", err)
			}
			return
		}
		if len(s.Names()) != s.Width() {
			t.Fatalf("%d names of %d columns", len(s.Names()), s.Width())
		}
		out, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var again data.Schema
		if err := json.Unmarshal(out, &again); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		twice, err := json.Marshal(&again)
		if err != nil || string(twice) != string(out) {
			t.Fatalf("%s became %s, %v", out, twice, err)
		}
		var columns []string
		for _, f := range s.Fields {
			columns = append(columns, f.Name)
		}
		if _, err := s.Encoder(columns, false); err != nil {
			t.Fatal(err)
		}
	})
}

// The public sets of the papers have the rows and columns that their authors state.
func TestPublicSets(t *testing.T) {
	dir := os.Getenv("RANDFEAT_DATA")
	if dir == "" {
		t.Skip("RANDFEAT_DATA is not set: it names a folder with the public data sets (abalone/abalone.data, …)")
	}
	for _, c := range []struct {
		path             string
		rows             int64
		columns, classes int
		target           string
	}{
		{"abalone/abalone.data", 4177, 9, 28, "c9"},
		{"banknote/data_banknote_authentication.txt", 1372, 5, 2, "c5"},
		{"car/car.data", 1728, 7, 4, "c7"},
		{"yeast/yeast.data", 1484, 10, 10, "c10"},
		{"cmc/cmc.data", 1473, 10, 3, "c10"},
		{"nursery/nursery.data", 12960, 9, 5, "c9"},
		{"wifi/wifi_localization.txt", 2000, 8, 4, "c8"},
		{"chess/krkopt.data", 28056, 7, 18, "c7"},
		{"wine/wine.data", 178, 14, 3, "c1"},
		{"wine_quality/winequality-red.csv", 1599, 12, 6, "c12"},
		{"wine_quality/winequality-white.csv", 4898, 12, 7, "c12"},
		{"boston/housing.data", 506, 14, 0, "c14"},
		{"ionosphere/ionosphere.data", 351, 35, 2, "c35"},
		{"campaign/campaign.csv.gz", 41188, 63, 2, "class"},
		{"backdoor/backdoor_20000.csv.gz", 20000, 197, 2, "class"},
		{"digits/digits.csv.gz", 1797, 65, 10, "c65"},
	} {
		path := filepath.Join(dir, c.path)
		if _, err := os.Stat(path); err != nil {
			t.Logf("%s is not there", path)
			continue
		}
		src, err := text.Open(path, data.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		o := data.LearnOptions{Targets: []string{c.target}, Task: data.Classification}
		if c.classes == 0 {
			o.Task = data.Regression
		}
		s, sum, err := data.Learn(src, o)
		if err != nil {
			t.Error(err)
			continue
		}
		if sum.Rows != c.rows || len(sum.Columns) != c.columns || len(s.Targets[0].Classes) != c.classes {
			t.Errorf("%s: %d × %d, %d classes; want %d × %d, %d", c.path, sum.Rows, len(sum.Columns),
				len(s.Targets[0].Classes), c.rows, c.columns, c.classes)
		}
		switch c.path {
		case "yeast/yeast.data": // the name of the sequence
			if len(s.Ignored) != 1 || s.Ignored[0] != "c1" {
				t.Errorf("yeast: ignored %q", s.Ignored)
			}
		case "backdoor/backdoor_20000.csv.gz":
			if len(s.Ignored) != 34 {
				t.Errorf("backdoor: %d constant columns, want 34", len(s.Ignored))
			}
		case "ionosphere/ionosphere.data":
			if len(s.Ignored) != 1 || s.Ignored[0] != "c2" {
				t.Errorf("ionosphere: ignored %q", s.Ignored)
			}
		}
	}
}
