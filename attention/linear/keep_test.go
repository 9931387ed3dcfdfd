package linear

import (
	"fmt"
	"math"
	"testing"

	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/par"
)

// A mask that leaves out no key changes nothing but that features are not kept from sweep to sweep: both ways give the
// same gradients, also where references are raised inside of a segment, queries have no key, or come after all keys.
func TestBackwardKeeps(t *testing.T) {
	const d, m = 6, 24
	for _, f := range []family.Family{family.Positive{}, family.ReLU{}} {
		for _, c := range []struct {
			lenQ, lenK, heads int
			scale             float64
			spoilt            bool
		}{
			{600, 600, 1, 0.5, false}, {600, 600, 2, 0.5, false}, {300, 520, 3, 0.5, false}, {700, 300, 2, 0.5, false},
			{600, 600, 2, 9, true},
		} {
			t.Run(fmt.Sprintf("%s/%d,%d,%d,%g", f.Name(), c.lenQ, c.lenK, c.heads, c.scale), func(t *testing.T) {
				a := linear[float64](t, f, d, m, true)
				q := normals[float64](1, c.heads, c.lenQ, d, c.scale, 1)
				k, v := normals[float64](1, 1, c.lenK, d, c.scale, 2), normals[float64](1, 1, c.lenK, d, 1, 3)
				dout, out := normals[float64](1, c.heads, c.lenQ, d, 1, 4), attention.NewSeq[float64](1, c.heads,
					c.lenQ, d)
				_, err := a.Forward(out, q, k, v)
				must(t, err)
				var got [2][3]attention.Seq[float64]
				for i := range got {
					if i == 1 {
						a.KeyMask = make([]bool, c.lenK)
						for j := range a.KeyMask {
							a.KeyMask[j] = true
						}
					}
					dq, dk, dv := attention.NewSeq[float64](1, c.heads, c.lenQ, d), attention.NewSeq[float64](1, 1,
						c.lenK, d),
						attention.NewSeq[float64](1, 1, c.lenK, d)
					_, err := a.Backward(dq, dk, dv, dout, out, q, k, v, nil)
					must(t, err)
					got[i] = [3]attention.Seq[float64]{dq, dk, dv}
				}
				b := par.Held[backCall[float64]](a.backs.Get())
				p := b.crew.Workers[0].passes[0]
				if len(b.store) != 0 || cap(b.store) == 0 || len(p.spoilt) == 0 {
					t.Errorf("kept numbers: %d with a mask, %d without, of %d segments", len(b.store), cap(b.store),
						len(p.spoilt))
				}
				some := false
				for i := range p.spoilt {
					some = some || p.spoilt[i].Load()
				}
				if _, ok := f.(family.Positive); ok && some != c.spoilt {
					t.Errorf("a segment was spoilt: %t", some)
				}
				for i, name := range []string{"dq", "dk", "dv"} {
					top := 0.0
					for _, x := range got[1][i].Data {
						top = max(top, math.Abs(x))
					}
					for j, x := range got[0][i].Data {
						if y := got[1][i].Data[j]; !(math.Abs(x-y) <= 1e-11*top) {
							t.Fatalf("%s[%d]: %g kept, %g computed again; largest %g", name, j, x, y, top)
						}
					}
				}
			})
		}
	}
}
