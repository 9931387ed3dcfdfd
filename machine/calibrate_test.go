package machine

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/kern"
)

// drawnClasses are rows of k classes with their true probabilities.
func drawnClasses(r *rand.Rand, n, k int) (p dense.Matrix[float64], y []int) {
	p = dense.New[float64](n, k)
	for i := range n {
		row, sum := p.Row(i), 0.0
		for j := range row {
			row[j] = math.Exp(1.5 * r.NormFloat64())
			sum += row[j]
		}
		u, c := r.Float64()*sum, 0
		for c < k-1 && u >= row[c] {
			u -= row[c]
			c++
		}
		for j := range row {
			row[j] /= sum
		}
		y = append(y, c)
	}
	return p, y
}

func meanLoss(p dense.Matrix[float64], y []int) float64 {
	sum := 0.0
	for i, c := range y {
		sum -= math.Log(p.At(i, c))
	}
	return sum / float64(len(y))
}

// Calibration undoes what happens to scores: pulled together as by a penalty, or left alone, with noise that takes them
// below 0. New rows have nearly the log loss of the true probabilities, and the class of the largest score stays.
func TestCalibration(t *testing.T) {
	for _, k := range []int{2, 5} {
		r := rand.New(rand.NewPCG(uint64(k), 3))
		const n = 4000
		p, y := drawnClasses(r, 2*n, k)
		for name, c := range map[string]struct {
			f     func(p float64) float64
			worse float64 // of the log loss of the truth
		}{
			"exact":    {func(p float64) float64 { return p }, 0.01},
			"shrunken": {func(p float64) float64 { return (p + 2/float64(k)) / 3 }, 0.03},
			"logits":   {func(p float64) float64 { return 0.5 + 0.1*math.Log(p) }, 0.01},
		} {
			s := p.Clone()
			for i := range s.Data {
				s.Data[i] = c.f(s.Data[i])
			}
			fit, err := FitCalibration(s.RowRange(0, n), y[:n], nil, false)
			if err != nil {
				t.Fatal(err)
			}
			m := &Model{Calibration: fit}
			e := NewEvaluation(KindLogistic, Classification, k)
			q := dense.New[float64](n, k)
			for i := range n {
				copy(q.Row(i), s.Row(n+i))
				m.Calibrate(q.Row(i))
				if Class(q.Row(i)) != Class(s.Row(n+i)) {
					t.Fatalf("%d classes, %s: another class", k, name)
				}
				if err := e.Add(dense.MustFromRows([][]float64{{float64(y[n+i])}}), q.RowRange(i, i+1),
					dense.Matrix[float64]{}); err != nil {
					t.Fatal(err)
				}
			}
			rel := e.Reliability()
			truth, got := meanLoss(p.RowRange(n, 2*n), y[n:]), meanLoss(q, y[n:])
			t.Logf("%d classes, %s: ε, a = %.3g, log loss %.4f, of the truth %.4f; error %.4f, chance %.4f", k, name, fit,
				got, truth, rel.Error, rel.Chance)
			if got > truth+c.worse || rel.Error > 3*rel.Chance+0.01 {
				t.Errorf("%d classes, %s: log loss %.4f of the truth %.4f, error %.4f (%.4f by chance)", k, name, got, truth,
					rel.Error, rel.Chance)
			}
		}
	}
}

// Of many classes with few rows each probabilities are those with which predictions are right.
func TestCalibrationOfManyClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(40, 3))
	const n, k, right = 1600, 40, 0.95
	s, y := dense.New[float64](2*n, k), make([]int, 2*n)
	for i := range y {
		y[i] = r.IntN(k)
		guess := y[i]
		if r.Float64() > right {
			guess = r.IntN(k)
		}
		for j := range k {
			s.Set(i, j, 0.05*r.NormFloat64())
		}
		s.Row(i)[guess] += 0.6
	}
	fit, err := FitCalibration(s.RowRange(0, n), y[:n], nil, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &Model{Calibration: fit}
	said, hits := 0.0, 0.0
	for i := n; i < 2*n; i++ {
		m.Calibrate(s.Row(i))
		if c := Class(s.Row(i)); c == y[i] {
			hits++
		}
		said += slices.Max(s.Row(i))
	}
	if d := (said - hits) / n; math.Abs(d) > 0.025 { // a standard error of hits is 0.005
		t.Errorf("%.3f right, %.3f said", hits/n, said/n)
	}
}

