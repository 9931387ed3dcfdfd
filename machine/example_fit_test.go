package machine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// wave is n rows of a sine between 0 and 10, with a disturbance that looks like noise.
func wave(n int) (x, y dense.Matrix[float64]) {
	x, y = dense.New[float64](n, 1), dense.New[float64](n, 1)
	for i := range n {
		t := 10 * math.Mod(float64(i)*math.Phi, 1)
		x.Set(i, 0, t)
		y.Set(i, 0, math.Sin(t)+0.2*math.Sin(float64(i*i)))
	}
	return x, y
}

// waveSetup is a machine of 100 random features for the rows of wave.
func waveSetup() machine.Setup {
	return machine.Setup{Outputs: 1, Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 0.5}, Family: family.Trig{},
		Coupling: coupling.Sobol{}, Dim: 1, M: 50, Seed: 1}}
}

// predictAll returns the predictions of a model with one output.
func predictAll(m *machine.Model, x dense.Matrix[float64]) dense.Matrix[float64] {
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		panic(err)
	}
	out := dense.New[float64](x.Rows, 1)
	if err := p.Predict(out, x, nil); err != nil {
		panic(err)
	}
	return out
}

// predict returns the prediction for one row.
func predict(m *machine.Model, row ...float64) float64 {
	return predictAll(m, dense.MustFromRows([][]float64{row})).At(0, 0)
}

// Kernel ridge regression without random features, in three ways: by a matrix of all rows, by conjugate gradients for
// more rows than such a matrix allows, and with some rows as landmarks, for any number of rows.
func ExampleFitExact() {
	x, y := wave(300)
	s, lambda := waveSetup(), 0.1
	exact, err := machine.FitExact(s, x, y, lambda)
	if err != nil {
		panic(err)
	}
	iterative, done, err := machine.FitExactIterative(s, x, y, lambda, machine.Iterative{Tolerance: 1e-8})
	if err != nil || !done.Converged {
		panic(err)
	}

	s.Spec.Family = family.Landmarks{}
	var chosen []int
	if chosen, s.Omega, err = machine.Landmarks(s.Spec.Kernel, x, 20, 1); err != nil {
		panic(err)
	}
	s.Spec.M = len(chosen)
	rows, err := machine.MatrixRows(x, y)
	if err != nil {
		panic(err)
	}
	landmarks, report, err := machine.FitIterative(s, rows, lambda, machine.Iterative{})
	if err != nil || !report.Converged {
		panic(err)
	}
	for _, m := range []*machine.Model{exact, iterative, landmarks} {
		fmt.Printf("%d kernels in the model, prediction %.3f\n", m.Weights.Rows, predict(m, math.Pi/2))
	}
	// Output:
	// 300 kernels in the model, prediction 1.031
	// 300 kernels in the model, prediction 1.031
	// 20 kernels in the model, prediction 1.030
}

// Workers sum their rows, whatever the kind of model; the sums travel as bytes and merge into those of all rows. Sums
// of another map and damaged bytes are told apart.
func ExampleSums() {
	x, y := wave(400)
	s := waveSetup()
	for _, kind := range []machine.Kind{machine.KindRidge, machine.KindGP, machine.KindSmoother} {
		var all machine.Sums
		for worker := range 4 {
			part, err := machine.NewSums(kind, s)
			if err != nil {
				panic(err)
			}
			lo, hi := 100*worker, 100*(worker+1)
			if err := part.Add(x.RowRange(lo, hi), y.RowRange(lo, hi)); err != nil {
				panic(err)
			}
			sent, err := part.AppendBinary(nil)
			if err != nil {
				panic(err)
			}
			received, err := part.Like()
			if err == nil {
				err = received.Read(bytes.NewReader(sent), int64(len(sent)))
			}
			if err != nil {
				panic(err)
			}
			if all == nil {
				all = received
			} else if err := all.Merge(received); err != nil {
				panic(err)
			}
		}
		model, err := all.Model(0.1)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-8s %d rows, prediction %.2f\n", kind, all.Len(), predict(model, math.Pi/2))
	}

	mine, err := machine.NewRidge(s)
	if err != nil {
		panic(err)
	}
	s.Spec.Seed++
	other, err := machine.NewRidge(s)
	if err != nil {
		panic(err)
	}
	fmt.Println("another seed:", errors.Is(mine.Merge(other), machine.ErrMismatch))
	err = mine.Read(bytes.NewReader([]byte("not sums")), 8)
	fmt.Println("other bytes:", errors.Is(err, machine.ErrCorrupt))
	// Output:
	// ridge    400 rows, prediction 1.02
	// gp       400 rows, prediction 1.02
	// smoother 400 rows, prediction 0.87
	// another seed: true
	// other bytes: true
}

