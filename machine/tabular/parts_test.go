package tabular

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Every k consecutive rows are in k folds, in all orders equally often.
func TestFolds(t *testing.T) {
	const k, groups = 3, 30000
	count := map[[k]int]int{}
	for g := range int64(groups) {
		var order [k]int
		for j := range order {
			order[j] = fold(4, g*k+int64(j), k)
		}
		count[order]++
		sorted := slices.Sorted(slices.Values(order[:]))
		if !slices.Equal(sorted, []int{0, 1, 2}) {
			t.Fatalf("group %d has folds %v", g, order)
		}
	}
	bound := stattest.Bound(1e-6, 6)
	for order, n := range count {
		p := 1.0 / 6
		if z := (float64(n) - groups*p) / math.Sqrt(groups*p*(1-p)); len(count) != 6 || math.Abs(z) > bound {
			t.Errorf("order %v comes %d times of %d: z = %.1f", order, n, groups, z)
		}
	}
	if fold(4, 20, 40) == fold(5, 20, 40) && fold(4, 21, 40) == fold(5, 21, 40) && fold(4, 22, 40) == fold(5, 22, 40) {
		t.Error("the seed has no effect")
	}
}

// The sample does not depend on blocks, and takes rows from everywhere.
func TestReservoir(t *testing.T) {
	x := dense.New[float64](5000, 1)
	for i := range x.Rows {
		x.Set(i, 0, float64(i))
	}
	take := func(block int) []float64 {
		r := reservoir{seed: 9}
		for lo := 0; lo < x.Rows; lo += block {
			r.add(x.RowRange(lo, min(lo+block, x.Rows)), dense.Matrix[float64]{Rows: block}, 1000)
		}
		return slices.Sorted(slices.Values(r.x.Data))
	}
	a := take(1)
	if b := take(333); !slices.Equal(a, b) || len(a) != 1000 {
		t.Errorf("%d and %d rows, or others", len(a), len(b))
	}
	// The mean of 1000 of 0…4999 without replacement has variance (4999·5001/12)/1000·(4/5).
	sum := 0.0
	for _, v := range a {
		sum += v
	}
	if z := (sum/1000 - 2499.5) / math.Sqrt(4999.0*5001/12/1000*0.8); math.Abs(z) > stattest.Bound(1e-6, 1) {
		t.Errorf("mean row %g: z = %.1f", sum/1000, z)
	}
}

func TestMedianDistance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &sample{x: dense.New[float64](4000, 3)}
	for i := range s.x.Data {
		s.x.Data[i] = r.NormFloat64()
	}
	// |x−y|²/2 has a chi-square law of 3 degrees, whose median is 2.366; 4096 pairs give 2 % at most.
	if got, want := medianDistance(s, kernel.Gaussian, 3), math.Sqrt(2*2.366); math.Abs(got-want) > 0.04*want {
		t.Errorf("median distance %g, want %g", got, want)
	}
	clear(s.x.Data)
	if got := medianDistance(s, kernel.Gaussian, 3); got != 1 {
		t.Errorf("median distance %g of equal rows", got)
	}
}

// Near ties in accuracy are decided by the Brier score, clear differences are not.
func TestBest(t *testing.T) {
	mk := func(wrongs int, brier float64) trial {
		tr := trial{loss: make([]float64, 1000), tie: make([]float64, 1000)}
		for i := range tr.loss {
			if i < wrongs {
				tr.loss[i] = 1
			}
			tr.tie[i] = brier
		}
		tr.score = -mean(tr.loss)
		return tr
	}
	if got := best([]trial{mk(100, 0.5), mk(100, 0.4), mk(130, 0.1)}); got != 1 {
		t.Errorf("trial %d is best, want the tie of smaller Brier score", got)
	}
	if got := best(nil); got != -1 {
		t.Errorf("best of nothing is %d", got)
	}
}

// Trials of a ridge are machine.Ridge without the fold, and evidence is that of machine.Ridge.
func TestRidgeTries(t *testing.T) {
	m, _ := mustFit(t, waves(200, 20), Options{Learn: learn("y"), Features: 64, Bandwidth: 1, Lambda: 0.1, Seed: 3})
	f := &job{deal: newDealer(3, nil), o: Options{Folds: 5, Sample: 1000, Block: 64, Seed: 3},
		src: waves(200, 20), schema: m.Schema, task: machine.Regression, outputs: 1, ctx: t.Context()}
	rows, err := machine.TableRows(f.src, m.Schema, true)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := f.take(f.watch(rows, ""))
	if err != nil {
		t.Fatal(err)
	}
	const lambda = 0.1
	for _, evidence := range []bool{false, true} {
		r := &ridgeTries{ctx: t.Context(), s: s, task: machine.Regression, evidence: evidence}
		ts, err := r.try(m.Spec, []float64{lambda})
		if err != nil || len(ts) != 1 {
			t.Fatal(ts, err)
		}
		want := 0.0
		setup := machine.Setup{Spec: m.Spec, Task: machine.Regression, Outputs: 1}
		if evidence {
			one, _ := machine.NewRidge(setup)
			if err := one.Add(s.x, s.y); err != nil {
				t.Fatal(err)
			}
			path, err := one.Path([]float64{lambda})
			if err != nil {
				t.Fatal(err)
			}
			want = path[0].LogEvidence / 200
		} else {
			for k := range s.folds() {
				one, _ := machine.NewRidge(setup)
				for j := range s.folds() {
					if lo, hi := s.fold(j); j != k {
						if err := one.Add(s.x.RowRange(lo, hi), s.y.RowRange(lo, hi)); err != nil {
							t.Fatal(err)
						}
					}
				}
				without, err := one.Model(lambda)
				if err != nil {
					t.Fatal(err)
				}
				p, _ := machine.NewPredictor[float64](without)
				lo, hi := s.fold(k)
				out := dense.New[float64](hi-lo, 1)
				if err := p.Predict(out, s.x.RowRange(lo, hi), nil); err != nil {
					t.Fatal(err)
				}
				for i := range out.Rows {
					want -= math.Pow(out.At(i, 0)-s.y.At(lo+i, 0), 2) / 200
				}
			}
		}
		// The sums are grouped differently; λ = 0.1 keeps the condition below 10⁴.
		if math.Abs(ts[0].score-want) > 1e-9*math.Abs(want) {
			t.Errorf("evidence %v: score %.12g, want %.12g", evidence, ts[0].score, want)
		}
	}
}

