package centroid

import (
	"github.com/randfeat/randfeat/attention"
	"github.com/randfeat/randfeat/dense"
	"math"
	"slices"
	"testing"
)

// naiveSketch is the codes of the keys of a chunk, in float64, and the mean squares of their errors.
type naiveSketch struct {
	mean, noise []float64
	step        []float64
	code        [][]float64
}

// naiveSketches are those of the first chunks of a head.
func naiveSketches(parts []chunkPart) (list []naiveSketch) {
	var step []float64
	for i, p := range parts {
		n, d := float64(p.k.Rows), p.k.Cols
		s := naiveSketch{mean: make([]float64, d), noise: make([]float64, d)}
		for l := range d {
			for j := range p.k.Rows {
				s.mean[l] += float64(p.k.At(j, l)) / n
			}
		}
		if i == 0 || i == 1 || i == 4 || i == 16 {
			step = make([]float64, d)
			for l := range d {
				for j := range p.k.Rows {
					step[l] += (float64(p.k.At(j, l)) - s.mean[l]) * (float64(p.k.At(j, l)) - s.mean[l]) / n
				}
				step[l] = math.Sqrt(step[l])
			}
		}
		s.step = step
		for j := range p.k.Rows {
			code := make([]float64, d)
			for l := range d {
				x := (float64(p.k.At(j, l)) - s.mean[l]) / step[l]
				code[l] = min(max(math.Floor(x)+2, 0), 3)
				e := (x - code[l] + 1.5) * step[l]
				s.noise[l] += e * e / n
			}
			s.code = append(s.code, code)
		}
		list = append(list, s)
	}
	return list
}

// finds tells whether the sketch admits that the logit of key j is at least level. Queries are rounded to integers.
func (s *naiveSketch) finds(x []float64, j int, level float64) bool {
	scaled, top := make([]float64, len(x)), 0.0
	base, noise := 0.0, 0.0
	for l, v := range x {
		scaled[l] = v * s.step[l]
		top = max(top, math.Abs(scaled[l]))
		base += v * s.mean[l]
		noise += v * v * s.noise[l]
	}
	logit := 0.0
	for l, v := range scaled {
		logit += math.Floor(v*127/top+0.5) * (s.code[j][l] - 1.5) * top / 127
	}
	return base+logit+sketchSigmas*math.Sqrt(noise) >= level
}

// naiveShare is the output of the queries of a group over clustered chunks and the recent keys. It returns the number
// of clustered keys that are exact.
func naiveShare(x [][]float64, h *chunkHead, far int, near [][2][]float64, share float64) (out [][]float64,
	exact int) {
	dv := len(near[0][1])
	total, of := make([]float64, len(x)), make([][][]float64, len(x)) // weights of centroids for one key
	for g := range x {
		for _, n := range near {
			total[g] += math.Exp(dense.Dot(x[g], n[0]))
		}
		of[g] = make([][]float64, far)
		for i := range far {
			start := h.parts[i].start
			for c := range len(start) - 1 {
				row := make([]float32, len(x[g]))
				panelRow(row, &h.store.panel, i*h.store.stride+c)
				w := math.Exp(dense.Dot(x[g], wide(row)))
				of[g][i] = append(of[g][i], w)
				total[g] += w * float64(start[c+1]-start[c])
			}
		}
	}
	sums, accs := slices.Clone(total), make([][]float64, len(x))
	for g := range x {
		accs[g] = make([]float64, dv)
		add := func(w float64, v []float64) {
			for l, y := range v {
				accs[g][l] += w * y
			}
		}
		for _, n := range near {
			add(math.Exp(dense.Dot(x[g], n[0])), n[1])
		}
		for i := range far {
			start := h.parts[i].start
			for c, w := range of[g][i] {
				add(w*float64(start[c+1]-start[c]), wide(h.store.mean.Row(i*h.store.stride+c)))
			}
		}
	}
	for i, s := range naiveSketches(h.parts[:far]) {
		p := &h.parts[i]
		for c := range len(p.start) - 1 {
			heavy := 0.0
			for g := range x {
				heavy += of[g][i][c] / total[g]
			}
			for j := int(p.start[c]); j < int(p.start[c+1]); j++ {
				found, differs := heavy >= share, false
				for g := range x {
					found = found || s.finds(x[g], j, math.Log(share*total[g]))
					weight := math.Exp(dense.Dot(x[g], wide(p.k.Row(j))))
					differs = differs || math.Abs(weight-of[g][i][c]) >= share*total[g]
				}
				if !found || !differs {
					continue
				}
				exact++
				for g := range x {
					w := math.Exp(dense.Dot(x[g], wide(p.k.Row(j)))) - of[g][i][c]
					sums[g] += w
					for l, y := range wide(p.v.Row(j)) {
						accs[g][l] += w * y
					}
				}
			}
		}
	}
	for g := range accs {
		for l := range accs[g] {
			accs[g][l] /= sums[g]
		}
	}
	return accs, exact
}

