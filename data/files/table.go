package files

import (
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/internal/raw"
	"github.com/randfeat/randfeat/internal/cell"
)

// Table is one or more files as one table. It is a [data.Source] of all rows in order, and of every unit
// separately. Several goroutines may read it: mu guards the list of opened files.
type Table struct {
	m     *Manifest
	o     data.Options // options for every file
	units []data.Unit

	mu     sync.Mutex
	shards []*shard // nil: not opened
}

// shard is a file that has been opened and compared with the first.
type shard struct {
	src   data.Source
	order []int // its column for each column of the table; nil: the same order
}

// Open opens all files and compares their columns with the first. The first file determines the format, the
// delimiter of CSV and whether there is a header, unless the options do. Errors name the file.
func Open(paths []string, o data.Options) (*Table, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("no file is named")
	}
	if slices.ContainsFunc(paths, inStore) {
		if o.UnitBytes != 0 {
			return nil, fmt.Errorf("objects of a store are read whole: leave out the size of units")
		}
		o.UnitBytes = wholeUnit
	}
	first, format, err := openFile(paths[0], o)
	if err != nil {
		return nil, err
	}
	o.Format = format
	m := &Manifest{Version: manifestVersion, Columns: slices.Clone(first.Columns())}
	for j := range m.Columns {
		m.Kinds = append(m.Kinds, kindOf(first, j))
	}
	t := &Table{m: m, o: resolved(first, o), shards: make([]*shard, len(paths))}
	m.setOptions(t.o)
	for i, path := range paths {
		size, err := sizeOf(path)
		if err != nil {
			return nil, err
		}
		ends, err := endsOf(path, size)
		if err != nil {
			return nil, err
		}
		m.Shards = append(m.Shards, shardInfo{Name: path, Size: size, Blocks: 1, Ends: ends})
		if i > 0 && inStore(path) {
			continue // the first reader compares it: opening would fetch every object
		}
		src := first
		if i > 0 {
			own := t.o
			if own.Header = o.Header; own.Header == nil && format == data.CSV {
				// Some files may lack a header, so each is checked.
				if src, _, err = openFile(path, own); err != nil {
					return nil, err
				}
				if h := *resolved(src, own).Header; h != *t.o.Header {
					return nil, &data.InputError{Place: path,
						Detail: fmt.Sprintf("a line of names was %s in %s, and %s here: say whether the files have one",
							found(!h), paths[0], found(h))}
				}
			} else if src, _, err = openFile(path, t.o); err != nil {
				return nil, err
			}
		}
		if t.shards[i], err = t.compare(i, src); err != nil {
			return nil, err
		}
		m.Shards[i].Blocks = blocksOf(src)
	}
	if err := m.setPartitions(); err != nil {
		return nil, err
	}
	t.units = m.units()
	return t, nil
}

func found(yes bool) string {
	if yes {
		return "found"
	}
	return "not found"
}

// openFile opens a file of any format, in the file system or in a store.
func openFile(path string, o data.Options) (src data.Source, _ data.Format, err error) {
	store, err := storeOf(path)
	if err != nil {
		return nil, "", err
	}
	f := raw.File{Name: path, Open: func() (io.ReadCloser, error) { return bytesOf(path) }}
	if store != nil {
		if f.Size, err = store.Size(path); err != nil {
			return nil, "", err
		}
		return open(f, o)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, "", err
	case info.IsDir():
		return nil, "", raw.Errorf(path, "a directory, want a data file")
	case !info.Mode().IsRegular():
		// Files are inspected, hashed and read, so a pipe will not do; opening one would wait for its writer.
		return nil, "", raw.Errorf(path, "not a regular file, and a table of files is read more than once: write it to a file first")
	}
	f.Size = info.Size()
	return open(f, o)
}

// resolved returns o with the layout that was found for src; see the sources of package data.
func resolved(src data.Source, o data.Options) data.Options {
	if s, ok := src.(interface {
		Resolved(data.Options) data.Options
	}); ok {
		return s.Resolved(o)
	}
	return o
}

