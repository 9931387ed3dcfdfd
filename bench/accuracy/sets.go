package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/text"
	"github.com/randfeat/randfeat/dense"
)

// set is a data set and how much of it is used.
type set struct {
	name   string
	file   string // below the data folder
	target string // column; files without header have c1, c2, …
	skip   []string
	task   data.Task
	header bool

	features int // F of the pipelines
	large    int // F of ours against exact kernels
	trials   int
	pool     int // MNIST: side of the squares of pixels that are averaged
}

func sets() []set {
	const class, value = data.Classification, data.Regression
	return []set{
		{name: "abalone", file: "abalone/abalone.data", target: "c9", task: class, features: 512, large: 1024,
			trials: 5},
		{name: "banknote", file: "banknote/data_banknote_authentication.txt", target: "c5", task: class, features: 512,
			large: 512, trials: 10},
		{name: "car", file: "car/car.data", target: "c7", task: class, features: 512, large: 1024, trials: 6},
		{name: "yeast", file: "yeast/yeast.data", target: "c10", skip: []string{"c1"}, task: class, features: 512,
			large: 512, trials: 6},
		{name: "cmc", file: "cmc/cmc.data", target: "c10", task: class, features: 512, large: 512, trials: 6},
		{name: "nursery", file: "nursery/nursery.data", target: "c9", task: class, features: 1024, large: 2048,
			trials: 5},
		{name: "wifi", file: "wifi/wifi_localization.txt", target: "c8", task: class, features: 512, large: 512,
			trials: 6},
		{name: "chess", file: "chess/krkopt.data", target: "c7", task: class, features: 1024, large: 4096, trials: 4},
		{name: "wine quality red", file: "wine_quality/winequality-red.csv", target: "c12", task: value, features: 512,
			large: 1024, trials: 6},
		{name: "wine quality white", file: "wine_quality/winequality-white.csv", target: "c12", task: value,
			features: 512, large: 2048, trials: 5},
		{name: "wine quality red, classes", file: "wine_quality/winequality-red.csv", target: "c12", task: class,
			features: 512, large: 1024, trials: 3},
		{name: "wine quality white, classes", file: "wine_quality/winequality-white.csv", target: "c12", task: class,
			features: 512, large: 2048, trials: 3},
		{name: "wine", file: "wine/wine.data", target: "c1", task: class, features: 128, large: 128, trials: 3},
		{name: "ionosphere", file: "ionosphere/ionosphere.data", target: "c35", task: class, features: 256, large: 256,
			trials: 3},
		{name: "Boston", file: "boston/housing.data", target: "c14", task: value, features: 256, large: 1024,
			trials: 10},
		{name: "campaign", file: "campaign/campaign.csv.gz", target: "class", header: true, task: class, features: 1024,
			large: 1024, trials: 5},
		{name: "backdoor", file: "backdoor/backdoor_20000.csv.gz", target: "class", header: true, task: class,
			features: 1024, large: 1024, trials: 5},
		{name: "digits", file: "digits/digits.csv.gz", target: "c65", task: class, features: 512, large: 1024,
			trials: 10},
		{name: "MNIST 8×8", file: "mnist", target: "c65", task: class, features: 1024, large: 4096, trials: 4, pool: 3},
		{name: "MNIST 28×28", file: "mnist", target: "c785", task: class, features: 1024, large: 4096, trials: 4,
			pool: 1},
	}
}

// Bounds on the rows of a split.
const (
	maxTrain = 10000
	maxTest  = 5000
)

// table is a set in memory.
type table struct {
	x, y    dense.Matrix[float64] // y is the class index or the value
	classes []string              // nil: regression
	fixed   int                   // rows from here on are the set's own test rows; 0: none

	lines [][]byte // as in the file, for fits that start from it
	head  []byte
}

