package samples

import (
	"math"

	"github.com/spf13/cobra"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/cmd/randfeat/internal/cli"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/sampling"
)

const (
	sampleClasses, sampleDim, sampleQueries = 4000, 24, 40
	sampleFeatures                          = 256
)

// sampleData generates classes that resemble word embeddings: clusters of words, frequencies by Zipf's law, and
// a direction that depends on the frequency. Queries lie near frequent classes.
func sampleData(seed uint64) (classes, queries dense.Matrix[float32], counts []float64) {
	src := rng.Stream(seed, 'd')
	normal := func(rows int) dense.Matrix[float64] {
		x := dense.New[float64](rows, sampleDim)
		rng.Normals(x.Data, src)
		return x
	}
	const clusters = 40
	centres, noise, at := normal(clusters), normal(sampleClasses), normal(sampleQueries)
	classes, queries = dense.New[float32](sampleClasses, sampleDim), dense.New[float32](sampleQueries, sampleDim)
	for i := range sampleClasses {
		counts = append(counts, 1e5/float64(i+1))
		for j := range sampleDim {
			v := 0.25*centres.At(i%clusters, j) + 0.15*noise.At(i, j)
			if j == 0 {
				v += 0.3 * math.Log(counts[i]/100)
			}
			classes.Row(i)[j] = float32(v)
		}
	}
	for i := range sampleQueries {
		c := int(math.Pow(sampleClasses, rng.Uniform(src))) - 1 // Zipf
		for j := range sampleDim {
			queries.Row(i)[j] = float32(1.5*float64(classes.Row(c)[j]) + 0.15*at.At(i, j))
		}
	}
	return classes, queries, counts
}

// sampleDemo compares families at the same number of features.
func sampleDemo(env *cli.Env, cmd *cobra.Command, f *sampleFlags) error {
	err := cli.Conflict(cmd, "demo", "family", "coupling", "kernel", "scale", "kernel-matrix", "projections", "omega",
		"spec", "draws", "temperature", "distinct", "exact", "tries", "normalize", "within", "block", "fit", "compare",
		"counts", "out", "log-prob")
	if err != nil {
		return err
	}
	classes, queries, counts := sampleData(f.Seed)
	families := []family.Family{family.Positive{}, family.OPRF{}, family.Adaptive{}, family.Trig{},
		family.Angular{N: 4}}
	exact := dense.New[float64](queries.Rows, classes.Rows)
	laws := []sampling.Within{sampling.ByScore, sampling.ByFeatures}
	bar := env.Progress("queries", len(families)*len(laws)*queries.Rows)
	defer bar.End()
	done := 0
	var rows []SampleDistance
	for i, within := range laws {
		for _, fam := range families {
			spec, err := randfeat.Spec{Kernel: kernel.Kernel{Kind: kernel.Softmax}, Family: fam,
				Coupling: coupling.Orthogonal{}, Dim: sampleDim, Seed: f.Seed}.WithFeatures(sampleFeatures)
			if err != nil {
				return err
			}
			spec, err = randfeat.Fit(spec, dense.Convert[float64](queries), dense.Convert[float64](classes))
			if err != nil {
				return err
			}
			m, err := randfeat.New[float32](spec)
			if err != nil {
				return err
			}
			s, err := sampling.New(m, classes.Clone(), sampling.Options{Within: within})
			if err != nil {
				return err
			}
			name := fam.Name() + []string{"", ", within by features"}[i]
			row, err := samplerDistances(cmd.Context(), name, s, m, queries, exact, func() { done++; bar.At(done) })
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
	}
	bar.End()
	if rows, err = addFixed(rows, exact, counts); err != nil {
		return err
	}
	return printDistances(env, rows)
}
