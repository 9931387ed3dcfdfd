package choose

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/family"
	"github.com/randfeat/randfeat/internal/heads"
	"github.com/randfeat/randfeat/kernel"
)

// headErrors are those of the key/value heads over all rows.
func headErrors(t *testing.T, a *Attention, q, k, v attention.Seq[float32]) []float64 {
	t.Helper()
	c, err := NewCheck(a.Visibility, a.choice.Scale, q, k, v, q.Len, 0)
	must(t, err)
	out := attention.NewSeq[float32](q.Batch, q.Heads, q.Len, v.Dim)
	_, err = a.Forward(out, q, k, v)
	must(t, err)
	sums := c.compare(gathered(out, c.rows), c.exact)
	var errs []float64
	for h := range k.Heads {
		var s errorSums
		for g := range q.Heads / k.Heads {
			s.merge(sums[h*(q.Heads/k.Heads)+g])
		}
		errs = append(errs, s.estimate().Error)
	}
	return errs
}

// What is promised of a choice holds on texts that it has not seen: at tol 0.1 at least 85 % of heads stay within it,
// the interval of the expected error holds the error of 90 % of those that are not exact, and the cost is far below
// that of exact attention.
func TestChooseHoldsOnFreshText(t *testing.T) {
	const n, length = 16, 512
	for _, causal := range []bool{false, true} {
		if causal && testing.Short() {
			continue
		}
		vis := attention.Visibility{Causal: causal}
		q, k, v := heads.Generate[float32](n, length, 32, 1, 2, 3, 4)
		c, err := Choose(Options{Tol: 0.1, ByCost: true}, vis, 0, q, k, v)
		must(t, err)
		a, err := New(c)
		must(t, err)
		q, k, v = heads.Generate[float32](n, length, 32, 5, 6, 7, 8)
		within, inside, judged := 0, 0, 0
		for h, e := range headErrors(t, a, q, k, v) {
			plan := c.Heads[h]
			if e <= 0.1 {
				within++
			}
			if plan.Method != Exact {
				judged++
				if plan.Expected.Low <= e && e <= plan.Expected.High {
					inside++
				}
			}
			t.Logf("causal %t, head %d: %v, cost %.0f, expected %+v, error %.3f", causal, h, plan.Plan, plan.Cost,
				plan.Expected, e)
		}
		if float64(within) < 0.85*float64(n) || float64(inside) < 0.9*float64(judged) || judged < n/2 ||
			c.Cost() > 0.4*exactCost(length) {
			t.Errorf("causal %t: %d of %d heads within tol, %d of %d in their intervals, cost %.0f of %.0f", causal,
				within, n, inside, judged, c.Cost(), exactCost(length))
		}
	}
}

// A bound that only exact attention keeps, and sequences too short to gain anything, are answered by it.
func TestChooseExact(t *testing.T) {
	q, k, v := heads.Generate[float32](2, 128, 32, 1)
	c, err := Choose(Options{Tol: 1e-7, ByCost: true}, attention.Visibility{}, 0, q, k, v)
	must(t, err)
	short, err := Choose(Options{ByCost: true}, attention.Visibility{}, 0, cut(q, 0, 12), cut(k, 0, 12), cut(v, 0, 12))
	must(t, err)
	for _, c := range []*Choice{c, short} {
		for h, p := range c.Heads {
			if p.Method != Exact || p.Expected.Error != 0 || p.Cost != exactCost(c.Length) {
				t.Errorf("head %d: %v, %v, cost %v", h, p.Plan, p.Expected, p.Cost)
			}
		}
	}
	if c.Tol != 1e-7 || short.Tol != 0.1 {
		t.Errorf("tol %v and %v", c.Tol, short.Tol)
	}
}

