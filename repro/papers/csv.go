package papers

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/repro/lab"
)

// readColumns reads the numeric columns of a table, with or without header, plain or gzipped, separated by commas or
// blanks. rows > 0 takes that many, spread evenly over the file. drop lists columns that are not features; negative
// numbers count from the end.
func readColumns(l *lab.Lab, file string, rows int, drop ...int) (x dense.Matrix[float64], err error) {
	f, err := os.Open(l.Path(file))
	if err != nil {
		return x, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return x, fmt.Errorf("%s: %w", file, err)
		}
	}
	var all [][]string
	if strings.HasSuffix(file, ".data") && !strings.Contains(file, "wine") && !strings.Contains(file, "ionosphere") {
		b, err := io.ReadAll(r)
		if err != nil {
			return x, err
		}
		for line := range strings.Lines(string(b)) {
			if fields := strings.Fields(line); len(fields) > 0 {
				all = append(all, fields)
			}
		}
	} else {
		c := csv.NewReader(r)
		if all, err = c.ReadAll(); err != nil {
			return x, fmt.Errorf("%s: %w", file, err)
		}
	}
	if len(all) > 0 {
		if _, err := strconv.ParseFloat(all[0][0], 64); err != nil {
			all = all[1:]
		}
	}
	if len(all) == 0 {
		return x, fmt.Errorf("%s: no rows", file)
	}
	if rows > 0 && rows < len(all) {
		some := make([][]string, rows)
		for i := range some {
			some[i] = all[i*len(all)/rows]
		}
		all = some
	}
	skip := map[int]bool{}
	for _, j := range drop {
		if j < 0 {
			j += len(all[0])
		}
		skip[j] = true
	}
	x = dense.New[float64](len(all), len(all[0])-len(skip))
	for i, row := range all {
		at := 0
		for j, s := range row {
			if skip[j] {
				continue
			}
			if x.Row(i)[at], err = strconv.ParseFloat(s, 64); err != nil {
				return x, fmt.Errorf("%s: row %d, column %d: %w", file, i+1, j+1, err)
			}
			at++
		}
	}
	return x, nil
}

// standardised returns the matrix with columns of mean 0 and variance 1.
func standardised(x dense.Matrix[float64]) dense.Matrix[float64] {
	y := x.Clone()
	for j := range x.Cols {
		column := make([]float64, x.Rows)
		for i := range column {
			column[i] = x.At(i, j)
		}
		mean, sd := meanSD(column)
		if sd == 0 {
			sd = 1
		}
		for i, v := range column {
			y.Set(i, j, (v-mean)/sd)
		}
	}
	return y
}

// meanSquareDistance returns the mean of |x_i − x_j|² over all pairs.
func meanSquareDistance(x dense.Matrix[float64]) float64 {
	sum := 0.0
	for j := range x.Cols {
		var s, q float64
		for i := range x.Rows {
			v := x.At(i, j)
			s, q = s+v, q+v*v
		}
		n := float64(x.Rows)
		sum += 2 * math.Max(0, q/n-s/n*(s/n))
	}
	return sum
}
