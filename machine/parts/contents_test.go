package parts

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/data/parquet"
	"github.com/randfeat/randfeat/machine"
)

// A file that changes at the same size between the steps is named: near its ends when it is opened, anywhere else when
// its unit is summed. Before, its new rows were summed with choices and held-out rows of the old ones.
func TestContentsChange(t *testing.T) {
	var big bytes.Buffer
	big.WriteString("a,y,pad\n")
	pad := strings.Repeat("x", 1000)
	for i := 0; big.Len() < 7<<19; i++ {
		fmt.Fprintf(&big, "%d,%d,%s\n", i%1000, (7*i)%1000, pad)
	}
	dir := t.TempDir()
	path := dir + "/big.csv"
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(big.Bytes())
	table, err := files.Open([]string{path}, data.Options{UnitBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	o := regressionOptions()
	o.Learn = data.LearnOptions{Targets: []string{"y"}, Skip: []string{"pad"}}
	o.Features, o.Scaling = 4, "standard"
	r, err := NewRun(table.Manifest(), Options{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	learn, err := r.Learn()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := learn.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Choose(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	b, err := plan.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if plan, err = r.ReadPlan(b); err != nil {
		t.Fatal(err)
	}
	sum, err := r.Sum(plan)
	if err != nil {
		t.Fatal(err)
	}
	middle := bytes.Clone(big.Bytes())
	at := len(middle)/2 + bytes.IndexByte(middle[len(middle)/2:], '\n') + 1
	middle[at] ^= 1 // another digit
	write(middle)
	_, err = sum.All(t.Context())
	if !errors.Is(err, machine.ErrMismatch) || !strings.Contains(err.Error(), "big.csv, block 3") {
		t.Errorf("a byte in the middle: %v", err)
	}
	ends := bytes.Clone(big.Bytes())
	ends[len(ends)-2] ^= 1
	write(ends)
	again, err := ReadRun(mustJSON(t, r))
	if err != nil {
		t.Fatal(err)
	}
	if learn, err = again.Learn(); err != nil {
		t.Fatal(err)
	}
	_, err = learn.All(t.Context())
	if err == nil || !strings.Contains(err.Error(), "big.csv: its contents have changed") {
		t.Errorf("the last byte: %v", err)
	}
	write(big.Bytes())
	if _, err = sum.All(t.Context()); err != nil {
		t.Error(err)
	}
}

func mustJSON(t *testing.T, r *Run) []byte {
	t.Helper()
	b, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Parts name the CPU kernels that computed them, merged parts name all, and a model of several kinds says so.
func TestKernelsOfParts(t *testing.T) {
	r := testRun(t, regressionFiles(t, 4, 60), Options{Options: regressionOptions()})
	learn, err := r.Learn()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := learn.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Choose(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	here, err := kernelsHere()
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{here, "z80 none"} {
		var all []*Part
		for i := range r.Leaves() {
			s, err := r.Sum(plan)
			if err != nil {
				t.Fatal(err)
			}
			if i == 1 {
				s.kernels = other
			}
			err = s.Do(t.Context(), Span{i, i + 1}, func(p *Part) error {
				b, err := p.MarshalBinary()
				if err != nil {
					return err
				}
				p, err = s.Unmarshal(b)
				all = append(all, p)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		s, err := r.Sum(plan)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := s.Whole(all)
		if err != nil {
			t.Fatal(err)
		}
		want := union([]string{here}, []string{other})
		if got := whole.Kernels(); !slices.Equal(got, want) {
			t.Errorf("kernels %q, want %q", got, want)
		}
		_, rep, err := r.Finish(t.Context(), plan, whole)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.Contains(strings.Join(rep.Notes, "\n"),
			"machines of several kinds ("+strings.Join(want, ", ")+")")
		if said != (other != here) {
			t.Errorf("%s: notes %q", other, rep.Notes)
		}
	}
	if note := mixed([]string{"amd64", "amd64 avx2"}); note != "" {
		t.Error(note)
	}
	if mixed([]string{"amd64", "amd64 avx2", "arm64"}) == "" || mixed([]string{"amd64 avx2", "amd64 avx512"}) == "" {
		t.Error("other kinds are not told apart")
	}
}

// Spark writes Parquet files without rows: they change nothing but the number of files. A table of such files alone is
// refused.
func TestEmptyParquetFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(i, rows int) string {
		t.Helper()
		path := fmt.Sprintf("%s/part-%d.parquet", dir, i)
		w, err := parquet.Create(path, []string{"a", "y"}, []data.Kind{data.Number, data.Number})
		if err != nil {
			t.Fatal(err)
		}
		var b data.Block
		b.Reset(0, []data.Kind{data.Number, data.Number})
		for k := range rows {
			b.Cols[0].Num = append(b.Cols[0].Num, float64((7*k+i)%50))
			b.Cols[1].Num = append(b.Cols[1].Num, float64((7*k+i)%50)/5+1)
			b.Rows++
		}
		if err := errors.Join(w.WriteBlock(&b), w.Close()); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := regressionOptions()
	o.Learn, o.Scaling = data.LearnOptions{Targets: []string{"y"}, Task: data.Regression}, "standard"
	paths := []string{write(0, 0), write(1, 60), write(2, 0), write(3, 70)}
	m, rep, err := testRun(t, paths, Options{Options: o}).Fit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if m == nil || rep.Rows != 104 { // 26 are held out
		t.Errorf("%d rows", rep.Rows)
	}
	if _, _, err := testRun(t, []string{paths[0], paths[2]}, Options{Options: o}).Fit(t.Context()); err == nil {
		t.Error("a fit of no rows")
	}
}

// A part of another plan of the same run is refused, and said to be of another plan. So is a plan of another run.
func TestPartOfAnotherPlan(t *testing.T) {
	paths := regressionFiles(t, 2, 40)
	r := testRun(t, paths, Options{Options: regressionOptions()})
	learn, err := r.Learn()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := learn.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := r.Choose(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := plan.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	o := regressionOptions()
	o.Lambda *= 2
	_, err = testRun(t, paths, Options{Options: o}).ReadPlan(saved)
	if !errors.Is(err, machine.ErrMismatch) || !strings.Contains(err.Error(), "the plan is of another run") {
		t.Errorf("a plan of another run: %v", err)
	}
	other := *plan
	other.digest = "0123456789abcdef"
	steps := make([]*Step, 2)
	for i, p := range []*Plan{plan, &other} {
		if steps[i], err = r.Sum(p); err != nil {
			t.Fatal(err)
		}
	}
	part, err := steps[1].All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := part.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	_, err = steps[0].Unmarshal(b)
	if !errors.Is(err, machine.ErrMismatch) || !strings.Contains(err.Error(), "another plan") {
		t.Errorf("read: %v", err)
	}
	if _, err = steps[0].Merge([]*Part{part}); !errors.Is(err, machine.ErrMismatch) {
		t.Errorf("merged: %v", err)
	}
	if _, _, err = r.Finish(t.Context(), plan, part); !errors.Is(err, machine.ErrMismatch) {
		t.Errorf("finished: %v", err)
	}
}
