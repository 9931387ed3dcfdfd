package tabular

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/machine"
)

func TestNystromAsAsked(t *testing.T) {
	for _, kind := range []machine.Kind{machine.KindRidge, machine.KindGP} {
		m, r := mustFit(t, waves(400, 2), Options{Kind: kind, Learn: learn("y"), Map: MapNystrom, Features: 60,
			Folds: 1})
		if !family.InfoOf(m.Spec.Family).KernelColumns || m.Weights.Rows != 60 ||
			choice(t, r, "map").Value != MapNystrom ||
			choice(t, r, "lambda").Number != m.Lambda || choice(t, r, "bandwidth").Number != m.Spec.Kernel.Scale {
			t.Errorf("%s: %d features of %s, %+v", kind, m.Weights.Rows, m.Spec.Family.Name(), r.Choices)
		}
		if rmse := evaluate(t, m, waves(4000, 3))[0].Value; rmse > 0.36 { // the noise is 0.3
			t.Errorf("%s: RMSE %g", kind, rmse)
		}
	}
}

// Beyond the rows of an exact kernel, and without an option of random features, landmarks are the map.
func TestMapIsChosen(t *testing.T) {
	old := exactRows
	defer func() { exactRows = old }()
	exactRows = 100
	o := Options{Learn: learn("y"), Sample: 300}
	m, r := mustFit(t, waves(500, 1), o)
	if !family.InfoOf(m.Spec.Family).KernelColumns || choice(t, r, "map").Value != MapNystrom ||
		choice(t, r, "features").Number != float64(m.Weights.Rows) {
		t.Errorf("%+v", r.Choices)
	}
	procs := runtime.GOMAXPROCS(1)
	again, _ := mustFit(t, waves(500, 1), o)
	runtime.GOMAXPROCS(procs)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
		t.Error("other bytes with one goroutine")
	}
}
