// Command sampling times draws from a tree of random features against a full softmax, on one thread, and measures
// how close the draws are to the softmax.
//
//	go -C bench run ./sampling                                   # 10⁶ generated classes
//	go -C bench run ./sampling -classes keys.npy -queries queries.npy -counts counts.npy   # of a trained model
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/kern"
	"github.com/randfeat/randfeat/internal/npy"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/sampling"
)

func main() {
	n := flag.Int("n", 1_000_000, "generated classes")
	d := flag.Int("d", 64, "their columns")
	f := flag.Int("f", 256, "features")
	classes := flag.String("classes", "", "npy file of class embeddings: measure quality instead of speed")
	queries := flag.String("queries", "", "npy file of queries")
	counts := flag.String("counts", "", "npy file of class frequencies")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	var err error
	if *classes != "" {
		err = quality(*classes, *queries, *counts, *f)
	} else {
		err = speed(*n, *d, *f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sampling:", err)
		os.Exit(1)
	}
}

func normal(rows, cols int, stream uint64) dense.Matrix[float32] {
	x := dense.New[float64](rows, cols)
	rng.Normals(x.Data, rng.Stream(1, stream))
	y := dense.Convert[float32](x)
	for i := range y.Data {
		y.Data[i] /= float32(math.Sqrt(float64(cols)))
	}
	return y
}

// median returns the median time of calls of f, which gets the number of the call.
func median(calls int, f func(i int) error) (time.Duration, error) {
	times := make([]time.Duration, calls)
	for i := range times {
		from := time.Now()
		if err := f(i); err != nil {
			return 0, err
		}
		times[i] = time.Since(from)
	}
	slices.Sort(times)
	return times[calls/2], nil
}

// softmax returns the time of all probabilities of one query, with the kernels that the library itself uses.
func softmax(classes, queries dense.Matrix[float32], calls int) (time.Duration, error) {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return 0, err
	}
	p := make([]float32, classes.Rows)
	return median(calls, func(i int) error {
		tab.MulV(p, classes, queries.Row(i%queries.Rows))
		sum := tab.ExpSum(p, tab.Max(p))
		tab.Scale(p, 1/sum)
		return nil
	})
}

func spec(fam family.Family, dim, features int) (randfeat.Spec, error) {
	return randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: fam, Coupling: coupling.Orthogonal{},
		Dim: dim, Seed: 1}.WithFeatures(features)
}

func speed(n, d, f int) error {
	classes, queries := normal(n, d, 1), normal(512, d, 2)
	sp, err := spec(family.Positive{}, d, f)
	if err != nil {
		return err
	}
	m, err := randfeat.New[float32](sp)
	if err != nil {
		return err
	}
	full, err := softmax(classes, queries, 9)
	if err != nil {
		return err
	}
	features, err := median(3, func(int) error { return allFeatures(m, classes) })
	if err != nil {
		return err
	}
	fmt.Printf("%d classes, d = %d, F = %d, float32, one thread, medians (%s, %s)\n\n", n, d, f, runtime.Version(), cpu())
	fmt.Printf("Full softmax of one query: %v. Features of all classes: %v.\n\n", full.Round(time.Microsecond),
		features.Round(time.Millisecond))
	fmt.Println("| inside a block | block | tree | build | × features | draw, k = 1 | × softmax | draw of k = 40 | × softmax | " +
		"draw of 40 distinct | set a class |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, o := range []sampling.Options{{}, {Block: 256}, {Within: sampling.ByFeatures}} {
		if err := timeTree(m, classes, queries, o, full, features); err != nil {
			return err
		}
	}
	return nil
}

