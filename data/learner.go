package data

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/randfeat/randfeat/data/internal/charset"
	"github.com/randfeat/randfeat/internal/cell"
	"github.com/randfeat/randfeat/internal/par"
)

// Learner collects the statistics that determine the schema of a table. Learners of consecutive parts of a
// table can be made on different machines, saved, and merged in order. A Learner belongs to one goroutine; it
// uses several for the columns of a block.
//
// Counts and ranges do not depend on how a table is cut. Two results do: the last bits of means and scales
// (Chan, Golub and LeVeque 1979), and the counts of columns with more distinct texts than a learner holds (see
// [LearnOptions]). Both are identical if learners are merged along the tree of package internal/par, as Learn does.
type Learner struct {
	place   string
	columns []string
	o       LearnOptions
	tracked int    // most distinct texts counted for a column
	want    []Kind // kinds that sources are opened with
	cols    []*columnLearner
	rows    int64
	// The encodings of the first and the last shard that had text beyond ASCII. A file must have one encoding,
	// and parts of a file may be learned on different machines, so Merge compares last of one part with first
	// of the next.
	first, last shardText
}

// shardText is the encoding of the text of a shard, one file of a table.
type shardText struct {
	shard    int
	name     string // of the file
	encoding string // empty: ASCII so far, or no text
}

// NewLearner returns a learner without rows. place names the table in messages. Errors are options that
// contradict each other or the columns.
func NewLearner(place string, columns []string, o LearnOptions) (*Learner, error) {
	o.MaxLevels = o.Levels()
	o.MaxClasses = cmp.Or(o.MaxClasses, 1024)
	if o.MaxLevels < 1 || o.MaxClasses < 2 {
		return nil, fmt.Errorf("at most %d levels and %d classes: want at least 1 and 2", o.MaxLevels, o.MaxClasses)
	}
	switch o.Task {
	case Auto, Regression, Classification:
	default:
		return nil, fmt.Errorf("unknown task %q: want regression or classification", o.Task)
	}
	cols, err := o.roles(place, columns)
	if err != nil {
		return nil, err
	}
	l := &Learner{place: place, columns: slices.Clone(columns), o: o, cols: cols, want: make([]Kind, len(columns))}
	// Equal shares of levelMemory: the bound depends on the number of columns only, so every part of a table
	// uses the same.
	l.tracked = min(max(levelMemory/((maxLevelBytes+64)*max(1, len(columns))), minTracked), maxTracked)
	for j, c := range cols {
		c.counts = l.newCounts(c.role)
		switch {
		case c.role == asID || c.role == asSkip:
			l.want[j] = Skip
		case c.role == asCategorical || c.role == asText || c.role == asTarget && o.Task == Classification:
			l.want[j] = Text
		}
	}
	return l, nil
}

// newCounts returns the counts of a column without cells; nil for roles that need none. A target needs one more
// than MaxClasses, to see that there are too many.
func (l *Learner) newCounts(r role) *counts {
	switch {
	case r == asTarget && l.o.Task != Regression:
		return newCounts(max(l.o.MaxClasses, autoClasses) + 1)
	case r == asCategorical || r == asField:
		return newCounts(l.tracked)
	}
	return nil
}

// blank returns a learner of the same table without rows.
func (l *Learner) blank() *Learner {
	out := &Learner{place: l.place, columns: l.columns, o: l.o, tracked: l.tracked, want: l.want,
		cols: make([]*columnLearner, len(l.cols))}
	for j, c := range l.cols {
		out.cols[j] = newColumnLearner(c.name, c.role, l.o.Strict)
		out.cols[j].counts = l.newCounts(c.role)
	}
	return out
}

// Rows is the number of rows added so far.
func (l *Learner) Rows() int64 { return l.rows }

// Options returns the options of NewLearner with defaults filled in.
func (l *Learner) Options() LearnOptions { return l.o }

// AddSource reads src once and adds its rows after those added before. Its columns must equal those of the
// learner, in the same order. After an error the learner must not be used.
func (l *Learner) AddSource(src Source) error {
	return l.read(src, func(Unit) (*Learner, error) { return l, nil })
}

// addTree adds all rows of a table to an empty learner, with one learner per leaf, merged along the tree. A
// single pass over the table suffices, because units arrive in order.
func (l *Learner) addTree(src Source) error {
	units := UnitsOf(src)
	group := par.LeafUnits(len(units))
	tree := par.Tree[*Learner]{Merge: (*Learner).Merge}
	leaf, at, now := l.blank(), 0, 0 // now is the number of the current leaf, at the unit being read
	err := l.read(src, func(u Unit) (*Learner, error) {
		for at < len(units) && units[at] != u {
			at++
		}
		// Leaves without rows have a place in the tree, too, or later leaves would merge elsewhere.
		for ; now != at/group; now++ {
			if err := tree.Add(leaf); err != nil {
				return nil, err
			}
			leaf = l.blank()
		}
		return leaf, nil
	})
	if err != nil {
		return err
	}
	if err := tree.Add(leaf); err != nil {
		return err
	}
	root, _, err := tree.Root()
	if err == nil {
		// read noted the encodings on l, not on the leaves.
		first, last := l.first, l.last
		*l = *root
		l.first, l.last = first, last
	}
	return err
}

