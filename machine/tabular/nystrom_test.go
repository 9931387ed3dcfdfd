package tabular

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/randfeat/randfeat/data"
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

// Beyond the rows of an exact kernel, random features and landmarks are tried in the same time.
func TestMapIsChosen(t *testing.T) {
	old := exactRows
	defer func() { exactRows = old }()
	exactRows = 200
	src, o := board(1000, 1), Options{Learn: data.LearnOptions{Targets: []string{"class"}}, Folds: 1, Sample: 600}
	m, r := mustFit(t, src, o)
	ch := choice(t, r, "map")
	if len(ch.Trials) != 3 || choice(t, r, "features").Number != float64(m.Weights.Rows) ||
		choice(t, r, "bandwidth").Number != m.Spec.Kernel.Scale || choice(t, r, "lambda").Number != m.Lambda ||
		(ch.Value == MapNystrom) != family.InfoOf(m.Spec.Family).KernelColumns {
		t.Errorf("%+v", r.Choices)
	}
	got := evaluate(t, m, board(3000, 2))[0].Value
	t.Logf("%s: accuracy %.3f, %+v", ch.Value, got, ch.Trials)
	if got < 0.85 {
		t.Errorf("accuracy %.3f", got)
	}
	if testing.Short() {
		return
	}
	procs := runtime.GOMAXPROCS(1)
	again, _ := mustFit(t, src, o)
	runtime.GOMAXPROCS(procs)
	if !bytes.Equal(modelBytes(t, m), modelBytes(t, again)) {
		t.Error("other bytes with one goroutine")
	}
}