// A density model scores rows by how common they are. Scores of rows that it has not seen make the scale: the anomaly
// of a row is the share of them that are more common.
func ExampleCalibration() {
	x, _ := wave(1000)
	for i, v := range x.Data {
		x.Data[i] = v/5 - 1 // from −1 to 1
	}
	sums, err := machine.NewSums(machine.KindDensity, machine.Setup{Task: machine.Unsupervised,
		Spec: randfeat.Spec{Kernel: kernel.Kernel{Scale: 0.5}, Family: family.Positive{}, Coupling: coupling.Sobol{},
			Dim: 1, M: 64, Seed: 1}})
	if err != nil {
		panic(err)
	}
	if err := sums.Add(x.RowRange(0, 700), dense.Matrix[float64]{}); err != nil {
		panic(err)
	}
	model, err := sums.Model(0)
	if err != nil {
		panic(err)
	}
	var unseen machine.Calibration
	for _, score := range predictAll(model, x.RowRange(700, 1000)).Data {
		unseen.Add(score)
	}
	model.Quantiles = unseen.Quantiles()
	for _, at := range []float64{0, 0.99, 1.5} {
		fmt.Printf("anomaly at %v: %.2f\n", at, model.Anomaly(predict(model, at)))
	}
	// Output:
	// anomaly at 0: 0.06
	// anomaly at 0.99: 0.99
	// anomaly at 1.5: 1.00
}

// Scores of ridge regression on classes are not probabilities: they may be negative, and the penalty shrinks them. Two
// numbers, fitted to out-of-fold scores, correct that.
func ExampleFitCalibration() {
	scores, classes := dense.New[float64](200, 2), make([]int, 200)
	for i := range classes {
		classes[i] = i % 2
		margin := 0.1 // shrunk, although only every tenth row is wrong
		if i%20 < 2 {
			margin = -0.1
		}
		scores.Set(i, classes[i], 0.5+margin)
		scores.Set(i, 1-classes[i], 0.5-margin)
	}
	parameters, err := machine.FitCalibration(scores, classes, nil, false)
	if err != nil {
		panic(err)
	}
	model := &machine.Model{Calibration: parameters}
	row := []float64{0.6, 0.4}
	model.Calibrate(row)
	fmt.Printf("scores 0.6 and 0.4 are probabilities of %.2f and %.2f\n", row[0], row[1])

	classes[7] = 2
	_, err = machine.FitCalibration(scores, classes, nil, false)
	fmt.Println(errors.Is(err, machine.ErrClass), err)
	// Output:
	// scores 0.6 and 0.4 are probabilities of 0.89 and 0.11
	// true class 2 of 2: no such class
}

// Prediction intervals come from errors on rows that the model has not seen. One shop sells more evenly than the other,
// so intervals by shop are narrower for it. A third shop has too few rows for intervals of its own.
func ExampleResiduals() {
	schema := &data.Schema{Fields: []data.Field{{Name: "shop", Kind: data.Categorical,
		Levels: []string{"even", "wild", "new"}}}}
	model := &machine.Model{Kind: machine.KindRidge, Task: machine.Regression, Outputs: 1, Schema: schema}
	all, shops := new(machine.Residuals), []*machine.Residuals{{}, {}, {}}
	for i := range 2*200 + machine.LeastGroup - 1 {
		shop := i / 200
		noise := []float64{1, 10, 1}[shop] * math.Sin(float64(i*i))
		y, prediction := dense.MustFromRows([][]float64{{100 + noise}}), dense.MustFromRows([][]float64{{100}})
		all.Add(y, prediction, dense.Matrix[float64]{}, nil)
		shops[shop].Add(y, prediction, dense.Matrix[float64]{}, nil)
	}
	model.Residuals = all.Quantiles()
	if err := model.SetGroups("shop", shops); err != nil {
		panic(err)
	}
	for group, name := range schema.Fields[0].Levels {
		low, high, err := model.IntervalOf(group, 0, 0.9)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: 90 %% of sales are between %.0f and %.0f\n", name, 100+low, 100+high)
	}
	// Output:
	// even: 90 % of sales are between 99 and 101
	// wild: 90 % of sales are between 90 and 110
	// new: 90 % of sales are between 90 and 110
}

