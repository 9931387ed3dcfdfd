package tabular

import "testing"

// A metric stays only if far searches confirm it, and if its gain does not end before all rows are fitted.
func TestMetricLasts(t *testing.T) {
	errors := func(n, from int) []float64 { // n of 1000 rows are wrong
		out := make([]float64, 1000)
		for i := range n {
			out[from+i] = 1
		}
		return out
	}
	for _, c := range []struct {
		name        string
		near        float64 // share of errors that 2048 rows save
		plain, with int
		rows        int64
		want        bool
	}{
		{"a gain that grows", 0.02, 300, 250, 1 << 16, true},
		{"a gain within its standard error", 0, 260, 250, 8192, false},
		{"a loss", 0.02, 250, 300, 8192, false},
		{"a gain that shrinks, on no more rows", 0.1, 300, 250, 8192, true},
		{"a gain that shrinks and ends before", 0.15, 300, 250, 1 << 15, false},
		{"a gain that shrinks slowly", 0.06, 300, 250, 1 << 15, true},
	} {
		plain, with := &decision{farRows: 8192}, &decision{farRows: 8192}
		plain.far.loss, with.far.loss = errors(c.plain, 0), errors(c.with, 200)
		if got := (metricGain{2048, c.near}).lasts(plain, with, c.rows); got != c.want {
			t.Errorf("%s: lasts = %t, want %t", c.name, got, c.want)
		}
	}
}
