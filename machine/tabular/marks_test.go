package tabular

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// patients are groups of rows with inputs near each other and a level of y that inputs do not tell: a + 2·level.
func patients(groups, rows int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 5))
	s := &numbers{names: []string{"a", "b", "y", "class", "patient"}}
	for g := range groups {
		a, b, level := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
		for range rows + g%3 {
			x := a + 0.05*r.NormFloat64()
			y := x + 2*level + 0.1*r.NormFloat64()
			class := 0.0
			if y > 0 {
				class = 1
			}
			s.rows = append(s.rows, []float64{x, b + 0.05*r.NormFloat64(), y, class, float64(g)})
		}
	}
	rand.New(rand.NewPCG(seed, 6)).Shuffle(len(s.rows), func(i, j int) { s.rows[i], s.rows[j] = s.rows[j], s.rows[i] })
	return s
}

// No group is in two folds, folds are about equal, and rows of one number of folds do not decide those of another.
func TestDealerGroups(t *testing.T) {
	src := patients(23, 7, 1)
	m, err := data.MarkColumns{Group: "patient"}.Read(src)
	if err != nil || m.Groups != 23 {
		t.Fatal(m, err)
	}
	for _, k := range []int{2, 5, 23} {
		d := newDealer(9, m)
		of, rows := map[uint32]int{}, make([]int, d.parts(k))
		for i := range src.rows {
			at := d.of(int64(i), d.parts(k))
			rows[at]++
			if was, ok := of[m.Group[i]]; ok && was != at {
				t.Fatalf("group %d is in folds %d and %d", m.Group[i], was, at)
			}
			of[m.Group[i]] = at
		}
		for f, n := range rows {
			if math.Abs(float64(n)-float64(len(src.rows))/float64(k)) > 9 { // the rows of one group
				t.Errorf("fold %d of %d has %d of %d rows", f, k, n, len(src.rows))
			}
		}
	}
}

// Large groups are dealt first: what is left of the difference between folds is at most one small group.
func TestDealerLargeGroups(t *testing.T) {
	m := &data.Marks{Groups: 31}
	for g := range 31 {
		n := 10
		if g == 30 {
			n = 100
		}
		for range n {
			m.Group = append(m.Group, uint32(g))
		}
	}
	d, sizes := newDealer(3, m), make([]int, 4)
	for i := range m.Group {
		sizes[d.of(int64(i), 4)]++
	}
	if slices.Max(sizes)-slices.Min(sizes) > 10 {
		t.Errorf("folds of %v rows", sizes)
	}
}

// A stretch comes after those before it, whatever the order of rows, and equal times are in one.
func TestDealerTimes(t *testing.T) {
	for _, distinct := range []int{2, 3, 50, 1000} {
		r := rand.New(rand.NewPCG(uint64(distinct), 2))
		times := make([]float64, 300)
		for i := range times {
			times[i] = float64(r.IntN(distinct)) * 0.5
		}
		d := newDealer(1, &data.Marks{Time: times})
		parts := d.parts(5)
		least, most := map[int]float64{}, map[int]float64{}
		for i, at := range times {
			p := d.of(int64(i), parts)
			if _, ok := least[p]; !ok {
				least[p], most[p] = at, at
			}
			least[p], most[p] = min(least[p], at), max(most[p], at)
		}
		if _, ok := least[0]; !ok || len(least) < min(distinct, 6) && distinct != 3 || len(least) < 2 {
			t.Errorf("%d times: parts %v", distinct, least)
		}
		for p := 1; p < parts; p++ {
			before, ok1 := most[p-1]
			after, ok2 := least[p]
			if ok1 && ok2 && !(before < after) {
				t.Errorf("%d times: part %d ends at %g, the next begins at %g", distinct, p-1, before, after)
			}
		}
	}
}