// plain is the loss of at by its definition.
func (c *calibrating) plain(a float64) float64 {
	loss, k := 0.0, c.z.Cols
	for i, y := range c.classes {
		sum := 0.0
		for j, v := range c.z.Row(i) {
			sum += math.Exp(a*v + c.shift[j])
		}
		for j, v := range c.z.Row(i) {
			target := c.other[y]
			if j == y {
				target = 1 - float64(k-1)*c.other[y]
			}
			loss -= target * (a*v + c.shift[j] - math.Log(sum))
		}
	}
	return loss / float64(len(c.classes))
}

// The two numbers are where the derivatives of the loss vanish, and finite where no row is wrong.
func TestCalibrationLoss(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	z := dense.New[float64](50, 3)
	c := calibrating{z: z, classes: make([]int, 50), other: []float64{0.01, 0.02, 0.03},
		shift: []float64{0.3, 0, -0.7}, targets: make([]float64, 50), tab: kern.Best[float64]()}
	for i := range z.Data {
		z.Data[i] = r.NormFloat64()
	}
	for i := range c.classes {
		c.classes[i] = r.IntN(3)
		z.Row(i)[c.classes[i]]++
	}
	c.aim()
	const h = 1e-5
	for _, a := range []float64{0.3, 1, 4} {
		l, first, second := c.at(a)
		if want := c.plain(a); math.Abs(l-want) > 1e-13*(1+want) {
			t.Errorf("a = %g: loss %.15g, by its definition %.15g", a, l, want)
		}
		below, f0, _ := c.at(a - h)
		above, f1, _ := c.at(a + h)
		if math.Abs((above-below)/(2*h)-first) > 1e-8*(1+l) || math.Abs((f1-f0)/(2*h)-second) > 1e-6 {
			t.Errorf("a = %g: derivatives %g and %g, want %g and %g", a, first, second, (above-below)/(2*h),
				(f1-f0)/(2*h))
		}
	}
	for range 200 { // where classes have the weight of their targets the loss is least in every shift
		c.match(1)
	}
	for k := range c.shift {
		least, _, _ := c.at(1)
		for _, d := range []float64{-0.01, 0.01} {
			c.shift[k] += d
			if l, _, _ := c.at(1); l < least+1e-7 {
				t.Errorf("shift %d moved by %g: loss %.9g, %.9g before", k, d, l, least)
			}
			c.shift[k] -= d
		}
	}
	sure := dense.MustFromRows([][]float64{{1, 0}, {0, 1}, {0.9, 0.1}, {0.2, 0.8}})
	fit, err := FitCalibration(sure, []int{0, 1, 0, 1}, nil, false)
	if err != nil || !(fit[1] < 100) {
		t.Errorf("rows that are all right: %v, %v", fit, err)
	}
	for name, f := range map[string]func() ([]float64, error){
		"shape":  func() ([]float64, error) { return FitCalibration(sure, []int{0}, nil, false) },
		"no row": func() ([]float64, error) { return FitCalibration(dense.New[float64](0, 2), nil, nil, false) },
		"class":  func() ([]float64, error) { return FitCalibration(sure, []int{0, 1, 2, 0}, nil, false) },
		"NaN": func() ([]float64, error) {
			return FitCalibration(dense.MustFromRows([][]float64{{math.NaN(), 0}}), []int{0}, nil, false)
		},
	} {
		if fit, err := f(); err == nil {
			t.Errorf("%s: %v", name, fit)
		}
	}
	for _, s := range []float64{-1e3, -40, -1, 0, 1e-9, 1, 40, 1e3} { // continuous over its cases
		if a, b := logSoft(s, 1), logSoft(math.Nextafter(s, 1e9), 1); math.IsNaN(a) || math.IsInf(a, 0) ||
			math.Abs(a-b) > 1e-9 || a > b+1e-12 {
			t.Errorf("log g(%g) = %g, %g beside it", s, a, b)
		}
	}
}