// allFeatures computes the features of all classes in chunks that stay in the cache, as a build does.
func allFeatures(m *randfeat.Map[float32], classes dense.Matrix[float32]) error {
	const chunk = 512
	phi := dense.New[float32](chunk, m.OutDim())
	shift := make([]float64, chunk)
	var ws randfeat.Workspace[float32]
	for lo := 0; lo < classes.Rows; lo += chunk {
		rows := min(chunk, classes.Rows-lo)
		err := m.KeysScaled(phi.RowRange(0, rows), nil, shift[:rows], classes.RowRange(lo, lo+rows), &ws)
		if err != nil {
			return err
		}
	}
	return nil
}

func timeTree(m *randfeat.Map[float32], classes, queries dense.Matrix[float32], o sampling.Options, full,
	features time.Duration) error {
	var s *sampling.Sampler[float32]
	build, err := median(3, func(int) (err error) {
		s, err = sampling.New(m, classes, o)
		return err
	})
	if err != nil {
		return err
	}
	draw := func(k int, distinct bool) (time.Duration, error) {
		var got sampling.Draws
		return median(401, func(i int) error {
			return s.Draw(&got, queries.RowRange(i%queries.Rows, i%queries.Rows+1),
				sampling.Request{K: k, Distinct: distinct, Seed: uint64(i)})
		})
	}
	one, err := draw(1, false)
	if err != nil {
		return err
	}
	forty, err := draw(40, false)
	if err != nil {
		return err
	}
	distinct, err := draw(40, true)
	if err != nil {
		return err
	}
	set, err := median(201, func(i int) error {
		return s.Set([]int{i * 7919 % classes.Rows}, queries.RowRange(i, i+1))
	})
	if err != nil {
		return err
	}
	name, block := "softmax", o.Block
	if o.Within == sampling.ByFeatures {
		name = "features"
	}
	if block == 0 {
		block = map[string]int{"softmax": 64, "features": 16}[name]
	}
	fmt.Printf("| %s | %d | %d MiB | %.2f s | %.2f | %.1f µs | %.0f | %.1f µs | %.0f | %.1f µs | %.0f µs |\n", name, block,
		s.Memory()>>20, build.Seconds(), build.Seconds()/features.Seconds(), micro(one), ratio(full, one),
		micro(forty)/40, 40*ratio(full, forty), micro(distinct)/40, micro(set))
	return nil
}

func micro(t time.Duration) float64 { return float64(t.Nanoseconds()) / 1e3 }

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

func cpu() string {
	tab, err := kern.Chosen[float32]()
	if err != nil {
		return runtime.GOARCH
	}
	return runtime.GOARCH + " " + tab.Name
}

func read(path string) (dense.Matrix[float32], error) {
	a, err := npy.ReadFile(path)
	if err != nil {
		return dense.Matrix[float32]{}, err
	}
	return a.Float32(), nil
}

// way is one way to draw 40 classes: its distribution for a query, and how to draw.
type way struct {
	name         string
	build        time.Duration // time to build a new tree
	distribution func(p []float64, q []float32) error
	draw         func(dst *sampling.Draws, q dense.Matrix[float32], k int, seed uint64) error
}

// scored is the number of queries on which samplers are compared. Families are fitted to the other queries.
const scored = 200