// Rows of the groups of a model are predicted too well: scores without groups promise what new groups do not keep, and
// scores with them keep it, for every way of fitting and in choices, too. So do intervals of predictions.
func TestGroupsAreHonest(t *testing.T) {
	src, fresh := patients(40, 6, 3), patients(400, 6, 4)
	for name, o := range map[string]Options{
		"exact":    {Bandwidth: 0.5},
		"random":   {Map: MapRandom, Features: 64, Bandwidth: 1},
		"logistic": {Kind: machine.KindLogistic, Features: 64, Bandwidth: 1, Lambda: 0.1},
		"gp":       {Kind: machine.KindGP, Features: 64, Bandwidth: 1},
	} {
		if testing.Short() && name != "random" {
			continue
		}
		target := "y"
		if name == "logistic" {
			target = "class"
		}
		o.Learn = data.LearnOptions{Targets: []string{target}}
		for _, other := range []string{"y", "class"} {
			if other != target {
				o.Learn.Skip = append(o.Learn.Skip, other)
			}
		}
		score := func(s []machine.Score) machine.Score {
			for _, v := range s {
				if v.Name == "R²" || v.Name == "accuracy" {
					return v
				}
			}
			t.Fatal("no score")
			return machine.Score{}
		}
		o.Marks.Group = "patient"
		m, honest := mustFit(t, src, o)
		truth := score(evaluate(t, m, fresh))
		got := score(honest.Scores)
		if truth.Value < got.Low || truth.Value > got.High {
			t.Errorf("%s: %s of new groups is %.3f, stated was %.3f from %.3f to %.3f", name, got.Name, truth.Value, got.Value,
				got.Low, got.High)
		}
		if !strings.Contains(honest.ScoredOn, "whole groups of patient") {
			t.Errorf("%s: scored on %s", name, honest.ScoredOn)
		}
		for i := range m.Schema.Fields {
			if m.Schema.Fields[i].Name == "patient" {
				t.Errorf("%s: the group is a field", name)
			}
		}
		if target == "y" {
			low, high, err := m.Interval(0, 0.9)
			if err != nil || high-low < 4 { // ±1.64·2 for groups, ±0.2 for rows of known ones
				t.Errorf("%s: 90 %% within %.2f to %.2f, %v", name, low, high, err)
			}
		}
		// What was chosen by groups does not trust rows of one: the others do, and are wrong.
		o.Learn.Skip, o.Marks.Group = append(o.Learn.Skip, "patient"), ""
		_, leaky := mustFit(t, src, o)
		if s := score(leaky.Scores); s.Low <= truth.Value {
			t.Errorf("%s: without groups %.3f from %.3f to %.3f, new groups have %.3f: the test has no leak", name, s.Value,
				s.Low, s.High, truth.Value)
		}
	}
}

// A level that drifts is known from rows around it, not from those before: scores of random folds are too good, and
// those of stretches are what the next stretch will have.
func TestTimesAreHonest(t *testing.T) {
	drift := func(n int, seed uint64) (past, future *numbers) {
		r := rand.New(rand.NewPCG(seed, 8))
		past = &numbers{names: []string{"a", "y", "day"}}
		future = &numbers{names: past.names}
		level := 0.0
		for i := range n + n/5 {
			level += 0.3 * r.NormFloat64()
			x := float64(i)/10 + 0.1*r.NormFloat64()
			row := []float64{x, level + 0.1*r.NormFloat64(), float64(i / 3)}
			if i < n {
				past.rows = append(past.rows, row)
			} else {
				future.rows = append(future.rows, row)
			}
		}
		r.Shuffle(n, func(i, j int) { past.rows[i], past.rows[j] = past.rows[j], past.rows[i] })
		return past, future
	}
	var stated, naive, truth float64
	const tries = 4
	for seed := range uint64(tries) {
		past, future := drift(180, seed)
		o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Map: MapRandom, Features: 64, Bandwidth: 0.2,
			Marks: data.MarkColumns{Time: "day"}}
		m, r := mustFit(t, past, o)
		if !strings.Contains(r.ScoredOn, "5 stretches of day") {
			t.Error(r.ScoredOn)
		}
		stated += r.Scores[0].Value / tries
		truth += evaluate(t, m, future)[0].Value / tries
		o.Learn.Skip, o.Marks.Time = []string{"day"}, ""
		_, r = mustFit(t, past, o)
		naive += r.Scores[0].Value / tries
	}
	t.Logf("mean RMSE: stated %.2f, without times %.2f, of the future %.2f", stated, naive, truth)
	if naive > truth/2 || stated < 2*naive || stated < truth/2 || stated > 2*truth {
		t.Errorf("mean RMSE: stated %.2f, without times %.2f, of the future %.2f", stated, naive, truth)
	}
}

