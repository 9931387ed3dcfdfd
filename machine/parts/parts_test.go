package parts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/data/files"
	"github.com/randfeat/randfeat/machine"
	"github.com/randfeat/randfeat/machine/tabular"
)

// regressionFiles are n files of some rows each, of different lengths: y and z are functions of a, b and a level.
func regressionFiles(t testing.TB, n, rows int) []string {
	t.Helper()
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(7, 1))
	var paths []string
	for i := range n {
		var b bytes.Buffer
		b.WriteString("id,a,b,c,y,z,class\n")
		for j := range rows + 3*i {
			x, v, k := rnd.NormFloat64(), 100+20*rnd.NormFloat64(), rnd.IntN(3)
			y := math.Sin(2*x) + (v-100)/40 + float64(k) + 0.1*rnd.NormFloat64()
			text := fmt.Sprint(v)
			if rnd.IntN(20) == 0 {
				text = ""
			}
			fmt.Fprintf(&b, "%d-%d,%g,%s,%s,%g,%g,%s\n", i, j, x, text, []string{"red", "green", "blue"}[k], 10*y, y*y,
				[]string{"low", "high"}[int(min(max(y, 0), 1))])
		}
		path := filepath.Join(dir, fmt.Sprintf("part-%03d.csv", i))
		if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

func regressionOptions() tabular.Options {
	return tabular.Options{Learn: data.LearnOptions{Targets: []string{"y"}, IDs: []string{"id"},
		Skip: []string{"z", "class"}}, Seed: 11, Features: 32, Bandwidth: 1.5, Lambda: 0.1}
}

func testRun(t testing.TB, paths []string, o Options) *Run {
	t.Helper()
	r, err := NewRun(testManifest(t, paths), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func testManifest(t testing.TB, paths []string) *files.Manifest {
	t.Helper()
	table, err := files.Open(paths, data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return table.Manifest()
}

// cases are all kinds of models that sums give.
func cases() map[string]tabular.Options {
	with := func(kind machine.Kind, targets []string, skip ...string) tabular.Options {
		o := regressionOptions()
		o.Kind, o.Learn.Targets, o.Learn.Skip = kind, targets, skip
		if info, err := kind.Info(); err == nil && !info.Penalised {
			o.Lambda = 0
		}
		return o
	}
	open := with("", []string{"class"}, "y", "z") // all choices, but for the number of features
	open.Bandwidth, open.Lambda = 0, 0
	lambda := with("", []string{"y"}, "z", "class") // which the sums decide
	lambda.Lambda, lambda.Sample = 0, 64
	single := with("", []string{"class"}, "y", "z")
	single.Float32 = true
	nystrom := regressionOptions()
	nystrom.Map, nystrom.Features = tabular.MapNystrom, 24
	return map[string]tabular.Options{
		"regression":          with("", []string{"y"}, "z", "class"),
		"classification":      with("", []string{"class"}, "y", "z"),
		"float32":             single,
		"multi-output":        with("", []string{"y", "z"}, "class"),
		"gp":                  with(machine.KindGP, []string{"y"}, "z", "class"),
		"smoother":            with(machine.KindSmoother, []string{"y"}, "z", "class"),
		"smoother of classes": with(machine.KindSmoother, []string{"class"}, "z", "y"),
		"density":             with(machine.KindDensity, nil, "y", "z", "class"),
		"nystrom":             nystrom,
		"open choices":        open,
		"open penalty":        lambda,
	}
}

func digest(t *testing.T, m *machine.Model) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(b.Bytes()))
}

// workers runs a step as n processes would: each with a run and a plan that were read from bytes, parts in bytes, some
// of them twice, as after a failure.
func workers(t *testing.T, n int, run []byte, plan []byte) *Part {
	t.Helper()
	ctx := t.Context()
	open := func() *Step {
		r, err := ReadRun(run)
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Learn()
		if plan != nil {
			p, e := r.ReadPlan(plan)
			if e != nil {
				t.Fatal(e)
			}
			s, err = r.Sum(p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var all [][]byte
	for i := range n {
		var before [][]byte
		for range 2 { // the second time reuses the memory of the first
			s := open()
			span, err := s.run.Range(i, n)
			if err != nil {
				t.Fatal(err)
			}
			var out [][]byte
			if err := s.Do(ctx, span, func(p *Part) error {
				b, err := p.MarshalBinary()
				if size, _ := p.Size(); size != int64(len(b)) {
					t.Errorf("%d bytes, Size says %d", len(b), size)
				}
				out = append(out, b)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if before != nil && !slices.EqualFunc(before, out, bytes.Equal) {
				t.Errorf("worker %d of %d: other bytes when repeated", i, n)
			}
			if before = out; i > 0 {
				break
			}
		}
		all = append(all, before...)
	}
	slices.Reverse(all)
	s := open()
	var parts []*Part
	for _, b := range all {
		p, err := s.Unmarshal(b)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	whole, err := s.Whole(parts)
	if err != nil {
		t.Fatal(err)
	}
	return whole
}

// byWorkers fits as n workers would.
func byWorkers(t *testing.T, r *Run, n int) (*machine.Model, *tabular.Report) {
	t.Helper()
	run, err := r.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	whole := workers(t, n, run, nil)
	p, err := whole.step.run.Choose(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := p.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	whole = workers(t, n, run, plan)
	if p, err = whole.step.run.ReadPlan(plan); err != nil {
		t.Fatal(err)
	}
	m, rep, err := whole.step.run.Finish(t.Context(), p, whole)
	if err != nil {
		t.Fatal(err)
	}
	return m, rep
}

// The model has the same bytes in one process and by any number of workers, for all kinds.
func TestSameBytes(t *testing.T) {
	paths := regressionFiles(t, 9, 60)
	for name, o := range cases() {
		t.Run(name, func(t *testing.T) {
			r := testRun(t, paths, Options{Options: o})
			m, rep, err := r.Fit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := digest(t, m)
			if rep.ScoredOn == "" || len(rep.Scores) == 0 {
				t.Errorf("no scores: %+v", rep)
			}
			if v := rep.Scores[0]; rep.Task == machine.Classification && v.Value < 0.8 ||
				rep.Task == machine.Regression && rep.Scores[1].Value < 0.2 {
				t.Errorf("scores %+v: the model has not learned", rep.Scores)
			}
			ns := []int{1, 2, 7}
			if testing.Short() {
				ns = []int{7}
			}
			for _, n := range ns {
				if m, _ := byWorkers(t, r, n); digest(t, m) != want {
					t.Errorf("%d workers: another model", n)
				}
			}
		})
	}
}

// The sample of a table is the union of the samples of its parts, cut to the smallest keys, in any order.
func TestSample(t *testing.T) {
	columns := []string{"a", "b"}
	block := func(u data.Unit, rows int) *data.Block {
		b := new(data.Block)
		b.Reset(0, []data.Kind{data.Number, data.Text})
		for i := range rows {
			b.Cols[0].Num = append(b.Cols[0].Num, float64(u.Shard)+float64(i)/8)
			if i%5 == 0 {
				b.AppendText(1, nil)
			} else {
				b.AppendText(1, fmt.Appendf(nil, "%d/%d", u.Block, i))
			}
			b.Rows++
		}
		return b
	}
	units := []data.Unit{{Shard: 0}, {Shard: 1}, {Shard: 1, Block: 1}, {Shard: 2}}
	whole := newRowSample(columns, 5, 40)
	var parts []*rowSample
	for _, u := range units {
		s := newRowSample(columns, 5, 40)
		for _, to := range []*rowSample{s, whole} {
			if err := to.Add(u, 0, block(u, 50)); err != nil {
				t.Fatal(err)
			}
		}
		parts = append(parts, s)
	}
	want, _ := whole.AppendBinary(nil)
	merged := newRowSample(columns, 5, 40)
	for _, i := range []int{2, 0, 3, 1} {
		b, _ := parts[i].AppendBinary(nil)
		s := newRowSample(columns, 5, 40)
		if err := s.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if err := merged.Merge(s); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := merged.AppendBinary(nil); !bytes.Equal(got, want) {
		t.Error("the merged sample is not that of the table")
	}
	if err := merged.Merge(newRowSample(columns, 6, 40)); !errors.Is(err, machine.ErrMismatch) {
		t.Errorf("another seed: %v", err)
	}
	// Every row is as likely as any other: by unit 10 of 50 are expected, with a standard deviation of 2.45.
	for _, u := range units {
		n := 0
		for _, r := range whole.rows {
			if (data.Unit{Shard: r.key.Shard, Block: r.key.Block}) == u {
				n++
			}
		}
		if math.Abs(float64(n)-10) > 4*2.45 {
			t.Errorf("unit %v has %d of 40 rows", u, n)
		}
	}
}

func FuzzSample(f *testing.F) {
	s := newRowSample([]string{"a", "b"}, 5, 4)
	b := new(data.Block)
	b.Reset(0, []data.Kind{data.Number, data.Text})
	b.Cols[0].Num = append(b.Cols[0].Num, 1, 2)
	b.AppendText(1, []byte("x"))
	b.AppendText(1, nil)
	b.Rows = 2
	if err := s.Add(data.Unit{}, 0, b); err != nil {
		f.Fatal(err)
	}
	good, _ := s.AppendBinary(nil)
	f.Add(good)
	f.Add([]byte{0})
	f.Add([]byte{4, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newRowSample([]string{"a", "b"}, 5, 4)
		if err := s.UnmarshalBinary(b); err != nil {
			if !errors.Is(err, machine.ErrCorrupt) {
				t.Errorf("%v is not ErrCorrupt", err)
			}
			return
		}
		if again, _ := s.AppendBinary(nil); len(again) > len(b) {
			t.Errorf("%d bytes become %d", len(b), len(again))
		}
		rd, err := s.Source("s").Open([]data.Kind{data.Text, data.Text})
		if err != nil {
			t.Fatal(err)
		}
		var block data.Block
		for rd.Read(&block, 2) == nil {
		}
	})
}

func FuzzPart(f *testing.F) {
	r, p, steps := fuzzed(f)
	for _, s := range steps {
		part, err := s.leaf(context.Background(), 1)
		if err != nil {
			f.Fatal(err)
		}
		b, err := part.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:20])
	}
	plan, err := p.MarshalBinary()
	if err != nil {
		f.Fatal(err)
	}
	run, err := r.MarshalJSON()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plan)
	f.Add(run)
	f.Add([]byte(partMagic + "\xff\xff\x0f\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(err error) {
			if err != nil && !errors.Is(err, machine.ErrCorrupt) && !errors.Is(err, machine.ErrMismatch) {
				t.Errorf("%v is neither ErrCorrupt nor ErrMismatch", err)
			}
		}
		for _, s := range steps {
			_, err := s.Unmarshal(b)
			check(err)
		}
		_, err := r.ReadPlan(b)
		check(err)
		_, _ = ReadRun(b) // files may be missing, too
	})
}

// fuzzed are a run, its plan and its steps.
func fuzzed(f *testing.F) (*Run, *Plan, []*Step) {
	r := testRun(f, regressionFiles(f, 2, 40), Options{Options: regressionOptions()})
	ctx := context.Background()
	learn, err := r.Learn()
	if err != nil {
		f.Fatal(err)
	}
	whole, err := learn.All(ctx)
	if err != nil {
		f.Fatal(err)
	}
	p, err := r.Choose(ctx, whole)
	if err != nil {
		f.Fatal(err)
	}
	sum, err := r.Sum(p)
	if err != nil {
		f.Fatal(err)
	}
	return r, p, []*Step{learn, sum}
}

// Scores of the files of a run are those of one evaluation of all rows, by any number of workers, and predictions of
// units one after the other those of the table.
func TestEvaluateAndPredict(t *testing.T) {
	paths := regressionFiles(t, 9, 30)
	for _, target := range []string{"y", "class"} {
		o := cases()["regression"]
		if target == "class" {
			o = cases()["classification"]
		}
		r := testRun(t, paths, Options{Options: o})
		m, _, err := r.Fit(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s, err := r.Evaluate(m)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := s.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, _ := whole.Evaluation().MarshalBinary()
		var parts []*Part
		for i := range 4 {
			span, _ := r.Range(i, 4)
			if err := s.Do(t.Context(), span, func(p *Part) error {
				b, err := p.MarshalBinary()
				if err != nil {
					return err
				}
				p, err = s.Unmarshal(b)
				parts = append(parts, p)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		merged, err := s.Whole(parts)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := merged.Evaluation().MarshalBinary(); !bytes.Equal(got, want) {
			t.Errorf("%s: four workers evaluate otherwise", target)
		}
		p, err := machine.NewTablePredictor(m, machine.TableOptions{})
		if err != nil {
			t.Fatal(err)
		}
		right, rows := 0, int64(0)
		var truth []string
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n"))[1:] {
				f := bytes.Split(line, []byte(","))
				truth = append(truth, string(f[0])+" "+string(f[len(f)-1]))
			}
		}
		for u := range r.Units() {
			n, err := r.Predict(t.Context(), p, u, func(columns []string, _ []data.Kind, b *data.Block) error {
				if columns[0] != "id" || columns[1] != "prediction" {
					t.Errorf("columns %v", columns)
				}
				for i := range b.Rows {
					if target == "class" && truth[0] == string(b.Cols[0].Text[i])+" "+string(b.Cols[1].Text[i]) {
						right++
					}
					truth = truth[1:]
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			rows += n
		}
		if e := merged.Evaluation(); rows != e.Len() || target == "class" &&
			math.Abs(float64(right)/float64(rows)-e.Scores()[0].Value) > 1e-12 {
			t.Errorf("%d of %d rows are right, the evaluation of %d has %v", right, rows, e.Len(), e.Scores()[0])
		}
	}
}