// A budget is kept, and spent better than by any one plan of the grid for all heads.
func TestChooseBudget(t *testing.T) {
	const n, length, budget = 8, 256, 48
	q, k, v := heads.Generate[float32](n, length, 32, 1)
	plans := append(featureGrid(0, 0, 32), costGrid(false, 0, length, 1)...)
	c, err := Choose(Options{Budget: budget}, attention.Visibility{}, 0, q, k, v)
	must(t, err)
	if c.Cost() > budget || c.Cost() < 0.8*budget {
		t.Errorf("cost %v of %v", c.Cost(), budget)
	}
	squares := func(c *Choice) (s float64) {
		for _, h := range c.Heads {
			s += h.Expected.Error * h.Expected.Error
		}
		return s
	}
	for _, p := range plans {
		if p.Cost(false, length, 32, 32) > budget {
			continue
		}
		one, err := Choose(Options{Tol: math.MaxFloat64, Plans: []Plan{p}, ByCost: true}, attention.Visibility{}, 0,
			q, k, v)
		must(t, err)
		if squares(one) < squares(c) {
			t.Errorf("%v for all heads: squares %v, chosen %v", p, squares(one), squares(c))
		}
	}
}

// mixed is a choice with all methods, for 6 key/value heads of 16 columns.
func mixed(t *testing.T, causal bool, q, k, v attention.Seq[float32]) *Choice {
	t.Helper()
	vis := attention.Visibility{Causal: causal}
	spec := randfeat.Spec{Kernel: kernel.Attention(q.Dim), Family: family.Positive{}, Coupling: coupling.Orthogonal{},
		Dim: q.Dim, M: 12, Seed: 3}
	plans := []Plan{{Method: Exact},
		{Method: Centroid, Centroid: centroid.Blocks{Clusters: 6, Queries: 16, Keys: 9}},
		{Method: Centroid, Centroid: centroid.Blocks{Clusters: 4, Queries: 8, Keys: 3}},
		{Method: Features, Features: &FeatureSpec{Spec: spec}},
		{Method: Features, Features: &FeatureSpec{Spec: spec, Window: 4, Sinks: 2}}, {Method: Exact}}
	if causal {
		plans[1].Centroid = centroid.Prefix{Clusters: 6, Chunk: 8, Queries: 8, Keys: 3, Window: 2}
		plans[2].Centroid = centroid.Sketch{Clusters: 2, Chunk: 8, Share: 0.1}
	}
	c := &Choice{Causal: causal, Length: k.Len, Dim: q.Dim, ValueDim: v.Dim}
	for h, p := range plans {
		one, err := Use(p, vis, 0, heads2(q, 2*h), kvHead(k, h), kvHead(v, h))
		must(t, err)
		c.Heads = append(c.Heads, one.Heads...)
	}
	return c
}

func kvHead(s attention.Seq[float32], h int) attention.Seq[float32] {
	s.Heads, s.Data = 1, s.Data[h*s.StrideH:]
	return s
}

func heads2(s attention.Seq[float32], h int) attention.Seq[float32] {
	s.Heads, s.Data = 2, s.Data[h*s.StrideH:]
	return s
}

// Every head is what its own method gives, whatever the others do, with masks and segments; the bits do not depend on
// the number of threads or on a way through JSON.
func TestAttentionDispatch(t *testing.T) {
	const n, d, dv = 40, 16, 5
	q, k, v := normals(2, 12, n, d, 1, 1), normals(2, 6, n, d, 1, 2),
		normals(2, 6, n, dv, 1, 3)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for name, vis := range visibilities(n) {
		c := mixed(t, vis.Causal, q, k, v)
		b, err := json.Marshal(c)
		must(t, err)
		read := new(Choice)
		must(t, json.Unmarshal(b, read))
		if again, err := json.Marshal(read); err != nil || string(again) != string(b) {
			t.Errorf("%s: another document after a round trip: %v", name, err)
		}
		var bits []float32
		for _, procs := range []int{1, 4} {
			runtime.GOMAXPROCS(procs)
			a, err := New(read)
			must(t, err)
			a.Visibility = vis
			out := attention.NewSeq[float32](2, 12, n, dv)
			report, err := a.Forward(out, q, k, v)
			must(t, err)
			if report.Rows != 2*12*n {
				t.Errorf("%s: %+v", name, report)
			}
			if bits == nil {
				bits = out.Data
			} else if !slices.Equal(bits, out.Data) {
				t.Errorf("%s: other bits with %d threads", name, procs)
			}
		}
		for h := range c.Heads {
			a, err := New(c.Range(h, h+1))
			must(t, err)
			a.Visibility = vis
			out := attention.NewSeq[float32](2, 2, n, dv)
			_, err = a.Forward(out, heads2(q, 2*h), kvHead(k, h), kvHead(v, h))
			must(t, err)
			var want attention.Attention[attention.Seq[float32]] = &attention.Exact[float32]{Visibility: vis}
			switch p := c.Heads[h].Plan; p.Method {
			case Centroid:
				want = &centroid.Attention{Visibility: vis, Specs: []centroid.Spec{p.Centroid}}
			case Features:
				maps, err := linear.NewMaps[float32]([]randfeat.Spec{p.Features.Spec})
				must(t, err)
				want = &linear.Attention[float32]{Visibility: vis, Maps: maps, Window: p.Features.Window,
					Sinks: p.Features.Sinks}
			}
			ref := attention.NewSeq[float32](2, 2, n, dv)
			_, err = want.Forward(ref, heads2(q, 2*h), kvHead(k, h), kvHead(v, h))
			must(t, err)
			for b := range 2 {
				for g := range 2 {
					got := bits[(b*12+2*h+g)*n*dv:][:n*dv]
					if !slices.Equal(got, ref.Head(b, g).Data) || !slices.Equal(got, out.Head(b, g).Data) {
						t.Errorf("%s: batch %d, head %d differs from its own method", name, b, 2*h+g)
					}
				}
			}
		}
	}
}

