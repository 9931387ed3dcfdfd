package data_test

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/datatest"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/data/text"
)

// A column of numbers is so however they are spelled.
func TestNumberStyles(t *testing.T) {
	values := []float64{1234.5, -0.5, 12, 1000000, 999.25, 7}
	for name, spell := range map[string]func(v float64) string{
		"plain":          func(v float64) string { return fmt.Sprint(v) },
		"thousands":      func(v float64) string { return grouped(v, ",", ".") },
		"decimal comma":  func(v float64) string { return grouped(v, "", ",") },
		"German":         func(v float64) string { return grouped(v, ".", ",") },
		"French":         func(v float64) string { return grouped(v, "\u202f", ",") },
		"Swiss":          func(v float64) string { return grouped(v, "'", ".") },
		"dollars":        func(v float64) string { return "$" + grouped(v, ",", ".") },
		"signed dollars": func(v float64) string { return strings.Replace("$"+grouped(v, ",", "."), "$-", "-$", 1) },
		"euros":          func(v float64) string { return grouped(v, ".", ",") + " €" },
		"percent":        func(v float64) string { return grouped(v, ",", ".") + "%" },
	} {
		content := "x;y\n"
		for i := range 30 {
			content += fmt.Sprintf("%s;%d\n", spell(values[i%6]), i%7)
		}
		src, err := text.OpenBytes("x.csv", []byte(content), data.Options{Delimiter: ';'})
		if err != nil {
			t.Fatal(err)
		}
		s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: data.Regression})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		f := s.Fields[0]
		if f.Kind != data.Numeric || math.Abs(f.Range[0]+0.5) > 1e-9 || math.Abs(f.Range[1]-1e6) > 1e-6 {
			t.Errorf("%s: %+v %v, %q", name, f, f.Range, sum.Notes)
			continue
		}
		x, _, err := encodeSource(src, s, true, 100)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, v := range values {
			if got := x.At(i, 0)*f.Scale + f.Mean; math.Abs(got-v) > 1e-6 {
				t.Errorf("%s: %g, want %g", name, got, v)
			}
		}
		src, _ = text.OpenBytes("x.csv", []byte("x\nhello\n"), data.Options{})
		if _, _, err := encodeSource(src, s, false, 1); err == nil || !strings.Contains(err.Error(), "want a number") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Texts that only look like numbers stay texts.
	for _, texts := range [][]string{{"1,23", "4,567,8"}, {"12-34", "56-78"}, {"1.2.3", "4.5.6"}, {"$", "€"}, {"5 %",
		"x"},
		{"1,5", "2.5"}} {
		content := "x;y\n"
		for i := range 30 {
			content += fmt.Sprintf("%s;%d\n", texts[i%2], i)
		}
		src, _ := text.OpenBytes("x.csv", []byte(content), data.Options{Delimiter: ';'})
		if s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}}); err != nil ||
			s.Fields[0].Kind != data.Categorical {
			t.Errorf("%q: %+v, %v", texts, s, err)
		}
	}
}

// grouped spells a number with marks between thousands and a decimal mark.
func grouped(v float64, group, point string) string {
	content := fmt.Sprint(math.Abs(math.Round(v*1000) / 1000))
	if math.Abs(v) >= 1e6 {
		content = fmt.Sprintf("%.0f", math.Abs(v))
	}
	whole, fraction, ok := strings.Cut(content, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + group + whole[i:]
	}
	if ok {
		whole += point + fraction
	}
	if v < 0 {
		return "-" + whole
	}
	return whole
}

// A target may be spelled so too.
func TestTargetStyle(t *testing.T) {
	content := "x;y\n"
	for i := range 30 {
		content += fmt.Sprintf("%d;%d,5\n", i, i)
	}
	src, _ := text.OpenBytes("x.csv", []byte(content), data.Options{})
	for _, task := range []data.Task{data.Auto, data.Regression} {
		s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: task})
		if err != nil || s.Targets[0].Mean != 15 {
			t.Fatalf("%+v, %v", s, err)
		}
		if _, y, err := encodeSource(src, s, true, 7); err != nil || y.At(3, 0) != 3.5 {
			t.Errorf("%v", err)
		}
	}
}

type dateRow struct {
	When time.Time `parquet:"when,timestamp(microsecond)"`
	Day  int32     `parquet:"day,date"`
	Y    float64   `parquet:"y"`
}

