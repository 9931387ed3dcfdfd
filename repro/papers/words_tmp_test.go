package papers

import (
	"context"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/repro/lab"
	"github.com/randfeat/randfeat/repro/lstm"
	"github.com/randfeat/randfeat/sampling"
)

func TestTmpRates(t *testing.T) {
	l := &lab.Lab{Context: context.Background(), DataDir: os.Getenv("RANDFEAT_DATA")}
	for _, text := range []wordText{ptb, wikiText2} {
		for _, rate := range []float64{0.03, 0.1} {
			n, err := readNumbered(l, text, 1<<30, 60000)
			if err != nil {
				t.Fatal(err)
			}
			c := lstm.Config{Vocab: len(n.counts), Width: 200, Layers: 2, Batch: 32, Length: 20, Rate: rate, Clip: 5, Gain: text.gain, Unit: text.unit, Seed: 1}
			m, _ := lstm.New[float32](c)
			f, _ := sampling.NewFixed(sampling.Unigram(n.counts, 0.75))
			from := time.Now()
			m.Epoch(n.learn, 0, lstm.Shared[float32](f, 200), nil)
			spent := time.Since(from)
			q, _ := m.Queries(n.held, 500)
			mean := func(x dense.Matrix[float32]) float64 {
				s := 0.0
				for i := range x.Rows {
					s += math.Sqrt(float64(dense.Norm2(x.Row(i)))) / float64(x.Rows)
				}
				return s
			}
			fmt.Println(text.set, len(n.counts), rate, spent, "ppl", m.Perplexity(n.held, 1000), "|q|", mean(q), "|k|", mean(m.Table))
		}
	}
}
