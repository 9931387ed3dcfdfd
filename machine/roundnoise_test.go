package machine

import (
	"math"
	"testing"
)

func TestRoundNoise(t *testing.T) {
	e := Explanation{Prediction: 10, Mean: 8, Parts: []Contribution{{Part: -1.388e-17, Low: -3e-12, High: 1e-17}}}
	e.roundNoise()
	if p := e.Parts[0]; p.Part != 0 || math.Signbit(p.Part) || p.Low != 0 || p.High != 0 {
		t.Errorf("%+v", p)
	}
	e.Parts[0].Part = 1e-10
	if e.roundNoise(); e.Parts[0].Part != 1e-10 {
		t.Errorf("%+v", e.Parts)
	}
}