// A calibrated model predicts probabilities, also in float32 and after being saved.
func TestCalibratedModel(t *testing.T) {
	models, _ := tableModels(t)
	m := models["classes"]
	plain, err := NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	x := dense.New[float64](40, m.Spec.Dim)
	r := rand.New(rand.NewPCG(4, 4))
	for i := range x.Data {
		x.Data[i] = r.NormFloat64()
	}
	scores := dense.New[float64](40, m.Outputs)
	if err := plain.Predict(scores, x, nil); err != nil {
		t.Fatal(err)
	}
	c := *m
	c.Calibration = []float64{0.25, 2}
	var file bytes.Buffer
	if _, err := c.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	back, err := Read(file.Bytes())
	if err != nil || !slices.Equal(back.Calibration, c.Calibration) {
		t.Fatalf("read back: %v, %v", back, err)
	}
	p64, err64 := NewPredictor[float64](back)
	p32, err32 := NewPredictor[float32](back)
	if err := errors.Join(err64, err32); err != nil {
		t.Fatal(err)
	}
	got, single := dense.New[float64](40, m.Outputs), dense.New[float32](40, m.Outputs)
	if err := errors.Join(p64.Predict(got, x, nil), p32.Predict(single, dense.Convert[float32](x), nil)); err != nil {
		t.Fatal(err)
	}
	for i := range x.Rows {
		want, sum := slices.Clone(scores.Row(i)), 0.0
		for k, s := range want {
			want[k] = math.Pow(0.25*math.Log1p(math.Exp(s/0.25)), 2)
			sum += want[k]
		}
		for k := range want {
			if math.Abs(got.At(i, k)-want[k]/sum) > 1e-12 || math.Abs(float64(single.At(i, k))-want[k]/sum) > 1e-4 {
				t.Fatalf("row %d: %v and %v, want %v/%g", i, got.Row(i), single.Row(i), want, sum)
			}
		}
	}
	e, err := back.Evaluation()
	if err != nil || !e.Probable() {
		t.Errorf("probabilities are not known as such: %v", err)
	}
	if _, err := NewTablePredictor(back, TableOptions{Probabilities: true}); err != nil {
		t.Error(err)
	}
	for name, bad := range map[string]func(*Model){
		"length": func(m *Model) { m.Calibration = []float64{1} },
		"zero":   func(m *Model) { m.Calibration = []float64{0, 1} },
		"NaN":    func(m *Model) { m.Calibration = []float64{1, math.NaN()} },
		"task":   func(m *Model) { m.Task, m.Outputs = Regression, 1 },
	} {
		b := c
		if bad(&b); b.Validate() == nil {
			t.Errorf("%s: a model that does not fit together is valid", name)
		}
	}
}

// Scores that tell all classes apart become Platt's targets: with n rows of each of two classes the probability of the
// class is (n+1)/(n+2); with k classes the others have 2/k · 1/(n+2) together, each the same.
func TestCalibrationReachesPlattsTargets(t *testing.T) {
	for _, c := range []struct{ k, n int }{{2, 8}, {2, 30}, {3, 8}} {
		s, y := dense.New[float64](c.k*c.n, c.k), make([]int, c.k*c.n)
		for i := range y {
			y[i] = i % c.k
			s.Set(i, y[i], 1)
		}
		fit, err := FitCalibration(s, y, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		(&Model{Calibration: fit}).Calibrate(s.Row(0))
		other := 2 / float64(c.k) / float64(c.n+2) / float64(c.k-1)
		for j, p := range s.Row(0) {
			want := other
			if j == 0 {
				want = 1 - float64(c.k-1)*other
			}
			if math.Abs(p-want) > 1e-5 {
				t.Errorf("%d classes of %d rows: probability %d is %.6f, want %.6f", c.k, c.n, j, p, want)
			}
		}
	}
}
