package tabular

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/randfeat/randfeat/data"
	"github.com/randfeat/randfeat/dense"
	"github.com/randfeat/randfeat/internal/stattest"
	"github.com/randfeat/randfeat/machine"
)

// subjects is a table of rows of repeated subjects: y is the effect of the subject, that of x, and noise. Of a shuffled
// table, targets belong to other rows.
func subjects(n, levels int, shuffled bool, seed uint64) *numbers {
	rng := rand.New(rand.NewPCG(seed, 1))
	effect := make([]float64, levels)
	for i := range effect {
		effect[i] = rng.NormFloat64()
	}
	s := &numbers{names: []string{"subject_id", "x", "y"}}
	for range n {
		who, x := rng.IntN(levels), rng.NormFloat64()
		y := effect[who] + 0.5*math.Sin(2*x) + 0.3*rng.NormFloat64()
		s.rows = append(s.rows, []float64{float64(1000 + 7*who), x, y})
	}
	if shuffled {
		rng.Shuffle(n, func(i, j int) { s.rows[i][2], s.rows[j][2] = s.rows[j][2], s.rows[i][2] })
	}
	return s
}

func r2(t *testing.T, m *machine.Model, s *numbers) float64 {
	t.Helper()
	rows, err := machine.ModelRows(s, m, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := machine.NewPredictor[float64](m)
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Evaluation()
	if err != nil {
		t.Fatal(err)
	}
	var ws machine.Workspace[float64]
	err = rows.Each(512, func(x, y dense.Matrix[float64]) error {
		pred := dense.New[float64](x.Rows, 1)
		if err := p.Predict(pred, x, &ws); err != nil {
			return err
		}
		return e.Add(y, pred, dense.Matrix[float64]{})
	})
	if err != nil {
		t.Fatal(err)
	}
	return e.Scores()[1].Value
}

// TestCodesOfShuffledTargets: a code that let a row know its own target would predict a target that is noise. The
// score must be that of chance, for every code, and so must that of the choice between them.
func TestCodesOfShuffledTargets(t *testing.T) {
	t.Parallel()
	for _, code := range append(Values("code"), "") {
		if testing.Short() && code != "" && code != string(data.CodeMeans) {
			continue
		}
		o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: 1, Folds: 3, Kernel: "gaussian",
			Scaling: scalingStandard}
		if code != "" {
			o.Code = map[string]string{"subject_id": code}
		}
		m, r, err := Fit(context.Background(), subjects(330, 80, true, 3), o)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		// R² = 2ρ√q − q for predictions of q times the variance of the targets, which is ρ² at most, whatever q is. Of
		// n rows that predictions know nothing of, ρ√n is standard normal: 0.060 and 0.050 for 330 and 400 rows. A leak
		// of means is far above that: 0.2 and more with 4 rows a level.
		z := stattest.Bound(1e-4, 2*(len(Values("code"))+1))
		if s := r.Scores[1]; s.Name != "R²" || s.Value > z*z/330 {
			t.Errorf("%q: %s = %.3f on a shuffled target, bound %.3f", code, s.Name, s.Value, z*z/330)
		}
		v := r2(t, m, subjects(400, 80, true, 4))
		if v > z*z/400 {
			t.Errorf("%q: R² of new rows = %.3f on a shuffled target, bound %.3f", code, v, z*z/400)
		}
		// As in TestFoldsCodeWithoutTheirTarget, predictions have at most 1/10 of the variance of the targets.
		if least := v - 0.1 - 2*z*math.Sqrt(0.1/330); r.Scores[1].Value < least {
			t.Errorf("%q: R² %.3f on a shuffled target, at least %.3f from that of new rows", code, r.Scores[1].Value,
				least)
		}
	}
}

// TestFoldsCodeWithoutTheirTarget: if the models of folds learned from rows whose codes contain the rows' own targets,
// they would trust the codes, and their errors on the rows held out would exceed those of the model of all rows: R² was
// −0.3. For predictions of q times the variance of the targets that know nothing of n rows, R² = 2ρ√q − q with ρ√n
// standard normal. A fit that is not misled predicts noise of no more than q = 1/10: it shrinks what did not help.
func TestFoldsCodeWithoutTheirTarget(t *testing.T) {
	t.Parallel()
	z := stattest.Bound(1e-4, 4)
	const q = 0.1
	bound := q + 2*z*math.Sqrt(q/800)
	for seed := uint64(1); seed <= 2; seed++ {
		o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: seed, Folds: 3, Kernel: "gaussian",
			Scaling: scalingStandard, Code: map[string]string{"subject_id": string(data.CodeMeans)}}
		m, r, err := Fit(context.Background(), subjects(800, 250, true, 3), o)
		if err != nil {
			t.Fatal(err)
		}
		stated, fresh := r.Scores[1].Value, r2(t, m, subjects(800, 250, true, 4))
		if math.Abs(stated-fresh) > bound {
			t.Errorf("seed %d: R² %.3f stated on a shuffled target, %.3f on new rows, bound of the difference %.3f",
				seed, stated, fresh, bound)
		}
	}
}

