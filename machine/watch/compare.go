package watch

import (
	"github.com/randfeat/randfeat/data"
)

// pairRows is the smallest number of rows for which the law of mean products is taken as normal.
const pairRows = 100

// comparison is the outcome of all tests of two tables.
type comparison struct {
	joint   float64       // p-value of the joint test
	columns []columnTests // of every field
	pairs   float64       // p-value of all pairs
	pair    int           // the pair that differs most
	most    float64       // its studentised square
}

// columnTests are the p-values of a column, 1 where nothing is tested.
type columnTests struct {
	values  float64 // the values that are present
	missing float64
	outside float64 // numbers beyond the range, levels unknown to the reference
}

// p is the p-value of the column.
func (c columnTests) p() float64 {
	tests, least := 0.0, 1.0
	for _, p := range []float64{c.values, c.missing, c.outside} {
		if p < 1 {
			tests++
			least = min(least, p)
		}
	}
	return min(1, max(tests, 1)*least)
}

// smallest is the smallest p-value of the three groups of tests.
func (c *comparison) smallest() float64 {
	p := min(c.joint, c.pairs)
	n := 0.0
	least := 1.0
	for _, t := range c.columns {
		n++
		least = min(least, t.p())
	}
	return min(p, n*least, 1)
}

// compare tests sums b over m rows against sums a over n rows.
func (r *Reference) compare(n float64, a []float64, m float64, b []float64) comparison {
	c := comparison{joint: 1, pairs: 1}
	width := 1/n + 1/m // the variance of a difference of means, in units of that of a row
	for k, law := range r.joint {
		t := 0.0
		for f := k * r.features; f < (k+1)*r.features; f++ {
			d := b[f]/m - a[f]/n
			t += d * d
		}
		c.joint = min(c.joint, bandwidths*law.tail(t/width))
	}
	for k := range r.fields {
		c.columns = append(c.columns, r.compareField(k, a, b))
	}
	if min(n, m) < pairRows || len(r.pairs) == 0 {
		return c
	}
	for k := range r.pairs {
		at := r.atPairs + 2*k
		meanA, sdA := moment(a[at:], n)
		meanB, sdB := moment(b[at:], m)
		d, v := meanB-meanA, (n*sdA*sdA+m*sdB*sdB)/(n+m)
		if z := d * d / (v * width); v > 1e-12 && z > c.most {
			c.most, c.pair = z, k
		}
	}
	c.pairs = r.maximum.tail(c.most)
	return c
}

// compareField tests the counts of a field.
func (r *Reference) compareField(k int, a, b []float64) columnTests {
	f := &r.fields[k]
	a, b = a[f.at:f.at+f.cells], b[f.at:f.at+f.cells]
	last := f.cells - 1
	n, m := sum(a[:last]), sum(b[:last])
	t := columnTests{values: 1, missing: shares(a[last], n+a[last], b[last], m+b[last]), outside: 1}
	switch {
	case r.schema.Fields[k].Kind == data.Time: // time moves on by itself
	case len(f.edges) > 0:
		t.values = smooth(a[:last], b[:last])
		t.outside = more(a[0]+a[last-1], n, b[0]+b[last-1], m)
	case f.levels > 0:
		t.values = levels(a[:last], b[:last])
		t.outside = more(a[last-1], n, b[last-1], m)
	}
	return t
}

// more tests whether the share b of m is larger than a of n.
func more(a, n, b, m float64) float64 {
	if b == 0 {
		return 1
	}
	return hypergeometric(b, m, a, n)
}
