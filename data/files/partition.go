package files

import (
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/randfeat/randfeat/data"
)

// hiveMissing is the folder name that Hive and Spark give to rows without a value.
const hiveMissing = "__HIVE_DEFAULT_PARTITION__"

// partitionsOf returns the columns, and their values, that the folders of a file define: the unbroken run of
// folders named column=value directly above the file, outermost first. Spark escapes characters in both as URLs
// do.
func partitionsOf(file string) (names, values []string) {
	dirs := strings.Split(path.Dir(filepath.ToSlash(file)), "/")
	for _, dir := range slices.Backward(dirs) {
		name, value, ok := strings.Cut(dir, "=")
		if !ok || name == "" {
			break
		}
		names, values = append(names, unescaped(name)), append(values, unescaped(value))
	}
	slices.Reverse(names)
	slices.Reverse(values)
	return names, values
}

func unescaped(s string) string {
	if text, err := url.PathUnescape(s); err == nil {
		return text
	}
	return s
}

// setPartitions adds the columns of the folders to the table. A column that the files have themselves is read
// from them.
func (m *Manifest) setPartitions() error {
	var own []int // indices of the first file's names that become columns
	first, _ := partitionsOf(m.Shards[0].Name)
	for k, name := range first {
		switch {
		case slices.Contains(first[:k], name):
			return &data.InputError{Place: m.Shards[0].Name, Err: data.ErrSchema,
				Detail: fmt.Sprintf("two of its folders give the column %q", name)}
		case !slices.Contains(m.Columns, name):
			own = append(own, k)
		}
	}
	for i := range m.Shards {
		names, values := partitionsOf(m.Shards[i].Name)
		if !slices.Equal(names, first) {
			return &data.InputError{Place: m.Shards[i].Name, Err: data.ErrSchema,
				Detail: fmt.Sprintf("its folders give the columns %s, those of %s give %s: name folders of one table",
					list(names), m.Shards[0].Name, list(first))}
		}
		for _, k := range own {
			m.Shards[i].Values = append(m.Shards[i].Values, values[k])
		}
	}
	for _, k := range own {
		m.Columns, m.Kinds = append(m.Columns, first[k]), append(m.Kinds, "")
		m.Partitions++
	}
	return nil
}

// partitionReader appends columns that are constant within a file to the file's own.
type partitionReader struct {
	data.Reader
	file    string
	columns []string    // all columns of the table
	kinds   []data.Kind // kinds of the added columns: Number, Text or Skip
	texts   [][]byte    // nil is missing
	numbers []float64   // values of the columns read as numbers
	inner   data.Block
	added   []data.Column
}

func (p *partitionReader) Columns() []string { return p.columns }

// QuickWhere serves [data.QuickWhere].
func (p *partitionReader) QuickWhere() bool { return quickWhere(p.Reader) }

func (p *partitionReader) Read(b *data.Block, most int) error {
	if err := p.Reader.Read(&p.inner, most); err != nil {
		return err
	}
	own := len(p.inner.Cols)
	cols := slices.Grow(b.Cols[:0], own+len(p.kinds))[:own+len(p.kinds)]
	*b = p.inner
	b.Cols = cols
	copy(cols, p.inner.Cols)
	for k, kind := range p.kinds {
		c := &p.added[k]
		switch kind {
		case data.Number:
			for c.Num = c.Num[:0]; len(c.Num) < b.Rows; {
				c.Num = append(c.Num, p.numbers[k])
			}
		case data.Text:
			for c.Text = c.Text[:0]; len(c.Text) < b.Rows; {
				c.Text = append(c.Text, p.texts[k])
			}
		}
		cols[own+k] = *c
	}
	return nil
}

func list(names []string) string {
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return text
}
