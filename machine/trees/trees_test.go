package trees

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/par"
)

// table is a random table: columns of numbers with a few values and some missing, and a last column of levels. The
// target depends on all of them.
func table(seed uint64, rows, cols, values int) (x dense.Matrix[float64], levels []bool, y []float64) {
	r := rand.New(rand.NewPCG(seed, 3))
	x, levels, y = dense.New[float64](rows, cols), make([]bool, cols), make([]float64, rows)
	levels[cols-1] = true
	for i := range rows {
		y[i] = 0.3 * r.NormFloat64()
		for j := range cols {
			v := float64(r.IntN(values))
			y[i] += math.Sin(v * float64(j+3))
			if r.IntN(10) == 0 {
				v = math.NaN()
				y[i] += float64(j)
			}
			x.Set(i, j, v)
		}
	}
	return x, levels, y
}

// targetOf makes y a target of 0: values, or so many classes.
func targetOf(y []float64, classes int) Target {
	t := Target{Classes: classes, Values: dense.Matrix[float64]{Rows: len(y), Cols: 1, Stride: 1, Data: y}}
	if classes > 0 {
		t.Values = t.Values.Clone()
		for i, v := range y {
			t.Values.Set(i, 0, min(float64(classes-1), max(0, math.Floor(v+float64(classes)/2))))
		}
	}
	return t
}

