package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/dense"
)

// covered compares the stated interval of a candidate with its error on rows and draws that the advice has not seen.
type covered struct {
	Name   string  `json:"name"`
	Error  float64 `json:"error"` // stated
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Heavy  bool    `json:"heavy,omitempty"`
	Biased bool    `json:"biased,omitempty"`
	// Theory means that the stated error comes from theory, because draws, fresh ones included, do not show it.
	Theory bool    `json:"theory,omitempty"`
	Fresh  float64 `json:"fresh"` // measured on the fresh rows
	Rows   int     `json:"rows"`  // rows given to the advice
}

// pilotDraws is the number of draws of the advice, half of the default to save time.
const pilotDraws = 64

// coverDraws is the number of draws, and coverRows the number of fresh rows (if a shape has so many), of the
// measured error.
const coverDraws, coverRows = 48, 768

// cover measures the recommended candidate, and the best unbiased one if that is another.
func cover(r *advise.Report, q, k, freshQ, freshK dense.Matrix[float64], o advise.Options) ([]covered, error) {
	which := []int{r.Best}
	if r.Ranking[r.Best].Biased {
		if i := slices.IndexFunc(r.Ranking, func(c advise.Candidate) bool { return !c.Biased }); i >= 0 {
			which = append(which, i)
		}
	}
	o.Draws = coverDraws
	var out []covered
	for _, i := range which {
		if r.Ranking[i].High == 0 {
			continue // its tail allows no interval
		}
		v, err := r.Fresh(context.Background(), i, q, k, freshQ, freshK, o)
		if err != nil {
			return nil, err
		}
		c := r.Ranking[i]
		out = append(out, covered{c.Name, c.Error, c.Low, c.High, c.Heavy, c.Biased, c.Error > 1.4*c.RMS, v, q.Rows})
	}
	return out, nil
}

// printCoverage prints how often the errors on fresh rows lie in the stated intervals.
func printCoverage(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	type group struct{ n, inside, above, below int }
	groups := map[string]*group{}
	var order []string
	add := func(name string, c covered) {
		g := groups[name]
		if g == nil {
			g = &group{}
			groups[name] = g
			order = append(order, name)
		}
		g.n++
		switch {
		case c.Fresh > c.High:
			g.above++
		case c.Fresh < c.Low:
			g.below++
		default:
			g.inside++
		}
	}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var r result
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return err
		}
		for _, c := range r.Covered {
			kind := "unbiased, tail measured"
			switch {
			case c.Biased:
				kind = "Nyström"
			case c.Theory:
				kind = "unbiased, error from theory"
			case c.Heavy:
				kind = "unbiased, heavy tail"
			}
			size := "from 100 rows on"
			if c.Rows < 100 {
				size = "fewer than 100 rows"
			}
			add(r.Kernel+" | "+kind+" | "+size, c)
			add("**all** | "+kind+" | all", c)
		}
	}
	slices.Sort(order)
	fmt.Println("| kernel | candidate | rows | cases | inside | larger | smaller |\n|---|---|---|---|---|---|---|")
	for _, name := range order {
		g := groups[name]
		fmt.Printf("| %s | %d | %d (%.0f %%) | %d | %d |\n", name, g.n, g.inside, 100*float64(g.inside)/float64(g.n),
			g.above, g.below)
	}
	return s.Err()
}
