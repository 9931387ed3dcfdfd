package papers

import (
	"bufio"
	_ "embed"
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
	name, file, sep string  // sep "" means runs of blanks
	drop            int     // leading columns that identify rows
	words           int     // leading columns of words, also if these are digits
	sigma           float64 // of Simplex Random Features, from its public code
}

var uciSets = []uciSet{
	{"abalone", "abalone/abalone.data", ",", 0, 1, .41331138},
	{"banknote", "banknote/data_banknote_authentication.txt", ",", 0, 0, 1.06445901},
	{"car", "car/car.data", ",", 0, 6, .77656608},
	{"yeast", "yeast/yeast.data", "", 1, 0, .90918797},
	{"cmc", "cmc/cmc.data", ",", 0, 0, .48389667},
	{"nursery", "nursery/nursery.data", ",", 0, 8, .18788887},
	{"wifi", "wifi/wifi_localization.txt", "\t", 0, 0, .21997651},
	{"chess", "chess/krkopt.data", ",", 0, 6, .25754408},
}

// cmcOrder has the rank of each row of UCI's cmc.data among its sorted rows: copies of the file have other orders, and
// the known split is one of rows in UCI's order. Made by
//
//	python3 -c "L = open('cmc.data').read().split('\n')[:-1]; at = {}
//	for i, s in enumerate(sorted(L)): at.setdefault(s, []).append(i)
//	print(*[at[s].pop(0) for s in L])" | fold -sw 118
//
//go:embed cmc_order.txt
var cmcOrder string

func uciFiles() (files []string) {
	for _, s := range uciSets {
		files = append(files, s.file)
	}
	return files
}

// table is a set in numbers. A column of words becomes one column per word, as in the papers.
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
	if s.name == "cmc" {
		slices.SortFunc(rows, func(a, b []string) int {
			return strings.Compare(strings.Join(a, s.sep), strings.Join(b, s.sep))
		})
		order, sorted := strings.Fields(cmcOrder), rows
		if rows = make([][]string, len(order)); len(sorted) != len(order) {
			return nil, fmt.Errorf("%s: %d rows, want %d", s.file, len(sorted), len(order))
		}
		for i, text := range order {
			rank, err := strconv.Atoi(text)
			if err != nil {
				return nil, err
			}
			rows[i] = sorted[rank]
		}
	}
	if s.name != "nursery" { // the papers drop the last line, which is blank in UCI's file of nursery
		rows = rows[:len(rows)-1]
	}
	var columns [][]float64
	t := &table{y: make([]int, len(rows))}
	for j := range rows[0] {
		last := j == len(rows[0])-1
		value, words := column(rows, j, last || j < s.words)
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

// cut shuffles by the seed and cuts.
func (t *table) cut(seed uint64) split {
	order := rand.New(rng.Stream(seed)).Perm(t.x.Rows)
	a := len(order) * 9 / 10
	b := a + (len(order)-a)/2
	return split{t.rows(order[:a]), t.rows(order[a:b]), t.rows(order[b:])}
}

// known is the split of the papers (data_loader.py of github.com/isaac-reid/simplex_random_features): the last 5 % of a
// permutation of NumPy are for the test. A share of 0.95 of the rows is for training in Simplex Random Features, which
// validates on the test rows; 0.9 in Chefs' Random Tables, whose sizes and constants (TrigRF) are those of this split.
func (t *table) known(share float64) split {
	order := numpyOrder(t.x.Rows)
	a, b := int(share*float64(len(order))), len(order)-int(.05*float64(len(order)))
	valid := order[a:b]
	if share == .95 {
		valid = order[b:]
	}
	return split{t.rows(order[:a]), t.rows(valid), t.rows(order[b:])}
}

// first returns the first n rows; 0 means all.
func (t *table) first(n int) *table {
	if n == 0 || n > t.x.Rows {
		n = t.x.Rows
	}
	return &table{x: t.x.RowRange(0, n), y: t.y[:n], classes: t.classes}
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