func mustBin(t testing.TB, x dense.Matrix[float64], levels []bool) *Bins {
	t.Helper()
	b, err := Bin(x, levels)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustFit(t testing.TB, b *Bins, target Target, o Options) *Forest {
	t.Helper()
	f, err := Fit(context.Background(), b, nil, target, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func predict(t testing.TB, f *Forest, x dense.Matrix[float64]) dense.Matrix[float64] {
	t.Helper()
	p := dense.New[float64](x.Rows, f.Outputs())
	if err := f.Predict(p, x); err != nil {
		t.Fatal(err)
	}
	return p
}

// naive grows a tree by the definition, on the values of the table: every leaf tries every set of values that the
// package may send left, and the best split of all leaves is made next. It returns the step of each row.
func naive(x dense.Matrix[float64], levels []bool, g, h []float64, o Options) []float64 {
	type part struct {
		rows, left, right []int
		gain              float64
	}
	sum := func(rows []int) (sg, sh float64) {
		for _, r := range rows {
			sg, sh = sg+g[r], sh+h[r]
		}
		return sg, sh
	}
	score := func(rows []int, lambda float64) float64 {
		sg, sh := sum(rows)
		return sg * sg / (sh + lambda)
	}
	search := func(rows []int) part {
		best := part{rows: rows}
		if len(rows) < 2*o.MinRows {
			return best
		}
		_, all := sum(rows)
		for j := range x.Cols {
			with := map[float64][]int{}
			var missing []int
			for _, r := range rows {
				if v := x.At(r, j); v == v {
					with[v] = append(with[v], r)
				} else {
					missing = append(missing, r)
				}
			}
			lambda, smooth := o.Lambda, 0.0
			var order []float64
			for v := range 100 {
				if with[float64(v)] != nil {
					order = append(order, float64(v))
				}
			}
			sides := [][]int{nil, missing} // what goes left at first
			if levels[j] {
				if missing != nil {
					with[-1], order = missing, append([]float64{-1}, order...)
				}
				if len(order) > 4 {
					lambda, smooth = o.Lambda+10, 10
				}
				mean := func(v float64) float64 {
					sg, sh := sum(with[v])
					return sg / (sh + smooth)
				}
				for i := range order { // insertion
					for k := i; k > 0 && mean(order[k]) < mean(order[k-1]); k-- {
						order[k], order[k-1] = order[k-1], order[k]
					}
				}
				sides = sides[:1]
			}
			for _, first := range sides {
				inLeft := map[int]bool{}
				left := append([]int(nil), first...)
				for _, r := range left {
					inLeft[r] = true
				}
				for _, v := range order {
					left = append(left, with[v]...)
					for _, r := range with[v] {
						inLeft[r] = true
					}
					var right []int
					for _, r := range rows {
						if !inLeft[r] {
							right = append(right, r)
						}
					}
					_, lh := sum(left)
					_, rh := sum(right)
					if least := float64(o.MinRows)*all/float64(len(rows)) - 1e-6; lh < least || rh < least {
						continue
					}
					gain := score(left, lambda) + score(right, lambda) - score(rows, o.Lambda)
					if gain > best.gain+1e-9 {
						best = part{rows, append([]int(nil), left...), right, gain}
					}
				}
			}
		}
		return best
	}
	rows := make([]int, x.Rows)
	for i := range rows {
		rows[i] = i
	}
	parts := []part{search(rows)}
	for len(parts) < o.Leaves {
		at := 0
		for i := range parts {
			if parts[i].gain > parts[at].gain {
				at = i
			}
		}
		p := parts[at]
		if p.gain == 0 {
			break
		}
		parts[at] = search(p.left)
		parts = append(parts, search(p.right))
	}
	step := make([]float64, x.Rows)
	for _, p := range parts {
		sg, sh := sum(p.rows)
		for _, r := range p.rows {
			step[r] = -o.Rate * sg / (sh + o.Lambda)
		}
	}
	return step
}

// Forests equal those that are grown by the definition: numbers, levels, missing values, weights, three losses.
func TestForestEqualsDefinition(t *testing.T) {
	for _, c := range []struct {
		classes, values int
		weights         bool
		o               Options
	}{
		{0, 5, false, Options{Trees: 4, Leaves: 8, MinRows: 5, Rate: 0.3, Lambda: 0.5, Rows: 1, Columns: 1}},
		{0, 12, true, Options{Trees: 3, Leaves: 12, MinRows: 3, Rate: 0.5, Lambda: 0.01, Rows: 1, Columns: 1}},
		{2, 6, true, Options{Trees: 4, Leaves: 6, MinRows: 8, Rate: 0.4, Lambda: 1, Rows: 1, Columns: 1}},
		{3, 8, false, Options{Trees: 3, Leaves: 7, MinRows: 4, Rate: 0.3, Lambda: 0.1, Rows: 1, Columns: 1}},
		{4, 3, true, Options{Trees: 3, Leaves: 15, MinRows: 2, Rate: 0.3, Lambda: 0.1, Rows: 1, Columns: 1}},
	} {
		t.Run(fmt.Sprintf("classes=%d/values=%d", c.classes, c.values), func(t *testing.T) {
			x, levels, y := table(uint64(c.classes), 300, 4, c.values)
			if c.values == 12 { // many unequal levels
				r := rand.New(rand.NewPCG(2, 2))
				for i := range x.Rows {
					x.Set(i, 3, math.Floor(50*r.Float64()*r.Float64()))
				}
			}
			target := targetOf(y, c.classes)
			if c.weights {
				for i := range y {
					target.Weights = append(target.Weights, 0.5+float64(i%7))
				}
			}
			l, err := newLoss(target, len(y))
			if err != nil {
				t.Fatal(err)
			}
			got := predict(t, mustFit(t, mustBin(t, x, levels), target, c.o), x)
			rows := make([]int32, len(y))
			for i := range rows {
				rows[i] = int32(i)
			}
			k := l.scores
			scores := dense.New[float64](len(y), k)
			for i := range y {
				copy(scores.Row(i), l.start(rows))
			}
			p := dense.New[float64](len(y), k)
			for range c.o.Trees {
				for i := range y {
					link(p.Row(i), scores.Row(i), c.classes)
				}
				for s := range k {
					g, h := make([]float64, len(y)), make([]float64, len(y))
					for i := range y {
						w := l.Weights[i]
						g[i], h[i] = w*(p.At(i, s)-l.truth(int32(i), s)), w
						switch q := p.At(i, s); {
						case c.classes == 2:
							h[i] = w * q * (1 - q)
						case c.classes > 2:
							h[i] = w * q * (1 - q) * float64(k) / float64(k-1)
						}
					}
					for i, step := range naive(x, levels, g, h, c.o) {
						scores.Row(i)[s] += step
					}
				}
			}
			for i := range y {
				link(p.Row(i), scores.Row(i), c.classes)
				for s, want := range p.Row(i) {
					if d := math.Abs(got.At(i, s+l.first) - want); !(d < 1e-5) {
						t.Fatalf("row %d, score %d: %v, by the definition %v", i, s, got.At(i, s+l.first), want)
					}
				}
			}
		})
	}
}

// Any number of goroutines gives the same bytes.
func TestSameBitsOnAnyNumberOfCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var most atomic.Int64
	watch := func(_, workers int) { most.Store(max(most.Load(), int64(workers))) }
	par.Observe.Store(&watch)
	defer par.Observe.Store(nil)
	x, levels, y := table(5, 5000, 14, 90)
	for _, classes := range []int{0, 3} {
		var want []byte
		for _, cores := range []int{1, 5} {
			runtime.GOMAXPROCS(cores)
			most.Store(0)
			b := mustBin(t, x, levels)
			f := mustFit(t, b, targetOf(y, classes), Options{Trees: 3, Patience: 3})
			got, err := f.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			out, err := OutOfFold(t.Context(), b, foldsOf(5000, 3), targetOf(y, classes), Options{Trees: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []dense.Matrix[float64]{predict(t, f, x), out} {
				for _, v := range m.Data {
					got = fmt.Appendf(got, "%x ", v)
				}
			}
			if want == nil {
				want = got
			} else if !bytes.Equal(got, want) {
				t.Errorf("%d classes: %d cores give other bits than one", classes, cores)
			}
			if cores == 5 && most.Load() < 2 {
				t.Errorf("all work on one core")
			}
		}
	}
}

func foldsOf(rows, folds int) []int {
	fold := make([]int, rows)
	for i := range fold {
		fold[i] = i % folds
	}
	return fold
}

// Each round lowers the loss of the rows of the fit, and a forest begins with the trees of a shorter one.
func TestTrainingLossFalls(t *testing.T) {
	x, levels, y := table(6, 300, 4, 20)
	b := mustBin(t, x, levels)
	for _, classes := range []int{0, 2, 5} {
		target := targetOf(y, classes)
		l, err := newLoss(target, len(y))
		if err != nil {
			t.Fatal(err)
		}
		last := math.Inf(1)
		for _, trees := range []int{1, 2, 4, 8, 16, 32, 64} {
			p := predict(t, mustFit(t, b, target, Options{Trees: trees, Rate: 0.2, Rows: 1, Columns: 0.5}), x)
			sum := 0.0
			for i := range y {
				sum += l.of(int32(i), p.Row(i)[l.first:])
			}
			if !(sum < last) {
				t.Errorf("%d classes: loss %v after %d rounds, %v before", classes, sum, trees, last)
			}
			last = sum
		}
	}
}

// Missing values go where they belong; where the fit saw none, with the larger side.
func TestMissingValues(t *testing.T) {
	nan := math.NaN()
	x, y := dense.New[float64](60, 2), make([]float64, 60)
	for i := range y {
		x.Set(i, 0, float64(i))
		if x.Set(i, 1, 1); i%2 == 0 {
			x.Set(i, 1, nan)
			y[i] = 8
		}
	}
	o := Options{Trees: 1, Leaves: 2, MinRows: 1, Rate: 1, Rows: 1, Columns: 1}
	f := mustFit(t, mustBin(t, x, nil), targetOf(y, 0), o)
	p := predict(t, f, dense.MustFromRows([][]float64{{3, nan}, {3, 1}, {nan, 99}, {3, -99}}))
	for i, want := range []float64{8, 0, 0, 0} {
		if math.Abs(p.At(i, 0)-want) > 0.01 {
			t.Errorf("row %d: %v, want %v", i, p.At(i, 0), want)
		}
	}
	for _, larger := range []int{20, 40} { // rows on the left
		for i := range y {
			y[i] = 0
			x.Set(i, 1, 0)
			if i >= larger {
				y[i] = 8
			}
		}
		p := predict(t, mustFit(t, mustBin(t, x, nil), targetOf(y, 0), o), dense.MustFromRows([][]float64{{nan, 0}}))
		want := 0.0
		if larger == 20 {
			want = 8
		}
		if math.Abs(p.At(0, 0)-want) > 0.01 {
			t.Errorf("%d of 60 rows on the left: missing is %v, want %v", larger, p.At(0, 0), want)
		}
	}
}

// One split separates levels whose codes are mixed; unknown and rare levels go with the larger side.
func TestLevels(t *testing.T) {
	x, y := dense.New[float64](3000, 1), make([]float64, 3000)
	high := func(code int) bool { return code*7%5 < 2 }
	for i := range y {
		x.Set(i, 0, float64(i%60))
		if high(i % 60) {
			y[i] = 1
		}
	}
	o := Options{Trees: 1, Leaves: 2, Rate: 1, Rows: 1}
	f := mustFit(t, mustBin(t, x, []bool{true}), targetOf(y, 0), o)
	p := predict(t, f, x)
	for i, want := range y {
		if math.Abs(p.At(i, 0)-want) > 0.01 {
			t.Fatalf("level %v: %v, want %v", x.At(i, 0), p.At(i, 0), want)
		}
	}
	other := predict(t, f, dense.MustFromRows([][]float64{{60}, {0.5}, {-1}, {math.NaN()}}))
	for i := range other.Rows {
		if math.Abs(other.At(i, 0)) > 0.01 {
			t.Errorf("an unknown level is %v, want that of most rows", other.At(i, 0))
		}
	}
	wrong := 0.0
	for i, v := range predict(t, mustFit(t, mustBin(t, x, nil), targetOf(y, 0), o), x).Data {
		wrong += math.Abs(v - y[i])
	}
	if wrong < 0.3*float64(len(y)) {
		t.Errorf("the codes as numbers separate levels, too: the test shows nothing")
	}
	// More levels than bins: the rare ones share bin 0.
	for i := range y {
		code := 1000 + i
		if i < 2540 {
			code = i % 254
		}
		x.Set(i, 0, float64(code))
	}
	b := mustBin(t, x, []bool{true})
	for i, bin := range b.column(0) {
		if (bin == 0) != (i >= 2540) {
			t.Fatalf("row %d with code %v has bin %d", i, x.At(i, 0), bin)
		}
	}
}

// Whole weights are repetitions of rows, and weight 0 leaves a row out.
func TestWeightsAreRepetitions(t *testing.T) {
	x, levels, y := table(9, 400, 4, 6)
	for _, classes := range []int{0, 2, 3} {
		target := targetOf(y, classes)
		var rows []int
		for i := range y {
			w := []int{1, 0, 3, 2}[i%4]
			target.Weights = append(target.Weights, float64(w))
			for range w {
				rows = append(rows, i)
			}
		}
		repeated := make([]float64, len(rows))
		for i, r := range rows {
			repeated[i] = y[r]
		}
		o := Options{Trees: 5, MinRows: 1, Leaves: 6, Rate: 0.3, Rows: 1, Columns: 1}
		f := mustFit(t, mustBin(t, x, levels), target, o)
		all := make([]int, len(y))
		for i := range all {
			all[i] = i
		}
		g, err := Fit(t.Context(), mustBin(t, x, levels), all, target, o)
		if err != nil || !slices.Equal(f.values, g.values) {
			t.Errorf("%d classes: all rows by number give another forest: %v", classes, err)
		}
		got := predict(t, f, x)
		want := predict(t, mustFit(t, mustBin(t, x.Pick(rows), levels), targetOf(repeated, classes), o), x)
		for i, v := range got.Data {
			if math.Abs(v-want.Data[i]) > 1e-5 {
				t.Fatalf("%d classes, row %d: %v with weights, %v with repetitions", classes, i, v, want.Data[i])
			}
		}
	}
}

// A fit stops on noise, keeps the trees of the lowest loss of the rows set aside, and goes on while there is a signal.
func TestEarlyStopping(t *testing.T) {
	x, levels, y := table(10, 400, 4, 30)
	b := mustBin(t, x, levels)
	o := Options{Trees: 200, Rate: 0.1, Patience: 8, Seed: 4}
	if f := mustFit(t, b, targetOf(y, 0), o); f.Trees() < 20 {
		t.Errorf("stopped after %d trees although there is a signal", f.Trees())
	}
	noise := make([]float64, len(y))
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = r.NormFloat64()
	}
	for _, classes := range []int{0, 2, 3} {
		f := mustFit(t, b, targetOf(noise, classes), o)
		if f.Trees() > 40*max(1, 3*(classes/3)) {
			t.Errorf("%d classes: %d trees fit noise", classes, f.Trees())
		}
		// With all patience the best round is the same or a later and better one; the trees until then are the same.
		o := o
		o.Patience = 200
		p, q := mustFit(t, b, targetOf(noise, classes), o), f
		if p.Trees() < q.Trees() {
			t.Errorf("%d classes: patience loses trees, %d after %d", classes, p.Trees(), q.Trees())
		}
		for i, v := range q.values {
			if p.values[i] != v {
				t.Fatalf("%d classes: patience changes leaf %d", classes, i)
			}
		}
	}
	// The rows set aside decide, and are not learned from.
	l, err := newLoss(targetOf(noise, 0), len(noise))
	if err != nil {
		t.Fatal(err)
	}
	rows, _ := choose(nil, l)
	_, chosen := draw(streamOf(o.Seed, heldStream), rows, 60)
	f := mustFit(t, b, targetOf(noise, 0), o)
	if want := l.start(chosen); f.start[0] != want[0] {
		t.Errorf("starts at %v, the rows that are not set aside at %v", f.start[0], want[0])
	}
	// The rounds that lower the loss are found on the forest of all patience; a fit stops at the first gap.
	gaps := 0
	for _, y := range [][]float64{noise, y} {
		for seed := range uint64(6) {
			o.Seed, o.Rate, o.Trees = seed, 0.3, 100
			o.Patience = 100
			f := mustFit(t, b, targetOf(y, 0), o)
			held, _ := draw(streamOf(seed, heldStream), rows, 60)
			l, _ := newLoss(targetOf(y, 0), len(y))
			want, lowest := 0, math.Inf(1)
			for trees := 1; trees <= f.Trees(); trees++ {
				g := *f
				g.columns = slices.Clone(f.columns)
				g.finish(trees)
				p, sum := predict(t, &g, x), 0.0
				for _, r := range held {
					sum += l.of(r, p.Row(int(r)))
				}
				if trees-want > 4 {
					gaps++
					break
				}
				if sum < lowest {
					want, lowest = trees, sum
				}
			}
			o.Patience = 4
			if got := mustFit(t, b, targetOf(y, 0), o); got.Trees() != want {
				t.Errorf("seed %d: %d trees, want %d", seed, got.Trees(), want)
			}
		}
	}
	if gaps == 0 || gaps == 12 {
		t.Errorf("%d of 12 fits have a gap: the test shows one side alone", gaps)
	}
}

// cancelled ends after some questions.
type cancelled struct {
	context.Context
	after atomic.Int64
}

func (c *cancelled) Err() error {
	if c.after.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

func TestCancellation(t *testing.T) {
	x, levels, y := table(11, 300, 3, 9)
	b := mustBin(t, x, levels)
	for _, after := range []int64{0, 1, 40} {
		c := &cancelled{Context: context.Background()}
		c.after.Store(after)
		if _, err := Fit(c, b, nil, targetOf(y, 0), Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("after %d questions: %v", after, err)
		}
		c.after.Store(after)
		if _, err := OutOfFold(c, b, foldsOf(300, 3), targetOf(y, 0), Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("folds, after %d questions: %v", after, err)
		}
	}
}

// OutOfFold is a fit for each fold.
func TestOutOfFold(t *testing.T) {
	x, levels, y := table(12, 300, 3, 50)
	b := mustBin(t, x, levels)
	for _, classes := range []int{0, 2, 3} {
		target, fold := targetOf(y, classes), foldsOf(300, 3)
		fold[7], fold[8] = -1, -1
		o := Options{Trees: 5, Seed: 3}
		got, err := OutOfFold(t.Context(), b, fold, target, o)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 3 {
			var rows []int
			for i, of := range fold {
				if of >= 0 && of != k {
					rows = append(rows, i)
				}
			}
			f, err := Fit(t.Context(), b, rows, target, o)
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range predict(t, f, x).ToRows() {
				for j, v := range row {
					if fold[i] == k && got.At(i, j) != v || fold[i] < 0 && !math.IsNaN(got.At(i, j)) {
						t.Fatalf("row %d, output %d: %v, its own fit says %v", i, j, got.At(i, j), v)
					}
				}
			}
		}
	}
}

// Outputs of a target with several columns are the fits of each, if all columns of the table are drawn.
func TestSeveralOutputs(t *testing.T) {
	x, levels, y := table(13, 300, 3, 50)
	b := mustBin(t, x, levels)
	two := dense.New[float64](300, 2)
	for i, v := range y {
		two.Set(i, 0, -3*v)
		two.Set(i, 1, v)
	}
	o := Options{Trees: 6, Columns: 1}
	got, want := predict(t, mustFit(t, b, Target{Values: two}, o), x), predict(t, mustFit(t, b, targetOf(y, 0), o), x)
	for i := range y {
		if got.At(i, 1) != want.At(i, 0) || math.Abs(got.At(i, 0)+3*got.At(i, 1)) > 1e-4 {
			t.Fatalf("row %d: %v, alone %v", i, got.Row(i), want.Row(i))
		}
	}
}

// A block, many blocks and single rows give the same bits; few rows allocate nothing.
func TestPredictRows(t *testing.T) {
	x, levels, y := table(14, 300, 3, 50)
	b := mustBin(t, x, levels)
	for _, classes := range []int{0, 2, 4} {
		f := mustFit(t, b, targetOf(y, classes), Options{Trees: 20})
		all := predict(t, f, x)
		predict(t, f, x.RowRange(0, 0))
		for i := range x.Rows {
			row := predict(t, f, x.RowRange(i, i+1))
			sum := 0.0
			for j, v := range row.Row(0) {
				sum += v
				if all.At(i, j) != v {
					t.Fatalf("row %d alone: %v, among all %v", i, v, all.At(i, j))
				}
			}
			if classes > 0 && math.Abs(sum-1) > 1e-12 {
				t.Fatalf("row %d: probabilities add up to %v", i, sum)
			}
		}
		for _, n := range []int{1, 64} {
			dst, rows := dense.New[float64](n, f.Outputs()), x.RowRange(0, n)
			if a := testing.AllocsPerRun(10, func() { _ = f.Predict(dst, rows) }); a != 0 {
				t.Errorf("%d rows: %v allocations", n, a)
			}
		}
	}
	wide, levels, y := table(15, 40, 300, 5) // more bins than the stack holds
	f := mustFit(t, mustBin(t, wide, levels), targetOf(y, 0), Options{Trees: 9})
	if all, one := predict(t, f, wide), predict(t, f, wide.RowRange(39, 40)); all.At(39, 0) != one.At(0, 0) {
		t.Errorf("a wide table: %v, row by row %v", all.At(39, 0), one.At(0, 0))
	}
}

// Seeds draw other rows and columns; a share draws that many.
func TestDraws(t *testing.T) {
	items := []int32{2, 3, 5, 7, 11, 13}
	count := map[int32]int{}
	for seed := range uint64(3000) {
		drawn, others := draw(streamOf(seed, 1), items, 4)
		if len(drawn) != 4 || len(others) != 2 {
			t.Fatalf("%d drawn, %d others", len(drawn), len(others))
		}
		for _, v := range drawn {
			count[v]++
		}
	}
	for _, v := range items {
		if z := (float64(count[v]) - 2000) / math.Sqrt(3000*2.0/9); math.Abs(z) > 5 {
			t.Errorf("%d drawn %d of 3000 times, want about 2000", v, count[v])
		}
	}
	x, levels, y := table(16, 300, 4, 50)
	b := mustBin(t, x, levels)
	for _, o := range []Options{{Rows: 0.5, Columns: 1}, {Rows: 1, Columns: 0.5}} {
		o.Trees = 5
		one := mustFit(t, b, targetOf(y, 0), o)
		if o.Seed = 1; predict(t, one, x).At(0, 0) == predict(t, mustFit(t, b, targetOf(y, 0), o), x).At(0, 0) {
			t.Errorf("%+v: seeds give the same forest", o)
		}
	}
	f := mustFit(t, b, targetOf(y, 0), Options{Trees: 20, Columns: 0.5})
	for k, first := range f.trees {
		used := map[uint16]bool{}
		for _, n := range f.nodes[first:][:14] {
			used[n.Column] = true
		}
		if len(used) > 2 {
			t.Errorf("tree %d has %d columns, want 2 of 4", k, len(used))
		}
	}
	for i := range x.Rows { // columns without choice are not drawn
		copy(x.Row(i)[1:], []float64{7, math.NaN(), 7})
	}
	f = mustFit(t, mustBin(t, x, levels), targetOf(y, 0), Options{Trees: 20, Columns: 0.25})
	for k, first := range f.trees[1:] {
		if first < f.trees[k]+2 {
			t.Errorf("tree %d has no split: a constant column was drawn", k)
		}
	}
	// Each round draws other rows: all of them are learned in the end.
	own, value := dense.New[float64](60, 1), make([]float64, 60)
	for i := range value {
		own.Set(i, 0, float64(i/3))
		value[i] = float64(i / 3 * 7 % 5)
	}
	f = mustFit(t, mustBin(t, own, nil), targetOf(value, 0), Options{MinRows: 1, Leaves: 20, Rows: 0.4, Rate: 0.3})
	for i, v := range predict(t, f, own).Data {
		if math.Abs(v-value[i]) > 0.05 {
			t.Errorf("row %d is %v, want %v: it was never drawn", i, v, value[i])
		}
	}
}

// Bins have about equal numbers of rows, frequent values a bin of their own, and cuts between neighbours.
func TestBins(t *testing.T) {
	x := dense.New[float64](20000, 2)
	next := math.Nextafter(1, 2) // and the mean of next and after rounds to after
	after := math.Nextafter(next, 2)
	for i := range x.Rows {
		x.Set(i, 1, []float64{next, after, -math.MaxFloat64, math.MaxFloat64}[i%4])
		if i%2 == 0 {
			x.Set(i, 0, float64(i))
		}
	}
	b := mustBin(t, x, nil)
	count := map[uint8]int{}
	for i, bin := range b.column(0) {
		if count[bin]++; (bin == 1) != (x.At(i, 0) == 0) {
			t.Fatalf("value %v has bin %d", x.At(i, 0), bin)
		}
	}
	if len(count) < 250 || len(count) > 254 {
		t.Errorf("%d bins", len(count))
	}
	for bin, n := range count {
		if bin > 1 && (n < 35 || n > 45) {
			t.Errorf("bin %d has %d rows, the mean is 40", bin, n)
		}
	}
	for i := range 4 {
		if got, want := b.column(1)[i], []uint8{2, 3, 1, 4}[i]; got != want {
			t.Errorf("value %v has bin %d, want %d", x.At(i, 1), got, want)
		}
	}
	few := mustBin(t, dense.MustFromRows([][]float64{{1}, {2}, {3}, {4}, {5}, {6}, {7}}), nil)
	if got, want := few.column(0), []uint8{1, 1, 1, 2, 2, 2, 3}; !bytes.Equal(got, want) {
		t.Errorf("bins %v of seven values, want %v", got, want)
	}
}

// Degenerate tables have a forest that predicts the mean.
func TestNothingToLearn(t *testing.T) {
	for name, c := range map[string]struct {
		x [][]float64
		y []float64
	}{
		"one row":          {[][]float64{{1}}, []float64{3}},
		"constant target":  {[][]float64{{1}, {2}, {3}, {4}}, []float64{3, 3, 3, 3}},
		"constant columns": {[][]float64{{1}, {1}, {1}, {1}}, []float64{2, 4, 2, 4}},
		"all missing":      {[][]float64{{math.NaN()}, {math.NaN()}}, []float64{2, 4}},
	} {
		x := dense.MustFromRows(c.x)
		f := mustFit(t, mustBin(t, x, nil), targetOf(c.y, 0), Options{MinRows: 1, Rows: 1})
		for i, v := range predict(t, f, x).Data {
			if math.Abs(v-3) > 1e-6 {
				t.Errorf("%s: row %d is %v, want 3", name, i, v)
			}
		}
	}
	// Classes that are certain stay finite.
	x := dense.MustFromRows([][]float64{{1}, {2}, {3}, {4}})
	sure := Target{Values: dense.MustFromRows([][]float64{{1}, {1}, {1}, {1}}), Classes: 3}
	f := mustFit(t, mustBin(t, x, nil), sure, Options{MinRows: 1, Rate: 1})
	if p := predict(t, f, x); p.CheckFinite() != nil || !(p.At(0, 1) > 0.8) {
		t.Errorf("one class of three: %v", p.Row(0))
	}
}

func TestErrors(t *testing.T) {
	x, levels, y := table(17, 40, 3, 9)
	b, inf, nan := mustBin(t, x, levels), math.Inf(1), math.NaN()
	target := targetOf(y, 0)
	classes := targetOf(y, 3)
	with := func(values []float64, i int, v float64) []float64 {
		values = append([]float64(nil), values...)
		values[i] = v
		return values
	}
	class := func(v float64) Target {
		c := targetOf(y, 3)
		c.Values.Set(3, 0, v)
		return c
	}
	weights := func(v float64) Target {
		w := target
		w.Weights = make([]float64, 40)
		w.Weights[5] = v
		return w
	}
	fit := func(rows []int, t Target, o Options) error {
		_, err := Fit(context.Background(), b, rows, t, o)
		return err
	}
	bin := func(m dense.Matrix[float64], levels []bool) error {
		_, err := Bin(m, levels)
		return err
	}
	outOfFold := func(fold []int, t Target, o Options) error {
		_, err := OutOfFold(context.Background(), b, fold, t, o)
		return err
	}
	f := mustFit(t, b, target, Options{Trees: 2})
	wide := &Bins{rows: 40, columns: make([]column, 9000)}
	for j := range wide.columns {
		wide.columns[j] = column{used: true, cuts: make([]float64, 250)}
	}
	_, tooWide := Fit(context.Background(), wide, nil, target, Options{Leaves: 64})
	for i, c := range []struct {
		err  error
		is   error
		says string
	}{
		{bin(dense.New[float64](0, 3), nil), dense.ErrShape, "0×3"},
		{bin(dense.New[float64](3, 0), nil), dense.ErrShape, "3×0"},
		{bin(x, []bool{true}), dense.ErrShape, "1 marks"},
		{bin(dense.Matrix[float64]{Rows: 2, Cols: 2, Stride: 2}, nil), dense.ErrShape, ""},
		{bin(dense.Matrix[float64]{Rows: 1, Cols: maxWidth + 1, Stride: maxWidth + 1,
			Data: make([]float64, maxWidth+1)}, nil), dense.ErrShape, "65537"},
		{bin(dense.MustFromRows([][]float64{{1, 2}, {3, inf}}), nil), dense.ErrNotFinite, "row 1, column 1 is +Inf"},
		{fit(nil, targetOf(y[:39], 0), Options{}), dense.ErrShape, "39×1"},
		{fit(nil, targetOf(y[:39], 3), Options{}), dense.ErrShape, "39×1"},
		{fit(nil, Target{}, Options{}), dense.ErrShape, "0×0"},
		{fit(nil, Target{Values: dense.New[float64](40, 0)}, Options{}), dense.ErrShape, "40×0"},
		{fit(nil, Target{Values: dense.New[float64](40, 2), Classes: 3}, Options{}), dense.ErrShape, "40×2"},
		{fit(nil, Target{Values: dense.Matrix[float64]{Rows: 40, Cols: 1, Stride: 1}}, Options{}), dense.ErrShape, ""},
		{fit(nil, targetOf(with(y, 7, nan), 0), Options{}), nil, "row 7 has target NaN"},
		{fit(nil, targetOf(with(y, 7, -1e31), 0), Options{}), nil, "row 7 has target -1e+31"},
		{fit(nil, class(3), Options{}), nil, "row 3 has class 3 of 3"},
		{fit(nil, class(-1), Options{}), nil, "row 3 has class -1 of 3"},
		{fit(nil, class(0.5), Options{}), nil, "row 3 has class 0.5 of 3"},
		{fit(nil, class(nan), Options{}), nil, "row 3 has class NaN of 3"},
		{fit(nil, Target{Values: classes.Values, Classes: 1}, Options{}), nil, "1 classes"},
		{fit(nil, Target{Values: classes.Values, Classes: -2}, Options{}), nil, "-2 classes"},
		{fit(nil, Target{Values: classes.Values, Classes: maxClasses + 1}, Options{}), nil, "4097 classes"},
		{fit(nil, weights(-1), Options{}), nil, "with weight -1"},
		{fit(nil, weights(nan), Options{}), nil, "with weight NaN"},
		{fit(nil, weights(inf), Options{}), nil, "with weight +Inf"},
		{fit(nil, weights(0), Options{}), nil, "0 rows"},
		{fit(nil, Target{Values: target.Values, Weights: []float64{1}}, Options{}), dense.ErrShape, "1 weights"},
		{fit([]int{0, 40}, target, Options{}), dense.ErrShape, "row 40"},
		{fit([]int{-1, 4}, target, Options{}), dense.ErrShape, "row -1"},
		{fit([]int{4, 4}, target, Options{}), dense.ErrShape, "row 4"},
		{fit([]int{}, target, Options{}), nil, "0 rows"},
		{fit([]int{3}, target, Options{Patience: 2}), nil, "0 rows"},
		{fit(nil, target, Options{Trees: -1}), nil, "Trees is -1"},
		{fit(nil, target, Options{Leaves: 1}), nil, "Leaves is 1"},
		{fit(nil, target, Options{Leaves: 65}), nil, "Leaves is 65"},
		{fit(nil, target, Options{MinRows: -1}), nil, "MinRows is -1"},
		{fit(nil, target, Options{Rate: 1.5}), nil, "Rate is 1.5"},
		{fit(nil, target, Options{Rate: nan}), nil, "Rate is NaN"},
		{fit(nil, target, Options{Lambda: -1}), nil, "Lambda is -1"},
		{fit(nil, target, Options{Rows: 2}), nil, "Rows is 2"},
		{fit(nil, target, Options{Columns: -1}), nil, "Columns is -1"},
		{fit(nil, target, Options{Patience: -1}), nil, "Patience is -1"},
		{fit(nil, target, Options{Held: 1}), nil, "Held is 1"},
		{fit(nil, target, Options{Trees: 1 << 25, Leaves: 4}), nil, "too many"},
		{tooWide, nil, "too many"},
		{outOfFold(foldsOf(39, 3), target, Options{}), dense.ErrShape, "39 rows"},
		{outOfFold(make([]int, 40), target, Options{}), dense.ErrShape, "1 folds"},
		{outOfFold(with2(foldsOf(40, 3), 9, 40), target, Options{}), dense.ErrShape, "41 folds"},
		{outOfFold(foldsOf(40, 3), weights(nan), Options{}), nil, "with weight NaN"},
		{outOfFold(foldsOf(40, 3), target, Options{Rows: 2}), nil, "fold 0"},
		{f.Predict(dense.New[float64](40, 1), dense.New[float64](40, 2)), dense.ErrShape, "3 columns"},
		{f.Predict(dense.New[float64](40, 2), x), dense.ErrShape, "1 outputs"},
		{f.Predict(dense.New[float64](39, 1), x), dense.ErrShape, "39×1"},
		{f.Predict(dense.New[float64](40, 1), dense.Matrix[float64]{Rows: 40, Cols: 3, Stride: 3}), dense.ErrShape, ""},
		{f.Predict(dense.Matrix[float64]{Rows: 40, Cols: 1, Stride: 1}, x), dense.ErrShape, ""},
	} {
		if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("case %d: %v, want %v with %q", i, c.err, c.is, c.says)
		}
	}
}

func with2(fold []int, i, v int) []int {
	fold[i] = v
	return fold
}

func BenchmarkFit(b *testing.B) {
	for _, c := range []struct{ rows, cols int }{{1000, 10}, {5000, 20}, {1000, 270}} {
		b.Run(fmt.Sprintf("n=%d/d=%d", c.rows, c.cols), func(b *testing.B) {
			x, levels, y := table(1, c.rows, c.cols, 1000)
			for b.Loop() {
				mustFit(b, mustBin(b, x, levels), targetOf(y, 0), Options{Trees: 50})
			}
		})
	}
}

func BenchmarkPredict(b *testing.B) {
	x, levels, y := table(1, 2000, 20, 1000)
	f := mustFit(b, mustBin(b, x, levels), targetOf(y, 0), Options{})
	for _, n := range []int{1, 64, 2000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			dst, rows := dense.New[float64](n, 1), x.RowRange(0, n)
			for b.Loop() {
				if err := f.Predict(dst, rows); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/row")
		})
	}
}

// Sums of packed derivatives are those of the derivatives, up to rounding, without overflow.
func TestUnits(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for _, c := range []struct {
		name string
		row  func(i int) derivative
	}{
		{"all positive", func(int) derivative { return derivative{3, 1} }},
		{"all negative", func(int) derivative { return derivative{-1e-9, 1e9} }},
		{"one row alone", func(i int) derivative { return derivative{float64(1 - min(i, 1)), 1e-30} }},
		{"mixed", func(int) derivative { return derivative{r.NormFloat64(), r.Float64()} }},
		{"no gradient", func(int) derivative { return derivative{0, 2} }},
		{"nothing", func(int) derivative { return derivative{} }},
	} {
		const n = 50000
		var total, size derivative
		rows := make([]derivative, n)
		for i := range rows {
			d := c.row(i)
			rows[i] = d
			total.g, total.h = total.g+d.g, total.h+d.h
			size.g, size.h = size.g+math.Abs(d.g), size.h+d.h
		}
		unit := unitsFor(n, size)
		var sum packed
		for _, d := range rows {
			p := pack(d, unit)
			if p.h() < 1 {
				t.Fatalf("%s: a row without Hessian", c.name)
			}
			sum += p
		}
		if math.IsInf(unit.g, 0) || math.IsInf(unit.h, 0) {
			t.Errorf("%s: units %v", c.name, unit)
		}
		if g := sum.g() / unit.g; !(math.Abs(g-total.g) <= 1e-4*size.g+1e-300) {
			t.Errorf("%s: gradients add up to %v, want %v", c.name, g, total.g)
		}
		if h := sum.h() / unit.h; total.h > 0 && !(math.Abs(h-total.h) <= 1e-4*total.h) {
			t.Errorf("%s: Hessians add up to %v, want %v", c.name, h, total.h)
		}
		if total.h == n && sum.h() != n*unit.h {
			t.Errorf("%s: %v rows have %v units of %v", c.name, n, sum.h(), unit.h)
		}
	}
}
