package data_test

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// A large file is read in units, by several goroutines or machines. The cuts depend only on the contents, so everybody
// finds the same ones.
func ExampleUnitsOf() {
	var b strings.Builder
	b.WriteString("x\n")
	for i := range 100_000 {
		fmt.Fprintln(&b, i)
	}
	src, err := text.OpenBytes("x.csv", []byte(b.String()), data.Options{UnitBytes: 1 << 18})
	if err != nil {
		panic(err)
	}
	splitter := src.(data.Splitter)
	for _, u := range data.UnitsOf(src) {
		part, err := splitter.Block(u.Block)
		if err != nil {
			panic(err)
		}
		r, err := part.Open([]data.Kind{data.Number})
		if err != nil {
			panic(err)
		}
		rows, sum := 0, 0.0
		var block data.Block
		for err = r.Read(&block, 1000); err == nil; err = r.Read(&block, 1000) {
			for _, v := range block.Cols[0].Num {
				rows, sum = rows+1, sum+v
			}
		}
		r.Close()
		if err != io.EOF {
			panic(err)
		}
		fmt.Printf("unit %d: %d rows, mean %.1f\n", u.Block, rows, sum/float64(rows))
	}
	// Output:
	// unit 0: 45543 rows, mean 22771.0
	// unit 1: 43690 rows, mean 67387.5
	// unit 2: 10767 rows, mean 94616.0
}

// A column of many levels, such as a shop, does not need a column for each of them. Counts and means are tables that
// you compute from the training rows, with a prior for levels that training did not have; hashed codes need no table.
func ExampleCode() {
	shops := data.Field{Name: "shop", Kind: data.Categorical, Levels: []string{"Bergen", "Oslo"}, Other: true}
	for _, code := range []data.Code{"", data.CodeCounts, data.CodeMeans, data.CodeHashed} {
		f := shops
		f.Code = code
		switch code {
		case data.CodeCounts: // log(1 + rows) of each level
			f.Table, f.Prior = []float64{math.Log1p(900), math.Log1p(400)}, []float64{math.Log1p(1)}
		case data.CodeMeans: // mean target and count of each level
			f.Table, f.Prior = []float64{12.5, math.Log1p(900), 20.5, math.Log1p(400)}, []float64{15, math.Log1p(1)}
		}
		s := &data.Schema{Fields: []data.Field{f}}
		if err := s.Validate(); err != nil {
			panic(err)
		}
		encoder, err := s.Encoder([]string{"shop"}, false)
		if err != nil {
			panic(err)
		}
		b := new(data.Block)
		b.Reset(0, encoder.Kinds())
		for _, shop := range []string{"Oslo", "Paris"} {
			b.AppendText(0, []byte(shop))
			b.Rows++
		}
		x, none := dense.New[float64](2, s.Width()), dense.Matrix[float64]{} // rows and no targets
		if err := encoder.Encode(x, none, b, func(i int) string { return fmt.Sprint("row ", i) }); err != nil {
			panic(err)
		}
		if s.Width() > 3 {
			d := math.Sqrt(dense.Norm2(x.Row(0)) + dense.Norm2(x.Row(1)) - 2*dense.Dot(x.Row(0), x.Row(1)))
			fmt.Printf("%s: %d columns, Oslo and Paris are %.1f apart\n", code, s.Width(), d)
			continue
		}
		fmt.Printf("%s: Oslo %.1f, Paris %.1f\n", strings.Join(s.Names(), ", "), x.Row(0), x.Row(1))
	}
	// Output:
	// shop=Bergen, shop=Oslo, shop=other: Oslo [0.0 1.0 0.0], Paris [0.0 0.0 1.0]
	// shop count: Oslo [6.0], Paris [0.7]
	// shop mean, shop count: Oslo [20.5 6.0], Paris [15.0 0.7]
	// hashed: 256 columns, Oslo and Paris are 1.4 apart
}

// days is a table of your own: here one row for each day of a month, computed while it is read.
type days struct{ month time.Month }

func (d days) Name() string    { return d.month.String() }
func (days) Columns() []string { return []string{"day", "weekday"} }

func (d days) Open(want []data.Kind) (data.Reader, error) {
	natural := func(j int) data.Kind { return []data.Kind{data.Number, data.Text}[j] }
	kinds, err := data.CheckKinds(want, 2, natural) // resolves Infer, and checks the other kinds
	return &dayReader{days: d, kinds: kinds}, err
}

type dayReader struct {
	days
	kinds []data.Kind
	next  int // days already read
	first int // day of the first row of the last block
}

func (r *dayReader) Where(i int) string { return fmt.Sprintf("%v: day %d", r.month, r.first+i+1) }
func (r *dayReader) Close() error       { return nil }

func (r *dayReader) Read(b *data.Block, limit int) error {
	r.first = r.next
	b.Reset(int64(r.first), r.kinds)
	for b.Rows < limit {
		day := time.Date(2023, r.month, r.next+1, 0, 0, 0, 0, time.UTC)
		if day.Month() != r.month {
			break
		}
		numbers, texts := []int{day.Day(), int(day.Weekday())}, []string{day.Format("2"), day.Weekday().String()}
		for j, kind := range r.kinds {
			switch kind {
			case data.Number:
				b.Cols[j].Num = append(b.Cols[j].Num, float64(numbers[j]))
			case data.Text:
				b.AppendText(j, []byte(texts[j]))
			}
		}
		b.Rows++
		r.next++
	}
	if b.Rows == 0 {
		return io.EOF
	}
	return nil
}

// A source of your own is a name, columns and a reader; the rest of the module then takes it as any file.
func ExampleSource() {
	schema, summary, err := data.Learn(days{time.February}, data.LearnOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(summary.Rows, "rows")
	for _, f := range schema.Fields {
		fmt.Println(f.Name, f.Kind, len(f.Levels), "levels")
	}
	// Output:
	// 28 rows
	// day numeric 0 levels
	// weekday categorical 7 levels
}