// Trials of marked rows are those of solutions of the rows that a part may learn from.
func TestMarkedTries(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	const n = 60
	s := &sample{x: dense.New[float64](n, 2), y: dense.New[float64](n, 1), first: []int{0, 15, 30, 30, 60}}
	for i := range n {
		s.x.Set(i, 0, r.NormFloat64())
		s.x.Set(i, 1, r.NormFloat64())
		s.y.Set(i, 0, math.Sin(s.x.At(i, 0)))
	}
	s.t = s.y
	spec := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Gaussian, Scale: 1}, Family: family.Trig{}, Dim: 2, M: 32,
		Coupling: coupling.Orthogonal{}}
	setup := machine.Setup{Spec: spec, Task: machine.Regression, Outputs: 1}
	const lambda = 0.1
	for _, ordered := range []bool{false, true} {
		s.ordered = ordered
		marks := &data.Marks{Group: []uint32{0}}
		if ordered {
			marks = &data.Marks{Time: []float64{0}}
		}
		f := &job{deal: newDealer(1, marks)}
		f.schema = &data.Schema{Fields: []data.Field{{Name: "a", Kind: data.Numeric, Scale: 1}, {Name: "b",
			Kind: data.Numeric, Scale: 1}}}
		f.ctx, f.task, f.outputs, f.info, f.kind = t.Context(), machine.Regression, 1, ridgeInfo(t), machine.KindRidge
		s.rows = make([]int64, n)
		fold := make([]int, n)
		for k := range s.folds() {
			lo, hi := s.fold(k)
			for i := lo; i < hi; i++ {
				fold[i] = k
			}
		}
		of := &frame{job: f, s: s, folds: s.folds(), fold: [][]int{fold}}
		f.o.Bandwidth = 1
		e := newEvaluator(of)
		ts, err := e.evaluate(t.Context(), Candidate{Kernel: kernel.Gaussian, Lambda: lambda, Width: 1,
			Loss: lossSquares})
		if err != nil || len(ts) != 1 {
			t.Fatal(err, len(ts))
		}
		got := map[string]matrix{"exact": ts[0].out[0]}
		search := &featureSearch{frame: of, d: &decision{}, x: s.x, spec: spec}
		if ts, err = search.try(spec, nil, lambda); err != nil || len(ts) != 1 {
			t.Fatal(err, len(ts))
		}
		got["random"] = ts[0].out[0]
		for k := range s.folds() {
			held, from := of.rows(0, k)
			if len(held) == 0 {
				continue
			}
			if lo, _ := s.fold(k); ordered && len(from) != lo || !ordered && len(from) != n-len(held) {
				t.Fatalf("%d rows without fold %d", len(from), k)
			}
			if len(from) == 0 {
				if !math.IsNaN(got["exact"].At(held[0], 0)) || !math.IsNaN(got["random"].At(held[0], 0)) {
					t.Error("rows without earlier ones were predicted")
				}
				continue
			}
			exact, err := machine.FitExact(setup, pick(s.x, from), pick(s.y, from), lambda)
			if err != nil {
				t.Fatal(err)
			}
			sums, _ := machine.NewRidge(setup)
			if err := sums.Add(pick(s.x, from), pick(s.y, from)); err != nil {
				t.Fatal(err)
			}
			random, err := sums.Model(lambda)
			if err != nil {
				t.Fatal(err)
			}
			for name, m := range map[string]*machine.Model{"exact": exact, "random": random} {
				p, err := machine.NewPredictor[float64](m)
				if err != nil {
					t.Fatal(err)
				}
				want := dense.New[float64](len(held), 1)
				if err := p.Predict(want, pick(s.x, held), nil); err != nil {
					t.Fatal(err)
				}
				for at, i := range held {
					if math.Abs(want.At(at, 0)-got[name].At(i, 0)) > 1e-4 {
						t.Fatalf("ordered %v, %s: row %d is %g, want %g", ordered, name, i, got[name].At(i, 0),
							want.At(at, 0))
					}
				}
			}
		}
	}
}

