package tabular

import (
	"fmt"
	"slices"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/machine"
)

// held keeps predictions of rows by models that have not seen them. The scores of classes are calibrated on these.
// Its memory is bounded. The part of a row tells which model predicted it.
type held struct {
	width int       // scores of a row
	worth []float64 // weights of the classes, besides those of rows; nil: 1
	// shifted says that classes have weights, here or in the weights of rows. Such weights move the border between
	// classes.
	shifted  bool
	weighted bool // rows have weights
	rows     []heldRow
	scores   []float64
	step     int64 // every step-th row is kept
	n        int64 // rows seen
}

type heldRow struct {
	part, class int
	weight      float64
}

const (
	maxHeld = 1 << 20 // largest number of scores kept, 8 MiB; with more rows every 2nd, 4th, … is kept
	// calibrationCells bounds the scores that a calibration reads: more do not improve its two parameters.
	calibrationCells = 1 << 16
)

// newHeld returns the store for predictions that e judges. It returns nil, which keeps nothing, if the scores are
// probabilities already.
func newHeld(j *job, e *machine.Evaluation) *held {
	if j.task != machine.Classification || e.Probable() {
		return nil
	}
	return &held{width: j.outputs, worth: j.o.ClassWeights, shifted: j.o.ClassWeights != nil,
		weighted: j.weights != nil, step: 1}
}

// add keeps predicted rows; weights may be nil.
func (h *held) add(part int, y, pred dense.Matrix[float64], weights []float64) {
	if h == nil {
		return
	}
	for i := range pred.Rows {
		if h.n%h.step == 0 {
			w := 1.0
			if weights != nil {
				w = weights[i]
			}
			h.rows = append(h.rows, heldRow{part, int(y.At(i, 0)), w})
			h.scores = append(h.scores, pred.Row(i)...)
		}
		if h.n++; len(h.scores) > maxHeld && len(h.rows) > 1 {
			kept := (len(h.rows) + 1) / 2
			for j := range kept {
				h.rows[j] = h.rows[2*j]
				copy(h.scores[j*h.width:(j+1)*h.width], h.scores[2*j*h.width:])
			}
			h.rows, h.scores, h.step = h.rows[:kept], h.scores[:kept*h.width], 2*h.step
		}
	}
}

func (h *held) fitCalibration(scores dense.Matrix[float64], classes []int, weights []float64) ([]float64, error) {
	return machine.FitCalibration(scores, classes, weights, h.shifted)
}

func (h *held) row(i int) []float64 { return h.scores[i*h.width : (i+1)*h.width] }

// calibration fits a calibration to the rows that use accepts, or to evenly spaced ones of them if they are many.
func (h *held) calibration(use func(i int) bool) ([]float64, error) {
	var at []int
	for i := range h.rows {
		if use(i) {
			at = append(at, i)
		}
	}
	step := max(1, (len(at)*h.width+calibrationCells-1)/calibrationCells)
	n := (len(at) + step - 1) / step
	scores, classes, weights := dense.New[float64](n, h.width), make([]int, n), make([]float64, n)
	for j := range n {
		i := at[j*step]
		copy(scores.Row(j), h.row(i))
		classes[j], weights[j] = h.rows[i].class, h.rows[i].weight
		if h.worth != nil { // probabilities are those of the weighted rows, as in logistic regression
			weights[j] *= h.worth[classes[j]]
		}
	}
	return h.fitCalibration(scores, classes, weights)
}

// calibrate gives the model probabilities, fitted to held-out rows that the model, or a model of its settings, has
// predicted. The same rows are then scored with probabilities calibrated on other rows (every fifth row by the rows in
// between). Two parameters fitted to the rows they are scored on would be slightly too good. evals are the scores by
// part; parts without held rows have their own probabilities.
func (h *held) calibrate(m *machine.Model, evals []*machine.Evaluation) ([]*machine.Evaluation, error) {
	if h == nil {
		return evals, nil
	}
	var err error
	if m.Calibration, err = h.calibration(func(int) bool { return true }); err != nil {
		return nil, fmt.Errorf("probabilities: %w", err)
	}
	judged, err := h.judged(m, evals)
	if err != nil || h.step == 1 || h.worth != nil { // class weights move classes
		return judged, err
	}
	// Not all rows were kept, so take the counts from the evaluations of all rows.
	for k, e := range evals {
		if judged[k] == e {
			continue
		}
		if err := e.TakeProbabilities(judged[k]); err != nil {
			return nil, err
		}
	}
	return evals, nil
}

// judged evaluates the rows with probabilities that were calibrated on other rows.
func (h *held) judged(m *machine.Model, evals []*machine.Evaluation) ([]*machine.Evaluation, error) {
	fifths := [5]*machine.Model{}
	for k := range fifths {
		part, err := h.calibration(func(i int) bool { return i%len(fifths) != k || len(h.rows) == 1 })
		if err != nil {
			return nil, fmt.Errorf("probabilities: %w", err)
		}
		fifths[k] = &machine.Model{Calibration: part}
	}
	out := slices.Clone(evals)
	for _, r := range h.rows {
		if out[r.part] != evals[r.part] {
			continue
		}
		var err error
		if out[r.part], err = m.Evaluation(); err != nil {
			return nil, err
		}
	}
	p, y := dense.New[float64](1, h.width), dense.New[float64](1, 1)
	for i, r := range h.rows {
		copy(p.Row(0), h.row(i))
		fifths[i%len(fifths)].Calibrate(p.Row(0))
		y.Set(0, 0, float64(r.class))
		var weight []float64
		if h.weighted {
			weight = []float64{r.weight}
		}
		if err := out[r.part].AddWeighted(y, p, dense.Matrix[float64]{}, weight); err != nil {
			return nil, err
		}
	}
	return out, nil
}
