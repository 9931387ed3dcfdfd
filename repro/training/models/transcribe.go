package models

import (
	"fmt"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph" // formulas of nodes read as formulas
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/gomlx/layer"
)

// Transcribe returns the letters, numbered from 1, that a trained Conformer hears in sounds of frames × features:
// the likeliest class of every frame without repetitions and blanks.
func (c Config) Transcribe(b compute.Backend, store *model.Store, sounds ...dense.Matrix[float32]) ([][]int32, error) {
	if c.Kind != Conformer {
		return nil, fmt.Errorf("%w: a %s does not hear", ErrConfig, c.Kind)
	}
	exec, err := model.NewExec(b, store, func(scope *model.Scope, sound, valid *Node) *Node {
		scope.Store().SetTraining(sound.Graph(), false)
		return c.Hear(scope, sound, valid)
	})
	if err != nil {
		return nil, err
	}
	defer exec.Finalize()
	var all [][]int32
	for i, s := range sounds {
		if s.Rows < 1 || s.Rows > c.Length || s.Cols != c.Frame {
			return nil, fmt.Errorf("sound %d: %d frames of %d features, the model has %d of %d", i, s.Rows, s.Cols,
				c.Length, c.Frame)
		}
		x, valid := make([]float32, c.Length*c.Frame), make([]bool, c.Length)
		for f := range s.Rows {
			copy(x[f*c.Frame:], s.Row(f))
			valid[f] = true
		}
		out, err := exec.Call(tensors.FromFlatDataAndDimensions(x, 1, c.Length, c.Frame),
			tensors.FromFlatDataAndDimensions(valid, 1, c.Length))
		if err != nil {
			return nil, err
		}
		logits, err := tensors.CopyFlatData[float32](out[0])
		if err != nil {
			return nil, err
		}
		out[0].MustFinalizeAll()
		letters, last := []int32{}, int32(0)
		for f := range (s.Rows + c.pool() - 1) / c.pool() {
			best := layer.Greedy(logits[f*c.Classes:][:c.Classes])
			if best != last && best != 0 {
				letters = append(letters, best)
			}
			last = best
		}
		all = append(all, letters)
	}
	return all, nil
}
