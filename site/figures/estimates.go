package main

import (
	"bytes"
	"fmt"
	"math"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

const (
	dim   = 16
	pairs = 22  // rows per side; the figure has pairs² points per strip
	fit   = 500 // other rows per side, to which families are fitted
	m     = 64  // features of every panel
)

// panel is one estimator of exp(q·k).
type panel struct {
	title, subtitle string
	family          family.Family
	coupling        coupling.Coupling
}

var panels = []panel{
	{"Performer (FAVOR+)", "positive, independent", family.Positive{}, coupling.IID{}},
	{"FAVOR++", "oprf, orthogonal", family.OPRF{}, coupling.Orthogonal{}},
	{"Advised", "adaptive, simplex", family.Adaptive{}, coupling.Simplex{}},
}

// rows draws anisotropic rows: column l has the given mean and the standard deviation spread(l).
func rows(n int, stream uint64, mean float64, spread func(l int) float64) dense.Matrix[float64] {
	x := dense.New[float64](n, dim)
	rng.Normals(x.Data, rng.Stream(20220531, stream))
	for i := range n {
		for l := range dim {
			x.Row(i)[l] = mean + spread(l)*x.Row(i)[l]
		}
	}
	return x
}

// estimates draws estimates of exp(q·k) over the exact values, one strip per estimator, 64 features each. Its width and
// letters suit a phone; its background suits light and dark pages.
func estimates() ([]byte, error) {
	// The distribution of advise --demo, up to a rotation: where queries vary most, keys vary least.
	falling := func(l int) float64 { return 0.7 / float64(l+1) }
	rising := func(l int) float64 { return falling(dim - 1 - l) }
	q, k := rows(pairs, 1, 0.08, falling), rows(pairs, 2, 0.05, rising)
	fitQ, fitK := rows(fit, 3, 0.08, falling), rows(fit, 4, 0.05, rising)

	softmax := kernel.Kernel{Kind: kernel.Softmax}
	exact := dense.New[float64](pairs, pairs)
	if err := kernel.Gram(softmax, exact, q, k); err != nil {
		return nil, err
	}
	const (
		width, left, right = 440.0, 14.0, 426.0
		top, strip, step   = 52.0, 62.0, 98.0 // the first strip, its height, and the distance to the next
		low, high          = 0.5, 2.0         // of the logarithmic axis
	)
	height := top + 3*step + 24
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" role="img" `+
		"aria-labelledby=\"title desc\">\n", width, height, width, height)
	b.WriteString("<title id=\"title\">Three estimators of exp(q·k), 64 features each</title>\n")
	describe := bytes.NewBufferString("Estimates over exact values; relative errors (root mean square): ")
	var body bytes.Buffer
	at := func(v float64) float64 {
		return left + (right-left)*min(max(math.Log(v/low)/math.Log(high/low), 0), 1)
	}
	fmt.Fprintf(&body, "<text class=\"title\" x=\"%g\" y=\"24\">Estimates of exp(q·k), 64 features</text>\n", left)
	for i, p := range panels {
		spec, err := randfeat.Fit(randfeat.Spec{Kernel: softmax, Family: p.family, Coupling: p.coupling, Dim: dim, M: m,
			Seed: 1}, fitQ, fitK)
		if err != nil {
			return nil, err
		}
		fm, err := randfeat.New[float64](spec)
		if err != nil {
			return nil, err
		}
		if fm.OutDim() != m {
			return nil, fmt.Errorf("%s has %d features, want %d", p.title, fm.OutDim(), m)
		}
		got := dense.New[float64](pairs, pairs)
		if err := fm.Gram(got, q, k, nil); err != nil {
			return nil, err
		}
		sum := 0.0
		for j, v := range exact.Data {
			sum += (got.Data[j]/v - 1) * (got.Data[j]/v - 1)
		}
		rms := math.Sqrt(sum / float64(len(exact.Data)))
		y := top + float64(i)*step + 14
		fmt.Fprintf(describe, "%s %.2g; ", p.title, rms)
		fmt.Fprintf(&body, `<text x="%g" y="%g"><tspan class="name">%s</tspan><tspan class="minor"> %s</tspan></text>
<text class="name y" x="%g" y="%g">error %.2g</text>
<rect class="strip" x="%g" y="%g" width="%g" height="%g"/>
`, left, y-8, p.title, p.subtitle, right, y-8, rms, left, y, right-left, strip)
		fmt.Fprintf(&body, "<path class=\"line\" d=\"M%g %gv%g\"/>\n<path class=\"c%d\" d=\"", at(1), y, strip, i)
		for j, v := range exact.Data {
			// Estimates outside of the axis lie on its ends; negative ones cannot occur, all families are positive.
			down := (float64(j) + .5) / float64(len(exact.Data))
			fmt.Fprintf(&body, "M%.1f %.1fh.01", at(got.Data[j]/v), y+4+(strip-8)*down)
		}
		body.WriteString("\"/>\n")
	}
	for _, tick := range []float64{0.5, 0.7, 1, 1.4, 2} {
		class := map[float64]string{low: "", high: "y "}
		if _, end := class[tick]; !end {
			class[tick] = "x "
		}
		fmt.Fprintf(&body, `<text class="%sminor" x="%.1f" y="%g">%g</text>`+"\n", class[tick], at(tick), height-26,
			tick)
	}
	fmt.Fprintf(&body, `<text class="x minor" x="%g" y="%g">estimate / exact value</text>`+"\n", (left+right)/2,
		height-8)
	fmt.Fprintf(&b, "<desc id=\"desc\">%s%d pairs of queries and keys in %d dimensions.</desc>\n", describe,
		pairs*pairs, dim)
	b.WriteString(style)
	b.Write(body.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes(), nil
}

const style = `<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #24292f }
.title { font-size: 15px; font-weight: 600 } .name { font-weight: 600 } .minor { fill: #57606a }
.x { text-anchor: middle } .y { text-anchor: end }
.back { fill: #fff } .strip { fill: #f6f8fa; stroke: #d8dee4 } .line { stroke: #57606a; stroke-dasharray: 4 4 }
.c0, .c1, .c2 { fill: none; stroke-width: 3.5; stroke-linecap: round; stroke-opacity: .5 }
.c0 { stroke: #d55e00 } .c1 { stroke: #0072b2 } .c2 { stroke: #009e73 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .minor { fill: #9da7b1 } .back { fill: #0f1318 } .strip { fill: #171c23; stroke: #343b44 } .line { stroke: #9da7b1 }
.c0 { stroke: #ff8c42 } .c1 { stroke: #56b4e9 } .c2 { stroke: #2ecc9b }
}
</style>
<rect class="back" width="100%" height="100%"/>
`
