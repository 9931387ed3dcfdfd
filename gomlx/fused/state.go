package fused

import "github.com/randfeat/randfeat/gomlx/triton"

// sums names the tensors of sums over rows: values [heads, chunks, features, value], weights and references
// [heads, chunks, features].
type sums struct{ s, z, r string }

// state sums each chunk of rows of a side: S_f = Σ φ_f y and Z_f = Σ φ_f c, divided by 2^R_f with R_f the largest
// exponent. y are the values; c are weights [heads, length], "": ones.
func (s Shape) state(of side, y, c string, out sums, chunk int, z Tiling) Step {
	k := s.kernel("state")
	index, head, part := k.Program(0), k.Program(1), k.Program(2)
	n, even := ceil(of.length, chunk), of.length%chunk == 0
	first := part.Mul(k.Int(k.block()))
	f := k.features(of, head, first, 1)
	start := []value{k.Zeros(k.block(), power(k.Value)), k.Zeros(k.block()), k.Full(empty, k.block())}
	end := k.Loop(k.Int(0), k.Int(chunk), k.Int(z.Rows), start, func(i value, sum []value) []value {
		at := index.Mul(k.Int(chunk)).Add(i).Add(k.Range(z.Rows))
		x := f.at(at, even)
		v := k.read(panel{y, k.elem(), head, at, of.length, k.Value, even})
		l := k.dot(f.w[0], x.T()).Add(f.bias[0].Column()) // [features, rows]
		if t, some := f.terms(x, at, even); some {
			l = l.Add(t.Row())
		}
		ref := sum[2].Max(l.Most(1))
		less := sum[2].Sub(ref).Exp2()
		phi := l.Sub(ref.Column()).Exp2()
		weights := phi
		if c != "" {
			weights = phi.Mul(k.read(panel{c, triton.F32, head, at, of.length, 0, even}).Row())
		}
		return []value{k.dot(phi, v, sum[0].Mul(less.Column())), sum[1].Mul(less).Add(weights.Sum(1)), ref}
	})
	at := first.Add(k.Range(k.block()))
	index = head.Mul(k.Int(n)).Add(index)
	k.write(panel{out.s, k.elem(), index, at, k.Features, k.Value, true}, end[0])
	k.write(panel{out.z, triton.F32, index, at, k.Features, 0, true}, end[1])
	k.write(panel{out.r, triton.F32, index, at, k.Features, 0, true}, end[2])
	heads := k.Batch * of.heads
	return k.step([3]int{n, heads, k.blocks()}, z.Warps, z.Stages, out.tensors(k, heads, n))
}

// tensors declares the sums of n chunks.
func (o sums) tensors(k *kernel, heads, n int) []Tensor {
	return []Tensor{{o.s, k.elem(), []int{heads, n, k.Features, k.Value}},
		{o.z, triton.F32, []int{heads, n, k.Features}}, {o.r, triton.F32, []int{heads, n, k.Features}}}
}

// ahead is the number of chunks whose sums are loaded at once, rowsOfSum the number of features that a program adds.
const ahead, rowsOfSum = 8, 8

// total adds the sums of n chunks of all heads of a group.
func (s Shape) total(in, out sums, group, n int) Step {
	k := s.kernel("total")
	part, head := k.Program(0), k.Program(1)
	at := part.Mul(k.Int(rowsOfSum)).Add(k.Range(rowsOfSum))
	run := []value{k.Zeros(rowsOfSum, power(k.Value)), k.Zeros(rowsOfSum), k.Full(empty, rowsOfSum)}
	run = k.Loop(k.Int(0), k.Int(n*group), k.Int(ahead), run, func(i value, run []value) []value {
		var all [][]value
		for j := range ahead {
			all = append(all, k.sums(in, head.Mul(k.Int(n*group)), i.Add(k.Int(j)), at, n*group))
		}
		for _, x := range all {
			run = add(run, x)
		}
		return run
	})
	k.put(out, head, at, run)
	heads := k.Batch * k.KVHeads
	return k.step([3]int{k.Features / rowsOfSum, heads, 1}, 4, 1, out.tensors(k, heads, 1))
}