// A causal choice is strictly causal: later keys and values, however large, change nothing.
func TestCausalChoiceSeesNoFuture(t *testing.T) {
	const n, at = 256, 150
	q, k, v := heads.Generate[float32](4, n, 32, 1, 2)
	vis := attention.Visibility{Causal: true}
	c, err := Choose(Options{Tol: 0.2, ByCost: true}, vis, 0, q, k, v)
	must(t, err)
	a, err := New(c)
	must(t, err)
	before, after := attention.NewSeq[float32](2, 4, n, 32), attention.NewSeq[float32](2, 4, n, 32)
	_, err = a.Forward(before, q, k, v)
	must(t, err)
	for b := range 2 {
		for h := range 4 {
			for i := at; i < n; i++ {
				for l := range 32 {
					k.Head(b, h).Row(i)[l] *= 1e3
					v.Head(b, h).Row(i)[l] = 1e6
				}
			}
		}
	}
	_, err = a.Forward(after, q, k, v)
	must(t, err)
	centroids := 0
	for h := range 4 {
		if c.Heads[h].Method == Centroid {
			centroids++
		}
		for b := range 2 {
			if !slices.Equal(before.Head(b, h).Data[:at*32], after.Head(b, h).Data[:at*32]) {
				t.Errorf("head %d of batch %d sees the future: %v", h, b, c.Heads[h].Plan)
			}
		}
	}
	if centroids == 0 {
		t.Error("no centroids: no power")
	}
}

