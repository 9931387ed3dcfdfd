package main

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// difference is a mean difference of scores over trials, with its 95 % interval.
type difference struct {
	mean, low, high float64
}

// paired returns the interval of a − b. Trials share rows, so a plain t interval would be too narrow: the variance
// of the mean is s²·(1/R + test/train) instead of s²/R (Nadeau & Bengio 2003, Machine Learning 52).
func paired(a, b []float64, test, train int) difference {
	d := make([]float64, min(len(a), len(b))) // both have the same first splits
	for i := range d {
		d[i] = a[i] - b[i]
	}
	mean, sd := stat.MeanStdDev(d, nil)
	n := float64(len(d))
	half := distuv.StudentsT{Nu: n - 1, Sigma: 1}.Quantile(0.975) * sd * math.Sqrt(1/n+float64(test)/float64(train))
	return difference{mean, mean - half, mean + half}
}

func (d difference) String() string {
	return fmt.Sprintf("%+.2f [%+.2f, %+.2f]", d.mean, d.low, d.high)
}

// verdict says whether the interval lies above zero, contains it, or lies below.
func (d difference) verdict() string {
	switch {
	case d.low > 0:
		return "better"
	case d.high >= 0:
		return "within"
	}
	return "**worse**"
}

// near says whether the difference is at most two points behind an exact kernel.
func (d difference) near() string {
	switch {
	case d.mean >= -2:
		return "met"
	case d.high >= -2:
		return "**missed**, interval reaches"
	}
	return "**missed**"
}