// kindOf is the kind of a column by its type: number, text, or empty if the format does not tell.
func kindOf(src data.Source, j int) string {
	if s, ok := src.(interface{ Natural(int) data.Kind }); ok {
		return s.Natural(j).String()
	}
	return ""
}

func blocksOf(src data.Source) int {
	if s, ok := src.(data.Splitter); ok {
		return s.Blocks()
	}
	return 1
}

// compare checks that file i has the columns of the table.
func (t *Table) compare(i int, src data.Source) (*shard, error) {
	path, m := t.m.Shards[i].Name, t.m
	want := m.fileColumns()
	wrong := func(format string, args ...any) error {
		return &data.InputError{Place: path, Err: data.ErrSchema, Detail: fmt.Sprintf(format, args...)}
	}
	if s, ok := src.(interface{ NoRows() bool }); ok && s.NoRows() && len(t.shards) > 1 && !m.mayBeEmpty() {
		return nil, wrong("the file has columns but no rows: leave it out")
	}
	columns := src.Columns()
	out := &shard{src: src}
	if !slices.Equal(columns, want) {
		at := make(map[string]int, len(columns))
		for j, c := range columns {
			at[c] = j
		}
		out.order = make([]int, len(want))
		for j, c := range want {
			k, ok := at[c]
			if !ok {
				return nil, wrong("no column %q, which %s has; the columns here are %s", c, m.Shards[0].Name,
					list(columns))
			}
			out.order[j] = k
			delete(at, c)
		}
		for _, c := range columns {
			if _, ok := at[c]; ok {
				return nil, wrong("a column %q, which %s has not; the columns there are %s", c, m.Shards[0].Name,
					list(want))
			}
		}
	}
	for j, c := range want {
		if k := kindOf(src, out.column(j)); k != m.Kinds[j] {
			return nil, wrong("column %q is %s here, and %s in %s: write it as one type", c, k, m.Kinds[j],
				m.Shards[0].Name)
		}
	}
	return out, nil
}

// column returns the column of the file that is column j of the table.
func (s *shard) column(j int) int {
	if s.order == nil {
		return j
	}
	return s.order[j]
}

// shard returns file i. A file that is opened for the first time is compared with the manifest: size, ends and
// number of blocks must be unchanged.
func (t *Table) shard(i int) (*shard, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.shards[i] != nil {
		return t.shards[i], nil
	}
	want := t.m.Shards[i]
	size, err := sizeOf(want.Name)
	if err != nil {
		return nil, err
	}
	changed := func(what string, was, is int64) error {
		return &data.InputError{Place: want.Name,
			Detail: fmt.Sprintf("%d %s, and %d when the list of files was made: it has changed since", is, what, was)}
	}
	if size != want.Size {
		return nil, changed("bytes", want.Size, size)
	}
	if ends, err := endsOf(want.Name, size); err != nil {
		return nil, err
	} else if ends != want.Ends {
		return nil, &data.InputError{Place: want.Name,
			Detail: "its contents have changed since the list of files was made, at the same size"}
	}
	src, _, err := openFile(want.Name, t.o)
	if err != nil {
		return nil, err
	}
	if n := blocksOf(src); n != want.Blocks {
		return nil, changed("blocks", int64(want.Blocks), int64(n))
	}
	t.shards[i], err = t.compare(i, src)
	return t.shards[i], err
}

// Name is the name of the file, or of the first and the last.
func (t *Table) Name() string {
	first := t.m.Shards[0].Name
	n := len(t.m.Shards)
	if n == 1 {
		return first
	}
	return fmt.Sprintf("%s … %s (%d files)", first, filepath.Base(t.m.Shards[n-1].Name), n)
}

// Columns are the columns of the first file and of its folders.
func (t *Table) Columns() []string { return t.m.Columns }

// Units returns all units, in order.
func (t *Table) Units() []data.Unit { return t.units }

