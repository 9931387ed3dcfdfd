package papers

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/repro/control"
	"github.com/randfeat/randfeat/repro/lab"
)

var hybridFig4 = &lab.Item{
	ID: "hybrid-fig4", Paper: hybrid, Title: "Fig 4 left: a walker on stepping stones, attention by 8 × 8 hybrid " +
		"features against 256 " +
		"positive ones", Version: 1,
	Run: runHybridFig4,
}

// studentHalf returns the mean and half the width of its 95 % interval.
func studentHalf(a []float64) (mean, half float64) {
	mean, sd := meanSD(a)
	n := float64(len(a))
	return mean, distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(.975) * sd / math.Sqrt(n)
}

func runHybridFig4(l *lab.Lab) (*lab.Page, error) {
	kinds := []control.Attention{control.Angular, control.Favor, control.Exact, control.Blind}
	var keys []control.Config
	seeds := lab.Pick(l, 2, 5)
	for _, k := range kinds {
		for seed := range seeds {
			keys = append(keys, control.Config{Attention: k, Seed: uint64(seed + 1), Iterations: lab.Pick(l, 4, 40),
				Directions: lab.Pick(l, 6, 12), Courses: lab.Pick(l, 1, 2), Sigma: .1, Rate: 2.5, Every: lab.Pick(l,
					2, 4),
				Tests: lab.Pick(l, 10, 50), Workers: 1})
		}
	}
	runs, err := lab.Cells(l, "train", keys, func(c control.Config, _ uint64) (control.Run, error) {
		r, err := control.Train(c)
		if err != nil {
			return control.Run{}, err
		}
		return *r, nil
	})
	if err != nil {
		return nil, err
	}
	p := &lab.Page{Setting: []string{fmt.Sprintf("The paper's quadruped, its simulator and its controllers are "+
		"not public. Here a planar "+
		"walker of our own places its feet on a row of stones of 50 to 80 cm with gaps of 10 to 20 cm (K.1), seen "+
		"by one depth camera "+
		"of 32 × 24 pixels. The policy moves each foot by up to 20 cm from where it would land; a foot in a gap "+
		"ends the walk. The "+
		"reward is the way in metres; %d steps are about %.0f m.", control.Steps, control.Steps*.42),
		"Implicit attention, masking variant: every pixel is a token, queries and keys have length 1, the quarter " +
			"of the pixels with the " +
			"most attention is kept, the rest set to zero. Evolution strategies with antithetic orthogonal " +
			"perturbations. " +
			fmt.Sprintf("%d seeds, %d iterations of %d pairs on %d courses each; tests on %d other courses. The "+
				"walker that sees nothing is "+
				"ours, to show what eyes are worth.", seeds, keys[0].Iterations, keys[0].Directions, keys[0].Courses,
				keys[0].Tests)}}
	fig := figure.Figure{Title: "Way on test courses", X: figure.Axis{Label: "iterations"},
		Y: figure.Axis{Label: "metres"}}
	last := map[control.Attention][]float64{}
	for k, kind := range kinds {
		s := figure.Series{Name: string(kind)}
		of := runs[k*seeds : (k+1)*seeds]
		for i, at := range of[0].At {
			var all []float64
			for _, r := range of {
				all = append(all, r.Reward[i])
			}
			mean, half := studentHalf(all)
			s.X, s.Y = append(s.X, float64(at)), append(s.Y, mean)
			s.Low, s.High = append(s.Low, max(0, mean-half)), append(s.High, mean+half)
			if i == len(of[0].At)-1 {
				last[kind] = all
			}
		}
		fig.Series = append(fig.Series, s)
	}
	if err := p.Draw("reward", "Means over seeds with 95 % intervals (Student).", &fig); err != nil {
		return nil, err
	}
	less := func(a, b control.Attention) (mean, half float64) { // a minus b, seed by seed
		d := make([]float64, seeds)
		for i := range d {
			d[i] = last[a][i] - last[b][i]
		}
		return studentHalf(d)
	}
	for _, kind := range kinds {
		mean, half := studentHalf(last[kind])
		p.Add(lab.Check{What: "last reward, metres, " + string(kind), Source: lab.Source{Kind: lab.Unsaid},
			Reference: "—",
			Ours:      fmt.Sprintf("%.2f", mean), Interval: fmt.Sprintf("± %.2f (%d seeds)", half, seeds),
			Verdict: lab.Shown})
	}
	// Similar means less than a quarter of FAVOR+'s reward apart.
	favor, _ := studentHalf(last[control.Favor])
	mean, half := less(control.Angular, control.Favor)
	p.Measured(lab.Check{What: "the hybrid's last reward less FAVOR+'s", Source: lab.StatedIn("Fig 4, caption"),
		Reference: "0 (“of similar quality”)", Ours: fmt.Sprintf("%.2f m", mean), Interval: fmt.Sprintf("± %.2f",
			half)},
		lab.Numbers{Ours: mean, Half: half, Rivals: []lab.Rival{{Name: "a quarter less than FAVOR+",
			Value: -favor / 4}}},
		"another quality after these iterations")
	mean, half = less(control.Angular, control.Blind)
	p.Claim("attention is used: the hybrid walks farther than the blind", lab.StatedIn("K.1"),
		"the policy learns to attend to gaps",
		fmt.Sprintf("%.2f ± %.2f m farther", mean, half), lab.Order(mean, half), "it does not")
	f, a := control.Favor.Operations(), control.Angular.Operations()
	ratio := float64(f.Total()) / float64(a.Total())
	p.Claim("operations of a policy step, FAVOR+ against the hybrid", lab.PrintedIn("Fig 4, caption"), "3× and more",
		fmt.Sprintf("%.1f× (%d products and %d functions against %d and %d; a function counts as ten products)",
			ratio, f.Products,
			f.Functions, a.Products, a.Functions), lab.Judge(ratio >= 3), "another count of operations")
	table := lab.Table{Title: "A policy step", Header: []string{"attention", "products", "functions",
		"microseconds here, one thread"}}
	film := control.NewCourse(7)
	for k, kind := range kinds {
		policy, err := control.NewMasked(kind, keys[k*seeds].ProjectionSeed())
		if err != nil {
			return nil, err
		}
		policy.Set(runs[k*seeds].Theta)
		image := make([]float32, control.Pixels)
		film.See(image, 1)
		from, n := time.Now(), 0
		for ; n < 3 || time.Since(from) < 20*time.Millisecond; n++ {
			policy.Move(image, 1.2)
		}
		o := kind.Operations()
		table.Rows = append(table.Rows, []string{string(kind), fmt.Sprint(o.Products), fmt.Sprint(o.Functions),
			fmt.Sprintf("%.0f", 1e6*time.Since(from).Seconds()/float64(n))})
		if kind == control.Angular {
			svg := control.Film(film, policy)
			p.Figures = append(p.Figures, lab.Figure{Name: "mask", Caption: "A walk of the first seed's hybrid " +
				"policy. Above: the camera's " +
				"image, dark where there is no stone, red where attention masks it. Below: the stones and where " +
				"the feet came down.",
				SVG: svg, Narrow: svg})
		}
	}
	p.Tables = append(p.Tables, table)
	p.Notes = append(p.Notes, "The hybrid's operations are fewer, its time here is not: the library assembles the "+
		"products of base and "+
		"coefficient features element by element, where positive features are one fused kernel.")
	return p, nil
}
