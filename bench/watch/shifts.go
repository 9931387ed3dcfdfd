package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/machine/tabular"
	"github.com/randfeat/randfeat/machine/watch"
)

// fitted are tables with a target, for scores without targets.
var fitted = []struct {
	name   string
	target int
	task   data.Task
}{
	{"abalone/abalone.data", 8, data.Regression}, {"banknote/data_banknote_authentication.txt", 4, data.Classification},
	{"boston/housing.data", 13, data.Regression}, {"campaign/campaign.csv.gz", -1, data.Classification},
	{"car/car.data", 6, data.Classification}, {"cmc/cmc.data", 9, data.Classification},
	{"wifi/wifi_localization.txt", 7, data.Classification}, {"wine_quality/winequality-red.csv", 11, data.Regression},
	{"wine_quality/winequality-white.csv", 11, data.Regression}, {"yeast/yeast.data", 9, data.Classification},
}

// shifts fits models and counts how often the interval of the expected score holds on rows whose columns changed: rows
// are kept with a probability that depends on one column, so the target depends on the columns as before.
func (o *options) shifts() error {
	all, held := map[string]int{}, map[string]int{}
	for k, f := range fitted {
		t, err := read(o.dir, f.name)
		if err != nil {
			return err
		}
		target := f.target
		if target < 0 {
			target += len(t.head)
		}
		r := rand.New(rand.NewPCG(uint64(k), 5))
		var rows [][]string
		for _, i := range r.Perm(len(t.rows)) {
			rows = append(rows, slices.Clone(t.rows[i]))
		}
		n := min(len(rows)/2, 1000)
		old, _, err := source("old", t.head, rows[:n])
		if err != nil {
			return err
		}
		opt := tabular.Options{Learn: data.LearnOptions{Targets: []string{t.head[target]}, Task: f.task}, Quick: true,
			Seed: 1}
		m, _, err := tabular.Fit(context.Background(), old, opt)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		ref, err := watch.Model(old, m, watch.Options{})
		if err != nil {
			return err
		}
		rest := rows[n:min(len(rows), n+3000)]
		for range o.shift {
			kept := t.lean(rest, target, r)
			if len(kept) < 2*watch.LeastRows {
				continue
			}
			now, _, err := source("new", t.head, kept)
			if err != nil {
				return err
			}
			mon := ref.Monitor()
			e, err := m.Evaluation()
			if err != nil {
				return err
			}
			if err := mon.AddTable(now, watch.TableOptions{Model: m, Evaluation: e}); err != nil {
				continue // a class that the fit has not seen
			}
			rep, err := mon.Report(0)
			if err != nil {
				return err
			}
			for _, x := range rep.Expected {
				for _, s := range e.Scores() {
					if s.Name != x.Name || s.Output > 1 {
						continue
					}
					ok := x.Low <= s.Value && s.Value <= x.High
					all[x.Name]++
					if ok {
						held[x.Name]++
					}
					fmt.Printf("%-24s %-9s at fit %7.4f expected %7.4f (%7.4f to %7.4f) was %7.4f, %d rows, held %v\n",
						t.name, x.Name, x.AtFit, x.Value, x.Low, x.High, s.Value, rep.Rows, ok)
				}
			}
		}
	}
	for name, n := range all {
		fmt.Printf("%s: %d of %d\n", name, held[name], n)
	}
	return nil
}

// lean keeps rows with a probability that rises or falls with a random column.
func (t *table) lean(rows [][]string, target int, r *rand.Rand) (kept [][]string) {
	j := r.IntN(len(t.head))
	for j == target {
		j = r.IntN(len(t.head))
	}
	sign := float64(4*r.IntN(2) - 2)
	mean, sd := mean(rows, j), max(spread(rows, j), 1e-9)
	favour := rows[r.IntN(len(rows))][j]
	for _, row := range rows {
		p := 0.15
		if v, err := strconv.ParseFloat(row[j], 64); t.kinds[j] && err == nil {
			p = 1 / (1 + math.Exp(-sign*(v-mean)/sd))
		} else if row[j] == favour {
			p = 0.9
		}
		if r.Float64() < p {
			kept = append(kept, row)
		}
	}
	return kept
}