// Points far from two clouds are anomalous, new points of the clouds are so as often as the quantile says.
func TestOutliers(t *testing.T) {
	t.Parallel()
	cloud := func(n int, seed uint64) *numbers {
		r := rand.New(rand.NewPCG(seed, 2))
		s := &numbers{names: []string{"a", "b", "c"}}
		for i := range n {
			at := 4 * float64(i%2)
			s.rows = append(s.rows, []float64{at + r.NormFloat64(), 10 * (at + r.NormFloat64()), r.NormFloat64()})
		}
		return s
	}
	train := cloud(2000, 1)
	for i := range 10 { // outliers among the rows do not spoil the density
		train.rows[i*100] = []float64{40, -300, 20}
	}
	m, _ := mustFit(t, train, Options{Seed: 1})
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	anomalies := func(s *numbers) (out []float64) {
		rows, err := machine.TableRows(s, m.Schema, false)
		if err != nil {
			t.Fatal(err)
		}
		err = rows.Each(1000, func(x, _ dense.Matrix[float64]) error {
			d := dense.New[float64](x.Rows, 1)
			if err := p.Predict(d, x, nil); err != nil {
				return err
			}
			for _, v := range d.Data {
				out = append(out, m.Anomaly(v))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	far := &numbers{names: train.names, rows: [][]float64{{2, -40, 0}, {10, 0, 0}, {0, 80, 6}, {-6, 0, -5}}}
	for i, a := range anomalies(far) {
		if a < 0.98 {
			t.Errorf("outlier %d has anomaly %.3f", i, a)
		}
	}
	fresh := anomalies(cloud(4000, 3))
	high := 0.0
	for _, a := range fresh {
		if a > 0.9 {
			high++
		}
	}
	// One in ten by calibration with 2000 rows, of which 10 are outliers: sd √(p(1−p)(1/4000 + 1/2000)), and 0.005 of
	// shift.
	if got := high / 4000; math.Abs(got-0.1) > 0.01+stattest.Bound(1e-4, 1)*math.Sqrt(0.09*(1.0/4000+1.0/2000)) {
		t.Errorf("%.3f of new rows have an anomaly above 0.9", got)
	}
}

// A fold and the rest are the table, and columns are learned from the rest only.
func TestFoldSource(t *testing.T) {
	src := waves(200, 3)
	src.most = 7
	f := &job{deal: newDealer(4, nil), o: Options{Seed: 4, Learn: learn("class")}, src: src,
		task: machine.Classification}
	var err error
	if f.schema, _, err = data.Learn(src, f.o.Learn); err != nil {
		t.Fatal(err)
	}
	seen := make([]int, 200)
	for k := range 3 {
		rest := foldSource{Source: src, deal: newDealer(4, nil), k: k, parts: 3}
		fold := rest
		fold.inside = true
		sum, n := 0.0, 0
		for _, part := range []foldSource{fold, rest} {
			r, err := part.Open(nil)
			if err != nil {
				t.Fatal(err)
			}
			var b data.Block
			at := int64(0)
			for r.Read(&b, 10) == nil {
				if b.First != at {
					t.Errorf("a block begins with row %d, want %d", b.First, at)
				}
				at += int64(b.Rows)
				for i := range b.Rows {
					row := slices.IndexFunc(src.rows, func(row []float64) bool { return row[0] == b.Cols[0].Num[i] })
					if (foldOf(4, row, 3) == k) != part.inside || b.Cols[2].Num[i] != src.rows[row][2] {
						t.Fatalf("row %d is in the wrong part, or not whole", row)
					}
					seen[row]++
					if !part.inside {
						sum += src.rows[row][0]
						n++
					}
				}
			}
		}
		s, err := f.learnFold(rest)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(s.Fields[0].Mean-sum/float64(n)) > 1e-12 || s.Fields[0].Mean == f.schema.Fields[0].Mean ||
			len(s.Targets) != 1 || len(s.Targets[0].Classes) != 2 {
			t.Errorf("fold %d: %+v", k, s)
		}
	}
	for i, n := range seen {
		if n != 3 {
			t.Errorf("row %d was read %d times, want once a fold", i, n)
		}
	}
}

func foldOf(seed uint64, row, k int) int { return fold(seed, int64(row), k) }
