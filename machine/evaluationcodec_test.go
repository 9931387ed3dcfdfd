package machine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/seal"
)

// evaluated are evaluations of rows lo to hi−1 of every task, with weights and without.
func evaluated(t testing.TB, lo, hi int) map[string]*Evaluation {
	t.Helper()
	out := map[string]*Evaluation{}
	for _, task := range sumsTasks {
		for _, weighted := range []bool{false, true} {
			for _, k := range []int{1, 2, 3} {
				kind := map[Task]Kind{Regression: KindGP, Classification: KindLogistic, Unsupervised: KindDensity}[task]
				if task == Classification && k < 2 || task == Unsupervised && k > 1 {
					continue
				}
				e := NewEvaluation(kind, task, k)
				rnd := rand.New(rand.NewPCG(3, uint64(k)))
				for i := range hi {
					y, p, v := dense.New[float64](1, k), dense.New[float64](1, k), dense.New[float64](1, k)
					sum := 0.0
					for j := range k {
						p.Set(0, j, rnd.Float64())
						sum += p.At(0, j)
						y.Set(0, j, p.At(0, j)+rnd.NormFloat64())
						v.Set(0, j, 1+rnd.Float64())
					}
					switch task {
					case Classification:
						for j := range k {
							p.Set(0, j, p.At(0, j)/sum)
						}
						y, v = dense.New[float64](1, 1), dense.Matrix[float64]{}
						y.Set(0, 0, float64(rnd.IntN(k)))
					case Unsupervised:
						y, v = dense.Matrix[float64]{}, dense.Matrix[float64]{}
					}
					var w []float64
					if weighted {
						w = []float64{float64(i % 3)}
					}
					if i >= lo {
						if err := e.AddWeighted(y, p, v, w); err != nil {
							t.Fatal(err)
						}
					}
				}
				name := string(task)
				if weighted {
					name += ", weighted"
				}
				out[name+", "+string(rune('0'+k))] = e
			}
		}
	}
	return out
}

func TestEvaluationCodec(t *testing.T) {
	second := evaluated(t, 40, 90)
	for name, e := range evaluated(t, 0, 40) {
		t.Run(name, func(t *testing.T) {
			b, err := e.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			got := NewEvaluation(e.kind, e.task, e.outputs)
			if err := got.UnmarshalBinary(b); err != nil {
				t.Fatal(err)
			}
			// The copy that was read continues like the original.
			for _, x := range []*Evaluation{e, got} {
				if err := x.Merge(second[name]); err != nil {
					t.Fatal(err)
				}
			}
			want, _ := e.MarshalBinary()
			if again, _ := got.MarshalBinary(); !bytes.Equal(again, want) {
				t.Error("other bytes after a merge")
			}
			if !reflect.DeepEqual(got.Scores(), e.Scores()) && !nanScores(e.Scores()) {
				t.Errorf("scores %v, want %v", got.Scores(), e.Scores())
			}
			for at := 0; at < len(b); at += 37 {
				bad := bytes.Clone(b)
				bad[at] ^= 1
				err := NewEvaluation(e.kind, e.task, e.outputs).UnmarshalBinary(bad)
				if !errors.Is(err, ErrCorrupt) {
					t.Errorf("byte %d changed: %v", at, err)
				}
			}
			other := NewEvaluation(e.kind, e.task, e.outputs+1)
			if err := other.UnmarshalBinary(b); !errors.Is(err, ErrMismatch) {
				t.Errorf("another shape: %v", err)
			}
		})
	}
}

func nanScores(s []Score) bool {
	for _, v := range s {
		if v.Low != v.Low {
			return true
		}
	}
	return false
}

func FuzzEvaluation(f *testing.F) {
	for _, e := range evaluated(f, 0, 5) {
		b, err := e.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:len(b)-32])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, task := range sumsTasks {
			e := NewEvaluation(KindRidge, task, 2)
			err := e.UnmarshalBinary(seal.Close(bytes.Clone(b), 0))
			if err == nil {
				o := NewEvaluation(KindRidge, task, 2)
				if err := o.Merge(e); err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrMismatch) {
				t.Errorf("%v is neither ErrCorrupt nor ErrMismatch", err)
			}
		}
	})
}
