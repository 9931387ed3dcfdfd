package sampling_test

import (
	"errors"
	"math"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/sampling"
)

// fullLoss is the loss of the softmax over all classes.
func fullLoss(q, classes dense.Matrix[float64], target int, i int) float64 {
	sum, own := 0.0, 0.0
	for c := range classes.Rows {
		o := dense.Dot(q.Row(i), classes.Row(c)) / tau
		sum += math.Exp(o)
		if c == target {
			own = o
		}
	}
	return math.Log(sum) - own
}

// With all classes drawn once the loss is that of the full softmax; with more draws with replacement it comes near.
func TestLossTendsToTheFullSoftmax(t *testing.T) {
	const n, d, queries = 80, 5, 400
	classes, q := rows(n, d, 0.9, 40), rows(queries, d, 0.9, 41)
	s := build(t, softmaxSpec(family.OPRF{A: -0.1}, d, 32), classes, sampling.Options{Block: 8})
	targets, want := make([]int, queries), make([]float64, queries)
	for i := range targets {
		targets[i] = i % n
		want[i] = fullLoss(q, classes, targets[i], i)
	}
	l := sampling.Loss[float64]{Tau: tau}
	got := make([]float64, queries)
	var draws sampling.Draws
	if err := s.Draw(&draws, q, sampling.Request{K: n, Distinct: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Forward(got, nil, q, classes, targets, &draws); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Fatalf("query %d: all classes give %g, the full softmax %g", i, got[i], want[i])
		}
	}
	// The corrected sum is unbiased at any K, so its relative error falls like K^-1/2 and that of its logarithm with it.
	last := math.Inf(1)
	for _, k := range []int{4, 64, 1024} {
		if err := s.Draw(&draws, q, sampling.Request{K: k, Seed: 42}); err != nil {
			t.Fatal(err)
		}
		if err := l.Forward(got, nil, q, classes, targets, &draws); err != nil {
			t.Fatal(err)
		}
		var sum stattest.Moments
		rms := 0.0
		for i := range got {
			sum.Add(math.Exp(got[i] - want[i])) // the estimated part of exp(loss) over the true one
			rms += (got[i] - want[i]) * (got[i] - want[i]) / queries
		}
		if z := stattest.Z(sum.Mean(), 1, math.Sqrt(sum.Var()), queries); math.Abs(z) > stattest.Bound(1e-6, 3) {
			t.Errorf("K = %d: partition sums have mean %g, z = %.1f", k, sum.Mean(), z)
		}
		if rms = math.Sqrt(rms); rms > 0.4*last {
			t.Errorf("K = %d: error %g of the loss, %g with a sixteenth of the draws", k, rms, last)
		}
		last = rms
	}
	if last > 0.03 {
		t.Errorf("error %g of the loss with 1024 draws", last)
	}
}

// Gradients are the differences of the loss, for draws of each query and for shared ones.
func TestLossGradients(t *testing.T) {
	const n, d, queries, k = 12, 4, 3, 9 // of 12 classes some draws repeat, and some are the true class
	classes, q := rows(n, d, 0.9, 43), rows(queries, d, 0.9, 44)
	s := build(t, softmaxSpec(family.Positive{}, d, 16), classes, sampling.Options{Block: 4})
	targets := []int{2, 7, 7}
	for _, drawn := range []int{queries, 1} {
		var draws sampling.Draws
		if err := s.Draw(&draws, q.RowRange(0, drawn), sampling.Request{K: k, Seed: 45}); err != nil {
			t.Fatal(err)
		}
		draws.IDs[0] = targets[0]
		l := sampling.Loss[float64]{Tau: tau}
		total := func() float64 {
			loss := make([]float64, queries)
			if err := l.Forward(loss, nil, q, classes, targets, &draws); err != nil {
				t.Fatal(err)
			}
			return loss[0] + 2*loss[1] + 3*loss[2]
		}
		var g sampling.Gradient[float64]
		loss := make([]float64, queries)
		if err := l.Forward(loss, &g, q, classes, targets, &draws); err != nil {
			t.Fatal(err)
		}
		byClass := dense.New[float64](n, d)
		for i := range queries { // factors of single queries
			for j := range g.Class.Row(i) {
				g.Class.Row(i)[j] *= float64(i + 1)
			}
		}
		if err := g.AddClasses(byClass, q, targets, &draws, 1); err != nil {
			t.Fatal(err)
		}
		difference := func(x *float64) float64 {
			const h = 1e-5
			v := *x
			*x = v + h
			a := total()
			*x = v - h
			b := total()
			*x = v
			return (a - b) / (2 * h)
		}
		moved := 0
		for i := range queries {
			for c := range d {
				if got, want := float64(i+1)*g.Query.Row(i)[c], difference(&q.Row(i)[c]); math.Abs(got-want) > 1e-8 {
					t.Errorf("query %d, column %d: %g, differences %g", i, c, got, want)
				}
			}
		}
		for id := range n {
			for c := range d {
				got, want := byClass.Row(id)[c], difference(&classes.Row(id)[c])
				if math.Abs(got-want) > 1e-8 {
					t.Errorf("class %d, column %d: %g, differences %g", id, c, got, want)
				}
				if want != 0 {
					moved++
				}
			}
		}
		if moved < 4*d {
			t.Errorf("only %d derivatives are not zero", moved)
		}
	}
}

func TestLossRefuses(t *testing.T) {
	classes, q := rows(5, 3, 1, 46), rows(2, 3, 1, 47)
	f, err := sampling.NewFixed([]float64{1, 1, 1, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	var d sampling.Draws
	if err := f.Draw(&d, 2, sampling.Request{K: 3}); err != nil {
		t.Fatal(err)
	}
	l, loss := sampling.Loss[float64]{}, make([]float64, 2)
	three := d
	three.IDs = append(d.IDs[:6:6], 0, 0, 0)
	bare := d
	bare.LogCount = nil
	for what, err := range map[string]error{
		"targets": l.Forward(loss, nil, q, classes, []int{1}, &d),
		"unknown": l.Forward(loss, nil, q, classes, []int{1, 5}, &d),
		"columns": l.Forward(loss, nil, rows(2, 4, 1, 48), classes, []int{1, 2}, &d),
		"draws":   l.Forward(loss, nil, q, classes, []int{1, 2}, &three),
		"bare":    l.Forward(loss, nil, q, classes, []int{1, 2}, &bare),
		"tau":     sampling.Loss[float64]{Tau: -1}.Forward(loss, nil, q, classes, []int{1, 2}, &d),
	} {
		if !errors.Is(err, dense.ErrShape) && !errors.Is(err, sampling.ErrRequest) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