// A Gaussian process with too few features has used them up: its variance between the rows is too small. Path shows it
// before a prediction does. Many features of few rows are singular without a penalty.
func ExampleRidge_Path() {
	x, y := wave(300)
	s := waveSetup()
	for _, m := range []int{10, 20, 40, 80} {
		s.Spec.M = m
		r, err := machine.NewRidge(s)
		if err == nil {
			err = r.Add(x, y)
		}
		if err != nil {
			panic(err)
		}
		path, err := r.Path([]float64{0.1})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d features: saturation %.2f, reliable: %v\n", r.Features(), path[0].Saturation,
			path[0].Saturation < machine.Saturated)
		if _, err = r.Model(0); m == 80 {
			fmt.Println("singular without a penalty:", errors.Is(err, machine.ErrSingular))
		}
	}
	// Output:
	// 20 features: saturation 0.64, reliable: false
	// 40 features: saturation 0.36, reliable: false
	// 80 features: saturation 0.24, reliable: true
	// 160 features: saturation 0.12, reliable: true
	// singular without a penalty: true
}

// A long fit is stopped, its state is saved, and another process continues it. The model has the same bytes as that of
// a fit without a break.
func ExampleLogisticState() {
	x, y := wave(300)
	for i := range y.Data {
		y.Data[i] = math.Round((1 + y.Data[i]) / 2) // classes 0 and 1
		y.Data[i] = min(max(y.Data[i], 0), 1)
	}
	rows, err := machine.MatrixRows(x, y)
	if err != nil {
		panic(err)
	}
	s := waveSetup()
	s.Task, s.Outputs = machine.Classification, 2
	fit := func(o machine.LogisticOptions) ([]byte, error) {
		m, _, err := machine.FitLogistic(s, rows, o)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		_, err = m.WriteTo(&b)
		return b.Bytes(), err
	}
	whole, err := fit(machine.LogisticOptions{})
	if err != nil {
		panic(err)
	}

	var saved []byte
	stop := errors.New("stopped")
	_, err = fit(machine.LogisticOptions{Step: func(at *machine.LogisticState) (err error) {
		if at.Iterations == 5 {
			saved, err = json.Marshal(at)
			return errors.Join(stop, err)
		}
		return nil
	}})
	fmt.Println(errors.Is(err, stop), len(saved) > 0)
	state := new(machine.LogisticState)
	if err := json.Unmarshal(saved, state); err != nil {
		panic(err)
	}
	continued, err := fit(machine.LogisticOptions{Start: state})
	fmt.Println(bytes.Equal(continued, whole), err)
	// Output:
	// true true
	// true <nil>
}

// The error of a model on new rows, by cross-validation: three models, each scored on rows that it has not seen. The
// interval is for one more model, so it is wider than that of rows alone.
func ExampleScoresOfModels() {
	x, y := wave(300)
	var folds []*machine.Evaluation
	for fold := range 3 {
		r, err := machine.NewRidge(waveSetup())
		if err != nil {
			panic(err)
		}
		var held []int
		for i := range x.Rows {
			if i%3 == fold {
				held = append(held, i)
			} else if err := r.Add(x.RowRange(i, i+1), y.RowRange(i, i+1)); err != nil {
				panic(err)
			}
		}
		model, err := r.Model(0.1)
		if err != nil {
			panic(err)
		}
		e, err := model.Evaluation()
		if err == nil {
			err = e.Add(y.Pick(held), predictAll(model, x.Pick(held)), dense.Matrix[float64]{})
		}
		if err != nil {
			panic(err)
		}
		folds = append(folds, e)
	}
	all, scores, err := machine.ScoresOfModels(folds)
	if err != nil {
		panic(err)
	}
	fmt.Println(all.Len(), "rows")
	for _, s := range [][]machine.Score{all.Scores(), scores} {
		fmt.Printf("%s %.3f, 95 %% interval %.2f to %.2f\n", s[0].Name, s[0].Value, s[0].Low, s[0].High)
	}
	// Output:
	// 300 rows
	// RMSE 0.149, 95 % interval 0.14 to 0.16
	// RMSE 0.149, 95 % interval 0.13 to 0.17
}