// TestCodesOfMarkedRows: folds by time, with a horizon and by group have codes of a column of many levels.
func TestCodesOfMarkedRows(t *testing.T) {
	t.Parallel()
	src := subjects(260, 90, false, 9)
	src.names = append(src.names, "day", "visit")
	for i, row := range src.rows {
		src.rows[i] = append(row, float64(i/2), float64(i%12))
	}
	for _, marks := range []Options{
		{Marks: data.MarkColumns{Time: "day"}},
		{Marks: data.MarkColumns{Time: "day"}, Horizon: 3},
		{Marks: data.MarkColumns{Group: "visit"}},
	} {
		for _, code := range []string{"", string(data.CodeMeans)} {
			o := marks
			o.Learn, o.Seed, o.Folds = data.LearnOptions{Targets: []string{"y"}}, 1, 3
			if code != "" {
				o.Code = map[string]string{"subject_id": code}
			}
			if _, _, err := Fit(context.Background(), src, o); err != nil {
				t.Errorf("%+v, code %q: %v", marks.Marks, code, err)
			}
		}
	}
}

// TestCodesTellSubjectsApart: with its subjects told apart, the table has an R² of about
// (1 + 0.09)/(1 + 0.09 + 0.09) less what effects of four rows each are uncertain by; as a number the id tells nothing.
func TestCodesTellSubjectsApart(t *testing.T) {
	t.Parallel()
	train := subjects(450, 80, false, 5)
	fresh := subjects(1500, 80, false, 5)
	fresh.rows = fresh.rows[450:] // the same subjects, other rows
	o := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: 1, Folds: 3, Kernel: "gaussian",
		Scaling: scalingStandard}
	m, r, err := Fit(context.Background(), train, o)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "most frequent levels") }) {
		t.Errorf("notes %q", r.Notes)
	}
	sum := 0.0
	for _, s := range r.Stages {
		sum += s.Seconds
	}
	if sum < 0.9*r.Seconds-0.05 {
		t.Errorf("stages of %.3f s, in all %.3f s", sum, r.Seconds)
	}
	got, c := r2(t, m, fresh), choice(t, r, "encode")
	if got < 0.8 || len(c.Trials) < 4 || c.Given {
		t.Errorf("R² %.3f with %+v", got, c)
	}
	// Codes that are learned without two folds are worse than those of the model, never better.
	if s := r.Scores[1]; s.Value > got+0.05 || s.High < got-0.02 {
		t.Errorf("stated R² %.3f, on new rows %.3f", s.Value, got)
	}
	o.Learn.Numeric = []string{"subject_id"}
	o.Code = map[string]string{"subject_id": string(data.CodeMeans)}
	if m, r, err = Fit(context.Background(), train, o); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Summary.Columns {
		if c.Name == "subject_id" && (c.Use != string(data.Categorical) || !strings.Contains(c.Why, "means")) {
			t.Errorf("%+v", c)
		}
	}
	if got := r2(t, m, fresh); got < 0.75 {
		t.Errorf("R² of means %.3f", got)
	}
}