// read adds every row to the learner that of returns for its unit.
func (l *Learner) read(src Source, of func(Unit) (*Learner, error)) (err error) {
	if !slices.Equal(src.Columns(), l.columns) {
		return &InputError{Place: src.Name(), Err: ErrSchema, Detail: fmt.Sprintf("the columns are %s, want %s",
			cell.QuoteList(src.Columns()), cell.QuoteList(l.columns))}
	}
	r, err := src.Open(l.want)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	var b Block
	errs := make([]error, len(l.cols))
	// The product of rows and columns is bounded, so that a wide table does not need much memory.
	size := min(1024, max(1, 1<<20/len(l.want)))
	shard := 0 // of the last block
	names := []string{src.Name()}
	if t, ok := As[interface{ Files() []string }](src); ok {
		names = t.Files()
	}
	name := func(shard int) string { return names[min(shard, len(names)-1)] }
	for {
		err := r.Read(&b, size)
		if err == io.EOF {
			text := shardText{shard: shard, name: name(shard)}
			if e, ok := As[interface{ TextEncoding() string }](src); ok {
				text.encoding = e.TextEncoding()
			}
			return l.noteEncoding(text)
		}
		if err != nil {
			return err
		}
		to, err := of(b.Unit)
		if err != nil {
			return err
		}
		shard = b.Unit.Shard
		file := name(shard)
		where, quick := r.Where, quickWhere(r)
		// Columns are independent, so it does not matter which goroutine learns which. Of several errors the
		// first column's is reported, for the same message in every run.
		par.For(len(to.cols), learnCells/max(1, b.Rows)+1, func(lo, hi int) {
			for j := lo; j < hi; j++ {
				if l.want[j] != Skip {
					errs[j] = to.cols[j].add(&b, j, file, where, quick)
				}
			}
		})
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		to.rows += int64(b.Rows)
	}
}

// learnCells is the number of cells that make up for starting a goroutine.
const learnCells = 512

// quickWhere reports whether Where of a reader is cheap. A reader that starts inside a text file must count the
// lines before it.
func quickWhere(r Reader) bool {
	p, ok := r.(interface{ QuickWhere() bool })
	return !ok || p.QuickWhere()
}

// noteEncoding records the encoding of a shard and refuses two encodings in one file.
func (l *Learner) noteEncoding(s shardText) error {
	switch {
	case s.encoding == "":
	case l.first.encoding == "":
		l.first, l.last = s, s
	case l.last.shard == s.shard && l.last.encoding != s.encoding:
		return &InputError{Place: s.name, Err: ErrEncoding, Detail: charset.Mixed(l.last.encoding, s.encoding)}
	default:
		l.last = s
	}
	return nil
}

// Merge adds o, whose rows follow those of l. It takes over parts of o, which must not be used afterwards.
func (l *Learner) Merge(o *Learner) error {
	if l.fingerprint() != o.fingerprint() {
		return fmt.Errorf("learners of %s and %s have other columns or options: both must be of one table: %w", l.place,
			o.place, ErrSchema)
	}
	if err := l.noteEncoding(o.first); err != nil {
		return err
	}
	if o.last.encoding != "" {
		l.last = o.last
	}
	for j, c := range l.cols {
		c.merge(o.cols[j])
	}
	l.rows += o.rows
	return nil
}

// fingerprint is equal for learners that can be merged: same columns, same options.
func (l *Learner) fingerprint() [32]byte {
	b, err := json.Marshal(struct {
		Columns []string
		Options LearnOptions
	}{l.columns, l.o})
	if err != nil {
		panic(err) // strings and numbers
	}
	return sum256(b)
}

// Schema decides the kind of every column. It works on copies, so rows may be added afterwards.
func (l *Learner) Schema() (*Schema, *Summary, error) {
	if l.rows == 0 {
		return nil, nil, inputError(l.place, "the table has columns but no rows")
	}
	cols := make([]*columnLearner, len(l.cols))
	for j, c := range l.cols {
		cols[j] = c.clone()
	}
	s, sum, err := finish(l.place, cols, l.rows, l.o, l.tracked)
	if err != nil {
		return nil, nil, err
	}
	if e := l.first.encoding; e != "" && e != charset.UTF8.Name {
		s.Encoding, sum.Encoding = e, e
		sum.Notes = append(sum.Notes, fmt.Sprintf("the text is not UTF-8 and was read as %s: name its encoding if it is another",
			e))
	}
	return s, sum, nil
}

// Learn reads a table once and decides how every column is used. Numbers are standardised, and text becomes
// levels. Constant columns and texts that are nearly always different (names, identifiers) are left out.
//
// Learn makes one [Learner] per leaf of the tree of the table's units (see package internal/par) and merges them along
// the tree. Learning the leaves on other machines therefore gives the same schema, bit for bit.
//
// Memory does not depend on the number of rows. Learn holds
//
//   - one block of at most 1024 rows, 2²⁰ cells and 32 MiB of text, and one row of at most MaxLine bytes;
//   - at most 128 MiB or 5 KiB per column, whichever is more, for counting texts; tables of more than 32 MiB
//     need this again for each of up to three levels of the tree;
//   - for each goroutine that parses a text format, two pieces of at most 256 KiB of text and their cells.
func Learn(src Source, o LearnOptions) (*Schema, *Summary, error) {
	l, err := NewLearner(src.Name(), src.Columns(), o)
	if err != nil {
		return nil, nil, err
	}
	if err := l.addTree(src); err != nil {
		return nil, nil, err
	}
	schema, sum, err := l.Schema()
	if err == nil {
		if t, ok := As[interface{ Notes() []string }](src); ok {
			sum.Notes = append(sum.Notes, t.Notes()...)
		}
	}
	return schema, sum, err
}
