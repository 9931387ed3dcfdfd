package control

import (
	"math"
	"math/rand/v2"

	"github.com/randfeat/randfeat/internal/rng"
)

// Lengths in metres. Those of stones and gaps are the paper's (K.1).
const (
	stoneLeast, stoneMost = .5, .8
	gapLeast, gapMost     = .1, .2
	stoneWidth            = .5
	pit                   = .5  // depth of the ground below gaps and beside stones
	margin                = .02 // a foot this close to an edge slips
	courseLength          = 30
)

// Course is a row of stones, each given by its begin and end along the way.
type Course struct{ stones [][2]float64 }

// NewCourse draws a course. The first stone begins behind the walker.
func NewCourse(seed uint64) *Course {
	src := rand.New(rng.Stream(seed))
	c := &Course{stones: [][2]float64{{-1, .4 + .3*src.Float64()}}}
	for at := c.stones[0][1]; at < courseLength; {
		at += gapLeast + (gapMost-gapLeast)*src.Float64()
		to := at + stoneLeast + (stoneMost-stoneLeast)*src.Float64()
		c.stones = append(c.stones, [2]float64{at, to})
		at = to
	}
	return c
}

// on reports whether a point lies on a stone, at least inside metres from its edges.
func (c *Course) on(x, inside float64) bool {
	lo, hi := 0, len(c.stones) // binary search for the last stone that begins at or before x
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; c.stones[mid][0] <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	s := c.stones[lo]
	return x >= s[0]+inside && x <= s[1]-inside
}

// The camera. Its rows look from behind the body to far ahead; the first row looks farthest.
const (
	Rows, Cols   = 24, 32
	Pixels       = Rows * Cols
	cameraHeight = .5
	fromAngle    = -.2 // of the last row, from the vertical, in radians
	toAngle      = 1.05
	halfWidth    = .5 // radians to either side
)

// See computes the image of the ground from a camera at x: for each pixel, how much longer its ray is than on flat
// ground, relative to the flat one. It is 0 on a stone and up to 1 above a pit.
func (c *Course) See(image []float32, x float64) {
	for r, ahead := range rays {
		row := image[r*Cols : (r+1)*Cols]
		ground := float32(pit / cameraHeight)
		if c.on(x+ahead, 0) {
			ground = 0
		}
		for col := range row {
			if row[col] = ground; beside[col] {
				row[col] = pit / cameraHeight
			}
		}
	}
}

// rays are the distances ahead of the body at which the camera's rows meet flat ground. beside marks the columns
// that miss the stones.
var rays, beside = func() (ahead [Rows]float64, beside [Cols]bool) {
	for r := range ahead {
		ahead[r] = cameraHeight * math.Tan(toAngle+(fromAngle-toAngle)*(float64(r)+.5)/Rows)
	}
	for c := range beside {
		side := math.Tan(halfWidth * (2*(float64(c)+.5)/Cols - 1))
		beside[c] = math.Abs(side*cameraHeight) > stoneWidth/2
	}
	return ahead, beside
}()

// Walker is a body that moves along the way and puts one foot after the other. A fixed stance controller, which is
// not learned, brings the speed back to the pace. A foot that lands farther ahead than usual brakes; one that lands
// nearer pushes.
type Walker struct {
	X, V float64 // of the body
	Foot float64
	Fell bool
}

const (
	stance  = .35 // seconds on one foot
	pace    = 1.2 // wanted speed, m/s
	regain  = .3  // share of the error in speed that one step corrects
	braking = 2.  // m/s per metre of a foot beyond its usual place
	reach   = .2  // farthest that a policy can move a foot from its usual place
)

// newWalker returns a walker that stands on its first foot.
func newWalker() *Walker { return &Walker{V: pace} }

// swing moves the body until the next foot lands.
func (w *Walker) swing() { w.X += w.V * stance }

// place puts the foot at its usual place, moved by at most reach. The walker falls if the foot misses the stones, or
// at speeds it cannot hold.
func (w *Walker) place(c *Course, move float64) {
	move = min(max(move, -reach), reach)
	w.Foot = w.usual() + move
	w.V += regain*(pace-w.V) - braking*move
	w.Fell = !c.on(w.Foot, margin) || w.V < .6 || w.V > 1.8
}

// usual returns the usual place of the next foot: half a step ahead of the body.
func (w *Walker) usual() float64 { return w.X + w.V*stance/2 }

// Steps is the number of steps of an episode.
const Steps = 30

// Policy decides how far to move the next foot from its usual place, given the camera's image and the speed.
type Policy interface {
	Move(image []float32, speed float64) float64
}

// Walk returns how far a policy gets on a course, in metres, until it falls or has taken Steps steps. seen, if not
// nil, is called with each state and image.
func Walk(c *Course, p Policy, image []float32, seen func(w Walker, image []float32)) float64 {
	w := newWalker()
	for range Steps {
		w.swing()
		c.See(image, w.X)
		w.place(c, p.Move(image, w.V))
		if seen != nil {
			seen(*w, image)
		}
		if w.Fell {
			break
		}
	}
	return w.X
}
