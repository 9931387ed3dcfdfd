package papers

import (
	"bufio"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/repro/lab"
)

// uciSet is one of the eight classification sets of Chefs' Table 1 and of Simplex Figs 8 and 10. The class is the
// last column.
type uciSet struct {
	name, file, sep string // sep "" means runs of blanks
	drop            int    // leading columns that identify rows
}

var uciSets = []uciSet{
	{"abalone", "abalone/abalone.data", ",", 0},
	{"banknote", "banknote/data_banknote_authentication.txt", ",", 0},
	{"car", "car/car.data", ",", 0},
	{"yeast", "yeast/yeast.data", "", 1},
	{"cmc", "cmc/cmc.data", ",", 0},
	{"nursery", "nursery/nursery.data", ",", 0},
	{"wifi", "wifi/wifi_localization.txt", "\t", 0},
	{"chess", "chess/krkopt.data", ",", 0},
}

func uciFiles() (files []string) {
	for _, s := range uciSets {
		files = append(files, s.file)
	}
	return files
}

// table is a set in numbers. A column of words becomes one column per word. The papers did so too: SimRF Table 3
// pads rows to a power of two, which changes abalone and nursery, so these must have had more than their 8 columns.
type table struct {
	x       dense.Matrix[float64]
	y       []int
	classes int
}

// majority returns the share of the most frequent class.
func (t *table) majority() float64 {
	counts := make([]float64, t.classes)
	for _, c := range t.y {
		counts[c]++
	}
	return slices.Max(counts) / float64(len(t.y))
}

func readUCI(l *lab.Lab, s uciSet) (*table, error) {
	f, err := os.Open(l.Path(s.file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows [][]string
	scan := bufio.NewScanner(f)
	for scan.Scan() {
		line := strings.TrimSpace(scan.Text())
		if line == "" {
			continue
		}
		var fields []string
		if s.sep == "" {
			fields = strings.Fields(line)
		} else {
			fields = strings.Split(line, s.sep)
		}
		fields = fields[min(s.drop, len(fields)):]
		if len(rows) > 0 && len(fields) != len(rows[0]) {
			return nil, fmt.Errorf("%s: row %d has %d fields, the first has %d", s.file, len(rows)+1, len(fields),
				len(rows[0]))
		}
		rows = append(rows, fields)
	}
	if err := scan.Err(); err != nil || len(rows) == 0 {
		return nil, fmt.Errorf("%s: no rows (%v)", s.file, err)
	}
	var columns [][]float64
	t := &table{y: make([]int, len(rows))}
	for j := range rows[0] {
		last := j == len(rows[0])-1
		value, words := column(rows, j, last)
		switch {
		case last:
			t.classes = words
			for i, v := range value {
				t.y[i] = int(v)
			}
		case words > 0:
			for w := range words {
				is := make([]float64, len(rows))
				for i, v := range value {
					if int(v) == w {
						is[i] = 1
					}
				}
				columns = append(columns, is)
			}
		default:
			columns = append(columns, value)
		}
	}
	t.x = dense.New[float64](len(rows), len(columns))
	for j, c := range columns {
		for i, v := range c {
			t.x.Row(i)[j] = v
		}
	}
	return t, nil
}

// column returns a column as numbers: as they are, or the ranks of words (or of all values, for classes). words is
// the number of distinct words, 0 for numbers.
func column(rows [][]string, j int, ranks bool) (value []float64, words int) {
	value = make([]float64, len(rows))
	if !ranks {
		ok := true
		for i, r := range rows {
			v, err := strconv.ParseFloat(strings.TrimSpace(r[j]), 64)
			if value[i] = v; err != nil {
				ok = false
				break
			}
		}
		if ok {
			return value, 0
		}
	}
	var all []string
	for _, r := range rows {
		all = append(all, r[j])
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i, r := range rows {
		k, _ := slices.BinarySearch(all, r[j])
		value[i] = float64(k)
	}
	return value, len(all)
}

// split is a table cut in three: 90 % for training, 5 % for validation, 5 % for the test (CRT 9.10.2).
type split struct {
	train, valid, test *table
}

// cut shuffles by the seed and cuts. As in the papers, whose sizes L are ⌊0.9(N−1)⌋ for all sets but one, the first
// row of the file is lost as if it were a header. The file of nursery had a blank last line that compensated for it.
func (t *table) cut(s uciSet, seed uint64) split {
	n := t.x.Rows
	first := 1
	if s.name == "nursery" {
		first = 0
	}
	order := make([]int, n-first)
	for i := range order {
		order[i] = i + first
	}
	rand.New(rng.Stream(seed)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	a := len(order) * 9 / 10
	b := a + (len(order)-a)/2
	return split{t.rows(order[:a]), t.rows(order[a:b]), t.rows(order[b:])}
}

func (t *table) rows(order []int) *table {
	p := &table{x: dense.New[float64](len(order), t.x.Cols), y: make([]int, len(order)), classes: t.classes}
	for k, i := range order {
		copy(p.x.Row(k), t.x.Row(i))
		p.y[k] = t.y[i]
	}
	return p
}

// standardise gives the columns mean 0 and variance 1, computed on the training rows.
func (s split) standardise() split {
	d := s.train.x.Cols
	mean, sd := make([]float64, d), make([]float64, d)
	n := float64(s.train.x.Rows)
	for i := range s.train.x.Rows {
		for j, v := range s.train.x.Row(i) {
			mean[j] += v / n
		}
	}
	for i := range s.train.x.Rows {
		for j, v := range s.train.x.Row(i) {
			sd[j] += (v - mean[j]) * (v - mean[j]) / n
		}
	}
	for _, t := range []*table{s.train, s.valid, s.test} {
		for i := range t.x.Rows {
			row := t.x.Row(i)
			for j := range row {
				row[j] -= mean[j]
				if sd[j] > 0 {
					row[j] /= math.Sqrt(sd[j])
				}
			}
		}
	}
	return s
}

// scaled returns σx.
func scaled(x dense.Matrix[float64], sigma float64) dense.Matrix[float64] {
	y := dense.New[float64](x.Rows, x.Cols)
	for i := range x.Rows {
		row := y.Row(i)
		for j, v := range x.Row(i) {
			row[j] = sigma * v
		}
	}
	return y
}