// ridgeInfo describes ridge regression.
func ridgeInfo(t *testing.T) machine.KindInfo {
	info, err := machine.KindRidge.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// What cannot be divided is refused by name.
func TestMarksRefused(t *testing.T) {
	src := patients(3, 9, 1)
	for want, o := range map[string]Options{
		`3 groups in column "patient" cannot be divided into 5 folds: ask for at most 3`: {Marks: data.MarkColumns{Group: "patient"}},
		`folds of groups (patient) and of time (a): name one of them`:                    {Marks: data.MarkColumns{Group: "patient", Time: "a"}},
		`no column "who", named as group`: {
			Marks: data.MarkColumns{Group: "who"}},
		`the target y cannot also be weight`: {
			Marks: data.MarkColumns{Time: "y"}},
		`column b is to be kept, but is neither`: {Keep: []string{"b"}},
	} {
		o.Learn = data.LearnOptions{Targets: []string{"y"}, Skip: []string{"class"}}
		if _, _, err := Fit(context.Background(), src, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}, Skip: []string{"class"}}, Folds: 2, Features: 16,
		Bandwidth: 1, Lambda: 1, Marks: data.MarkColumns{Group: "patient"}, Keep: []string{"patient"}}
	m, _ := mustFit(t, src, o) // with one group left to choose by, in one of the folds
	if len(m.Schema.Fields) != 3 {
		t.Errorf("%d fields, want the group among them", len(m.Schema.Fields))
	}
}