// ShardName is the name of file i.
func (t *Table) ShardName(i int) string { return t.m.Shards[i].Name }

// Files returns the names of the files, in order.
func (t *Table) Files() []string {
	names := make([]string, len(t.m.Shards))
	for i, s := range t.m.Shards {
		names[i] = s.Name
	}
	return names
}

// Manifest returns the list of the files and how to read them. The table can be opened elsewhere from it.
func (t *Table) Manifest() *Manifest { return t.m }

// textSource is a source of text.
type textSource interface {
	Encoding() string
	TextEncoding() string
}

// TextEncoding is the encoding of the first file, among those read, that has text other than ASCII.
func (t *Table) TextEncoding() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.shards {
		if s != nil {
			if e, ok := data.As[textSource](s.src); ok && e.TextEncoding() != "" {
				return e.TextEncoding()
			}
		}
	}
	return ""
}

// Encoding is TextEncoding if that is not UTF-8.
func (t *Table) Encoding() string {
	if e := t.TextEncoding(); e != "utf-8" {
		return e
	}
	return ""
}

// Integer reports whether column j has an integer type in all files opened so far.
func (t *Table) Integer(j int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.shards {
		if s != nil && !t.integer(s, j) {
			return false
		}
	}
	return t.shards[0] != nil
}

// integer reports whether column j has an integer type in a file. Names of folders are texts.
func (t *Table) integer(s *shard, j int) bool {
	typed, ok := data.As[interface{ Integer(j int) bool }](s.src)
	return ok && j < len(t.m.fileColumns()) && typed.Integer(s.column(j))
}

// Open starts at the first row of the first file.
func (t *Table) Open(want []data.Kind) (data.Reader, error) {
	kinds, err := t.kinds(want)
	if err != nil {
		return nil, err
	}
	return &tableReader{t: t, want: kinds}, nil
}

// kinds checks the number of kinds. All files get the same kinds: a file alone might infer others.
func (t *Table) kinds(want []data.Kind) ([]data.Kind, error) {
	if want != nil && len(want) != len(t.m.Columns) {
		return nil, fmt.Errorf("%s: %d kinds for %d columns", t.Name(), len(want), len(t.m.Columns))
	}
	return want, nil
}

// Unit returns a source of the rows of one unit, by its place in Units. It may have none: if a row is longer
// than a unit, or it cannot be decided whether a place is inside quotes, the rows belong to the unit before.
func (t *Table) Unit(i int) (data.Source, error) {
	if i < 0 || i >= len(t.units) {
		return nil, fmt.Errorf("%s has %d units, there is no number %d", t.Name(), len(t.units), i)
	}
	u := t.units[i]
	s, err := t.shard(u.Shard)
	if err != nil {
		return nil, err
	}
	src := s.src
	if b, ok := src.(data.Splitter); ok {
		if src, err = b.Block(u.Block); err != nil {
			return nil, err
		}
	} else if src, _, err = openFile(t.m.Shards[u.Shard].Name, t.o); err != nil {
		return nil, err
	}
	return &unit{t: t, u: u, s: &shard{src: src, order: s.order}}, nil
}

// unit is a source of one unit.
type unit struct {
	t *Table
	u data.Unit
	s *shard
}

func (u *unit) Name() string       { return u.t.m.Shards[u.u.Shard].Name }
func (u *unit) Columns() []string  { return u.t.m.Columns }
func (u *unit) Units() []data.Unit { return []data.Unit{u.u} }
func (u *unit) Files() []string    { return []string{u.Name()} }
func (u *unit) Integer(j int) bool { return u.t.integer(u.s, j) }
func (u *unit) Notes() []string    { return u.t.Notes() }

func (u *unit) TextEncoding() string {
	if e, ok := data.As[textSource](u.s.src); ok {
		return e.TextEncoding()
	}
	return ""
}

func (u *unit) Encoding() string {
	if e, ok := data.As[textSource](u.s.src); ok {
		return e.Encoding()
	}
	return ""
}