// quality compares samplers on embeddings: KL of the softmax from their probabilities, the time of 40 draws and of a
// training step with them. It then gives every sampler as many draws as fit into the step time of the first one,
// corrects them by importance weights, and measures the KL that is left and the error of the log partition sum.
func quality(classPath, queryPath, countPath string, features int) error {
	classes, err := read(classPath)
	if err != nil {
		return err
	}
	queries, err := read(queryPath)
	if err != nil {
		return err
	}
	counts, err := read(countPath)
	if err != nil {
		return err
	}
	if queries.Rows < 2*scored {
		return fmt.Errorf("%s has %d rows, want at least %d: %d are scored, the others are for fits", queryPath,
			queries.Rows, 2*scored, scored)
	}
	others := queries.RowRange(scored, queries.Rows)
	queries = queries.RowRange(0, scored)
	ways, exact, err := waysOf(classes, queries, others, counts, features)
	if err != nil {
		return err
	}
	full, err := softmax(classes, queries, 31)
	if err != nil {
		return err
	}
	fmt.Printf("%d classes, d = %d, F = %d, %d queries, one thread; full softmax %v a query\n\n", classes.Rows,
		classes.Cols, features, queries.Rows, full.Round(time.Microsecond))
	fmt.Println("| draws | KL | effective share | 40 draws | a step with 40 draws | error of log Z, 40 draws | " +
		"draws in the step of the first | KL after correction | error of log Z |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	equal := time.Duration(0)
	for _, w := range ways {
		kl, effective := 0.0, 0.0
		p := make([]float64, classes.Rows)
		for j := range queries.Rows {
			if err := w.distribution(p, queries.Row(j)); err != nil {
				return err
			}
			dist, err := sampling.Distances(exact.Row(j), p)
			if err != nil {
				return err
			}
			kl += dist.KL / float64(queries.Rows)
			effective += dist.Effective / float64(queries.Rows)
		}
		draw, at40, err := w.steps(classes, queries, 40)
		if err != nil {
			return err
		}
		_, at440, err := w.steps(classes, queries, 440)
		if err != nil {
			return err
		}
		if equal == 0 {
			equal = at40
		}
		// The time of a step is a constant plus a time per draw.
		k := max(1, int(40+float64(equal-at40)/float64(at440-at40)*400))
		few, err := partitionError(w, classes, queries, 40)
		if err != nil {
			return err
		}
		afforded, err := partitionError(w, classes, queries, k)
		if err != nil {
			return err
		}
		corrected, err := w.corrected(classes, queries, exact, k)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %.3f | %.3f | %.1f µs | %.1f µs | %.3f | %d | %.4f | %.3f |\n", w.name, kl, effective,
			micro(draw), micro(at40), few, k, corrected, afforded)
	}
	return nil
}

// batch is the number of queries per training step. The tree is rebuilt between steps.
const batch = 640

// steps returns the median time of k draws for a query, and of its share of a training step: draws, the loss with
// its gradient, the derivatives by class embeddings, and a share of a new tree.
func (w way) steps(classes, queries dense.Matrix[float32], k int) (draw, step time.Duration, err error) {
	var got sampling.Draws
	var g sampling.Gradient[float32]
	loss, sum := make([]float64, 1), dense.New[float32](classes.Rows, classes.Cols)
	var draws []time.Duration
	step, err = median(max(401, queries.Rows), func(i int) error {
		q, from := queries.RowRange(i%queries.Rows, i%queries.Rows+1), time.Now()
		if err := w.draw(&got, q, k, uint64(i)); err != nil {
			return err
		}
		draws = append(draws, time.Since(from))
		target := []int{i % classes.Rows}
		if err := (sampling.Loss[float32]{Workers: 1}).Forward(loss, &g, q, classes, target, &got); err != nil {
			return err
		}
		return g.AddClasses(sum, q, target, &got, 1.0/batch)
	})
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(draws)
	return draws[len(draws)/2], step + w.build/batch, nil
}

// corrected returns the mean KL, to second order, between the softmax and the distribution of a class picked among k
// draws by importance weights, over the first queries: ½Σ(a−p)(b−p)/p. a and b are means over disjoint repetitions,
// so that their noise cancels in the mean.
func (w way) corrected(classes, queries dense.Matrix[float32], exact dense.Matrix[float64], k int) (float64, error) {
	const first = 10
	var got sampling.Draws
	total := 0.0
	for i := range first {
		laws := [2][]float64{make([]float64, classes.Rows), make([]float64, classes.Rows)}
		q := queries.Row(i)
		reps := max(50, 40_000/k)
		weights := make([]float64, k)
		for r := range 2 * reps {
			if err := w.draw(&got, queries.RowRange(i, i+1), k, uint64(1_000_000+r)); err != nil {
				return 0, err
			}
			sum := 0.0
			for j, id := range got.IDs {
				weights[j] = math.Exp(float64(dense.Dot(q, classes.Row(id))) - got.LogCount[j])
				sum += weights[j]
			}
			for j, id := range got.IDs {
				laws[r%2][id] += weights[j] / sum / float64(reps)
			}
		}
		for c, p := range exact.Row(i) {
			total += (laws[0][c] - p) * (laws[1][c] - p) / p / 2 / first
		}
	}
	return total, nil
}

