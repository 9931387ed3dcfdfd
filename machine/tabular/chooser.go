package tabular

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/randfeat/randfeat"
	"github.com/randfeat/randfeat/coupling"
	"github.com/randfeat/randfeat/kernel"
	"github.com/randfeat/randfeat/machine"
)

// Numbers of features of trials. They are powers of two, so searches and the learning curve meet at the same maps, and
// each map is tried once (chooser.known). A trial of L penalties takes n·F²/2 multiply-adds for ΦᵀΦ and K·L·F³/6 for
// its factorisations. With n = 8192, K = 5 and L = 7 these are equal at F = 700. So up to trialFeatures a search of λ
// costs less than its map; beyond it the learning curve tries one λ per map.
const (
	firstFeatures  = 64  // of the learning curve
	coarseFeatures = 256 // of the first search of a bandwidth: a quarter of the cost of the second, or less
	trialFeatures  = 512 // of the second
)

// chooser makes the choices on the sample one after the other, because a joint search would cost the product of all
// grids. Known interactions are searched again: more features want narrower kernels (ladder, refit), and λ follows
// both.
//
// The search is not nested. All trials share the folds of the sample, and the parameters of a family and the median
// distance are computed from all inputs of the sample, held out or not. This is sound because trials only compare
// settings: none of their scores is reported as the score of the model.
type chooser struct {
	f    *search
	s    *sample
	rows int64
	try  tries
	d    *decision

	spec   randfeat.Spec // family, coupling and seed; then bandwidth and size
	lambda float64
	median float64
	last   []trial // trials of penalties at the final map
	known  map[tried][]trial

	done, planned int64 // trials
}

// search is the state of one search: the job, and what earlier choices hand on to later ones.
type search struct {
	*job
	start  exactPoint // setting from which a search of an exact kernel may begin; zero: none
	loss   *Choice    // the choice of margins, if it came before all others
	fields []float64  // weights of the fields; nil: the columns keep theirs
	// rescaled is the scaling that a later search took instead; empty: none did.
	rescaled rescaled
	marks    []coupling.Omega // landmarks; nil: the map has none
	learned  *learned         // metric of the kernel; nil: none
	found    guide            // the choices of this search, for the searches of scored folds
}

// rescaled is a scaling and why it was taken.
type rescaled struct{ to, why string }

func (c *chooser) chosen(ch Choice) { c.d.Choices = append(c.d.Choices, ch) }

func (c *chooser) noteModel() {
	ch := Choice{Name: "model", Value: string(c.f.kind), Given: c.f.o.Kind != "", Why: "as asked"}
	if !ch.Given {
		ch.Why = "least squares, with penalties and folds in closed form"
		if c.f.task == machine.Unsupervised {
			ch.Why = "no target was named"
		}
	}
	c.chosen(ch)
	if c.rows > int64(c.s.len()) {
		c.d.Notes = append(c.d.Notes, fmt.Sprintf("choices were tried on a sample of %d of the %d rows", c.s.len(),
			c.rows))
	}
}

// at returns the spec with bandwidth s and about the given number of features. It fits the parameters of the family if
// the family has some.
func (c *chooser) at(s float64, features int) (randfeat.Spec, error) {
	return c.specOf(c.spec, s, features)
}

func (c *chooser) specOf(spec randfeat.Spec, s float64, features int) (randfeat.Spec, error) {
	spec.Kernel = kernel.Kernel{Kind: spec.Kernel.Kind, Scale: s}
	if c.fitted(spec.Family) {
		var err error
		if spec, err = randfeat.Fit(spec, c.s.x, c.s.x); err != nil {
			return spec, err
		}
	}
	spec, err := spec.WithFeatures(features)
	if errors.Is(err, randfeat.ErrFeatures) {
		return spec, nil // its smallest map; the report says how many features it has
	}
	return spec, err
}

// limit returns the largest number of features worth trying, which is about the number of rows. With F = n the features
// can fit any targets; more features only approximate the kernel better.
func (c *chooser) limit() int {
	most := firstFeatures
	for int64(most) < c.rows && (most <= trialFeatures || int64(2*most) <= c.rows) {
		most *= 2
	}
	if c.f.o.Budget == defaultBudget {
		most = min(most, int(math.Sqrt(mostProducts/float64(c.rows))))
	}
	return min(most, c.f.o.Budget, c.f.mostFeaturesFor())
}

// mostProducts bounds n·F² if the caller set no budget. Tables of more than 500,000 rows get fewer features, so the
// time of a fit does not grow faster than the number of rows.
const mostProducts = 2.1e12

// searchFeatures returns the number of features for the search of a bandwidth.
func (c *chooser) searchFeatures() int {
	if c.f.o.Features > 0 {
		return min(c.f.o.Features, trialFeatures)
	}
	return min(c.limit(), trialFeatures)
}

// finalLimit returns the largest number of features that the model may get.
func (c *chooser) finalLimit() int {
	if c.f.o.Features > 0 {
		return c.f.o.Features
	}
	return c.limit()
}

// grid returns the penalties from centre·10^lo to centre·10^hi, with per steps in a decade, or the λ of the caller.
func (c *chooser) grid(centre float64, lo, hi float64, per int) []float64 {
	if c.f.o.Lambda > 0 {
		return []float64{c.f.o.Lambda}
	}
	if c.unpenalised() {
		return []float64{0}
	}
	var g []float64
	for i := int(math.Round(lo * float64(per))); i <= int(math.Round(hi*float64(per))); i++ {
		g = append(g, centre*math.Pow(10, float64(i)/float64(per)))
	}
	return g
}

// fixedPenalty reports whether there is no λ to choose.
func (c *chooser) fixedPenalty() bool { return c.f.o.Lambda > 0 || c.unpenalised() }

func (c *chooser) unpenalised() bool { return !c.f.info.Penalised }

func short(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
