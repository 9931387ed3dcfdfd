package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/randfeat/randfeat/internal/figure"
	"github.com/randfeat/randfeat/internal/rng"
)

// toy is an item of 20 cells; calls counts those that were computed, and cell number stop fails.
func toy(calls *atomic.Int64, stop int) *Item {
	return &Item{ID: "toy", Paper: "None", Title: "A <toy> & its `code`", Version: 1, Run: func(l *Lab) (*Page, error) {
		keys := make([]int, 20)
		for i := range keys {
			keys[i] = i
		}
		v, err := Cells(l, "square", keys, func(k int, seed uint64) (float64, error) {
			if k == stop {
				return 0, errors.New("stopped")
			}
			calls.Add(1)
			return float64(k*k) + rand.New(rng.Stream(seed)).Float64(), nil
		})
		if err != nil {
			return nil, err
		}
		p := &Page{Setting: []string{"A setting."}, Notes: []string{"A note."}}
		p.Near("the last", FormulaOf("k²"), 361.5, 0.5, v[19], 0, 9, nil, "no reason")
		p.Claim("false", PrintedIn("Table 1"), "1", "2", Judge(false), "on purpose")
		p.Near("noise", PrintedIn("Table 2"), 1, 0, 1.4, 1.96, 2, Factor2, "no reason")
		p.Tables = append(p.Tables, Table{"Numbers", []string{"a", "b"}, [][]string{{"1", "2"}}})
		return p, p.Draw("curve", "A \"curve\".", &figure.Figure{Series: []figure.Series{{X: []float64{0, 1},
			Y: v[:2]}}})
	}}
}

func newLab(t *testing.T, cache string, workers int) *Lab {
	return &Lab{Context: context.Background(), Cache: cache, Workers: workers, Log: t.Output()}
}