// Many goroutines may use one attention, also after what is visible has changed.
func TestAttentionConcurrent(t *testing.T) {
	const n, d, dv = 30, 16, 5
	q, k, v := normals(2, 12, n, d, 1, 1), normals(2, 6, n, d, 1, 2),
		normals(2, 6, n, dv, 1, 3)
	a, err := New(mixed(t, false, q, k, v))
	must(t, err)
	for _, name := range []string{"all", "mask", "segments"} {
		a.Visibility = visibilities(n)[name]
		outs := make([]attention.Seq[float32], 4)
		var group sync.WaitGroup
		for i := range outs {
			outs[i] = attention.NewSeq[float32](2, 12, n, dv)
			group.Go(func() {
				if _, err := a.Forward(outs[i], q, k, v); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		for _, o := range outs[1:] {
			if !slices.Equal(o.Data, outs[0].Data) {
				t.Errorf("%s: other bits at the same time", name)
			}
		}
	}
}

// Projections of heads are independent, and all of a choice follows its seed.
func TestChooseSeed(t *testing.T) {
	q, k, v := normals(1, 2, 40, 16, 0.1, 1), normals(1, 2, 40, 16, 0.1, 2),
		normals(1, 2, 40, 5, 1, 3)
	spec := randfeat.Spec{Kernel: kernel.Attention(16), Family: family.Adaptive{}, Dim: 16, M: 8, Seed: 7}
	c, err := Use(Plan{Method: Features, Features: &FeatureSpec{Spec: spec}}, attention.Visibility{}, 0, q, k, v)
	must(t, err)
	want := linear.HeadSpecs(spec, 2)
	for h := range want {
		if got := c.Heads[h].Features.Spec.Seed; got != want[h].Seed {
			t.Errorf("head %d has the seed %d, want %d", h, got, want[h].Seed)
		}
	}
	for _, p := range append(costGrid(false, 9, 4096, 1), featureGrid(0, 9, 16)...) {
		if s, ok := p.Centroid.(centroid.Blocks); ok && s.Seed != 9 || p.Features != nil && p.Features.Spec.Seed != 9 {
			t.Errorf("%v has another seed", p)
		}
	}
}

// Whatever is read is refused or can be written and run.
func FuzzChoice(f *testing.F) {
	f.Add([]byte(`{"format":"randfeat attention choice","version":1,"length":4,"dim":2,"value_dim":2,"heads":[{"method":` +
		`"exact","cost":2,"expected":{"error":0,"low":0,"high":0,"rows":0}},{"method":"centroid","centroid":{"clusters":3,` +
		`"keys":1,"together":8},"cost":2,"expected":{"error":0,"low":0,"high":0,"rows":0}}]}`))
	f.Add([]byte(`{"heads":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := new(Choice)
		if json.Unmarshal(b, c) != nil {
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		other := new(Choice)
		if err := json.Unmarshal(again, other); err != nil {
			t.Fatalf("%v: %s", err, again)
		}
		for _, h := range c.Heads {
			_ = h.Plan.String()
		}
	})
}

// The same arguments give the same document, whatever the number of threads.
func TestChooseDeterministic(t *testing.T) {
	q, k, v := heads.Generate[float32](4, 128, 32, 1)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var want *Choice
	for _, procs := range []int{1, 3} {
		runtime.GOMAXPROCS(procs)
		c, err := Choose(Options{Tol: 0.3, Seed: 5, ByCost: true}, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		if want == nil {
			want = c
		} else if !reflect.DeepEqual(want, c) {
			t.Errorf("%+v with %d threads, was %+v", c, procs, want)
		}
	}
}

// Choices of methods that were removed are refused with a sentence, and so are plans of the other direction.
func TestRemovedChoices(t *testing.T) {
	head := func(causal bool, plan string) string {
		return fmt.Sprintf(`{"format":"randfeat attention choice","version":1,"causal":%t,"length":64,"dim":8,"value_dim":8,"heads":[{"method":"centroid",%s,"cost":1,"expected":{"error":0,"low":0,"high":0,"rows":0}}]}`,
			causal, plan)
	}
	for _, plan := range []string{`"centroid":{"clusters":8,"window":4},"centres":{"scale":1}`,
		`"centroid":{"clusters":8,"top":2,"keys":16,"spread":true}`,
		`"centroid":{"clusters":8,"top":2,"chunk":32,"together":8}`, `"centroid":{"clusters":8,"top":2,"window":4}`} {
		err := json.Unmarshal([]byte(head(true, plan)), new(Choice))
		if !errors.Is(err, ErrChoice) || !errors.Is(err, centroid.ErrRemoved) {
			t.Errorf("%s: %v", plan, err)
		}
	}
	for causal, plan := range map[bool]string{true: `"centroid":{"clusters":8,"keys":4,"together":8}`,
		false: `"centroid":{"clusters":8,"keys":4,"chunk":32,"together":8}`} {
		if err := json.Unmarshal([]byte(head(causal, plan)), new(Choice)); !errors.Is(err, ErrChoice) {
			t.Errorf("causal %t, %s: %v", causal, plan, err)
		}
		if err := json.Unmarshal([]byte(head(!causal, plan)), new(Choice)); err != nil {
			t.Errorf("causal %t, %s: %v", !causal, plan, err)
		}
	}
}

func TestChoiceErrors(t *testing.T) {
	q, k, v := heads.Generate[float32](6, 40, 16, 1)
	vis := attention.Visibility{}
	good := mixed(t, false, normals(1, 12, 40, 16, 1, 1), k, v)
	b, err := json.Marshal(good)
	must(t, err)
	text := string(b)
	for _, c := range [][2]string{{`"version":1`, `"version":2`},
		{`"format":"randfeat attention choice"`, `"format":"x"`},
		{`"dim":16`, `"dim":17`}, {`"method":"exact"`, `"method":"none"`}, {`"method":"exact"`, `"method":"centroid"`},
		{`"method":"exact"`, `"method":"exact","method":"exact"`}, {`"clusters":6`, `"clusters":-6`},
		{`"heads":[`, `"more":1,"heads":[`}, {`"sinks":2`, `"sinks":-2`}, {text, `null`}, {text, text + "1"}} {
		bad := strings.Replace(text, c[0], c[1], 1)
		if bad == text {
			t.Fatalf("no %s in %s", c[0], text)
		}
		if err := json.Unmarshal([]byte(bad), new(Choice)); err == nil {
			t.Errorf("%s in the place of %s is accepted", c[1], c[0])
		}
	}
	for _, o := range []Options{{Tol: 1, Budget: 1}, {Tol: -1}, {Budget: math.NaN()}, {Tol: math.Inf(1)},
		{Plans: []Plan{{Method: "none"}}}, {Plans: []Plan{{Method: Centroid}}}} {
		if _, err := Choose(o, vis, 0, q, k, v); !errors.Is(err, ErrChoice) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	empty := attention.NewSeq[float32](1, 6, 0, 16)
	if _, err := Choose(Options{ByCost: true}, vis, 0, q, empty, empty); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	if _, err := New(&Choice{}); !errors.Is(err, ErrChoice) {
		t.Error(err)
	}
	a, err := New(good)
	must(t, err)
	out := attention.NewSeq[float32](1, 6, 40, 16)
	if _, err := a.Forward(out, q, k, v); err != nil {
		t.Error(err)
	}
	if _, err := a.Forward(out, q, heads2(k, 0), heads2(v, 0)); !errors.Is(err, dense.ErrShape) {
		t.Error(err)
	}
	a.Causal = true
	if _, err := a.Forward(out, q, k, v); !errors.Is(err, ErrChoice) {
		t.Error(err)
	}
	if _, err := new(Attention).Forward(out, q, k, v); !errors.Is(err, ErrChoice) {
		t.Error(err)
	}
	k.Head(0, 4).Set(7, 3, float32(math.NaN()))
	for _, causal := range []bool{false, true} {
		_, err := Choose(Options{ByCost: true}, attention.Visibility{Causal: causal}, 0, q, k, v)
		if !errors.Is(err, dense.ErrNotFinite) ||
			!strings.Contains(err.Error(), "k: batch 0, head 4, position 7, column 3") {
			t.Error(err)
		}
	}
	masked := attention.Visibility{KeyMask: slices.Repeat([]bool{true}, 40)}
	masked.KeyMask[7] = false
	if _, err := Choose(Options{ByCost: true}, masked, 0, q, k, v); err != nil {
		t.Errorf("NaN in the place of padding: %v", err)
	}
}

// A head that stays exact says why; saving keeps the reason, and choices without one load.
func TestChooseReason(t *testing.T) {
	c := &chooser{Options: Options{Tol: 0.05}}
	for want, e := range map[string]Estimate{
		"no plan kept the tolerance (least error 0.056)":    {Error: 0.0556, High: 0.072},
		"no plan kept the tolerance (best upper end 0.072)": {Error: 0.045, High: 0.072},
		"no plan kept the tolerance (least error 0.057)":    {Error: 0.0566, High: math.MaxFloat64},
		"no plan could be fitted":                           {Error: math.MaxFloat64, High: math.MaxFloat64},
	} {
		if got := c.reason(failures{true, e}); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
	q, k, v := heads.Generate[float32](2, 96, 16, 7)
	long, longK, longV := heads.Generate[float32](1, 600, 16, 7)
	causal := attention.Visibility{Causal: true}
	for name, c := range map[string]struct {
		o       Options
		vis     attention.Visibility
		q, k, v attention.Seq[float32]
		want    string
	}{
		"tolerance": {Options{Tol: 1e-9, ByCost: true}, attention.Visibility{}, q, k, v,
			"no plan kept the tolerance (least error "},
		"cost": {Options{ByCost: true, Plans: []Plan{{Method: Exact}}}, attention.Visibility{}, q, k, v,
			"no plan costs less"},
		"seconds": {Options{Rates: &Rates{Exact: 1e-12, Dense: 1, Features: 1}}, attention.Visibility{},
			q, k, v, "no plan is predicted to be faster"},
		"budget": {Options{Budget: 1e6}, attention.Visibility{}, q, k, v, "the budget allows it"},
		"short":  {Options{Decode: true}, causal, q, k, v, "no plan is predicted to be faster"},
		"decode": {Options{Decode: true, Tol: 1e-9}, causal, long, longK, longV,
			"no plan kept the tolerance (least error "},
	} {
		choice, err := Choose(c.o, c.vis, 0, c.q, c.k, c.v)
		must(t, err)
		for h, head := range choice.Heads {
			if !strings.HasPrefix(head.Reason, c.want) {
				t.Errorf("%s, head %d: %v, reason %q, want %q", name, h, head.Plan, head.Reason, c.want)
			}
		}
		b, err := json.Marshal(choice)
		must(t, err)
		saved := new(Choice)
		must(t, json.Unmarshal(b, saved))
		again, err := json.Marshal(saved)
		must(t, err)
		if !reflect.DeepEqual(choice, saved) || string(again) != string(b) {
			t.Errorf("%s: another choice after saving: %s, was %s", name, again, b)
		}
		for h := range saved.Heads {
			saved.Heads[h].Reason = ""
		}
		b, err = json.Marshal(saved)
		must(t, err)
		if strings.Contains(string(b), "reason") {
			t.Errorf("%s: an empty reason is saved: %s", name, b)
		}
		must(t, json.Unmarshal(b, new(Choice)))
	}
	choice, err := Choose(Options{Tol: 0.5, ByCost: true}, attention.Visibility{}, 0, long, longK, longV)
	must(t, err)
	if h := choice.Heads[0]; h.Method == Exact || h.Reason != "" {
		t.Errorf("%v, reason %q", h.Plan, h.Reason)
	}
}

// The trace of a search names every candidate once, with its judgements, and says what became of it. The same search
// has the same trace.
func TestTrace(t *testing.T) {
	q, k, v := heads.Generate[float32](1, 512, 16, 1)
	plans := []Plan{{Method: Centroid, Centroid: centroid.Blocks{Clusters: 4, Queries: 128, Keys: 1}},
		{Method: Centroid, Centroid: centroid.Blocks{Clusters: 32, Queries: 64, Keys: 128}},
		{Method: Centroid, Centroid: centroid.Blocks{Clusters: 64, Queries: 64, Keys: 256}},
		{Method: Centroid, Centroid: centroid.Blocks{Clusters: 512, Queries: 64, Keys: 512}}}
	for range 2 {
		var got string
		o := Options{Tol: 0.2, ByCost: true, Plans: plans, Trace: func(_ int, t Trace) { got += t.String() }}
		c, err := Choose(o, attention.Visibility{}, 0, q, k, v)
		must(t, err)
		if c.Heads[0].Plan != plans[1] {
			t.Fatalf("%v", c.Heads[0])
		}
		want := regexp.MustCompile(`^centroid, 4 clusters, keys 1, blocks of 128: cost \S+, price \S+: left: the error is above the tolerance
	1 texts, 64 first rows: error \S+
centroid, 32 clusters, keys 128, blocks of 64: cost \S+, price \S+: taken
	1 texts, 64 first rows: error \S+ \(\S+ to \S+\)
	1 texts, 64 fresh rows: error \S+ \(\S+ to \S+\)
centroid, 64 clusters, keys 256, blocks of 64: cost \S+, price \S+: not tried: it costs no less than the plan taken
exact: cost 256, price 256: left: the plan taken is cheaper
centroid, 512 clusters, keys 512, blocks of 64: cost \S+, price \S+: left: not cheaper than exact attention
$`)
		if !want.MatchString(got) {
			t.Errorf("trace:\n%s\nwant:\n%s", got, want)
		}
	}
}
