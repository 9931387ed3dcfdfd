package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine/tabular"
)

// simulate makes a table. The first train rows are for the fit; all others, of the same distribution, are new.
type simulate func(r *rand.Rand, train int) *lines

const simulatedFresh = 20000

// simulated are tables with known distributions: few rows, rare classes, heavy tails, groups, rare levels. Most
// choices of the fit are given, so that many fits are affordable; the first two leave them open.
func simulated() []coverCase {
	given := tabular.Options{Map: tabular.MapRandom, Features: 64, Scaling: "standard", Kernel: "gaussian"}
	open := tabular.Options{}
	return []coverCase{
		{name: "sim: curve, all open, 100 rows", simulate: curve(normal), train: 100, options: open},
		{name: "sim: classes 9:1, all open, 300 rows", simulate: classes(0.1, 1.5), train: 300, options: open},
		{name: "sim: curve, 60 rows", simulate: curve(normal), train: 60, options: given},
		{name: "sim: curve, 400 rows", simulate: curve(normal), train: 400, options: given},
		{name: "sim: curve, t₃ errors, 200 rows", simulate: curve(t3), train: 200, options: given},
		{name: "sim: classes 1:1, 200 rows", simulate: classes(0.5, 1), train: 200, options: given},
		{name: "sim: classes 19:1, 1000 rows", simulate: classes(0.05, 1.5), train: 1000, options: given},
		{name: "sim: classes 19:1, balanced, 1000 rows", simulate: classes(0.05, 1.5), train: 1000, balanced: true,
			options: given},
		{name: "sim: classes 49:1, balanced, 8000 rows", simulate: classes(0.02, 1.5), train: 8000, balanced: true,
			options: given},
		{name: "sim: classes 19:1, 8000 rows", simulate: classes(0.05, 1.5), train: 8000, options: given},
		{name: "sim: curve, 8000 rows", simulate: curve(normal), train: 8000, options: given},
		{name: "sim: rare levels, 1000 rows", simulate: levels, train: 1000, options: given},
		{name: "sim: 30 groups of 20", simulate: groups(30, 20), train: 600, options: given},
		{name: "sim: 8 groups of 50", simulate: groups(8, 50), train: 400, options: given},
	}
}

func normal(r *rand.Rand) float64 { return r.NormFloat64() }

func t3(r *rand.Rand) float64 {
	s := 0.0
	for range 3 {
		v := r.NormFloat64()
		s += v * v
	}
	return r.NormFloat64() / math.Sqrt(s/3)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }

// curve is y = sin 2a + b·c/2 + e/2 for normal a, b, c.
func curve(e func(*rand.Rand) float64) simulate {
	return func(r *rand.Rand, train int) *lines {
		l := &lines{name: "curve", head: "a,b,c,y\n", learn: data.LearnOptions{Targets: []string{"y"}}}
		for range train + simulatedFresh {
			a, b, c := r.NormFloat64(), r.NormFloat64(), r.NormFloat64()
			y := math.Sin(2*a) + b*c/2 + e(r)/2
			l.rows = append(l.rows, strings.Join([]string{number(a), number(b), number(c), number(y)}, ",")+"\n")
		}
		return l
	}
}

// classes puts a share of the rows on a ring around the others.
func classes(share, far float64) simulate {
	return func(r *rand.Rand, train int) *lines {
		l := &lines{name: "classes", head: "a,b,c,y\n", learn: data.LearnOptions{Targets: []string{"y"},
			Task: data.Classification}}
		for range train + simulatedFresh {
			a, b, y := r.NormFloat64(), r.NormFloat64(), "no"
			if r.Float64() < share {
				norm := far * 1.5 / math.Hypot(a, b)
				a, b, y = a*(norm+0.3), b*(norm+0.3), "yes"
			}
			l.rows = append(l.rows, strings.Join([]string{number(a), number(b), number(r.NormFloat64()), y}, ",")+"\n")
			l.class = append(l.class, y)
		}
		return l
	}
}

// levels are classes that depend on a column of 400 levels, most of them rare. Unseen levels affect the score too.
func levels(r *rand.Rand, train int) *lines {
	l := &lines{name: "levels", head: "a,level,y\n", learn: data.LearnOptions{Targets: []string{"y"},
		Task: data.Classification}}
	effect := make([]float64, 400)
	for i := range effect {
		effect[i] = 2 * r.NormFloat64()
	}
	for range train + simulatedFresh {
		k := min(int(-math.Log(r.Float64())*60), len(effect)-1)
		a := r.NormFloat64()
		y := "no"
		if r.Float64() < 1/(1+math.Exp(-a-effect[k])) {
			y = "yes"
		}
		l.rows = append(l.rows, fmt.Sprintf("%s,l%d,%s\n", number(a), k, y))
		l.class = append(l.class, y)
	}
	return l
}

// groups have an effect and a place of their own. New rows come from other groups.
func groups(n, each int) simulate {
	return func(r *rand.Rand, train int) *lines {
		l := &lines{name: "groups", head: "g,a,b,y\n", learn: data.LearnOptions{Targets: []string{"y"}},
			marks: data.MarkColumns{Group: "g"}}
		for g := range n + simulatedFresh/each {
			at, effect := r.NormFloat64(), r.NormFloat64()/2
			for range each {
				a, b := at+r.NormFloat64()/3, r.NormFloat64()
				y := math.Sin(2*a) + b/2 + effect + r.NormFloat64()/2
				l.rows = append(l.rows, fmt.Sprintf("g%d,%s,%s,%s\n", g, number(a), number(b), number(y)))
			}
		}
		return l
	}
}