func do(t *testing.T, l *Lab, it *Item) *Page {
	t.Helper()
	p, err := l.Do(it)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSameResultsHoweverRun(t *testing.T) {
	var calls atomic.Int64
	cache := t.TempDir()
	want := do(t, newLab(t, "", 1), toy(&calls, -1)).Checks[0].Ours
	for _, workers := range []int{1, 7} {
		if got := do(t, newLab(t, cache, workers), toy(&calls, -1)).Checks[0].Ours; got != want {
			t.Errorf("%d workers: %s, want %s", workers, got, want)
		}
	}
	if n := calls.Load(); n != 40 { // twice, the third time from the cache
		t.Errorf("%d cells were computed, want 40", n)
	}
	l := newLab(t, cache, 2)
	l.Fresh = true
	if do(t, l, toy(&calls, -1)); calls.Load() != 60 {
		t.Error("-fresh used the cache")
	}
	other := toy(&calls, -1)
	other.Version++
	if got := do(t, newLab(t, cache, 2), other).Checks[0].Ours; got == want || calls.Load() != 80 {
		t.Error("another version of an item used its cells or seeds")
	}
}

func TestInterruptedRunsGoOn(t *testing.T) {
	var calls atomic.Int64
	cache := t.TempDir()
	if _, err := newLab(t, cache, 1).Do(toy(&calls, 12)); err == nil || !strings.Contains(err.Error(),
		"square 12: stopped") {
		t.Fatalf("error %v does not name the cell", err)
	}
	if calls.Load() < 12 {
		t.Fatalf("%d cells before the failure", calls.Load())
	}
	p := do(t, newLab(t, cache, 1), toy(&calls, -1))
	if calls.Load() != 20 || p.Cached+p.Computed != 20 || p.Cached < 12 {
		t.Errorf("%d cells computed in all, %d from the cache", calls.Load(), p.Cached)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := newLab(t, "", 1)
	l.Context = ctx
	if _, err := l.Do(toy(&calls, -1)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDamagedCellsAreComputedAgain(t *testing.T) {
	var calls atomic.Int64
	cache := t.TempDir()
	want := do(t, newLab(t, cache, 1), toy(&calls, -1)).Checks[0].Ours
	files, _ := filepath.Glob(filepath.Join(cache, "toy", "*.json"))
	if len(files) != 20 {
		t.Fatalf("%d files", len(files))
	}
	for i, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		switch i % 4 {
		case 0:
			b = b[:len(b)/2]
		case 1: // another value under the old checksum
			b = bytes.Replace(b, []byte(`"value":`), []byte(`"value":1`), 1)
		case 2: // the file of another cell
			if b, err = os.ReadFile(files[3]); err != nil {
				t.Fatal(err)
			}
		case 3:
			continue
		}
		if err := os.WriteFile(f, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	l := newLab(t, cache, 1)
	l.Log = &log
	p := do(t, l, toy(&calls, -1))
	if p.Checks[0].Ours != want || p.Computed != 15 || strings.Count(log.String(), "damaged cell") != 15 {
		t.Errorf("%s, want %s; %d computed, want 15; log:\n%s", p.Checks[0].Ours, want, p.Computed, &log)
	}
}

func TestValuesThatAreNoNumbersAreErrors(t *testing.T) {
	it := &Item{ID: "nan", Run: func(l *Lab) (*Page, error) {
		_, err := Cells(l, "g", []int{1}, func(int, uint64) (float64, error) { return math.NaN(), nil })
		return nil, err
	}}
	if _, err := newLab(t, "", 1).Do(it); err == nil || !strings.Contains(err.Error(), "NaN") {
		t.Errorf("error %v", err)
	}
}

func TestJudge(t *testing.T) {
	zero := []Rival{{"no gain", 0}}
	for _, c := range []struct {
		name  string
		n     Numbers
		want  Verdict
		rival float64
	}{
		{"agrees", Numbers{1, 1.02, .05, Factor2}, Holds, 0},
		{"at the end of the interval", Numbers{1, 1.5, .5, nil}, Holds, 0},
		{"outside", Numbers{1, 1.2, .1, Factor2}, Misses, 0},
		{"outside, wide, with a rival inside", Numbers{1, 3, 1.5, Factor2}, Misses, 0},
		{"1.40 ± 1.96 tells nothing", Numbers{1, 1.4002, 1.9567, Factor2}, TooNoisy, .5},
		{"0.72 ± 0.47 may be half", Numbers{1, .7208, .4714, Factor2}, TooNoisy, .5},
		{"1.6 ± 0.7 may be twice", Numbers{1, 1.6, .7, Factor2}, TooNoisy, 2},
		{"1.10 ± 0.30 is neither", Numbers{1, 1.0962, .3048, Factor2}, Holds, 0},
		{"a gain of 0.0096 ± 0.0111", Numbers{-.0087, -.0096, .0111, zero}, TooNoisy, 0},
		{"a gain of 0.0342 ± 0.0087", Numbers{-.0337, -.0342, .0087, zero}, Holds, 0},
		{"the same width without a rival", Numbers{1, 1.4, 1.96, nil}, Holds, 0},
	} {
		if got, rival := c.n.Judge(); got != c.want || rival.Value != c.rival {
			t.Errorf("%s: %s, rival %v; want %s, %v", c.name, got, rival.Value, c.want, c.rival)
		}
	}
	for _, c := range []struct {
		difference, half float64
		want             Verdict
	}{{.3, .2, Holds}, {-.3, .2, Misses}, {.1, .2, TooNoisy}, {-.1, .2, TooNoisy}, {0, 0, TooNoisy}, {1e-9, 0, Holds}} {
		if got := Order(c.difference, c.half); got != c.want {
			t.Errorf("%g ± %g is above 0: %s, want %s", c.difference, c.half, got, c.want)
		}
	}
	for want, list := range map[Verdict][]Verdict{Misses: {Holds, TooNoisy, Misses}, TooNoisy: {Holds, TooNoisy, Holds},
		Holds: {Holds, Holds}} {
		if got := Worst(list...); got != want {
			t.Errorf("%v: %s", list, got)
		}
	}
}

// Every check says what it compares with, and a miss says why.
func TestPagesAreChecked(t *testing.T) {
	for name, p := range map[string]*Page{
		"no check":            {},
		"no reason":           {Checks: []Check{{What: "x", Source: PrintedIn("Table 1"), Verdict: Misses}}},
		"no kind":             {Checks: []Check{{What: "x", Verdict: Holds}}},
		"no place":            {Checks: []Check{{What: "x", Source: Source{Kind: Formula}, Verdict: Holds}}},
		"no verdict":          {Checks: []Check{{What: "x", Source: PrintedIn("Table 1")}}},
		"nothing agrees with": {Checks: []Check{{What: "x", Source: Source{Kind: Unsaid}, Verdict: Holds}}},
	} {
		it := &Item{ID: "bad", Run: func(*Lab) (*Page, error) { return p, nil }}
		if _, err := newLab(t, "", 1).Do(it); err == nil {
			t.Errorf("%s: page %+v was taken", name, p)
		}
	}
}

func TestCountsByKind(t *testing.T) {
	tally := Tally{}.Count([]Check{{Source: PrintedIn("Table 1"), Verdict: Holds},
		{Source: FormulaOf("(1)"), Verdict: Holds}, {Source: FormulaOf("(1)"), Verdict: Holds},
		{Source: FormulaOf("(1)"), Verdict: TooNoisy},
		{Source: StatedIn("§2"), Verdict: Misses}, {Source: Source{Kind: Unsaid}, Verdict: Shown}})
	const want = "printed values: 1 hold; statements: 1 miss; formulas: 2 hold, 1 too noisy; not in the papers: 1 shown, not judged"
	if got := tally.String(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSite(t *testing.T) {
	var calls atomic.Int64
	l := newLab(t, "", 1)
	l.DataDir = t.TempDir()
	without := &Item{ID: "without", Paper: "None", Title: "Without data", Data: []string{"a/b.csv"}}
	s := NewSite([]*Page{do(t, l, toy(&calls, -1)), do(t, l, without)})
	dir := filepath.Join(t.TempDir(), "site")
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	contains := func(name string, texts ...string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(b), text) {
				t.Errorf("%s has no %q", name, text)
			}
		}
		for _, bad := range []string{"http:", "https:", "<toy>", "ZgotmplZ"} {
			if strings.Contains(strings.ReplaceAll(string(b), "http://www.w3.org/2000/svg", ""), bad) {
				t.Errorf("%s has %q", name, bad)
			}
		}
	}
	contains("index.html", "A &lt;toy&gt; &amp; its", "<td>printed values</td><td>1 miss, 1 too noisy</td>",
		"<td>formulas</td><td>1 hold</td>", "not run: data missing", `href="without.html"`)
	contains("toy.html", "<td>the last</td>", "<h2>Printed in the paper</h2>", `<td data-l="source">Table 1</td>`,
		"<h2>Follows from a formula</h2>", "misses: on purpose",
		"too noisy: the interval also contains 0.5 (half)", `src="toy-curve.svg"`, "A note.", "run toy -out")
	contains("without.html", "no a/b.csv", "RANDFEAT_DATA")
	contains("toy-curve.svg", "<svg")
	md := string(s.Markdown())
	for _, text := range []string{"| false | printed, Table 1 | 1 | 2 |  | misses: on purpose |", "Not run: no a/b.csv",
		"| printed values | 0 | 1 | 1 | 0 |\n", "| formulas | 1 | 0 | 0 | 0 |\n", "| the last | formula, k² | 361.5"} {
		if !strings.Contains(md, text) {
			t.Errorf("Markdown has no %q:\n%s", text, md)
		}
	}
	b, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		Counts map[string]map[string]int
		Items  []struct {
			ID      string
			Skipped string
			Checks  []struct {
				Source  struct{ Kind, Place string }
				Verdict string
				Numbers *Numbers
			}
		}
	}
	if err := json.Unmarshal(b, &run); err != nil {
		t.Fatal(err)
	}
	if run.Counts["printed"]["too noisy"] != 1 || run.Counts["formula"]["holds"] != 1 || len(run.Items) != 2 ||
		run.Items[1].Skipped == "" {
		t.Errorf("JSON:\n%s", b)
	}
	if c := run.Items[0].Checks[2]; c.Source.Kind != "printed" || c.Source.Place != "Table 2" || c.Numbers == nil ||
		c.Numbers.Half != 1.96 {
		t.Errorf("JSON has the check %+v", c)
	}
}