func (u *unit) Open(want []data.Kind) (data.Reader, error) {
	kinds, err := u.t.kinds(want)
	if err != nil {
		return nil, err
	}
	r, err := u.t.open(u.u.Shard, u.s, kinds)
	if err != nil {
		return nil, err
	}
	return &unitReader{Reader: r, u: u.u}, nil
}

type unitReader struct {
	data.Reader
	u data.Unit
}

func (r *unitReader) Read(b *data.Block, most int) error {
	err := r.Reader.Read(b, most)
	b.Unit = r.u
	return err
}

// quickWhere reports whether Where of a reader is cheap, as [data.Learner] asks.
func quickWhere(r data.Reader) bool {
	p, ok := r.(interface{ QuickWhere() bool })
	return !ok || p.QuickWhere()
}

// QuickWhere serves [data.QuickWhere].
func (r *unitReader) QuickWhere() bool { return quickWhere(r.Reader) }

// open opens a file with the columns of the table.
func (t *Table) open(i int, s *shard, want []data.Kind) (data.Reader, error) {
	if t.m.Partitions == 0 {
		return s.open(want)
	}
	own, added := want, []data.Kind(nil)
	if want != nil {
		n := len(t.m.fileColumns())
		own, added = want[:n], want[n:]
	}
	r, err := s.open(own)
	if err != nil {
		return nil, err
	}
	p, err := t.withPartitions(r, i, added)
	if err != nil {
		r.Close()
		return nil, err
	}
	return p, nil
}

// mayBeEmpty reports whether files without rows are normal: Spark writes Parquet files for empty partitions. In
// text, a header alone is more likely a failed export.
func (m *Manifest) mayBeEmpty() bool { return m.Format == data.Parquet }

// MayBeEmpty reports whether files of the table may have no rows.
func (t *Table) MayBeEmpty() bool { return t.m.mayBeEmpty() }

// open opens the file with its columns in the order of the table.
func (s *shard) open(want []data.Kind) (data.Reader, error) {
	if s.order == nil {
		return s.src.Open(want)
	}
	var kinds []data.Kind
	if want != nil {
		kinds = make([]data.Kind, len(s.src.Columns()))
		for j := range kinds {
			kinds[j] = data.Skip
		}
		for j, k := range s.order {
			kinds[k] = want[j]
		}
	}
	r, err := s.src.Open(kinds)
	if err != nil {
		return nil, err
	}
	return &orderedReader{Reader: r, order: s.order}, nil
}

// orderedReader puts the columns of a file into the order of the table.
type orderedReader struct {
	data.Reader
	order []int
	b     data.Block
}

// QuickWhere serves [data.QuickWhere].
func (r *orderedReader) QuickWhere() bool { return quickWhere(r.Reader) }

func (r *orderedReader) Read(b *data.Block, most int) error {
	if err := r.Reader.Read(&r.b, most); err != nil {
		return err
	}
	cols := slices.Grow(b.Cols[:0], len(r.order))[:len(r.order)]
	*b = r.b
	b.Cols = cols
	for j, k := range r.order {
		b.Cols[j] = r.b.Cols[k]
	}
	return nil
}

// tableReader reads file after file.
type tableReader struct {
	t     *Table
	want  []data.Kind
	now   data.Reader // nil: between files
	at    int         // index of the current or next file
	rows  int64       // rows read of that file
	first int64       // number of the next row
}

func (r *tableReader) Columns() []string  { return r.t.m.Columns }
func (r *tableReader) Where(i int) string { return r.now.Where(i) }

// QuickWhere serves [data.QuickWhere].
func (r *tableReader) QuickWhere() bool { return quickWhere(r.now) }

func (r *tableReader) Close() error {
	if r.now == nil {
		return nil
	}
	now := r.now
	r.now = nil
	return now.Close()
}

