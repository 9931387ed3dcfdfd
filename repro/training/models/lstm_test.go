package models_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/repro/training/models"
)

// With every token drawn the same number of times a sampled softmax is the softmax over all: the corrected sum has
// every other token exactly once.
func TestSampledSoftmaxOfAllIsSoftmax(t *testing.T) {
	c := models.Config{Kind: models.LSTM, Vocab: 13, Length: 6, Layers: 2, Width: 8, Heads: 1}
	x := tensors.FromFlatDataAndDimensions(tokens(12), 2, 6)
	y := tensors.FromFlatDataAndDimensions(tokens(13)[1:], 2, 6)
	all, logs := make([]int32, 39), make([]float32, 39)
	for i := range all {
		all[i], logs[i] = int32(i%13), float32(math.Log(3))
	}
	want := outcome(t, c, x, y)
	// The true token stands there once, the others three times each a third.
	own := tensors.FromFlatDataAndDimensions(make([]float32, 12), 2, 6)
	drawn, drawnLog := tensors.FromFlatDataAndDimensions(all, 39), tensors.FromFlatDataAndDimensions(logs, 39)
	got := outcome(t, c, x, y, drawn, drawnLog, own)
	if math.Abs(float64(got[0]-want[0])) > 1e-4*float64(want[0]) {
		t.Errorf("loss %g, softmax over all has %g", got[0], want[0])
	}
	if want[0] < 12*2 || want[0] > 12*4 {
		t.Errorf("loss %g of 12 tokens", want[0])
	}
}

// Draws for every position that are the same everywhere are shared draws.
func TestDrawsOfPositions(t *testing.T) {
	c := models.Config{Kind: models.LSTM, Vocab: 13, Length: 6, Layers: 1, Width: 8, Heads: 1, Gain: 2}
	x := tensors.FromFlatDataAndDimensions(tokens(12), 2, 6)
	y := tensors.FromFlatDataAndDimensions(tokens(13)[1:], 2, 6)
	own := tensors.FromFlatDataAndDimensions(make([]float32, 12), 2, 6)
	ids, logs := []int32{3, 1, 4, 1, 5}, []float32{0.5, -1, 0, 2, 1}
	drawn, drawnLog := tensors.FromFlatDataAndDimensions(ids, 5), tensors.FromFlatDataAndDimensions(logs, 5)
	want := outcome(t, c, x, y, drawn, drawnLog, own)
	var all []int32
	var allLogs []float32
	for range 12 {
		all, allLogs = append(all, ids...), append(allLogs, logs...)
	}
	got := outcome(t, c, x, y, tensors.FromFlatDataAndDimensions(all, 2, 6, 5),
		tensors.FromFlatDataAndDimensions(allLogs, 2, 6, 5), own)
	if math.Abs(float64(got[0]-want[0])) > 1e-5*float64(want[0]) {
		t.Errorf("loss %g, shared draws have %g", got[0], want[0])
	}
	c.Gain = 0
	if plain := outcome(t, c, x, y, drawn, drawnLog, own); plain[0] == want[0] {
		t.Error("the gain changes nothing")
	}
}
