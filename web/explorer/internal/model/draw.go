package model

import (
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
)

// DrawRequest asks for projections of a coupling in the plane or in space.
type DrawRequest struct {
	Coupling string `json:"coupling"`
	Dim      int    `json:"dim"` // 2 or 3
	Rows     int    `json:"rows"`
	Seed     uint64 `json:"seed"`
}

// Drawn are projections, one per row.
type Drawn struct {
	Rows [][]float64 `json:"rows"`
	// Block is how many rows are drawn together: angles within a block are what couplings are about. 0: all of them.
	Block int `json:"block"`
	// Cosines are those of the angles between rows of the first block, pair by pair.
	Cosines []float64 `json:"cosines"`
}

const maxDrawn = 256

func (r DrawRequest) draw() (*Drawn, error) {
	if r.Dim != 2 && r.Dim != 3 || r.Rows < 1 || r.Rows > maxDrawn {
		return nil, fmt.Errorf("%d projections in dimension %d, want 1 to %d in 2 or 3", r.Rows, r.Dim, maxDrawn)
	}
	c, err := coupling.Parse(r.Coupling)
	if err != nil {
		return nil, err
	}
	w, err := c.Sample(r.Rows, r.Dim, coupling.Law{}, rng.Stream(r.Seed, 0))
	if err != nil {
		return nil, err
	}
	out := new(Drawn)
	if coupling.InfoOf(c).Blocks {
		out.Block = r.Dim
	}
	for i := range w.Rows.Rows {
		out.Rows = append(out.Rows, append([]float64(nil), w.Rows.Row(i)...))
	}
	for i := range min(r.Rows, r.Dim) {
		for j := range i {
			a, b := out.Rows[j], out.Rows[i]
			out.Cosines = append(out.Cosines, dense.Dot(a, b)/math.Sqrt(dense.Norm2(a)*dense.Norm2(b)))
		}
	}
	return out, nil
}

// Measured is the error of many draws of the chosen estimator at the pair of the state, beside the closed forms.
type Measured struct {
	Row
	Draws   int    `json:"draws"`
	Mean    Number `json:"mean"`   // of the estimate over the kernel
	MeanErr Number `json:"meanSE"` // its standard error
	MSE     Number `json:"mse"`    // log10 of the mean squared error relative to the squared kernel
	MSELow  Number `json:"mseLow"` // and of the ends of its interval, ± two standard errors
	MSEHigh Number `json:"mseHigh"`
}

// MeasureRequest asks for draws of the state's estimator.
type MeasureRequest struct {
	State
	Draws int `json:"draws"`
}

const maxDraws = 10_000

func (m *Model) measure(r MeasureRequest) (*Measured, error) {
	if r.Draws < 2 || r.Draws > maxDraws {
		return nil, fmt.Errorf("%d draws, want 2 to %d", r.Draws, maxDraws)
	}
	set, err := m.parse(r.State)
	if err != nil {
		return nil, err
	}
	f, fit, err := set.chosen()
	if err != nil {
		return nil, err
	}
	e := m.prepare(set, f, fit, false)
	if e.form == nil {
		return nil, fmt.Errorf("%s", e.row.Reason)
	}
	x, y := set.pair(r.QueryLen, r.KeyLen, r.Angle)
	mx, my := dense.New[float64](1, r.Dim), dense.New[float64](1, r.Dim)
	copy(mx.Data, x)
	copy(my.Data, y)
	logKernel := e.spec.Target().Log(x, y)
	out := &Measured{Row: e.at(x, y), Draws: r.Draws}
	var mean, squares, fourth float64
	gram, scale := dense.New[float64](1, 1), [2][]float64{make([]float64, 1), make([]float64, 1)}
	for i := range r.Draws {
		phi, err := randfeat.New[float64](e.spec.WithSeed(r.Seed + uint64(i)))
		if err != nil {
			return nil, err
		}
		q, k := dense.New[float64](1, phi.OutDim()), dense.New[float64](1, phi.OutDim())
		phi.Queries(q, scale[0], mx, nil)
		phi.Keys(k, scale[1], my, nil)
		gram.Data[0] = dense.Dot(q.Data, k.Data)
		ratio := gram.Data[0] * math.Exp(scale[0][0]+scale[1][0]-logKernel)
		mean += ratio
		d := (ratio - 1) * (ratio - 1)
		squares += d
		fourth += d * d
	}
	n := float64(r.Draws)
	mean, squares, fourth = mean/n, squares/n, fourth/n
	se := math.Sqrt(max(0, fourth-squares*squares) / n)
	out.Mean, out.MeanErr = Number(mean), Number(math.Sqrt(max(0, squares-(mean-1)*(mean-1))/n))
	out.MSE, out.MSELow, out.MSEHigh = Number(math.Log10(squares)), Number(math.Log10(squares-2*se)),
		Number(math.Log10(squares+2*se))
	return out, nil
}