func (r *tableReader) Read(b *data.Block, most int) error {
	for {
		if r.now == nil {
			if r.at == len(r.t.m.Shards) {
				return io.EOF
			}
			s, err := r.t.shard(r.at)
			if err != nil {
				return err
			}
			if r.now, err = r.t.open(r.at, s, r.want); err != nil {
				return err
			}
			r.rows = 0
		}
		err := r.now.Read(b, most)
		if err == nil {
			b.First, b.Unit.Shard = r.first, r.at
			r.rows += int64(b.Rows)
			if r.first > math.MaxInt64-int64(b.Rows) {
				return fmt.Errorf("%s: too many rows", r.t.Name())
			}
			r.first += int64(b.Rows)
			return nil
		}
		if err != io.EOF {
			return err
		}
		if r.rows == 0 && len(r.t.m.Shards) > 1 && !r.t.m.mayBeEmpty() {
			return &data.InputError{Place: r.t.m.Shards[r.at].Name, Err: data.ErrSchema,
				Detail: "the file has columns but no rows: leave it out"}
		}
		if err := r.Close(); err != nil {
			return err
		}
		r.at++
	}
}

// Open returns the table without inspecting its files: each is opened, and compared with the manifest, when it
// is first read.
func (m *Manifest) Open() (*Table, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	return &Table{m: m, o: m.options(), units: m.units(), shards: make([]*shard, len(m.Shards))}, nil
}

// Content is a hash of the bytes of unit i: of an equal share of its file, so that the units of a file together
// cover all of it, wherever the rows of a unit end. Steps that read a table twice compare it, since a file may
// change and keep its size.
func (t *Table) Content(i int) ([16]byte, error) {
	u := t.units[i]
	s := t.m.Shards[u.Shard]
	share := (s.Size + int64(s.Blocks) - 1) / int64(s.Blocks)
	lo := min(s.Size, share*int64(u.Block))
	n := min(share, s.Size-lo)
	var out [16]byte
	f, err := bytesOf(s.Name)
	if err != nil {
		return out, err
	}
	defer f.Close()
	h := sha256.New()
	got, err := io.Copy(h, io.NewSectionReader(f, lo, n))
	if err != nil {
		return out, fmt.Errorf("%s: %w", s.Name, err)
	}
	if got < n {
		return out, &data.InputError{Place: s.Name, Detail: "the file has become shorter since the list of files was made"}
	}
	copy(out[:], h.Sum(nil))
	return out, nil
}

// Notes returns sentences for the user about how the table is read.
func (t *Table) Notes() []string {
	n := len(t.m.Columns)
	names := t.m.Columns[n-t.m.Partitions:]
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("column %q comes from the names of the folders, such as %s=%s", names[0], names[0],
			t.m.Shards[0].Values[0])}
	}
	return []string{fmt.Sprintf("columns %s come from the names of the folders, such as %s=%s", list(names), names[0],
		t.m.Shards[0].Values[0])}
}

// withPartitions adds the columns of the folders to a reader of the file. want has the kinds of these columns;
// nil or Infer means text.
func (t *Table) withPartitions(r data.Reader, shard int, want []data.Kind) (data.Reader, error) {
	kinds, err := data.CheckKinds(want, t.m.Partitions, func(int) data.Kind { return data.Text })
	if err != nil {
		return nil, err
	}
	p := &partitionReader{Reader: r, file: t.m.Shards[shard].Name, columns: t.m.Columns, kinds: kinds,
		texts: make([][]byte, len(kinds)), numbers: make([]float64, len(kinds)), added: make([]data.Column, len(kinds))}
	for k, value := range t.m.Shards[shard].Values {
		if value == hiveMissing {
			p.numbers[k] = math.NaN()
			continue
		}
		p.texts[k] = []byte(value)
		if kinds[k] != data.Number {
			continue
		}
		var ok bool
		if p.numbers[k], ok = cell.ParseNumber(p.texts[k]); !ok {
			name := p.columns[len(p.columns)-len(kinds)+k]
			return nil, &data.InputError{Place: p.file, Column: name,
				Detail: fmt.Sprintf("column %q is %.40q by its folder, want a number", name, value)}
		}
	}
	return p, nil
}
