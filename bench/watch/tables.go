package main

import (
	"bytes"
	"encoding/csv"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/text"
)

// table is a real table as text, with its target as one of the columns.
type table struct {
	name  string
	head  []string
	rows  [][]string
	kinds []bool // the column is numbers with more than ten values
}

// names of the tables below the data folder.
var names = []string{"abalone/abalone.data", "backdoor/backdoor_20000.csv.gz",
	"banknote/data_banknote_authentication.txt",
	"boston/housing.data", "campaign/campaign.csv.gz", "car/car.data", "chess/krkopt.data", "cmc/cmc.data",
	"digits/digits.csv.gz", "ionosphere/ionosphere.data", "nursery/nursery.data", "wifi/wifi_localization.txt",
	"wine/wine.data", "wine_quality/winequality-red.csv", "wine_quality/winequality-white.csv", "yeast/yeast.data"}

func read(dir, name string) (*table, error) {
	src, err := files.Open([]string{filepath.Join(dir, name)}, data.Options{})
	if err != nil {
		return nil, err
	}
	columns := src.Columns()
	r, err := src.Open(slices.Repeat([]data.Kind{data.Text}, len(columns)))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	t := &table{name: filepath.Dir(name), head: columns}
	if t.name == "wine_quality" {
		t.name = filepath.Base(name)
	}
	var b data.Block
	for {
		if err := r.Read(&b, 1024); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		for i := range b.Rows {
			row := make([]string, len(columns))
			for j := range row {
				row[j] = string(b.Cols[j].Text[i])
			}
			t.rows = append(t.rows, row)
		}
	}
	for j := range columns {
		distinct := map[string]bool{}
		numeric := true
		for _, row := range t.rows {
			_, err := strconv.ParseFloat(row[j], 64)
			numeric = numeric && (err == nil || row[j] == "")
			distinct[row[j]] = true
		}
		t.kinds = append(t.kinds, numeric && len(distinct) > 10)
	}
	return t, nil
}

// source is some rows of a table.
func source(name string, head []string, rows [][]string) (data.Source, []byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(head); err != nil {
		return nil, nil, err
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, nil, err
	}
	header := true
	src, err := text.OpenBytes(name, b.Bytes(), data.Options{Format: data.CSV, Header: &header})
	return src, b.Bytes(), err
}

// changes are the ways in which new rows differ, by name.
var changes = []string{"nothing", "mean of one column by .3 sd", "one column independent of the others",
	"a group of 10 %", "spread of one column × 1.3", "missing cells 2 % → 8 %", "a level renamed"}

// pick draws old and new rows and changes the new ones; ok is false if the table has no column for the change.
func (t *table) pick(change string, rows int, r *rand.Rand) (a, b [][]string, ok bool) {
	n := min(rows, len(t.rows)/2)
	order := r.Perm(len(t.rows))
	for k := range 2 * n {
		row := slices.Clone(t.rows[order[k]])
		if k < n {
			a = append(a, row)
		} else {
			b = append(b, row)
		}
	}
	var numbers, levels []int
	for j, isNumber := range t.kinds {
		if isNumber && spread(a, j) > 0 && spread(b, j) > 0 {
			numbers = append(numbers, j)
		} else if !isNumber && level(a, j, r) != "" {
			levels = append(levels, j)
		}
	}
	if change == "nothing" {
		return a, b, true
	}
	if change == "a level renamed" {
		if len(levels) == 0 {
			return nil, nil, false
		}
		j := levels[r.IntN(len(levels))]
		old := level(a, j, r)
		for _, row := range b {
			if row[j] == old {
				row[j] = "renamed"
				if _, err := strconv.ParseFloat(old, 64); err == nil {
					row[j] = "77"
				}
			}
		}
		return a, b, true
	}
	if len(numbers) == 0 {
		return nil, nil, false
	}
	j := numbers[r.IntN(len(numbers))]
	move := func(rows [][]string, j int, f func(z float64) float64) {
		mean, sd := mean(a, j), spread(a, j)
		for _, row := range rows {
			if v, err := strconv.ParseFloat(row[j], 64); err == nil {
				row[j] = strconv.FormatFloat(mean+sd*f((v-mean)/sd), 'g', 8, 64)
			}
		}
	}
	switch change {
	case changes[1]:
		move(b, j, func(z float64) float64 { return z + .3 })
	case changes[2]:
		if len(numbers) < 2 {
			return nil, nil, false
		}
		best := -1.0
		for _, p := range numbers {
			for _, q := range numbers {
				if c := math.Abs(correlation(a, p, q)); p != q && c > best {
					best, j = c, p
				}
			}
		}
		for i, k := range r.Perm(len(b)) {
			if k > i {
				b[i][j], b[k][j] = b[k][j], b[i][j]
			}
		}
	case changes[3]:
		var some [][]string
		for _, row := range b {
			if r.Float64() < .1 {
				some = append(some, row)
			}
		}
		for _, j := range numbers {
			sign := float64(2*r.IntN(2) - 1)
			move(some, j, func(z float64) float64 { return z/2 + sign })
		}
	case changes[4]:
		move(b, j, func(z float64) float64 { return 1.3 * z })
	case changes[5]:
		for k, rows := range [][][]string{a, b} {
			for _, row := range rows {
				if r.Float64() < []float64{.02, .08}[k] {
					row[j] = ""
				}
			}
		}
	}
	return a, b, true
}

// level returns a level of column j with 5 to 30 % of the rows, or nothing.
func level(rows [][]string, j int, r *rand.Rand) string {
	count := map[string]int{}
	for _, row := range rows {
		count[row[j]]++
	}
	var list []string
	for l, c := range count {
		if l != "" && c*20 >= len(rows) && c*10 <= 3*len(rows) {
			list = append(list, l)
		}
	}
	if len(list) == 0 || len(count) < 2 {
		return ""
	}
	slices.Sort(list)
	return list[r.IntN(len(list))]
}

func values(rows [][]string, j int) (v []float64) {
	for _, row := range rows {
		if x, err := strconv.ParseFloat(row[j], 64); err == nil {
			v = append(v, x)
		}
	}
	return v
}

func mean(rows [][]string, j int) (m float64) {
	v := values(rows, j)
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

func spread(rows [][]string, j int) (s float64) {
	v, m := values(rows, j), mean(rows, j)
	for _, x := range v {
		s += (x - m) * (x - m) / float64(len(v))
	}
	return math.Sqrt(s)
}

func correlation(rows [][]string, p, q int) (c float64) {
	x, y := values(rows, p), values(rows, q)
	if len(x) != len(y) {
		return 0
	}
	mx, my := mean(rows, p), mean(rows, q)
	for i := range x {
		c += (x[i] - mx) * (y[i] - my) / float64(len(x))
	}
	return c / (spread(rows, p) * spread(rows, q))
}
