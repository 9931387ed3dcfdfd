package choose

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/attention/centroid"
	"github.com/randfeat/randfeat/attention/linear"
	"github.com/randfeat/randfeat/internal/par"
)

// judge measures candidates on one head. It is the only place where the error of a candidate comes from. It keeps the
// clusterings of its texts and the errors that it knows: a search may judge a plan a second time with more texts and
// rows, and then needs only the new ones.
type judge struct {
	*chooser
	h     int
	texts []*judgedText
	maps  map[*FeatureSpec]fittedMap
	tried []judged
}

// judgedText is one text with the rows that judge plans on it.
type judgedText struct {
	check, fresh *Check
	trials       *centroid.Trials
	known        map[judgement][]errorSums // for each query head of the group
}

// judgement is a plan and the rows that judge it: those of check, or fresh ones.
type judgement struct {
	spec     centroid.Spec
	features *FeatureSpec
	fresh    bool
}

// fittedMap is a candidate of random features, fitted to the head.
type fittedMap struct {
	maps []randfeat.FeatureMap[float32]
	err  error
}

// The rows that judge a plan: the rows that guide the search, fresh rows, or both. Rows that have guided a search
// by one or two measurements are hardly biased, so allRows may include them.
const (
	checkRows = iota
	freshRows
	allRows
)

func (c *chooser) judge(h int) *judge {
	return &judge{chooser: c, h: h, maps: map[*FeatureSpec]fittedMap{}}
}

// estimate judges a plan on so many texts, beginning with a text that depends on the head. A plan that cannot be fitted
// to the head has the largest error. The judgement goes to the trace.
func (j *judge) estimate(p Plan, texts, rows int) (Estimate, error) {
	sums, err := j.measure(p, texts, rows)
	e := Estimate{Error: math.MaxFloat64, High: math.MaxFloat64}
	if err == nil {
		e = j.forecast(&sums)
	} else if !errors.Is(err, errNoFit) {
		return e, err
	}
	j.tried = append(j.tried, judged{p, e, texts, rows != checkRows})
	return e, nil
}

// forecast returns the expected error on another text. An error above the tolerance needs no interval; its upper end is
// a rough guess.
func (c *chooser) forecast(sums *errorSums) Estimate {
	if e := sums.error(); c.Tol > 0 && e > c.Tol {
		return Estimate{Error: e, High: min(caution*e, math.MaxFloat64), Rows: len(sums.rows)}
	}
	spread := spreadOf(c.all.k.Len)
	if !c.Decode && c.all.vis.Causal && c.all.k.Len < budgetLength { // such errors differ more between texts
		spread = textSpread
	}
	return sums.forecast(spread)
}

// measure returns the errors of a plan on so many texts. The query heads of a group err together at a position, so that
// they are one row of the bootstrap.
func (j *judge) measure(p Plan, texts, rows int) (sums errorSums, err error) {
	for i := len(j.texts); i < texts; i++ {
		t, err := j.text((j.h + i) % j.check.q.Batch)
		if err != nil {
			return sums, err
		}
		j.texts = append(j.texts, t)
	}
	if p.Method == Features {
		if err := j.fit(p.Features); err != nil {
			return sums, err
		}
	}
	errs := make([]error, texts)
	par.For(texts, 1, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			errs[i] = j.know(j.texts[i], p, rows)
		}
	})
	if err := errors.Join(errs...); err != nil {
		return sums, err
	}
	for _, fresh := range []bool{false, true} {
		if rows == checkRows && fresh || rows == freshRows && !fresh {
			continue
		}
		for i, t := range j.texts[:texts] {
			list := t.known[judgement{p.Centroid, p.Features, fresh}]
			for at := range list[0].rows {
				var a, b float64
				for _, g := range list {
					a, b = a+g.rows[at].a, b+g.rows[at].b
				}
				sums.add(a, b, i)
			}
		}
	}
	return sums, nil
}

