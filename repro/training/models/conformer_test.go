package models_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat/repro/training/models"
)

// Frames that are not valid change nothing, those that are do, also where frames are averaged and a row has frames of
// both kinds; rows of no letters do not count.
func TestConformer(t *testing.T) {
	for _, pool := range []int{0, 4} {
		for _, attention := range []string{"exact", "oprf:orthogonal:8"} {
			conformer(t, models.Config{Kind: models.Conformer, Length: 12, Frame: 3, Layers: 1, Width: 8, Heads: 2,
				Hidden: 16, Classes: 4, Attention: attention, Pool: pool})
		}
	}
}

func conformer(t *testing.T, c models.Config) {
	{
		attention := c.Attention
		run := func(at int) []float32 {
			sound, valid := make([]float32, 2*12*3), make([]bool, 24)
			for i := range sound {
				sound[i] = float32(math.Sin(float64(i)))
			}
			if at >= 0 {
				sound[at*3] += 2
			}
			for i := range valid {
				valid[i] = i%12 < 9
			}
			return outcome(t, c, tensors.FromFlatDataAndDimensions(sound, 2, 12, 3),
				tensors.FromFlatDataAndDimensions([]int32{3, 1, -1, -1}, 2, 2),
				tensors.FromFlatDataAndDimensions(valid, 2, 12))
		}
		plain := run(-1)
		if plain[1] != 2 || !(plain[0] > 0) {
			t.Errorf("%s: loss %g of %g letters", attention, plain[0], plain[1])
		}
		if x := run(10); math.Abs(float64(x[0]-plain[0])) > 1e-5 {
			t.Errorf("%s: a frame that is not valid changes %g to %g", attention, plain[0], x[0])
		}
		if run(4)[0] == plain[0] {
			t.Errorf("%s: a valid frame changes nothing", attention)
		}
	}
}
