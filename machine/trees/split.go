package trees

import (
	"math"
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

// split is the best split of a leaf.
type split struct {
	gain   float64 // of the loss; 0: there is no split
	column int32
	left   set
}

// search finds splits of a leaf.
type search struct {
	total   packed
	least   uint32   // units of Hessian on either side
	lambda  float64  // in units of Hessian
	unit    float64  // units in a Hessian of 1
	order   []uint64 // of levels: mean and bin
	ordered []packed
}

// best is the best prefix of some bins. With the sums G, H of the leaf and g, h of the prefix, a = h+λ and T = H+2λ,
// both sides have
//
//	g²/a + (G−g)²/(T−a) = G²/T + T·u²/(a·(T−a)),  u = g − a·G/T
//
// so a prefix is as good as u²/(a·(T−a)), which is kept as a fraction: comparing products saves the division.
type best struct {
	num, den float64
	end      int // of the prefix
	left     packed
}

// scan compares all prefixes of h, each together with the sum left, with b.
func (s *search) scan(h []packed, left packed, lambda float64, b best) best {
	all, least := uint32(s.total), s.least
	t := s.total.h() + 2*lambda
	slope, num, den := s.total.g()/t, b.num, b.den
	for i, v := range h {
		if v == 0 {
			continue
		}
		left += v
		if uint32(left) < least {
			continue
		}
		if all-uint32(left) < least {
			break
		}
		a := left.h() + lambda
		u := left.g() - float64(a*slope)
		if n, d := u*u, a*(t-a); n*den > num*d {
			num, den, b.end, b.left = n, d, i+1, left
		}
	}
	b.num, b.den = num, den
	return b
}

// gain returns the gain of b over no split. It is negative if there is no prefix.
func (s *search) gain(b best, lambda float64) float64 {
	g, h := s.total.g(), s.total.h()
	t := h + 2*lambda
	return float64(b.num/b.den*t) + g*g/t - g*g/(h+s.lambda)
}

// numbers returns the gain of the best split into low and high bins, and stores the low ones if left is not nil.
// Missing values go to either side; where there are none, with the larger one.
func (s *search) numbers(h []packed, left *set) float64 {
	b := s.scan(h[1:], 0, s.lambda, best{den: 1})
	missingLeft := 2*b.left.h() >= s.total.h()
	if h[0] != 0 {
		without := b
		b = s.scan(h[1:], h[0], s.lambda, b)
		missingLeft = b != without
	}
	if left != nil {
		for bin := range b.end + 1 {
			if bin > 0 || missingLeft {
				left.add(bin)
			}
		}
	}
	return s.gain(b, s.lambda)
}

// levels is numbers for the levels in the order of their mean gradients. Those without rows go with the larger side.
func (s *search) levels(h []packed, left *set) float64 {
	s.order, s.ordered = s.order[:0], s.ordered[:0]
	for bin, v := range h {
		if v != 0 {
			s.order = append(s.order, uint64(bin))
		}
	}
	lambda, smooth := s.lambda, 0.0
	if len(s.order) > fewLevels {
		lambda, smooth = s.lambda+levelPenalty*s.unit, levelSmooth*s.unit
	}
	for i, bin := range s.order {
		// The bits of a float32, with the sign turned, sort like the number.
		mean := math.Float32bits(float32(h[bin].g() / (h[bin].h() + smooth)))
		s.order[i] |= uint64(mean^(uint32(int32(mean)>>31)|1<<31)) << 8
	}
	slices.Sort(s.order)
	for _, key := range s.order {
		s.ordered = append(s.ordered, h[uint8(key)])
	}
	b := s.scan(s.ordered, 0, lambda, best{den: 1})
	if left != nil {
		for _, key := range s.order[:b.end] {
			left.add(int(uint8(key)))
		}
		for bin, v := range h {
			if v == 0 && 2*b.left.h() >= s.total.h() {
				left.add(bin)
			}
		}
	}
	return s.gain(b, lambda)
}
