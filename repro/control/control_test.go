package control

import (
	"math"
	"slices"
	"testing"

	"github.com/randfeat/randfeat/internal/rng"
)

func TestCourse(t *testing.T) {
	for seed := range uint64(20) {
		c := NewCourse(seed)
		for i, s := range c.stones[1:] {
			if gap := s[0] - c.stones[i][1]; gap < gapLeast || gap > gapMost || s[1]-s[0] < stoneLeast ||
				s[1]-s[0] > stoneMost {
				t.Fatalf("stone %v after %v", s, c.stones[i])
			}
			if mid := (s[0] + c.stones[i][1]) / 2; c.on(mid, 0) || !c.on(s[0]+.01, 0) || c.on(s[0]+.01, margin) {
				t.Fatalf("who is on a stone, near %v?", s)
			}
		}
	}
}

// Feet at their usual places regain the pace; a foot ahead of it brakes.
func TestWalkerKeepsItsPace(t *testing.T) {
	ground := &Course{stones: [][2]float64{{-1, 1e9}}}
	w := newWalker()
	w.V = pace + .4
	for range 20 {
		w.swing()
		w.place(ground, 0)
	}
	if math.Abs(w.V-pace) > .01 || w.Fell {
		t.Errorf("speed %g after 20 steps", w.V)
	}
	if w.place(ground, reach); w.V >= pace {
		t.Errorf("speed %g after a foot ahead", w.V)
	}
	if w.place(ground, -reach); w.Fell {
		t.Error("two odd steps are a fall")
	}
}

// oracle looks at the course itself and moves the foot as little as it can.
type oracle struct{ c *Course }

func (o oracle) walk() float64 {
	w := newWalker()
	for range Steps {
		w.swing()
		best := math.Inf(1)
		for m := -reach; m <= reach; m += .01 {
			if o.c.on(w.usual()+m, margin) && math.Abs(m) < math.Abs(best) {
				best = m
			}
		}
		if w.place(o.c, best); w.Fell {
			break
		}
	}
	return w.X
}

// The task can be solved by who sees, and not by who does not.
func TestTaskNeedsEyes(t *testing.T) {
	var seeing, blind float64
	p, err := NewMasked(Blind, 1)
	if err != nil {
		t.Fatal(err)
	}
	p.Set(make([]float64, Params))
	image := make([]float32, Pixels)
	const n = 50
	for seed := range uint64(n) {
		c := NewCourse(seed)
		seeing += oracle{c}.walk() / n
		blind += Walk(c, p, image, nil) / n
	}
	if seeing < 10 || blind > seeing/2 {
		t.Errorf("mean way with eyes %.1f m, without %.1f m", seeing, blind)
	}
}

// Features approach the scores of exact attention.
func TestScores(t *testing.T) {
	theta := make([]float64, Params)
	rng.Normals(theta, rng.Stream(5))
	image := make([]float32, Pixels)
	NewCourse(3).See(image, 1.1)
	scores := map[Attention][]float32{}
	for _, kind := range []Attention{Exact, Favor, Angular} {
		p, err := NewMasked(kind, 4)
		if err != nil {
			t.Fatal(err)
		}
		p.Set(theta)
		p.Move(image, pace)
		scores[kind] = slices.Clone(p.score)
		on := 0
		for _, m := range p.Mask {
			if m {
				on++
			}
		}
		if on < keep || on > Pixels/2 {
			t.Errorf("%s: %d pixels are kept, want %d", kind, on, keep)
		}
	}
	for kind, most := range map[Attention]float64{Favor: .3, Angular: .6} {
		worst := 0.0
		for j, e := range scores[Exact] {
			worst = max(worst, math.Abs(float64(scores[kind][j]/e)-1))
		}
		if worst > most || worst == 0 {
			t.Errorf("%s: largest relative error of a score %.3f, want at most %.2f", kind, worst, most)
		}
	}
}

// The same run on one worker and on four, and a reward that grows.
func TestTrain(t *testing.T) {
	c := Config{Attention: Angular, Seed: 3, Iterations: 3, Directions: 4, Courses: 1, Sigma: .1, Rate: 1, Every: 3,
		Tests: 4}
	var first *Run
	for _, workers := range []int{1, 4} {
		c.Workers = workers
		r, err := Train(c)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = r
		} else if !slices.Equal(first.Reward, r.Reward) || !slices.Equal(first.Theta, r.Theta) {
			t.Errorf("%d workers: rewards %v, one worker %v", workers, r.Reward, first.Reward)
		}
	}
	if slices.Equal(first.Theta, make([]float64, Params)) || len(first.Reward) != 2 {
		t.Errorf("rewards %v", first.Reward)
	}
	if _, err := Train(Config{Attention: "none"}); err == nil {
		t.Error("an attention that does not exist was trained")
	}
}

func TestAngularIsCheaper(t *testing.T) {
	if f, a := Favor.Operations().Total(), Angular.Operations().Total(); f < 3*a {
		t.Errorf("FAVOR+ %d, angular %d operations", f, a)
	}
}