func (s set) read(dir string) (*table, error) {
	if s.pool > 0 {
		return s.readImages(filepath.Join(dir, s.file))
	}
	b, err := contents(filepath.Join(dir, s.file))
	if err != nil {
		return nil, err
	}
	t := &table{}
	for line := range bytes.Lines(b) {
		switch {
		case s.header && t.head == nil:
			t.head = line
		case len(bytes.TrimSpace(line)) > 0:
			t.lines = append(t.lines, append(bytes.TrimRight(line, "\r\n"), '\n'))
		}
	}
	src, err := t.source(s, nil)
	if err != nil {
		return nil, err
	}
	schema, _, err := data.Learn(src, s.learn())
	if err != nil {
		return nil, err
	}
	t.classes = schema.Targets[0].Classes
	t.x, t.y, err = encode(src, schema, len(t.lines), true)
	return t, err
}

func (s set) learn() data.LearnOptions {
	return data.LearnOptions{Targets: []string{s.target}, Skip: s.skip, Task: s.task}
}

// source returns some of the lines as a table; nil means all.
func (t *table) source(s set, rows []int) (data.Source, error) {
	var b bytes.Buffer
	b.Write(t.head)
	if rows == nil {
		for _, l := range t.lines {
			b.Write(l)
		}
	}
	for _, i := range rows {
		b.Write(t.lines[i])
	}
	return text.OpenBytes(s.name, b.Bytes(), data.Options{Format: data.CSV, Header: &s.header})
}

// encode reads and encodes all n rows of a table.
func encode(src data.Source, schema *data.Schema, n int, targets bool) (x, y dense.Matrix[float64], err error) {
	names, err := src.Open(nil)
	if err != nil {
		return x, y, err
	}
	enc, err := schema.Encoder(names.Columns(), targets)
	if err := errors.Join(err, names.Close()); err != nil {
		return x, y, err
	}
	r, err := src.Open(enc.Kinds())
	if err != nil {
		return x, y, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	x = dense.New[float64](n, schema.Width())
	if targets {
		y = dense.New[float64](n, 1)
	}
	var b data.Block
	for at := 0; ; at += b.Rows {
		if err := r.Read(&b, 1024); err == io.EOF {
			return x, y, nil
		} else if err != nil {
			return x, y, err
		}
		part := dense.Matrix[float64]{}
		if targets {
			part = y.RowRange(at, at+b.Rows)
		}
		if err := enc.Encode(x.RowRange(at, at+b.Rows), part, &b, r.Where); err != nil {
			return x, y, err
		}
	}
}

// readImages reads MNIST: the training images, then the test images. Pixels are divided by 255. A pool of 3 averages
// squares of 3×3 pixels of the central 24×24, which gives 8×8.
func (s set) readImages(dir string) (*table, error) {
	t := &table{}
	var all [][]byte
	var labels []byte
	for _, part := range []string{"train", "t10k"} {
		images, err := contents(filepath.Join(dir, part+"-images-idx3-ubyte.gz"))
		if err != nil {
			return nil, err
		}
		l, err := contents(filepath.Join(dir, part+"-labels-idx1-ubyte.gz"))
		if err != nil {
			return nil, err
		}
		if len(images) < 16 || len(l) < 8 || binary.BigEndian.Uint32(images) != 2051 ||
			binary.BigEndian.Uint32(l) != 2049 || len(images)-16 != 784*(len(l)-8) {
			return nil, fmt.Errorf("%s: %s is no pair of idx files of 28×28 images", dir, part)
		}
		t.fixed = len(labels)
		labels = append(labels, l[8:]...)
		for p := images[16:]; len(p) > 0; p = p[784:] {
			all = append(all, p[:784])
		}
	}
	side, border := 28/s.pool, 28%s.pool
	if s.pool > 1 {
		side, border = 24/s.pool, 2
	}
	t.x, t.y = dense.New[float64](len(all), side*side), dense.New[float64](len(all), 1)
	for i, p := range all {
		row := t.x.Row(i)
		for j := range row {
			sum := 0
			for a := range s.pool {
				for b := range s.pool {
					sum += int(p[28*(border+j/side*s.pool+a)+border+j%side*s.pool+b])
				}
			}
			row[j] = float64(sum) / float64(255*s.pool*s.pool)
		}
		t.y.Set(i, 0, float64(labels[i]))
	}
	for c := range 10 {
		t.classes = append(t.classes, strconv.Itoa(c))
	}
	return t, nil
}

// contents reads a file, uncompressed if its name ends in .gz.
func contents(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if filepath.Ext(path) != ".gz" {
		return io.ReadAll(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return io.ReadAll(z)
}