// prefix stores, for every chunk, the sums of the chunks before it, or of those after it if back. Sums of the heads of
// a group are added.
func (s Shape) prefix(in, out sums, group, n int, back bool) Step {
	k := s.kernel("prefix")
	part, head := k.Program(0), k.Program(1)
	at := part.Mul(k.Int(rowsOfSum)).Add(k.Range(rowsOfSum))
	run := []value{k.Zeros(rowsOfSum, power(k.Value)), k.Zeros(rowsOfSum), k.Full(empty, rowsOfSum)}
	k.Loop(k.Int(0), k.Int(n), k.Int(ahead), run, func(i value, run []value) []value {
		var all [][]value
		var chunks []value
		for j := range ahead {
			c := i.Add(k.Int(j))
			if back {
				c = k.Int(n - 1).Sub(c)
			}
			chunks = append(chunks, c)
			for h := range group {
				all = append(all, k.sums(in, head.Mul(k.Int(group)).Add(k.Int(h)).Mul(k.Int(n)), c, at, n))
			}
		}
		for j, c := range chunks {
			k.put(out, head.Mul(k.Int(n)).Add(c), at, run, k.inside(c, n)...)
			for _, x := range all[j*group : (j+1)*group] {
				run = add(run, x)
			}
		}
		return run
	})
	heads := k.Batch * k.KVHeads
	return k.step([3]int{k.Features / rowsOfSum, heads, 1}, 4, 1, out.tensors(k, heads, n))
}

// inside is the condition 0 ≤ c < n, nothing if all indices of a loop satisfy it.
func (k *kernel) inside(c value, n int) []value {
	if n%ahead == 0 {
		return nil
	}
	return []value{c.Less(k.Int(n)).And(k.Int(-1).Less(c))}
}

// sums loads the sums of matrix first+c at some features: nothing if c is not inside of n.
func (k *kernel) sums(in sums, first, c, at value, n int) []value {
	index := first.Add(c)
	s, m := k.pointers(panel{in.s, k.elem(), index, at, k.Features, k.Value, true})
	z, _ := k.pointers(panel{in.z, triton.F32, index, at, k.Features, 0, true})
	r, _ := k.pointers(panel{in.r, triton.F32, index, at, k.Features, 0, true})
	on := k.inside(c, n)
	ref := k.Load(r, on...)
	if len(on) > 0 {
		ref = ref.Where(on[0], k.Float(empty))
	}
	return []value{k.Load(s, k.both(m, on)...).To(triton.F32), k.Load(z, on...), ref}
}

// both is the conjunction of two masks, each of which may be absent.
func (k *kernel) both(a, b []value) []value {
	if len(a) > 0 && len(b) > 0 {
		return []value{a[0].And(b[0])}
	}
	return append(a, b...)
}

// put stores sums.
func (k *kernel) put(out sums, index, at value, x []value, on ...value) {
	s, m := k.pointers(panel{out.s, k.elem(), index, at, k.Features, k.Value, true})
	z, _ := k.pointers(panel{out.z, triton.F32, index, at, k.Features, 0, true})
	r, _ := k.pointers(panel{out.r, triton.F32, index, at, k.Features, 0, true})
	k.Store(s, x[0].To(k.elem()), k.both(m, on)...)
	k.Store(z, x[1], on...)
	k.Store(r, x[2], on...)
}

// add adds two sums, relative to the larger reference.
func add(x, y []value) []value {
	ref := x[2].Max(y[2])
	a, b := x[2].Sub(ref).Exp2(), y[2].Sub(ref).Exp2()
	return []value{x[0].Mul(a.Column()).Add(y[0].Mul(b.Column())), x[1].Mul(a).Add(y[1].Mul(b)), ref}
}
