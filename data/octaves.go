package data

import (
	"cmp"
	"math"
	"slices"
)

// octaves holds the moments of numbers, separately for every power of four in magnitude and for each sign: few
// enough to hold, and enough to leave out numbers far from all others. The class of a number depends on the
// number alone, not on how a table is cut.
type octaves struct {
	of   []octave // by increasing key
	last int      // index of the last one used: neighbouring rows often share it
	lost bool     // there were more than maxOctaves; of is empty
}

type octave struct {
	key int
	m   moments
}

// maxOctaves bounds the memory of a column. Numbers of one kind have about 20.
const maxOctaves = 128

// octaveKey is the exponent of v in base 4, with the sign of v. It increases with v.
func octaveKey(v float64) int {
	if v == 0 {
		return 0
	}
	key := int(math.Float64bits(v)>>52&0x7ff)>>1 + 1
	if v < 0 {
		return -key
	}
	return key
}

func (o *octaves) add(v float64) {
	if o.lost {
		return
	}
	key := octaveKey(v)
	if o.last >= len(o.of) || o.of[o.last].key != key {
		o.last = o.find(key)
		if o.lost {
			return
		}
	}
	o.of[o.last].m.add(v)
}

// find returns the index of a key. It inserts the key, or gives up on all octaves if there are too many.
func (o *octaves) find(key int) int {
	i, ok := slices.BinarySearchFunc(o.of, key, func(a octave, key int) int { return cmp.Compare(a.key, key) })
	if ok {
		return i
	}
	if len(o.of) == maxOctaves {
		*o = octaves{lost: true}
		return 0
	}
	o.of = slices.Insert(o.of, i, octave{key: key})
	return i
}

// merge adds the numbers that p has seen.
func (o *octaves) merge(p *octaves) {
	if p.lost {
		*o = octaves{lost: true}
	}
	for _, a := range p.of {
		if o.lost {
			return
		}
		if i := o.find(a.key); !o.lost {
			o.of[i].m.merge(a.m)
		}
	}
}

// A number is a gross outlier if three conditions hold: its distance from the middle is at least grossGap times
// the largest distance of all others; these are at least 99 % of the numbers (or all but one); and the standard
// deviation with the outliers is more than grossScale times the one without. After standardising, such a column
// would be constant except for its outliers. Heavy tails have no such gap: of two million incomes the largest
// is a few times the next.
const (
	grossGap   = 100
	grossScale = 5
	grossRows  = 20
)

// gross returns the moments of the numbers without gross outliers; ok is false if there are none. all are the
// moments of all numbers, and parts together hold the same numbers by octave. It works on whole octaves: it
// orders them by their distance from the middle one and drops the farthest while the gap is large enough.
func gross(all moments, parts []*octaves) (core moments, ok bool) {
	if all.n < grossRows || parts == nil {
		return core, false
	}
	sum := octaves{}
	for _, p := range parts {
		sum.merge(p)
	}
	if sum.lost {
		return core, false
	}
	middle, seen, n := -1, int64(0), int64(0)
	for _, o := range sum.of {
		n += o.m.n
	}
	if n != all.n { // some numbers are in no octave
		return core, false
	}
	for i, o := range sum.of {
		if seen += o.m.n; middle < 0 && 2*seen > n {
			middle = i
		}
	}
	// If half of the numbers are equal, as in counts that are mostly zero, distances from the middle mean
	// nothing.
	if m := sum.of[middle].m; m.min == m.max {
		return core, false
	}
	c := sum.of[middle].m.mean
	far := func(m moments) float64 { return max(math.Abs(m.min-c), math.Abs(m.max-c)) }
	// c lies in no octave but the middle one.
	near := func(m moments) float64 { return min(math.Abs(m.min-c), math.Abs(m.max-c)) }
	order := slices.Clone(sum.of)
	slices.SortStableFunc(order, func(a, b octave) int {
		return cmp.Or(cmp.Compare(far(a.m), far(b.m)), cmp.Compare(a.key, b.key))
	})
	keep, left, nearest := len(order), int64(0), math.Inf(1)
	for k := len(order) - 1; k > 0; k-- {
		if left += order[k].m.n; left > max(1, n/100) || order[k].key == sum.of[middle].key {
			break
		}
		nearest = min(nearest, near(order[k].m))
		if rest := far(order[k-1].m); rest > 0 && nearest >= grossGap*rest {
			keep = k
		}
	}
	if keep == len(order) {
		return core, false
	}
	order = order[:keep]
	// Merge in the order of keys, so that the bits do not depend on the sort above.
	slices.SortStableFunc(order, func(a, b octave) int { return cmp.Compare(a.key, b.key) })
	for _, o := range order {
		core.merge(o.m)
	}
	scale := all.scale()
	return core, !(scale <= grossScale*core.scale()) // the negation also accepts squares that overflowed
}
