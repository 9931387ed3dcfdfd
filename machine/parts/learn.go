package parts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/internal/seal"
	"github.com/randfeat/randfeat/machine"
)

// learned is the body of the parts of Learn: statistics of the columns, the sample, and the hashes of the units.
type learned struct {
	learner *data.Learner
	sample  *rowSample
	// contents has the hash of every unit, in order, contentSize bytes each. Sum compares it with the files it reads.
	contents []byte
}

// contentSize is the length of files.Table.Content.
const contentSize = 16

func (l *learned) rows() int64 { return l.learner.Rows() }

func (l *learned) merge(b body) error {
	o := b.(*learned)
	if err := l.learner.Merge(o.learner); err != nil {
		return err
	}
	l.contents = append(l.contents, o.contents...) // o covers the units after those of l
	return l.sample.Merge(o.sample)
}

// learnedFormat is the format of the parts of Learn. The counts are the sizes of learner, sample and hashes, which make
// up the body.
var learnedFormat = seal.Format{Magic: "randfeat learned", Version: 2, Counts: 3}

// bytes is the file form of the body, see learnedFormat.
func (l *learned) bytes() ([]byte, error) {
	a, err := l.learner.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	s, err := l.sample.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	counts := []uint64{uint64(len(a)), uint64(len(s)), uint64(len(l.contents))}
	b := learnedFormat.Begin(nil, seal.Header{Counts: counts})
	return seal.Close(slices.Concat(b, a, s, l.contents), 0), nil
}

func (l *learned) size() (int64, error) {
	b, err := l.bytes()
	return int64(len(b)), err
}

func (l *learned) write(w io.Writer) error {
	b, err := l.bytes()
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// maxLearned bounds the size that a part of Learn or Evaluate may claim.
const maxLearned = 2 << 30

// Learn returns the step that learns the columns and draws the sample.
func (r *Run) Learn() (*Step, error) {
	o := r.o.LearnOptions()
	if _, err := data.NewLearner(r.Name(), r.columns(), o); err != nil { // fail before any row is read
		return nil, err
	}
	s := &Step{run: r, name: "learn", about: about{Version: partVersion, Step: "learn", Run: r.id,
		Targets: o.Targets}, kernels: runtime.GOARCH} // Learn uses no kernels; compilers fuse by processor
	s.begin = func() (body, error) {
		l, err := data.NewLearner(r.Name(), r.columns(), o)
		return &learned{learner: l, sample: r.newSample()}, err
	}
	s.add = func(ctx context.Context, b body, unit int) error {
		src, err := r.source(unit)
		if err != nil {
			return err
		}
		l, u := b.(*learned), r.units[unit]
		before := l.rows()
		if err := l.learner.AddSource(teeSource{Source: src, add: func(first int64, b *data.Block) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return l.sample.Add(u, first, b)
		}}); err != nil {
			return err
		}
		content, err := r.table.Content(unit)
		if err != nil {
			return err
		}
		l.contents = append(l.contents, content[:]...)
		alone := !slices.Contains(r.units, data.Unit{Shard: u.Shard, Block: 1})
		if alone && l.rows() == before && !r.table.MayBeEmpty() {
			return &data.InputError{Place: r.table.ShardName(u.Shard), Detail: "the file has columns but no rows"}
		}
		return nil
	}
	s.read = func(in io.Reader, size int64) (body, error) {
		if size > maxLearned {
			return nil, fmt.Errorf("%d bytes of what was learned: %w", size, machine.ErrCorrupt)
		}
		b, err := io.ReadAll(io.LimitReader(in, size))
		if err != nil {
			return nil, err
		}
		if int64(len(b)) < size {
			return nil, cut(io.EOF)
		}
		return r.readLearned(b)
	}
	return s, nil
}

// readLearned reads the bytes of learned.bytes.
func (r *Run) readLearned(b []byte) (*learned, error) {
	h, rest, err := learnedFormat.Open(b)
	if err != nil {
		return nil, err
	}
	var bodies [3][]byte
	for i, n := range h.Counts {
		if n > uint64(len(rest)) {
			return nil, fmt.Errorf("bodies of %d bytes in %d: %w", h.Counts, len(rest), machine.ErrCorrupt)
		}
		bodies[i], rest = rest[:n], rest[n:]
	}
	if len(rest) > 0 || len(bodies[2])%contentSize != 0 {
		return nil, fmt.Errorf("bodies of %d bytes, and %d behind: %w", h.Counts, len(rest), machine.ErrCorrupt)
	}
	l := &learned{learner: new(data.Learner), sample: r.newSample(), contents: slices.Clone(bodies[2])}
	if err = l.learner.UnmarshalBinary(bodies[0]); err != nil {
		return nil, fmt.Errorf("%w: %w", machine.ErrCorrupt, err)
	}
	return l, l.sample.UnmarshalBinary(bodies[1])
}

// newSample returns a sample with room for the rows to try choices on and for the rows to hold out.
func (r *Run) newSample() *rowSample {
	n := r.o.Sample
	n = cmp.Or(n, defaultSample)
	n += r.mostHeld()
	return newRowSample(r.columns(), r.o.Seed, max(min(n, sampleCells/max(len(r.columns()), 1)), leastSample))
}

// mostHeld is the number of rows held out of a large table; Choose holds out fewer of a small one.
func (r *Run) mostHeld() int {
	switch {
	case r.o.Folds == 1:
		return 0
	case r.o.Held > 0:
		return r.o.Held
	}
	return defaultHeld
}

// teeSource shows the blocks of a table to an observer while they are read; first is the number of the block's first
// row.
type teeSource struct {
	data.Source
	add func(first int64, b *data.Block) error
}

// Unwrap returns the table itself.
func (s teeSource) Unwrap() data.Source { return s.Source }

func (s teeSource) Open(want []data.Kind) (data.Reader, error) {
	r, err := s.Source.Open(want)
	if err != nil {
		return nil, err
	}
	return &teeReader{Reader: r, add: s.add}, nil
}

type teeReader struct {
	data.Reader
	add  func(first int64, b *data.Block) error
	rows int64
}

func (r *teeReader) Read(b *data.Block, most int) error {
	if err := r.Reader.Read(b, most); err != nil {
		return err
	}
	first := r.rows
	r.rows += int64(b.Rows)
	return r.add(first, b)
}
