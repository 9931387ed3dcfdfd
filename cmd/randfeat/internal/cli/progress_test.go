package cli

import (
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	p := &Progress{What: "rows", Total: 1000}
	if got := p.Line(250, time.Second); got != "rows 250/1000" {
		t.Errorf("without a rate: %q", got)
	}
	p.WithRate("rows")
	for _, c := range []struct {
		done    int
		elapsed time.Duration
		want    string
	}{
		{0, time.Second, "rows 0/1000"},
		{250, 100 * time.Millisecond, "rows 250/1000  2500 rows/s"},
		{250, 2 * time.Second, "rows 250/1000  125 rows/s  6s left"},
		{10, 4 * time.Second, "rows 10/1000  2.5 rows/s  6m36s left"},
		{1200, 2 * time.Second, "rows 1200/1200  600 rows/s"},
	} {
		if got := p.Line(c.done, c.elapsed); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	p.Approx = true
	if got := p.Line(500, 2*time.Second); got != "rows 500/≈1000  250 rows/s  2s left" {
		t.Errorf("%q", got)
	}
	p.Total = 0
	if got := p.Line(500, 2*time.Second); got != "rows 500  250 rows/s" {
		t.Errorf("without a total: %q", got)
	}
}