// Outputs and counts are those of the definition, with two query heads that find keys together and keys far from the
// others.
func TestShareNaive(t *testing.T) {
	const length, dim = 900, 16
	q, k, v := grouped(1, length, dim, 3)
	for j := 40; j < length; j += 97 {
		for l := range dim {
			k.Head(0, 0).Row(j)[l] *= 4
		}
	}
	for _, share := range []float64{3e-4, 3e-3, 1e-2, 5e-2} {
		s := Sketch{Clusters: 6, Chunk: 48, Window: 10, Sinks: 3, Share: share}
		set := s.settings()
		a := &Attention{Visibility: attention.Visibility{Causal: true}, Specs: []Spec{s}}
		all, err := replays(a, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		exact, rows := 0, 0
		for l := 5; l < length; l += 9 {
			far := farChunks(&set, l)
			var near [][2][]float64
			for j := 0; j <= l; j++ {
				if j >= far*s.Chunk || j < s.Sinks {
					near = append(near, [2][]float64{wide(k.Head(0, 0).Row(j)), wide(v.Head(0, 0).Row(j))})
				}
			}
			x := make([][]float64, 2)
			for g := range x {
				for _, y := range q.Head(0, g).Row(l) {
					x[g] = append(x[g], float64(y)/math.Sqrt(dim))
				}
			}
			got := attention.NewSeq[float32](1, 2, 1, dim)
			r, err := forwardReplay(a, all, []int{l}, got)
			if err != nil {
				t.Fatal(err)
			}
			want, n := naiveShare(x, &all[0].head, far, near, share)
			if exact += n; r.Exact != int64(2*(n+len(near))) {
				t.Errorf("share %v, row %d: %d exact keys, want %d", share, l, r.Exact, 2*(n+len(near)))
			}
			for g := range x {
				for i, y := range want[g] {
					if math.Abs(float64(got.Head(0, g).Row(0)[i])-y) > 1e-4 {
						t.Fatalf("share %v, row %d, head %d: %v, want %v", share, l, g, got.Head(0, g).Row(0)[i], y)
					}
				}
			}
			rows++
		}
		if exact == 0 || exact > rows*length/2 {
			t.Errorf("share %v: %d exact keys of %d rows", share, exact, rows)
		}
	}
}

// The smaller Share, the smaller the error and the more keys are read; nearly nothing is exact attention.
func TestShare(t *testing.T) {
	const length, dim = 500, 16
	q, k, v := grouped(2, length, dim, 6)
	vis := attention.Visibility{Causal: true}
	want := attention.NewSeq[float32](1, 4, length, dim)
	if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	var errs, keys []float64
	for _, share := range []float64{10, 0.03, 0.003, 1e-8, 1e-30} {
		s := Sketch{Clusters: 8, Chunk: 32, Window: 10, Sinks: 3, Share: share}
		a := &Attention{Visibility: vis, Specs: []Spec{s}}
		out := attention.NewSeq[float32](1, 4, length, dim)
		r, err := a.Forward(out, q, k, v)
		if err != nil {
			t.Fatal(err)
		}
		errs, keys = append(errs, errorOf(out, want)), append(keys, float64(r.Exact)/float64(r.Rows))
	}
	falling := slices.IsSortedFunc(errs, func(a, b float64) int { return int(math.Copysign(1, b-a)) })
	if !falling || errs[3] > 1e-5 || errs[4] > 1e-6 {
		t.Errorf("errors %v", errs)
	}
	if !slices.IsSorted(keys) || keys[0] > 40 || keys[3] < length/4 || keys[4] != (length+1)/2. {
		t.Errorf("exact keys %v", keys)
	}
}

// A key that only one query looks for, and that its cluster does not show, is found among thousands: the case in which
// means and variances of clusters fail.
func TestShareNeedle(t *testing.T) {
	const length, dim, chunk = 3000, 64, 256
	q, k, v := grouped(1, length, dim, 2)
	vis := attention.Visibility{Causal: true}
	for at := 100; at < 2000; at += 100 { // row length−1−at/100 looks for key at
		row, key := q.Head(0, 0).Row(length-1-at/100), k.Head(0, 0).Row(at)
		norm := 0.0
		for _, y := range key {
			norm += float64(y) * float64(y)
		}
		for l, y := range key {
			row[l] = y * float32(16*math.Sqrt(dim)/norm) // a logit of 16
		}
	}
	want := attention.NewSeq[float32](1, 2, length, dim)
	if _, err := (&attention.Exact[float32]{Visibility: vis}).Forward(want, q, k, v); err != nil {
		t.Fatal(err)
	}
	a := &Attention{Visibility: vis,
		Specs: []Spec{Sketch{Clusters: 4, Chunk: chunk, Share: 0.02}}}
	for at := 100; at < 2000; at += 100 {
		l := length - 1 - at/100
		out := attention.NewSeq[float32](1, 2, 1, dim)
		if err := a.At(out, []int{l}, q, k, v); err != nil {
			t.Fatal(err)
		}
		got, exact := out, want
		got.Heads, exact.Heads, exact.Len = 1, 1, 1
		exact.Data = want.Head(0, 0).Row(l)
		if e := errorOf(got, exact); e > 0.1 {
			t.Errorf("row %d, which looks for key %d: an error of %.3f", l, at, e)
		}
	}
}

// Share has no unit: the size of values changes nothing, and states that hold such values can be read. Where logits of
// keys are beyond the range of float32, keys are read rather than trusted.
func TestShareUnit(t *testing.T) {
	const length, dim, chunk = 200, 16, 32
	q, k, v := grouped(1, length, dim, 3)
	scaled := func(s attention.Seq[float32], from int, f float32) attention.Seq[float32] {
		out := attention.NewSeq[float32](1, s.Heads, s.Len, s.Dim)
		for h := range s.Heads {
			for l := range s.Len {
				for i, x := range s.Head(0, h).Row(l) {
					if l >= from {
						x *= f
					}
					out.Head(0, h).Row(l)[i] = x
				}
			}
		}
		return out
	}
	for _, sinks := range []int{0, chunk} {
		a := &Attention{Visibility: attention.Visibility{Causal: true},
			Specs: []Spec{Sketch{Clusters: 8, Chunk: chunk, Share: 0.02, Sinks: sinks}}}
		run := func(q, k, v attention.Seq[float32]) (attention.Seq[float32], int64) {
			out := attention.NewSeq[float32](1, 2, length, dim)
			c, err := NewChunks(a, q.Shape, v.Shape)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Step(out, q, k, v); err != nil {
				t.Fatal(err)
			}
			b, err := c.AppendBinary(nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.UnmarshalBinary(b); err != nil {
				t.Error(err)
			}
			return out, c.Report().Exact
		}
		want, exact := run(q, k, v)
		for _, f := range []float32{1e-25, 1e25} {
			got, n := run(q, k, scaled(v, 0, f))
			if e := errorOf(scaled(got, 0, 1/f), want); n != exact || e > 1e-5 {
				t.Errorf("values times %v: %d exact keys, want %d; an error of %v", f, n, exact, e)
			}
			run(q, k, scaled(v, 2*chunk, f)) // the values of later chunks alone
		}
		if got, n := run(scaled(q, 0, 1e-20), scaled(k, 0, 1e20), v); n < exact || errorOf(got, want) > 0.1 {
			t.Errorf("keys times 1e20: %d exact keys, want at least %d; an error of %v", n, exact, errorOf(got, want))
		}
	}
}
