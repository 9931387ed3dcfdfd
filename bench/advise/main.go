// Command advise measures the quality of the advice of package advise. Over many shapes of data, scales of inputs
// and numbers of features, it compares the error of the recommendation on unseen rows with that of the best
// candidate.
//
//	go run ./advise -data "$RANDFEAT_DATA" -heads DIR > advise.jsonl
//	go run ./advise -table advise.jsonl
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/randfeat/randfeat/advise"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/rng"
	"github.com/randfeat/randfeat/kernel"
)

// result is one case.
type result struct {
	Shape    string         `json:"shape"`
	Kernel   string         `json:"kernel"`
	Sigma    float64        `json:"sigma"`
	Features int            `json:"features"`
	Seed     uint64         `json:"seed"`
	Measure  advise.Measure `json:"measure"`
	advise.Regret
	Covered []covered `json:"covered,omitempty"` // with -coverage
	Seconds float64   `json:"seconds"`           // duration of the advice
}

func main() {
	dir := flag.String("data", "", "folder of data sets")
	heads := flag.String("heads", "", "folder of arrays of real heads")
	which := flag.String("head", "3,17,30,44,58,71", "numbers of heads")
	only := flag.String("shapes", "", "regular expression on the names of shapes")
	kernels := flag.String("kernels", "softmax,gaussian", "kernels")
	sigmas := flag.String("sigmas", "0.1,0.25,0.5,1,1.5", "sizes of inputs")
	features := flag.String("features", "16,64,256,1024", "numbers of features")
	seed := flag.Uint64("seed", 1, "seed of data and advice")
	draws := flag.Int("draws", 256, "draws that decide which candidate is the best")
	jobs := flag.Int("jobs", 1, "cases at a time")
	part := flag.Int("part", 0, "which of -parts")
	parts := flag.Int("parts", 1, "every so many cases")
	limit := flag.Duration("limit", time.Hour, "no case begins later")
	coverage := flag.Bool("coverage", false, "compare the intervals with errors on fresh rows, instead of the choice with the best")
	covers := flag.String("coverage-table", "", "results of -coverage to print a table of, instead")
	tables := flag.String("table", "", "results to print a table of, instead")
	flag.Parse()
	err := func() error {
		if *tables != "" {
			return printTable(*tables)
		}
		if *covers != "" {
			return printCoverage(*covers)
		}
		match, err := regexp.Compile(*only)
		if err != nil {
			return err
		}
		var cases []func() (result, error)
		many := 0
		for _, sh := range shapes(*dir, *heads, numbers(*which)) {
			if !match.MatchString(sh.name) {
				continue
			}
			for _, kern := range strings.Split(*kernels, ",") {
				for _, s := range numbers(*sigmas) {
					if sh.head && s < 0.5 {
						continue // heads have a scale of their own: half, once and one and a half times it
					}
					for _, f := range numbers(*features) {
						if many++; f > 512 && many%3 > 0 {
							continue // they take as long as all others together
						}
						cases = append(cases, func() (result, error) {
							return run(sh, kern, s, int(f), *seed, *draws, *coverage)
						})
					}
				}
			}
		}
		// In random order, so that a run that is cut short has some of everything.
		rand.New(rng.Stream(*seed, 9)).Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		var wg sync.WaitGroup
		var mu sync.Mutex
		next, begun := *part, time.Now()
		enc := json.NewEncoder(os.Stdout)
		for range *jobs {
			wg.Go(func() {
				for {
					mu.Lock()
					at := next
					next += *parts
					mu.Unlock()
					if at >= len(cases) || time.Since(begun) > *limit {
						return
					}
					r, err := cases[at]()
					mu.Lock()
					if err != nil {
						fmt.Fprintf(os.Stderr, "%s, %s, %g, %d: %v\n", r.Shape, r.Kernel, r.Sigma, r.Features, err)
					} else if err := enc.Encode(r); err != nil {
						fmt.Fprintln(os.Stderr, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "advise:", err)
		os.Exit(1)
	}
}

func numbers(s string) (out []float64) {
	for _, f := range strings.Split(s, ",") {
		var v float64
		if _, err := fmt.Sscan(f, &v); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// run asks for advice on some rows and measures its quality on others.
func run(sh shape, kern string, sigma float64, features int, seed uint64, draws int,
	coverage bool) (result, error) {
	out := result{Shape: sh.name, Kernel: kern, Sigma: sigma, Features: features, Seed: seed}
	kind, err := kernel.ParseKind(kern)
	if err != nil {
		return out, err
	}
	n := cmp.Or(sh.n, 512)
	fresh := freshRows
	if coverage {
		fresh = coverRows
	}
	q, k, err := sh.rows(rand.New(rng.Stream(seed, 7)), n+fresh)
	if err != nil {
		return out, err
	}
	n = min(n, q.Rows*2/3)
	if !sh.head { // scale so that the root mean square of all entries is sigma
		sum := 0.0
		for _, v := range slices.Concat(q.Data, k.Data) {
			sum += v * v
		}
		sigma /= math.Sqrt(sum / float64(2*len(q.Data)))
	}
	for _, m := range []dense.Matrix[float64]{q, k} {
		scaled(m.Data, sigma)
	}
	fq, fk := q.RowRange(n, q.Rows), k.RowRange(n, k.Rows)
	q, k = q.RowRange(0, n), k.RowRange(0, n)
	if kind == kernel.Gaussian { // kernel machines have one set of rows
		k, fk = dense.Matrix[float64]{}, dense.Matrix[float64]{}
	}
	o := advise.Options{Kernel: kernel.Kernel{Kind: kind}, Features: features, Seed: seed, Brief: true}
	if coverage {
		o.Draws = pilotDraws
	}
	begun := time.Now()
	r, err := advise.Kernel(context.Background(), q, k, o)
	if err != nil {
		return out, err
	}
	out.Seconds, out.Measure = time.Since(begun).Seconds(), r.Measure
	if coverage {
		out.Covered, err = cover(r, q, k, fq, fk, o)
		return out, err
	}
	o.Draws = draws
	out.Regret, err = r.Regret(context.Background(), q, k, fq, fk, o)
	return out, err
}

// printTable prints regrets by shape, and the misses.
func printTable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var all []result
	for s := bufio.NewScanner(f); s.Scan(); {
		var r result
		if err := json.Unmarshal(s.Bytes(), &r); err != nil {
			return err
		}
		all = append(all, r)
	}
	var names []string
	by := map[string][]result{}
	for _, r := range all {
		key := r.Shape + " | " + r.Kernel
		if by[key] == nil {
			names = append(names, key)
		}
		by[key] = append(by[key], r)
	}
	slices.Sort(names)
	fmt.Println("| data | kernel | cases | best chosen | within 10 % | mean | worst |\n|---|---|---|---|---|---|---|")
	line := func(name string, rs []result) {
		var best, good, sum, worst float64
		for _, r := range rs {
			if r.Name == r.Best {
				best++
			}
			if r.Factor <= 1.1 {
				good++
			}
			sum += r.Factor
			worst = max(worst, r.Factor)
		}
		n := float64(len(rs))
		fmt.Printf("| %s | %d | %.0f %% | %.1f %% | %.3f | %.2f |\n", name, len(rs), 100*best/n, 100*good/n, sum/n,
			worst)
	}
	for _, n := range names {
		line(n, by[n])
	}
	line("**all** | ", all)
	fmt.Println()
	slices.SortFunc(all, func(a, b result) int { return cmp.Compare(b.Factor, a.Factor) })
	fmt.Println("| miss | kernel | σ | features | measure | recommended | its error | best | its error | factor |\n" +
		"|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range all {
		if r.Factor > 1.1 {
			fmt.Printf("| %s | %s | %g | %d | %s | %s | %.3g | %s | %.3g | %.2f ± %.2f |\n", r.Shape, r.Kernel, r.Sigma,
				r.Features, r.Measure, r.Name, r.Error, r.Best, r.Least, r.Factor, r.Factor*r.Sd)
		}
	}
	return nil
}