// partitionError returns the root mean square error of log Σ exp(q·c − LogCount) over draws.
func partitionError(w way, classes, queries dense.Matrix[float32], k int) (float64, error) {
	sum := 0.0
	var got sampling.Draws
	for i := range queries.Rows {
		q := queries.Row(i)
		if err := w.draw(&got, queries.RowRange(i, i+1), k, uint64(1000+i)); err != nil {
			return 0, err
		}
		score := func(c int) float64 { return float64(dense.Dot(q, classes.Row(c))) }
		most := math.Inf(-1)
		for c := range classes.Rows {
			most = max(most, score(c))
		}
		z, estimate := 0.0, 0.0
		for c := range classes.Rows {
			z += math.Exp(score(c) - most)
		}
		for j, id := range got.IDs {
			estimate += math.Exp(score(id) - most - got.LogCount[j])
		}
		e := math.Log(estimate / z)
		sum += e * e / float64(queries.Rows)
	}
	return math.Sqrt(sum), nil
}

func waysOf(classes, queries, others, counts dense.Matrix[float32], features int) ([]way, dense.Matrix[float64],
	error) {
	exact := dense.New[float64](queries.Rows, classes.Rows)
	var ways []way
	for _, fam := range []family.Family{family.Adaptive{}, family.OPRF{}, family.Positive{}} {
		for _, within := range []sampling.Within{sampling.ByScore, sampling.ByFeatures} {
			if within == sampling.ByFeatures && fam.Name() != "adaptive" {
				continue // slower, and farther from the softmax
			}
			sp, err := spec(fam, classes.Cols, features)
			if err != nil {
				return nil, exact, err
			}
			sp, err = randfeat.Fit(sp, dense.Convert[float64](others), dense.Convert[float64](classes))
			if err != nil {
				return nil, exact, err
			}
			m, err := randfeat.New[float32](sp)
			if err != nil {
				return nil, exact, err
			}
			from := time.Now()
			s, err := sampling.New(m, classes.Clone(), sampling.Options{Within: within})
			if err != nil {
				return nil, exact, err
			}
			build := time.Since(from)
			for i := range queries.Rows {
				if err := s.Softmax(exact.Row(i), queries.Row(i)); err != nil {
					return nil, exact, err
				}
			}
			law := []string{", softmax inside blocks", ", features inside blocks"}[within]
			ways = append(ways, way{fam.Name() + law, build,
				func(p []float64, q []float32) error {
					_, err := s.Distribution(p, q)
					return err
				},
				func(dst *sampling.Draws, q dense.Matrix[float32], k int, seed uint64) error {
					return s.Draw(dst, q, sampling.Request{K: k, Seed: seed})
				}})
		}
	}
	uniform := make([]float64, classes.Rows)
	for i := range uniform {
		uniform[i] = 1
	}
	unigram := sampling.Unigram(dense.Convert[float64](counts).Data, 0.75)
	for i, weights := range [][]float64{unigram, uniform} {
		f, err := sampling.NewFixed(weights)
		if err != nil {
			return nil, exact, err
		}
		ways = append(ways, way{[]string{"unigram^¾", "uniform"}[i], 0,
			func(p []float64, _ []float32) error {
				for c, l := range f.LogProb() {
					p[c] = math.Exp(l)
				}
				return nil
			},
			func(dst *sampling.Draws, _ dense.Matrix[float32], k int, seed uint64) error {
				return f.Draw(dst, 1, sampling.Request{K: k, Seed: seed})
			}})
	}
	return ways, exact, nil
}