// errNoFit marks a candidate that cannot be fitted to a head.
var errNoFit = errors.New("no fit")

// fit fits a family to the head and draws its map, once.
func (j *judge) fit(f *FeatureSpec) error {
	m, ok := j.maps[f]
	if !ok {
		s := j.all.head(j.h)
		spec, err := fitFeatures(*f, &s, j.h)
		if err != nil {
			m.err = fmt.Errorf("%w: %w", err, errNoFit)
		} else {
			m.maps, m.err = linear.NewMaps[float32]([]randfeat.Spec{spec.Spec})
		}
		j.maps[f] = m
	}
	return m.err
}

// text prepares text b for trials of the head.
func (j *judge) text(b int) (*judgedText, error) {
	t := &judgedText{check: oneText(j.check, b, j.h), fresh: oneText(j.fresh, b, j.h),
		known: map[judgement][]errorSums{}}
	var err error
	t.trials, err = centroid.NewTrials(t.check.vis, j.scale, t.check.q, t.check.k, t.check.v)
	return t, err
}

// know computes the errors of a plan on the given rows of a text, unless they are known. One trial computes all missing
// rows. A trial takes no row twice, so there are two if check and fresh share rows, as in short texts.
func (j *judge) know(t *judgedText, p Plan, rows int) error {
	shared := func(row int) bool { return slices.Contains(t.check.rows, row) }
	if rows == allRows && slices.ContainsFunc(t.fresh.rows, shared) {
		return errors.Join(j.know(t, p, checkRows), j.know(t, p, freshRows))
	}
	var checks []*Check
	var positions []int
	for _, check := range [...]*Check{t.check, t.fresh} {
		fresh := check == t.fresh
		if rows != allRows && (rows == freshRows) != fresh || t.known[judgement{p.Centroid, p.Features, fresh}] != nil {
			continue
		}
		if check.seen == nil {
			if err := check.answer(j.scale); err != nil {
				return err
			}
		}
		checks, positions = append(checks, check), append(positions, check.rows...)
	}
	if len(checks) == 0 {
		return nil
	}
	out := attention.NewSeq[float32](1, t.check.q.Heads, len(positions), t.check.v.Dim)
	if p.Method == Features {
		a := &linear.Attention[float32]{Visibility: t.check.vis, Maps: j.maps[p.Features].maps,
			Window: p.Features.Window,
			Sinks:  p.Features.Sinks}
		whole := attention.NewSeq[float32](1, t.check.q.Heads, t.check.q.Len, t.check.v.Dim)
		if _, err := a.Forward(whole, t.check.q, t.check.k, t.check.v); err != nil {
			return err
		}
		gather(out, whole, positions)
	} else if err := t.trials.At(out, positions, p.Centroid); err != nil {
		return err
	}
	from := 0
	for _, check := range checks {
		to := from + len(check.rows)
		t.known[judgement{p.Centroid, p.Features, check == t.fresh}] = check.compare(cut(out, from, to), check.exact)
		from = to
	}
	return nil
}

// oneText returns the check of key/value head h on text b alone, with the same rows, and with exact outputs if c has
// them.
func oneText(c *Check, b, h int) *Check {
	s := sample{c.vis, c.q, c.k, c.v}
	s = s.head(h)
	group := c.q.Heads / c.k.Heads
	out := &Check{vis: c.vis, q: batch(s.q, b), k: batch(s.k, b), v: batch(s.v, b), rows: c.rows}
	if c.seen != nil {
		out.exact, out.seen = batch(headRange(c.exact, h*group, (h+1)*group), b), c.seen[b:b+1]
	}
	out.vis.KeyMask = rowsOf(c.vis.KeyMask, c.k.Len, b)
	out.vis.Segments = rowsOf(c.vis.Segments, c.q.Len, b)
	out.vis.KeySegments = rowsOf(c.vis.KeySegments, c.k.Len, b)
	return out
}
