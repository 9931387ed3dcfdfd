package linear

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/kernel"
)

// bombMap is a map that panics in one of its calls.
type bombMap struct {
	*randfeat.Map[float32]
	calls, at *atomic.Int64
}

var errBomb = errors.New("bomb")

func (m bombMap) tick() {
	if m.calls.Add(1) == m.at.Load() {
		time.Sleep(5 * time.Millisecond) // others come to wait for these features
		panic(errBomb)
	}
}

func (m bombMap) QueriesScaled(dst dense.Matrix[float32], col []float32, shift []float64, x dense.Matrix[float32],
	ws *randfeat.Workspace[float32]) error {
	m.tick()
	return m.Map.QueriesScaled(dst, col, shift, x, ws)
}

func (m bombMap) KeysScaled(dst dense.Matrix[float32], col []float32, shift []float64, x dense.Matrix[float32],
	ws *randfeat.Workspace[float32]) error {
	m.tick()
	return m.Map.KeysScaled(dst, col, shift, x, ws)
}

func (m bombMap) QueriesVJP(dx, dphi, phi, x dense.Matrix[float32], col []float32, shift []float64,
	g *randfeat.Grad[float32], ws *randfeat.Workspace[float32]) error {
	m.tick()
	return m.Map.QueriesVJP(dx, dphi, phi, x, col, shift, g, ws)
}

// A panic in any call of the map ends both passes, however many workers wait for what it would have computed, and the
// Attention works afterwards.
func TestPanicsOfWorkersReachTheCaller(t *testing.T) {
	stattest.SkipRace(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	const d, dv, n = 8, 8, 2048
	m, err := randfeat.New[float32](randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
		Family: family.Positive{}, Dim: d, M: 512, Seed: 1})
	must(t, err)
	bomb := bombMap{m, new(atomic.Int64), new(atomic.Int64)}
	q, k := normals[float32](1, 1, n, d, 0.5, 1), normals[float32](1, 1, n, d, 0.5, 2)
	v, dout := normals[float32](1, 1, n, dv, 1, 3), normals[float32](1, 1, n, dv, 1, 4)
	out, dq := attention.NewSeq[float32](1, 1, n, dv), attention.NewSeq[float32](1, 1, n, d)
	dk, dvs := attention.NewSeq[float32](1, 1, n, d), attention.NewSeq[float32](1, 1, n, dv)
	for _, window := range []int{0, 64} {
		for _, causal := range []bool{false, true} {
			a := &Attention[float32]{Maps: []randfeat.FeatureMap[float32]{bomb}, Window: window}
			a.Visibility.Causal = causal
			both := func(at int64) (calls int64, p *par.Panic) {
				bomb.calls.Store(0)
				bomb.at.Store(at)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					p = par.Catch(func() {
						_, err := a.Forward(out, q, k, v)
						if err == nil {
							_, err = a.Backward(dq, dk, dvs, dout, out, q, k, v, nil)
						}
						if err != nil {
							t.Error(err)
						}
					})
				}()
				select {
				case <-ended:
				case <-time.After(time.Minute):
					t.Fatalf("window %d, causal %v: call %d panicked, and all wait", window, causal, at)
				}
				return bomb.calls.Load(), p
			}
			all, p := both(0)
			if p != nil || all < 10 {
				t.Fatalf("%d calls, %v", all, p)
			}
			for at := int64(1); at <= all; at += 1 + all/16 {
				if _, p := both(at); !errors.Is(p, errBomb) {
					t.Errorf("window %d, causal %v: call %d of %d panicked, the caller got %v", window, causal, at,
						all, p)
				}
			}
			if _, p := both(0); p != nil {
				t.Errorf("after panics: %v", p)
			}
		}
	}
}

// The step that adds exact gradients ends the waits of its workers after a panic: a block that waits for those before
// it looks at relay.stop.
func TestExactGradientsReleaseWaits(t *testing.T) {
	var g gang[float32]
	par.Waiter((*exactGradients[float32])(&g)).Release()
	if g.relay.stop.Load() == 0 {
		t.Error("workers go on waiting")
	}
}
