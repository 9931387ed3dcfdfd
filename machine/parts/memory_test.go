package parts

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
)

// However many units a table has, no process holds more sums than a leaf and one open node a level: four of 512 leaves.
// The memory of written and merged parts is used again instead of being left to the garbage collector.
func TestPartsInMemory(t *testing.T) {
	const most = 4
	table, err := files.Open(regressionFiles(t, 5, 400), data.Options{UnitBytes: 200})
	if err != nil {
		t.Fatal(err)
	}
	o := regressionOptions()
	o.Features, o.Scaling = 16, "standard"
	r, err := NewRun(table.Manifest(), Options{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Leaves(); r.tree().root() != 3 || n < 300 {
		t.Fatalf("%d units, %d leaves", len(r.Units()), n)
	}
	step, err := r.Learn()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := step.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Choose(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Step {
		s, err := r.Sum(plan)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var want []byte
	for _, workers := range []int{1, 7} {
		f, err := CreateFolder(filepath.Join(t.TempDir(), "run"), r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range workers {
			s := open()
			span, err := r.Range(i, workers)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Do(t.Context(), s, span); err != nil {
				t.Fatal(err)
			}
			if s.made > most {
				t.Errorf("worker %d of %d: %d sums in memory", i, workers, s.made)
			}
		}
		s := open()
		whole, err := f.Whole(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if s.made > most || s.free != nil || s.first != nil {
			t.Errorf("parts of %d workers: %d sums in memory, %d kept", workers, s.made, len(s.free))
		}
		got, err := whole.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d workers: other sums", workers)
		}
	}
	// Tasks one after the other in a process, a part each, as Beam's workers do them, and a merge of their files.
	s := open()
	files := make([]bytes.Buffer, 8)
	for i := range files {
		err := s.Do(t.Context(), Span{i, i + 1}, func(p *Part) error {
			_, err := p.WriteTo(&files[i])
			p.Free()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var merged []*Part
	for i := range files {
		p, err := s.Read(&files[i])
		if err != nil {
			t.Fatal(err)
		}
		if merged, err = s.Merge(append(merged, p)); err != nil {
			t.Fatal(err)
		}
	}
	if len(merged) != 1 || s.made > 2 {
		t.Errorf("%d tasks and their merge: %d parts, %d sums in memory", len(files), len(merged), s.made)
	}
}
