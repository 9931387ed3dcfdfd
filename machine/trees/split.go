package trees

import (
	"cmp"
	"slices"
)

// Splits of more than fewLevels levels are penalised and ordered by shrunken means, because the best of many sets fits
// noise. Both are in rows of Hessian 1; the values are those of LightGBM (cat_l2, cat_smooth, max_cat_to_onehot).
const (
	levelPenalty = 10
	levelSmooth  = 10
	fewLevels    = 4
)

// set is a set of bins.
type set [4]uint64

func (s *set) add(bin int)         { s[bin>>6] |= 1 << (bin & 63) }
func (s *set) has(bin uint8) uint8 { return uint8(s[bin>>6] >> (bin & 63) & 1) }

// split is the best split of a leaf by a column.
type split struct {
	gain   float64 // of the loss; 0: there is no split
	column int32
	left   set
}

// search finds splits of a leaf.
type search struct {
	total   packed
	least   uint32  // units of Hessian on either side
	lambda  float64 // in units of Hessian
	unit    float64 // units in a Hessian of 1
	order   []level
	ordered []packed
}

type level struct {
	bin  int
	mean float64
}

// best is the prefix with the largest sum of G²/(H+λ) over both sides. It is kept as a fraction: comparing products
// saves divisions.
type best struct {
	num, den float64
	end      int // of the prefix
	left     packed
}

// scan compares all prefixes of h, each together with the sum left.
func (s *search) scan(h []packed, left packed, lambda float64, b best) best {
	all := uint32(s.total)
	for i, v := range h {
		if v == 0 {
			continue
		}
		left += v
		if uint32(left) < s.least {
			continue
		}
		if all-uint32(left) < s.least {
			break
		}
		right := s.total - left
		gl, gr, hl, hr := left.g(), right.g(), left.h()+lambda, right.h()+lambda
		num, den := float64(gl*gl*hr)+float64(gr*gr*hl), hl*hr
		if num*b.den > b.num*den {
			b = best{num, den, i + 1, left}
		}
	}
	return b
}

// gain returns the gain of b over no split.
func (s *search) gain(b best) float64 {
	without := s.total.g() * s.total.g() / (s.total.h() + s.lambda)
	if gain := b.num/b.den - without; gain > 1e-9*without { // more than rounding
		return gain
	}
	return 0
}

// numbers finds the best split into low and high bins. Missing values go to either side; where there are none, with the
// larger one.
func (s *search) numbers(h []packed) (found split) {
	b := s.scan(h[1:], 0, s.lambda, best{den: 1})
	missingLeft := 2*b.left.h() >= s.total.h()
	if h[0] != 0 {
		without := b
		b = s.scan(h[1:], h[0], s.lambda, b)
		missingLeft = b != without
	}
	found.gain = s.gain(b)
	for bin := 1; bin <= b.end; bin++ {
		found.left.add(bin)
	}
	if missingLeft {
		found.left.add(0)
	}
	return found
}

// levels finds the best split in the order of mean gradients. Levels without rows go with the larger side.
func (s *search) levels(h []packed) (found split) {
	s.order, s.ordered = s.order[:0], s.ordered[:0]
	for bin, v := range h {
		if v != 0 {
			s.order = append(s.order, level{bin: bin})
		}
	}
	lambda, smooth := s.lambda, 0.0
	if len(s.order) > fewLevels {
		lambda, smooth = s.lambda+levelPenalty*s.unit, levelSmooth*s.unit
	}
	for i, l := range s.order {
		s.order[i].mean = h[l.bin].g() / (h[l.bin].h() + smooth)
	}
	slices.SortStableFunc(s.order, func(a, b level) int { return cmp.Compare(a.mean, b.mean) })
	for _, l := range s.order {
		s.ordered = append(s.ordered, h[l.bin])
	}
	b := s.scan(s.ordered, 0, lambda, best{den: 1})
	found.gain = s.gain(b)
	for _, l := range s.order[:b.end] {
		found.left.add(l.bin)
	}
	for bin, v := range h {
		if v == 0 && 2*b.left.h() >= s.total.h() {
			found.left.add(bin)
		}
	}
	return found
}