// Intervals of predictions cover rows of new groups as often as they say, with few groups of unequal sizes.
func TestGroupIntervalsCover(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	const repeats, groups = 400, 12
	covered, rows := 0, 0
	for range repeats {
		var marks data.Marks
		var y []float64
		for g := range groups {
			level := 2 * r.NormFloat64()
			for range 1 + 40*(g%2) {
				marks.Group = append(marks.Group, uint32(g))
				y = append(y, level+0.2*r.NormFloat64())
			}
		}
		marks.Groups = groups
		var res machine.Residuals
		n := len(y)
		f := &frame{job: &job{deal: newDealer(1, &marks)}, s: &sample{rows: make([]int64, n)}}
		for i := range n {
			f.s.rows[i] = int64(i)
		}
		truth := dense.Matrix[float64]{Rows: n, Cols: 1, Stride: 1, Data: y}
		res.Add(truth, dense.New[float64](n, 1), dense.Matrix[float64]{}, f.equalWeights(seq(n), nil))
		m := &machine.Model{Task: machine.Regression, Outputs: 1, Residuals: res.Quantiles()}
		low, high, err := m.Interval(0, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		if v := 2*r.NormFloat64() + 0.2*r.NormFloat64(); low <= v && v <= high {
			covered++
		}
		rows++
	}
	got := float64(covered) / float64(rows)
	if z := stattest.Z(got, 0.8, math.Sqrt(0.16), rows); z < -stattest.Bound(1e-4, 1) {
		t.Errorf("intervals of 80 %% cover %.3f of new groups", got)
	}
	t.Logf("%.3f", got)
}

// heavy are rows of two kinds: y = a with weight 9, y = −a with weight 1.
func heavy(n int, seed uint64) *numbers {
	r := rand.New(rand.NewPCG(seed, 11))
	s := &numbers{names: []string{"a", "y", "class", "w", "day"}}
	for i := range n {
		a, w := 2*r.Float64()-1, 9.0
		y := a + 0.1*r.NormFloat64()
		if i%2 == 0 {
			y, w = -y, 1
		}
		class := 0.0
		if y > 0 {
			class = 1
		}
		s.rows = append(s.rows, []float64{a, y, class, w, float64(i)})
	}
	return s
}

// Weights decide what is predicted and how it is scored, for every kind of model that has a target and every map, and
// with stretches of time; only their ratios matter.
func TestWeightsCount(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"exact":   {Kind: machine.KindRidge},
		"random":  {Kind: machine.KindRidge, Map: MapRandom, Features: 64, Bandwidth: 1},
		"nystrom": {Kind: machine.KindRidge, Map: MapNystrom, Features: 32, Bandwidth: 1},
		"times": {Kind: machine.KindRidge, Map: MapRandom, Features: 64, Bandwidth: 1,
			Marks: data.MarkColumns{Time: "day"}},
		"gp":       {Kind: machine.KindGP, Features: 64, Bandwidth: 1},
		"smoother": {Kind: machine.KindSmoother, Features: 64},
		"logistic": {Kind: machine.KindLogistic, Features: 32, Bandwidth: 1},
	} {
		if testing.Short() && name != "random" && name != "exact" {
			continue
		}
		target, score := "y", "R²"
		if name == "logistic" {
			target, score = "class", "accuracy"
		}
		o.Learn = data.LearnOptions{Targets: []string{target}, Skip: []string{"class"}}
		if target == "class" {
			o.Learn.Skip[0] = "y"
		}
		if o.Marks.Time == "" {
			o.Learn.Skip = append(o.Learn.Skip, "day")
		}
		o.Marks.Weight = "w"
		src := heavy(160, 1)
		m, r := mustFit(t, src, o)
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		out := dense.New[float64](2, m.Outputs)
		x := dense.MustFromRows([][]float64{{1}, {-1}})
		if err := p.Predict(out, x, nil); err != nil {
			t.Fatal(err)
		}
		rises := out.At(0, 0) > out.At(1, 0) // y rises with a as the heavy rows say
		if target == "class" {
			rises = out.At(0, 1) > 0.7 && out.At(1, 1) < 0.3
		}
		if !rises {
			t.Errorf("%s: predictions %v", name, out.Data)
		}
		found := false
		for _, s := range r.Scores {
			if s.Name == score {
				found = true
				// 0.9 of the weight is predicted well: accuracy of nearly 0.9, and half without weights. The best R² is
				// 0.64; of a fit without weights it is 0, and −0.6 in a score without.
				if score == "accuracy" && (s.Value < 0.8 || s.Low > 0.9 || s.High < 0.9) || score == "R²" &&
					s.Value < 0.2 {
					t.Errorf("%s: %+v", name, s)
				}
			}
		}
		if !found {
			t.Errorf("%s: no %s", name, score)
		}
		if name != "random" {
			continue
		}
		for i := range src.rows {
			src.rows[i][3] *= 1024
		}
		again, _ := mustFit(t, src, o)
		if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
			t.Error("weights of another unit give another model")
		}
	}
}

// A density is highest where the weight is.
func TestWeightedDensity(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 12))
	src := &numbers{names: []string{"a", "w"}}
	for i := range 200 {
		at, w := -3.0, 1.0
		if i%2 == 0 {
			at, w = 3, 9
		}
		src.rows = append(src.rows, []float64{at + 0.3*r.NormFloat64(), w})
	}
	ratio := func(o Options) float64 {
		o.Kind, o.Features, o.Bandwidth = machine.KindDensity, 256, 0.5
		m, _ := mustFit(t, src, o)
		p, err := machine.NewPredictor[float64](m)
		if err != nil {
			t.Fatal(err)
		}
		s := m.Schema.Fields[0]
		x := dense.MustFromRows([][]float64{{(3 - s.Mean) / s.Scale}, {(-3 - s.Mean) / s.Scale}})
		out := dense.New[float64](2, 1)
		if err := p.Predict(out, x, nil); err != nil {
			t.Fatal(err)
		}
		return out.At(0, 0) - out.At(1, 0)
	}
	// Of log 9 and nothing: how near features come to it is the business of tests of the sums.
	more := ratio(Options{
		Marks: data.MarkColumns{Weight: "w"}}) - ratio(Options{Learn: data.LearnOptions{Skip: []string{"w"}}})
	if more < math.Log(9)/2 || more > math.Log(9)*3/2 {
		t.Errorf("weights add %.2f to the log of the ratio of densities, want %.2f", more, math.Log(9))
	}
}