// Dates are one thing however they are spelled and stored: elapsed time, and the place in the year, the week, the day.
func TestDates(t *testing.T) {
	first := time.Date(2023, 11, 20, 0, 0, 0, 0, time.UTC)
	var rows []dateRow
	texts := map[string]string{}
	layouts := map[string][2]string{"iso": {"2006-01-02T15:04:05Z07:00", "2006-01-02"},
		"blank": {"2006-01-02 15:04:05", "2006/01/02"}, "german": {"02.01.2006 15:04:05", "2.1.2006"},
		"us": {"01/02/2006 03:04:05 PM", "1/2/2006"}, "named": {"02 Jan 2006 15:04:05", "January 2, 2006"},
		"mail": {"Mon, 02 Jan 2006 15:04:05 GMT", "02-Jan-2006"}}
	for i := range 60 {
		at := first.Add(time.Duration(i) * 31 * time.Hour)
		rows = append(rows, dateRow{at, int32(at.Unix() / 86400), float64(i % 7)})
		for name, l := range layouts {
			texts[name] += fmt.Sprintf("%q,%q,%d\n", at.Format(l[0]), at.Format(l[1]), i%7)
		}
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := pq.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	tables := map[string]data.Source{}
	var err error
	if tables["parquet"], err = parquet.Open(path, data.Options{}); err != nil {
		t.Fatal(err)
	}
	for name, content := range texts {
		if tables[name], err = text.OpenBytes("x.csv", []byte("when,day,y\n"+content), data.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	var want []float64
	for name, src := range tables {
		s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Task: data.Regression})
		if err != nil {
			t.Fatal(err)
		}
		if s.Fields[0].Kind != data.Time || s.Fields[1].Kind != data.Time || !s.Fields[0].Clock || s.Fields[1].Clock ||
			s.Width() != 12 || len(s.Names()) != 12 {
			t.Errorf("%s: %+v, %q", name, s.Fields, sum.Notes)
			continue
		}
		x, _, err := encodeSource(src, s, true, 7)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = x.Data
			row := x.Row(1) // Tuesday, 7 o'clock
			sin, cos := math.Sincos(2 * math.Pi * 7 / 24)
			week, _ := math.Sincos(2 * math.Pi * (2 + 7.0/24) / 7)
			if math.Abs(row[5]-sin) > 1e-9 || math.Abs(row[6]-cos) > 1e-9 || math.Abs(row[3]-week) > 1e-9 ||
				row[0] >= x.At(2, 0) {
				t.Errorf("%v", row)
			}
		}
		if !reflect.DeepEqual(x.Data, want) {
			t.Errorf("%s is encoded otherwise", name)
		}
	}
	// Day and month either way round: said, and taken as the month first.
	content := "when,y\n"
	for i := range 30 {
		content += fmt.Sprintf("%d/%d/2024,%d\n", 1+i%12, 1+i%11, i)
	}
	src, _ := text.OpenBytes("x.csv", []byte(content), data.Options{})
	s, sum, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}})
	if err != nil || s.Fields[0].Format != "month-day-year" || !strings.Contains(strings.Join(sum.Notes, " "),
		"two ways") {
		t.Errorf("%+v, %v, %v", s, sum, err)
	}
	for _, bad := range []string{"2024-02-30", "2024-13-01", "2024-01-01T25:00", "12:30", "1/2/124", "2024-1",
		"2024-01-01x"} {
		src, _ := text.OpenBytes("x.csv", []byte("when\n"+bad+"\n"), data.Options{Header: new(true)})
		if _, _, err := encodeSource(src, s, false, 1); err == nil || !strings.Contains(err.Error(), "want a date") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Texts that share words or parts of words are near each other.
func TestWords(t *testing.T) {
	content := "note,y\n"
	for i := range 30 {
		content += fmt.Sprintf("\"order %d was late\",%d\n", i, i)
	}
	src, _ := text.OpenBytes("x.csv", []byte(content), data.Options{})
	s, _, err := data.Learn(src, data.LearnOptions{Targets: []string{"y"}, Text: []string{"note"}})
	if err != nil || s.Fields[0].Kind != data.Words {
		t.Fatalf("%+v, %v", s, err)
	}
	src, _ = text.OpenBytes("x.csv", []byte("note\nThe parcel was LATE!\nlate parcels\ngood quality\n\"\"\n"),
		data.Options{Delimiter: ',', Header: new(true)})
	x, _, err := encodeSource(src, s, false, 10)
	if err != nil {
		t.Fatal(err)
	}
	distance := func(i, j int) (sum float64) {
		for k := range x.Cols {
			sum += (x.At(i, k) - x.At(j, k)) * (x.At(i, k) - x.At(j, k))
		}
		return sum
	}
	if distance(0, 1) > 0.75*distance(0, 2) || distance(0, 1) > 0.75*distance(1, 2) {
		t.Errorf("%g, %g and %g", distance(0, 1), distance(0, 2), distance(1, 2))
	}
}

// Rows without a target are left out, and counted; others keep their places.
func TestDropMissing(t *testing.T) {
	src, _ := text.OpenBytes("x.csv", []byte("x,y\n1,\n2,5\n3,NA\n4,6\n5,x\n"), data.Options{Strict: true})
	d, err := data.DropMissing(src, []string{"y"})
	if err != nil {
		t.Fatal(err)
	}
	_, rows, err := datatest.Table(d, nil, 2)
	if err != nil || fmt.Sprint(rows) != "[[2 5] [4 6] [5 x]]" || d.Dropped() != 2 {
		t.Errorf("%v, %d, %v", rows, d.Dropped(), err)
	}
	_, rows, err = datatest.Table(d, []data.Kind{data.Text, data.Skip}, 3)
	if err != nil || fmt.Sprint(rows) != "[[2 skipped] [4 skipped] [5 skipped]]" {
		t.Errorf("%v, %v", rows, err)
	}
	_, _, err = datatest.Table(d, []data.Kind{data.Skip, data.Number}, 3)
	if err == nil || !strings.Contains(err.Error(), "x.csv:6:3") {
		t.Errorf("%v", err)
	}
	if _, err := data.DropMissing(src, []string{"z"}); err == nil {
		t.Error("a column that is not there")
	}
}
