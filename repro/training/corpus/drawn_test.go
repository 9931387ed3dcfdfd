package corpus_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/gomlx/train"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/repro/training/corpus"
)

// Draws of the exact law have the probabilities of the softmax of rows of norm 1, and draws by features nearly; a batch
// depends on its number and the seed.
func TestDrawnTokensFollowTheModel(t *testing.T) {
	const vocab, width, batch, length, samples = 200, 6, 2, 5, 3000
	text := make([]int32, 400)
	for i := range text {
		text[i] = int32(i*i) % vocab
	}
	v := train.View{Queries: dense.New[float32](batch*length, width), Table: dense.New[float32](vocab, width)}
	for _, m := range []dense.Matrix[float32]{v.Queries, v.Table} {
		for i := range m.Data {
			m.Data[i] = 3 * float32(math.Sin(float64(i*i+len(m.Data))))
		}
	}
	for _, exact := range []bool{true, false} {
		law := corpus.Law{Exact: exact, Spec: randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax},
			Family: family.Positive{}, Dim: width, M: 64, Seed: 1}}
		d, err := corpus.NewDrawn(text, text, batch, length, 1, samples, vocab, law)
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Complete(d.Train(1, 0), 1, 0, v)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range d.Train(1, 0) {
			if !x.Shape().Equal(b[i].Shape()) {
				t.Fatalf("input %d is %s, completed %s", i, x.Shape(), b[i].Shape())
			}
		}
		ids, logs := tensors.MustCopyFlatData[int32](b[2]), tensors.MustCopyFlatData[float32](b[3])
		worst := 0.0
		for q := range batch * length {
			p, sum := make([]float64, vocab), 0.0
			for c := range p {
				dot, a, e := 0.0, 0.0, 0.0
				for k := range width {
					x, y := float64(v.Queries.Row(q)[k]), float64(v.Table.Row(c)[k])
					dot, a, e = dot+x*y, a+x*x, e+y*y
				}
				p[c] = math.Exp(dot / math.Sqrt(a*e))
				sum += p[c]
			}
			for j := range samples {
				want := math.Log(samples * p[ids[q*samples+j]] / sum)
				worst = max(worst, math.Abs(float64(logs[q*samples+j])-want))
			}
		}
		if exact && worst > 1e-4 {
			t.Errorf("exact draws: log counts are off by %g", worst)
		}
		if !exact && (worst > 2 || worst < 1e-3) {
			t.Errorf("draws by features: log counts are off by %g", worst)
		}
		again, err := d.Complete(d.Train(1, 0), 1, 0, v)
		if err != nil {
			t.Fatal(err)
		}
		for j, id := range tensors.MustCopyFlatData[int32](again[2]) {
			if id != ids[j] {
				t.Fatal("the same batch has other draws")
			}
		}
	}
}