// TestCrossedCodes: the code of a row of the fit is that of the other parts, by hand.
func TestCrossedCodes(t *testing.T) {
	src := subjects(400, 40, false, 6)
	o, err := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: 1,
		Code: map[string]string{"subject_id": "means"}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	f := chosenFor(t, job{ctx: context.Background(), src: src, o: o, weighs: true})
	rows, err := f.trainingRows(src)
	if err != nil {
		t.Fatal(err)
	}
	k := 0
	fd := f.schema.Fields[k]
	if fd.Name != "subject_id" || fd.Code != data.CodeMeans || fd.Width() != 2 || len(fd.Levels) != 40 {
		t.Fatalf("%+v", fd)
	}
	// What the code is made of: with T the targets of other parts, mean (ΣT_level + k·mean T)/(n + k) − mean T, times
	// one factor for all rows.
	counts, err := countRows(f.job, []data.Field{{Name: fd.Name, Kind: fd.Kind, Levels: fd.Levels}})
	if err != nil {
		t.Fatal(err)
	}
	shrink := counts.scales(0, data.CodeMeans)
	weight := fd.Weight
	if weight == 0 {
		weight = 1
	}
	target := f.schema.Targets[0]
	at := 0
	err = rows.Each(64, func(x, y dense.Matrix[float64]) error {
		for i := range x.Rows {
			part := f.deal.of(int64(at), counts.parts)
			sum, n, all, rest := 0.0, 0.0, 0.0, 0.0
			for j, row := range src.rows {
				if f.deal.of(int64(j), counts.parts) == part {
					continue
				}
				z := (row[2] - target.Mean) / target.Scale
				all, rest = all+z, rest+1
				if row[0] == src.rows[at][0] {
					sum, n = sum+z, n+1
				}
			}
			want := ((sum+shrink.shrink*all/rest)/(n+shrink.shrink) - all/rest) / shrink.spread[0] * weight
			if got := x.At(i, 0); math.Abs(got-want) > 1e-9 {
				t.Fatalf("row %d: code %g, want %g", at, got, want)
			}
			at++
		}
		return nil
	})
	if err != nil || at != 400 {
		t.Fatal(err, at)
	}
	// A level unknown at the fit has the mean of all rows.
	one := &numbers{names: src.names, rows: [][]float64{{-5, 0, 0}}}
	plain, err := machine.TableRows(one, f.schema, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.Each(1, func(x, _ dense.Matrix[float64]) error {
		if x.At(0, 0) != 0 {
			t.Errorf("code of an unknown level %v", x.Row(0))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestShrinkage: the moments find the variances that effects and noise were drawn with. With 300 levels of about 4 rows
// the ratio 0.34/1 of variances (noise with that of sin 2x, over effects) has a standard error of some 10 %.
func TestShrinkage(t *testing.T) {
	src := subjects(1200, 300, false, 8)
	o, _ := Options{Learn: data.LearnOptions{Targets: []string{"y"}}, Seed: 1, Bandwidth: 1, Lambda: 1,
		Code: map[string]string{"subject_id": "counts"}}.withDefaults()
	f := chosenFor(t, job{ctx: context.Background(), src: src, o: o, weighs: true})
	c, err := countLevels(f.job, []string{"subject_id"})
	if err != nil {
		t.Fatal(err)
	}
	// Var(½ sin 2x) = (1 − e⁻⁸)/8 for normal x.
	want := (1-math.Exp(-8))/8 + 0.09
	if got := c.scales(0, data.CodeMeans).shrink; math.Abs(got-want) > 0.4*want {
		t.Errorf("shrinkage %g rows, want about %g", got, want)
	}
	g := chosenFor(t, job{ctx: context.Background(), src: subjects(1200, 300, true, 8), o: o, weighs: true})
	if c, err = countLevels(g.job, []string{"subject_id"}); err != nil {
		t.Fatal(err)
	}
	if got := c.scales(0, data.CodeMeans).shrink; got < 10 {
		t.Errorf("shrinkage %g rows of a shuffled target", got)
	}
}

func TestCodeErrors(t *testing.T) {
	src := subjects(300, 40, false, 7)
	learn := data.LearnOptions{Targets: []string{"y"}}
	schema, _, err := data.Learn(src, learn)
	if err != nil {
		t.Fatal(err)
	}
	leaky := *schema
	leaky.Fields = []data.Field{{Name: "subject_id", Kind: data.Categorical, Levels: []string{"1000", "1007"},
		Code: data.CodeMeans, Table: []float64{0, 0, 0, 0}, Prior: []float64{0, 0}}}
	leaky.Ignored = []string{"x"}
	if err := leaky.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Learn: learn, Code: map[string]string{"subject_id": "rare"}}, `code "rare", want levels, all, hashed`},
		{Options{Learn: learn, Code: map[string]string{"who": "means"}}, `"who": a code was asked for`},
		{Options{Learn: data.LearnOptions{Skip: []string{"y"}}, Code: map[string]string{"subject_id": "means"}},
			"density"},
		{Options{Schema: schema, Code: map[string]string{"subject_id": "means"}}, "leave one of them out"},
		{Options{Schema: &leaky}, "would know its own"},
		{Options{Learn: learn, Features: 20000, Code: map[string]string{"subject_id": "means"}}, "fewer features"},
	} {
		_, _, err := Fit(context.Background(), src, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, machine.ErrSetup) {
			t.Errorf("%v: %v", c.want, err)
		}
	}
	_, err = Choose(context.Background(), Table{Schema: schema},
		Options{Code: map[string]string{"subject_id": "means"}})
	if err == nil || !strings.Contains(err.Error(), "all rows in one place") {
		t.Error(err)
	}
}
